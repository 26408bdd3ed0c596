//! Latency limits to judge a simulated run by, written as for loadgen: `ttft=200ms,tpot=50ms,at=p95`.

use std::str::FromStr;
use std::time::Duration;

use super::Outcome;
use super::summary::percentile;
use crate::clock::{ns, parse_duration};

/// Limits on a percentile of each latency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slo {
    /// Arrival to first token.
    pub ttft: Option<Duration>,
    /// Mean gap between a request's tokens.
    pub tpot: Option<Duration>,
    /// Arrival to last token.
    pub e2e: Option<Duration>,
    /// The share of requests that must keep each limit.
    pub at: f64,
}

/// Why a text is no SLO.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SloError {
    /// Not `name=value`.
    #[error("{0:?} is no limit; write name=value, e.g. ttft=200ms")]
    NoPair(String),
    /// An unknown name.
    #[error("{0:?} is no limit; known are ttft, tpot, e2e and at")]
    Unknown(String),
    /// A bad time.
    #[error("{name}: {reason}")]
    Time {
        /// Of the limit.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// A bad percentile.
    #[error("at={0:?} is no percentile; write p50, p95 or p99")]
    Percentile(String),
    /// Nothing to keep.
    #[error("no limit named; name at least one of ttft, tpot and e2e")]
    Empty,
}

impl FromStr for Slo {
    type Err = SloError;

    fn from_str(text: &str) -> Result<Self, SloError> {
        let mut slo = Self {
            ttft: None,
            tpot: None,
            e2e: None,
            at: 0.95,
        };
        for part in text.split(',') {
            let (name, value) = part
                .trim()
                .split_once('=')
                .ok_or_else(|| SloError::NoPair(part.to_owned()))?;
            let time = || {
                parse_duration(value)
                    .map(Some)
                    .map_err(|reason| SloError::Time {
                        name: name.to_owned(),
                        reason,
                    })
            };
            match name {
                "ttft" => slo.ttft = time()?,
                "tpot" => slo.tpot = time()?,
                "e2e" => slo.e2e = time()?,
                "at" => {
                    slo.at = value
                        .strip_prefix('p')
                        .and_then(|p| p.parse::<f64>().ok())
                        .map(|p| p / 100.0)
                        .filter(|p| *p > 0.0 && *p < 1.0)
                        .ok_or_else(|| SloError::Percentile(value.to_owned()))?;
                }
                _ => return Err(SloError::Unknown(name.to_owned())),
            }
        }
        if slo.ttft.or(slo.tpot).or(slo.e2e).is_none() {
            return Err(SloError::Empty);
        }
        Ok(slo)
    }
}

impl Slo {
    /// Whether the measured requests keep every limit.
    #[must_use]
    pub fn met(&self, outcomes: &[Outcome]) -> bool {
        let measured = || outcomes.iter().filter(|o| o.measured);
        self.kept(self.ttft, measured().map(|o| o.ttft_ns() as f64))
            && self.kept(self.tpot, measured().filter_map(Outcome::tpot_ns))
            && self.kept(self.e2e, measured().map(|o| o.e2e_ns() as f64))
    }

    fn kept(&self, limit: Option<Duration>, values: impl Iterator<Item = f64>) -> bool {
        let Some(limit) = limit else { return true };
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        percentile(&values, self.at) <= ns(limit) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_loadgen_reads_them() {
        let slo: Slo = "ttft=200ms,tpot=0.05s,at=p99".parse().unwrap();
        assert_eq!(slo.ttft, Some(Duration::from_millis(200)));
        assert_eq!(slo.tpot, Some(Duration::from_millis(50)));
        assert_eq!((slo.e2e, slo.at), (None, 0.99));
        for (text, said) in [
            ("ttft", "write name=value"),
            ("ttft=200", "needs a unit"),
            ("itl=3ms", "known are"),
            ("ttft=1s,at=95", "is no percentile"),
            ("at=p95", "no limit named"),
        ] {
            let error = text.parse::<Slo>().unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn the_limit_itself_is_kept_and_one_request_in_twenty_may_miss_it() {
        let slo: Slo = "ttft=10ns,at=p95".parse().unwrap();
        let requests = |slow: usize| -> Vec<Outcome> {
            (0..20)
                .map(|i| Outcome {
                    first_ns: if i < slow { 11 } else { 10 },
                    last_ns: 20,
                    output_tokens: 2,
                    measured: true,
                    ..Outcome::default()
                })
                .collect()
        };
        assert!(slo.met(&requests(1)));
        assert!(!slo.met(&requests(2)));
    }
}
