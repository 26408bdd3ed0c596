//! A histogram as Prometheus reads it: cumulative buckets, count and sum. Values are seconds.

use std::fmt::Write as _;
use std::sync::Mutex;

use crate::line::lock;

#[derive(Debug)]
pub(super) struct Histogram {
    bounds: &'static [f64],
    state: Mutex<(Vec<u64>, f64)>,
}

impl Histogram {
    pub fn new(bounds: &'static [f64]) -> Self {
        Self {
            bounds,
            state: Mutex::new((vec![0; bounds.len() + 1], 0.0)),
        }
    }

    pub fn observe(&self, values: impl Iterator<Item = f64>) {
        let mut state = lock(&self.state);
        for value in values {
            let bucket = self.bounds.partition_point(|&bound| bound < value);
            if let Some(count) = state.0.get_mut(bucket) {
                *count += 1;
            }
            state.1 += value;
        }
    }

    pub fn render(&self, out: &mut String, name: &str, model: &str) {
        let (counts, sum) = lock(&self.state).clone();
        let mut total = 0;
        for (i, count) in counts.iter().enumerate() {
            total += count;
            let le = self
                .bounds
                .get(i)
                .map_or("+Inf".to_owned(), |b| format!("{b:?}"));
            let _ = writeln!(
                out,
                "{name}_bucket{{engine=\"0\",le=\"{le}\",model_name=\"{model}\"}} {total}.0"
            );
        }
        let labels = format!("engine=\"0\",model_name=\"{model}\"");
        let _ = writeln!(out, "{name}_count{{{labels}}} {total}.0");
        let _ = writeln!(out, "{name}_sum{{{labels}}} {sum:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_their_upper_bound_and_add_up() {
        let histogram = Histogram::new(&[0.5, 1.0]);
        histogram.observe([0.25, 0.5, 0.75, 8.0].into_iter());
        let mut out = String::new();
        histogram.render(&mut out, "x", "m");
        assert_eq!(
            out,
            "x_bucket{engine=\"0\",le=\"0.5\",model_name=\"m\"} 2.0\n\
             x_bucket{engine=\"0\",le=\"1.0\",model_name=\"m\"} 3.0\n\
             x_bucket{engine=\"0\",le=\"+Inf\",model_name=\"m\"} 4.0\n\
             x_count{engine=\"0\",model_name=\"m\"} 4.0\n\
             x_sum{engine=\"0\",model_name=\"m\"} 9.5\n"
        );
    }
}
