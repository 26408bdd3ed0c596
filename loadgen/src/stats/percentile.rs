//! Nearest-rank percentiles in whole tenths of a percent, so that ranks are exact integers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A percentile between p0.1 and p99.9, in tenths of a percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Percentile {
    tenths: u16,
}

/// Text that names no percentile.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is no percentile; write p50, p95, p99 or p99.9")]
pub struct BadPercentile(String);

impl Percentile {
    /// One of ten.
    pub const P10: Self = Self { tenths: 100 };
    /// The median.
    pub const P50: Self = Self { tenths: 500 };
    /// Nine of ten.
    pub const P90: Self = Self { tenths: 900 };
    /// Nineteen of twenty.
    pub const P95: Self = Self { tenths: 950 };
    /// Ninety-nine of a hundred.
    pub const P99: Self = Self { tenths: 990 };

    /// The share of values at or below it.
    #[must_use]
    pub fn share(self) -> f64 {
        f64::from(self.tenths) / 1000.0
    }

    /// Its rank among `n` sorted values, from 1: `ceil(p·n)`. 0 when there are none.
    #[must_use]
    pub fn rank(self, n: usize) -> usize {
        (n * usize::from(self.tenths)).div_ceil(1000)
    }

    /// The value of nearest rank, whatever the number of values; `None` of none.
    #[must_use]
    pub fn nearest(self, sorted: &[f64]) -> Option<f64> {
        sorted.get(self.rank(sorted.len()).checked_sub(1)?).copied()
    }

    /// Values below which the percentile is not estimated: `1 / (1 - p)`.
    #[must_use]
    pub fn values_needed(self) -> usize {
        1000_usize.div_ceil(usize::from(1000 - self.tenths))
    }

    /// The value of nearest rank, if there are enough values to tell it from the maximum.
    #[must_use]
    pub fn estimate(self, sorted: &[f64]) -> Option<f64> {
        (sorted.len() >= self.values_needed())
            .then(|| self.nearest(sorted))
            .flatten()
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, tenth) = (self.tenths / 10, self.tenths % 10);
        match tenth {
            0 => write!(f, "p{whole}"),
            _ => write!(f, "p{whole}.{tenth}"),
        }
    }
}

impl FromStr for Percentile {
    type Err = BadPercentile;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || BadPercentile(text.to_owned());
        let digits = text.strip_prefix('p').ok_or_else(bad)?;
        let (whole, tenth) = digits.split_once('.').unwrap_or((digits, "0"));
        let plain = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
        if !(plain(whole) && plain(tenth) && whole.len() <= 2 && tenth.len() == 1) {
            return Err(bad());
        }
        let part = |t: &str| t.parse::<u16>().map_err(|_| bad());
        let tenths = part(whole)? * 10 + part(tenth)?;
        if tenths == 0 {
            return Err(bad());
        }
        Ok(Self { tenths })
    }
}

impl From<Percentile> for String {
    fn from(percentile: Percentile) -> Self {
        percentile.to_string()
    }
}

impl TryFrom<String> for Percentile {
    type Error = BadPercentile;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up_to(n: u32) -> Vec<f64> {
        (1..=n).map(f64::from).collect()
    }

    #[test]
    fn m08_one_named_method_nearest_rank() {
        let p99 = Percentile::P99;
        assert_eq!(p99.nearest(&[10.0, 20.0, 30.0]), Some(30.0));
        assert_eq!(p99.nearest(&up_to(100)), Some(99.0));
        assert_eq!(p99.nearest(&up_to(1000)), Some(990.0));
        assert_eq!(p99.nearest(&[7.0]), Some(7.0));
        assert_eq!(p99.nearest(&[]), None);
    }

    #[test]
    fn m08_no_estimate_from_fewer_values_than_one_over_the_rest() {
        let needed = |p: Percentile| p.values_needed();
        assert_eq!(needed(Percentile::P50), 2);
        assert_eq!(needed(Percentile::P90), 10);
        assert_eq!(needed(Percentile::P95), 20);
        assert_eq!(needed(Percentile::P99), 100);
        assert_eq!(needed("p99.9".parse().unwrap()), 1000);

        assert_eq!(Percentile::P99.estimate(&up_to(99)), None);
        assert_eq!(Percentile::P99.estimate(&up_to(100)), Some(99.0));
        assert_eq!(Percentile::P50.estimate(&[7.0]), None);
        assert_eq!(Percentile::P50.estimate(&[7.0, 9.0]), Some(7.0));
    }

    /// The worked example of the usual encyclopaedia entry on nearest rank.
    #[test]
    fn the_textbook_example_comes_out() {
        let list = [15.0, 20.0, 35.0, 40.0, 50.0];
        let at = |text: &str| text.parse::<Percentile>().unwrap().nearest(&list);
        assert_eq!(at("p5"), Some(15.0));
        assert_eq!(at("p30"), Some(20.0));
        assert_eq!(at("p40"), Some(20.0));
        assert_eq!(at("p50"), Some(35.0));
    }

    #[test]
    fn names_are_read_as_they_are_printed() {
        for text in ["p50", "p95", "p99", "p99.9", "p0.1", "p2.5"] {
            assert_eq!(text.parse::<Percentile>().unwrap().to_string(), text);
        }
        for text in [
            "", "p", "95", "p0", "p100", "p99.99", "p-1", "p1e1", "pNaN", "p5.", "P95",
        ] {
            assert!(text.parse::<Percentile>().is_err(), "{text}");
        }
    }
}
