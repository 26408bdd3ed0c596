//! Arrival processes: rising offsets in nanoseconds, the same for the same seed.
//!
//! A [`Law`] gives gaps with mean 1, so that its cumulative sums count expected arrivals; a
//! [`Profile`] says when that many have been expected, which makes any law follow any rate
//! (inversion of the cumulative rate). Offsets come from sums over the whole schedule, so nothing
//! that happens while a run is driven can shift them.
//!
//! The surprise: warm-up arrivals come at the profile's first rate, before its own time begins.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp1, Gamma};

/// How the gaps of a process are distributed; all have mean 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Law {
    /// Equal gaps.
    Constant,
    /// Exponential gaps.
    Poisson,
    /// Gamma gaps with this shape; coefficient of variation `1 / sqrt(shape)`. A shape that no
    /// gamma distribution has gives equal gaps; the configuration's rules refuse it.
    Gamma(f64),
}

impl Law {
    /// Cumulative sums of its gaps, from zero on, without end.
    pub fn positions(self, seed: [u8; 32]) -> impl Iterator<Item = f64> {
        let mut rng = ChaCha8Rng::from_seed(seed);
        let gamma = match self {
            Self::Gamma(shape) => Gamma::new(shape, 1.0 / shape).ok(),
            _ => None,
        };
        let mut at = 0.0_f64;
        std::iter::from_fn(move || {
            let this = at;
            at += match (self, &gamma) {
                (Self::Poisson, _) => Exp1.sample(&mut rng),
                (Self::Gamma(_), Some(gamma)) => gamma.sample(&mut rng),
                _ => 1.0,
            };
            Some(this)
        })
    }
}

/// The rate over time, in requests per second.
#[derive(Debug, Clone, PartialEq)]
pub enum Profile {
    /// The same for ever.
    Rate(f64),
    /// From one to another in `seconds`, then over.
    Ramp {
        /// At the start.
        from: f64,
        /// At the end.
        to: f64,
        /// Its length.
        seconds: f64,
    },
    /// Rates and their seconds, one after the other, then over.
    Stages(Vec<(f64, f64)>),
}

impl Profile {
    /// The rate at its start.
    #[must_use]
    pub fn first_rate(&self) -> f64 {
        match self {
            Self::Rate(rate) | Self::Ramp { from: rate, .. } => *rate,
            Self::Stages(stages) => stages.first().map_or(1.0, |(rate, _)| *rate),
        }
    }

    /// When `expected` arrivals have been expected, in seconds from its start; none once it is over.
    #[must_use]
    pub fn at(&self, expected: f64) -> Option<f64> {
        match self {
            Self::Rate(rate) => Some(expected / rate),
            Self::Ramp { from, to, seconds } => {
                let slope = (to - from) / seconds;
                // The root of from * t + slope * t² / 2 = expected, in the form that also holds
                // for a slope of zero. A falling ramp has no root behind its end.
                let at = 2.0 * expected / (from + (from * from + 2.0 * slope * expected).sqrt());
                (at < *seconds).then_some(at)
            }
            Self::Stages(stages) => {
                let (mut start, mut before) = (0.0, 0.0);
                for (rate, seconds) in stages {
                    let within = expected - before;
                    if within < rate * seconds {
                        return Some(start + within / rate);
                    }
                    before += rate * seconds;
                    start += seconds;
                }
                None
            }
        }
    }
}

/// Offsets of a process, `warmup` arrivals at the profile's first rate before its own begin.
pub fn offsets(
    law: Law,
    profile: Profile,
    warmup: u64,
    seed: [u8; 32],
) -> impl Iterator<Item = u64> {
    let first_rate = profile.first_rate();
    let mut base = None;
    (0_u64..)
        .zip(law.positions(seed))
        .map_while(move |(i, position)| {
            let seconds = if i < warmup {
                position / first_rate
            } else {
                let base: f64 = *base.get_or_insert(position);
                base / first_rate + profile.at(position - base)?
            };
            Some((seconds * 1e9).round() as u64)
        })
}

/// Cuts a process: `warmup` arrivals, then measured ones until `requests` of them or until
/// `duration_ns` after the first of them, whichever comes first.
#[must_use]
pub fn cut(
    offsets: impl Iterator<Item = u64>,
    warmup: u64,
    requests: Option<u64>,
    duration_ns: Option<u64>,
) -> Vec<u64> {
    let limit = requests.map_or(u64::MAX, |n| warmup.saturating_add(n));
    let mut measured_from = None;
    offsets
        .zip(0_u64..limit)
        .take_while(|&(offset, i)| {
            if i < warmup {
                return true;
            }
            let from = *measured_from.get_or_insert(offset);
            duration_ns.is_none_or(|d| offset - from < d)
        })
        .map(|(offset, _)| offset)
        .collect()
}

#[cfg(test)]
mod tests;
