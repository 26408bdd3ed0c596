//! The highest Poisson rate that keeps an SLO, with an interval.
//!
//! One replication is one draw of gaps from its own seed. The same gaps, stretched, make every
//! rate, so that within a replication only the rate differs; its capacity is found by bisection.
//! Replications differ by chance alone, and from how much they differ follows the interval of
//! their mean (Student's t).
//! The surprise: a capacity belongs to the number of requests that it was judged on. Just above
//! it the queue grows without end, and a short run ends before the queue has shown that.

use serde::Serialize;

use super::{Clients, Planned, SimulationError, Slo, run, unit_poisson};
use crate::model::Parameters;
use crate::model::closed_form::{Saturation, Shape, saturation};

/// One request in so many warms a run up, on top of the measured ones.
const WARMUP: usize = 10;
/// A bisection ends when its bracket is this share of the rate.
const RESOLUTION: f64 = 0.002;
/// Rates are looked for up to so many times saturation, and down to this share of it.
const HIGHEST: f64 = 4.0;
const LOWEST: f64 = 1e-3;

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub struct Question {
    /// The engine.
    pub parameters: Parameters,
    /// What all requests look like.
    pub shape: Shape,
    /// What must be kept.
    pub slo: Slo,
    /// Measured requests of each run.
    pub requests: usize,
    /// Independent replications.
    pub replications: u32,
    /// Of the first replication; the others follow.
    pub seed: u64,
}

/// What was found. Rates are requests per second.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Capacity {
    /// Mean over the replications; `None` where no rate keeps the SLO, or all do.
    pub requests_per_s: Option<f64>,
    /// 95 % interval of that mean.
    pub ci95: Option<[f64; 2]>,
    /// Why there is no number.
    pub reason: Option<String>,
    /// Of each replication.
    pub replications: Vec<f64>,
    /// Saturation by the closed form, for comparison.
    pub saturation: Saturation,
}

enum Found {
    Rate(f64),
    /// Not even the lowest rate.
    Never,
    /// Even the highest rate.
    Always,
}

/// Looks for the capacity; `progress` is told before each replication, counted from 0.
///
/// # Errors
/// When there is no such engine, or a request does not fit into its KV cache.
pub fn capacity(
    question: &Question,
    mut progress: impl FnMut(u32),
) -> Result<Capacity, SimulationError> {
    question.parameters.check()?;
    let saturation = saturation(&question.parameters, question.shape);
    let mut answer = Capacity {
        requests_per_s: None,
        ci95: None,
        reason: None,
        replications: Vec::new(),
        saturation,
    };
    for i in 0..question.replications {
        progress(i);
        let gaps = Gaps::draw(question, question.seed.wrapping_add(u64::from(i)));
        match gaps.capacity(question, saturation.requests_per_s)? {
            Found::Rate(rate) => answer.replications.push(rate),
            Found::Never => {
                let rate = saturation.requests_per_s * LOWEST;
                answer.reason = Some(format!("even {rate:.3} requests/s miss the SLO"));
                return Ok(answer);
            }
            Found::Always => {
                answer.reason = Some(format!(
                    "{} requests keep the SLO at {HIGHEST} times saturation; judge on more of them",
                    question.requests
                ));
                return Ok(answer);
            }
        }
    }
    (answer.requests_per_s, answer.ci95) = mean_and_interval(&answer.replications);
    Ok(answer)
}

/// A schedule at one request per second, in seconds.
struct Gaps(Vec<f64>);

impl Gaps {
    fn draw(question: &Question, seed: u64) -> Self {
        let all = question.requests + question.requests / WARMUP;
        Self(unit_poisson(seed).take(all).collect())
    }

    fn plan(&self, question: &Question, rate: f64) -> Vec<Planned> {
        let warmup = question.requests / WARMUP;
        let planned = |(i, at): (usize, &f64)| Planned {
            at_ns: (at / rate * 1e9) as u64,
            prompt_tokens: question.shape.prompt_tokens,
            output_tokens: question.shape.output_tokens,
            measured: i >= warmup,
        };
        self.0.iter().enumerate().map(planned).collect()
    }

    fn keeps(&self, question: &Question, rate: f64) -> Result<bool, SimulationError> {
        let run = run(
            question.parameters,
            &self.plan(question, rate),
            Clients::Open,
            question.shape.cached_tokens,
        )?;
        Ok(question.slo.met(&run.outcomes))
    }

