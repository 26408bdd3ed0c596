//! One metric's distribution in the shape of `aggregate.json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::moments::Sum;
use super::{Percentile, Sorted, order_interval};

/// A distribution in its metric's unit. Null where the sample does not define a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Values.
    pub n: u64,
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Sample standard deviation (n - 1).
    pub std: Option<f64>,
    /// Smallest.
    pub min: Option<f64>,
    /// Nearest rank, from 2 values on.
    pub p50: Option<f64>,
    /// Nearest rank, from 10 values on.
    pub p90: Option<f64>,
    /// Nearest rank, from 20 values on.
    pub p95: Option<f64>,
    /// Nearest rank, from 100 values on.
    pub p99: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
    /// 95 % intervals of the percentiles, by order statistics.
    pub ci95: Intervals,
}

/// `[low, high]` of each percentile; null when the sample is too small to form it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Intervals {
    /// Of the median.
    pub p50: Option<[f64; 2]>,
    /// Of the 90th percentile.
    pub p90: Option<[f64; 2]>,
    /// Of the 95th percentile.
    pub p95: Option<[f64; 2]>,
    /// Of the 99th percentile.
    pub p99: Option<[f64; 2]>,
}

impl Summary {
    /// Describes independent values; those that are not finite are left out.
    #[must_use]
    pub fn of(values: Vec<f64>) -> Self {
        let sorted = Sorted::of(values);
        Self::of_sorted(&sorted, sorted.len())
    }

    /// Describes values of which only `groups` are independent of each other, such as the gaps
    /// of `groups` answers: intervals count each group once.
    #[must_use]
    pub fn of_sorted(sorted: &Sorted, groups: usize) -> Self {
        let n = sorted.len();
        let (mean, std) = moments(sorted).unzip();
        let interval = |p: Percentile| {
            sorted.estimate(p)?;
            interval(sorted, p, groups.min(n))
        };
        Self {
            n: n as u64,
            mean,
            std: std.flatten(),
            min: sorted.get(0),
            p50: sorted.estimate(Percentile::P50),
            p90: sorted.estimate(Percentile::P90),
            p95: sorted.estimate(Percentile::P95),
            p99: sorted.estimate(Percentile::P99),
            max: n.checked_sub(1).and_then(|last| sorted.get(last)),
            ci95: Intervals {
                p50: interval(Percentile::P50),
                p90: interval(Percentile::P90),
                p95: interval(Percentile::P95),
                p99: interval(Percentile::P99),
            },
        }
    }
}

/// Mean and sample standard deviation, in one pass. Values are taken from their middle one, so
/// that squares of large numbers with small differences do not cancel; the middle is never
/// further from the mean than the deviation itself.
fn moments(sorted: &Sorted) -> Option<(f64, Option<f64>)> {
    let n = sorted.len() as f64;
    let middle = sorted.get(sorted.len() / 2)?;
    let (mut sum, mut squares) = (Sum::default(), Sum::default());
    for value in sorted.iter() {
        let off = value - middle;
        sum.add(off);
        squares.add(off * off);
    }
    let variance = (squares.total() - sum.total() * (sum.total() / n)) / (n - 1.0);
    let std = (sorted.len() > 1).then(|| variance.max(0.0).sqrt());
    Some((middle + sum.total() / n, std.filter(|std| std.is_finite())))
}

/// Values at the interval's ranks. With fewer groups than values the ranks, found for the
/// groups, are stretched over the values.
fn interval(sorted: &Sorted, p: Percentile, groups: usize) -> Option<[f64; 2]> {
    let (lower, upper) = order_interval(p, groups)?;
    let n = sorted.len();
    let low = ((lower - 1) * n / groups).min(n - 1);
    let high = (upper * n).div_ceil(groups).clamp(1, n) - 1;
    Some([sorted.get(low)?, sorted.get(high)?])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn m08_the_number_of_values_stands_beside_what_they_support() {
        let three = Summary::of(vec![30.0, 10.0, 20.0]);
        assert_eq!(
            (three.n, three.p50, three.p90, three.p99),
            (3, Some(20.0), None, None)
        );
        assert_eq!((three.mean, three.std), (Some(20.0), Some(10.0)));

        let thousand = Summary::of((1..=1000).map(f64::from).collect());
        assert_eq!((thousand.p50, thousand.p99), (Some(500.0), Some(990.0)));
        let [low, high] = thousand.ci95.p99.unwrap();
        assert!(low < 990.0 && 990.0 < high && high <= 1000.0);
    }

    #[test]
    fn m21_one_value_has_no_deviation_and_none_has_nothing() {
        let one = Summary::of(vec![5.0]);
        assert_eq!((one.mean, one.std, one.p50), (Some(5.0), None, None));
        let none = Summary::of(vec![]);
        assert_eq!(none, Summary::default());
        let text = serde_json::to_string(&Summary::of(vec![f64::NAN, f64::INFINITY])).unwrap();
        assert_eq!(text, serde_json::to_string(&none).unwrap());
        assert!(text.contains(r#""mean":null"#), "{text}");
    }

    #[test]
    fn gaps_of_few_answers_make_no_narrow_interval() {
        let values = Sorted::of((1..=1000).map(f64::from));
        assert_eq!(values.summary(5).ci95.p50, None);
        let [low, high] = values.summary(10).ci95.p50.unwrap();
        assert_eq!((low, high), (101.0, 900.0));
        let independent = values.summary(1000).ci95.p50.unwrap();
        assert!(independent[0] > low && independent[1] < high);
    }

    #[test]
    fn a_deviation_of_nanoseconds_survives_beside_hours() {
        let values = (0..1_000_000).map(|i| 1e10 + f64::from(i % 2) * 1e-3);
        let s = Sorted::of(values).summary(1);
        assert!((s.mean.unwrap() - 1e10 - 5e-4).abs() < 1e-5, "{s:?}");
        assert!((s.std.unwrap() / 5e-4 - 1.0).abs() < 1e-2, "{s:?}");
    }

    proptest! {
        #[test]
        fn what_is_defined_is_ordered(values in prop::collection::vec(0.0..1e6_f64, 0..500)) {
            let s = Summary::of(values);
            let chain: Vec<f64> = [s.min, s.p50, s.p90, s.p95, s.p99, s.max]
                .into_iter()
                .flatten()
                .collect();
            prop_assert!(chain.is_sorted());
            for (p, ci) in [(s.p50, s.ci95.p50), (s.p90, s.ci95.p90), (s.p99, s.ci95.p99)] {
                if let (Some(p), Some([low, high])) = (p, ci) {
                    prop_assert!(low <= p && p <= high);
                }
            }
        }
    }
}
