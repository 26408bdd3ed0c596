//! Sums that keep what plain adding loses.

/// A running sum with the rounding error of each step carried along (Neumaier 1974), so that the
/// mean of ten million values is as good as that of ten.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sum {
    sum: f64,
    lost: f64,
    n: u64,
}

impl Sum {
    /// Adds a value.
    pub fn add(&mut self, value: f64) {
        let sum = self.sum + value;
        self.lost += if self.sum.abs() >= value.abs() {
            (self.sum - sum) + value
        } else {
            (value - sum) + self.sum
        };
        self.sum = sum;
        self.n += 1;
    }

    /// The sum.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.sum + self.lost
    }

    /// The arithmetic mean; `None` of nothing.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.n > 0).then(|| self.total() / self.n as f64)
    }
}

/// Lag-1 autocorrelation of a series in order, whose mean is known before.
#[derive(Debug, Clone, Copy)]
pub struct LagOne {
    mean: f64,
    before: Option<f64>,
    variance: Sum,
    covariance: Sum,
}

impl LagOne {
    /// Of no value yet.
    #[must_use]
    pub fn new(mean: f64) -> Self {
        Self {
            mean,
            before: None,
            variance: Sum::default(),
            covariance: Sum::default(),
        }
    }

    /// The next value.
    pub fn add(&mut self, value: f64) {
        let off = value - self.mean;
        self.variance.add(off * off);
        if let Some(before) = self.before.replace(off) {
            self.covariance.add(before * off);
        }
    }

    /// How many independent values the series is worth: `n·(1-r)/(1+r)` with r its lag-1
    /// autocorrelation. An r that chance alone explains (below `1.645/√n`) counts as none.
    #[must_use]
    pub fn effective(&self) -> f64 {
        let n = self.variance.n as f64;
        let r = self.covariance.total() / self.variance.total();
        // Below three values, or all of them equal, there is no r.
        if self.variance.n < 3 || !r.is_finite() || r <= 1.645 / n.sqrt() {
            return n;
        }
        (n * (1.0 - r) / (1.0 + r)).clamp(1.0, n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_values_survive_beside_large_ones() {
        let mut sum = Sum::default();
        [1e16, 1.0, 1.0, -1e16].into_iter().for_each(|v| sum.add(v));
        assert_eq!((sum.total(), sum.mean()), (2.0, Some(0.5)));
        let mut tenths = Sum::default();
        (0..1_000_000).for_each(|_| tenths.add(0.1));
        assert_eq!(tenths.mean(), Some(0.1));
        assert_eq!(Sum::default().mean(), None);
    }

    fn effective(series: &[f64]) -> f64 {
        let mut sum = Sum::default();
        series.iter().for_each(|v| sum.add(*v));
        let mut lag = LagOne::new(sum.mean().unwrap_or(0.0));
        series.iter().for_each(|v| lag.add(*v));
        lag.effective()
    }

    #[test]
    fn a_drifting_series_is_worth_less_than_it_counts() {
        let drift: Vec<f64> = (0..100).map(f64::from).collect();
        assert!(effective(&drift) < 10.0);
        let alternating: Vec<f64> = (0..100).map(|i| f64::from(i % 2)).collect();
        assert_eq!(effective(&alternating), 100.0);
        assert_eq!(effective(&[5.0; 50]), 50.0);
        assert_eq!(effective(&[]), 0.0);
    }
}