    fn capacity(&self, question: &Question, saturation: f64) -> Result<Found, SimulationError> {
        let (mut low, mut high) = (saturation * 0.9, saturation);
        while self.keeps(question, high)? {
            if high >= saturation * HIGHEST {
                return Ok(Found::Always);
            }
            (low, high) = (high, (high * 1.25).min(saturation * HIGHEST));
        }
        while !self.keeps(question, low)? {
            if low <= saturation * LOWEST {
                return Ok(Found::Never);
            }
            (low, high) = ((low * 0.7).max(saturation * LOWEST), low);
        }
        while high - low > high * RESOLUTION {
            let middle = f64::midpoint(low, high);
            if self.keeps(question, middle)? {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(Found::Rate(f64::midpoint(low, high)))
    }
}

/// The interval needs two values.
fn mean_and_interval(values: &[f64]) -> (Option<f64>, Option<[f64; 2]>) {
    let n = values.len() as f64;
    if values.is_empty() {
        return (None, None);
    }
    let mean = values.iter().sum::<f64>() / n;
    if values.len() < 2 {
        return (Some(mean), None);
    }
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let half = student_975(n - 1.0) * (variance / n).sqrt();
    (Some(mean), Some([mean - half, mean + half]))
}

/// Student's t, 97.5 %: from the table for one and two degrees of freedom, beyond that the
/// expansion about the normal quantile (Abramowitz and Stegun 26.7.5), within 0.5 %.
fn student_975(degrees: f64) -> f64 {
    if degrees < 1.5 {
        return 12.706;
    }
    if degrees < 2.5 {
        return 4.303;
    }
    let z = 1.959_963_985_f64;
    let z2 = z * z;
    let terms = [
        (z2 + 1.0) / 4.0,
        ((5.0 * z2 + 16.0) * z2 + 3.0) / 96.0,
        (((3.0 * z2 + 19.0) * z2 + 17.0) * z2 - 15.0) / 384.0,
        ((((79.0 * z2 + 776.0) * z2 + 1_482.0) * z2 - 1_920.0) * z2 - 945.0) / 92_160.0,
    ];
    let series = terms
        .iter()
        .rev()
        .fold(0.0, |sum, term| (sum + term) / degrees);
    z * (1.0 + series)
}

#[cfg(test)]
mod tests {
    use statrs::distribution::{ContinuousCDF as _, StudentsT};

    use super::*;

    #[test]
    fn the_quantile_is_students() {
        for degrees in [1.0, 2.0, 3.0, 4.0, 9.0, 19.0, 99.0] {
            let exact = StudentsT::new(0.0, 1.0, degrees)
                .unwrap()
                .inverse_cdf(0.975);
            let ours = student_975(degrees);
            assert!(
                (ours / exact - 1.0).abs() < 0.005,
                "{degrees}: {ours} for {exact}"
            );
        }
    }

    fn question(slo: &str) -> Question {
        Question {
            parameters: Parameters::default(),
            shape: Shape {
                prompt_tokens: 128,
                cached_tokens: 0,
                output_tokens: 32,
            },
            slo: slo.parse().unwrap(),
            requests: 400,
            replications: 4,
            seed: 1,
        }
    }

    #[test]
    fn the_capacity_keeps_the_slo_and_a_tenth_more_does_not() {
        let question = question("ttft=100ms,tpot=25ms,at=p95");
        let mut told = Vec::new();
        let found = capacity(&question, |i| told.push(i)).unwrap();
        assert_eq!(told, [0, 1, 2, 3]);
        let [low, high] = found.ci95.unwrap();
        let mean = found.requests_per_s.unwrap();
        assert!(low < mean && mean < high);
        for (i, rate) in found.replications.iter().enumerate() {
            let gaps = Gaps::draw(&question, question.seed + i as u64);
            assert!(gaps.keeps(&question, rate * 0.99).unwrap());
            assert!(!gaps.keeps(&question, rate * 1.1).unwrap());
        }
        assert_eq!(found, capacity(&question, |_| ()).unwrap(), "seeds decide");
    }

    #[test]
    fn what_never_or_always_holds_has_no_capacity_and_says_why() {
        for (slo, said) in [("tpot=1ms", "miss the SLO"), ("ttft=1m", "judge on more")] {
            let found = capacity(&question(slo), |_| ()).unwrap();
            assert_eq!((found.requests_per_s, found.ci95), (None, None));
            assert!(found.reason.unwrap().contains(said));
        }
    }
}
