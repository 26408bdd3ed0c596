//! How requests arrive, how many, for how long: the load of a run and of each of its points.
//!
//! A closed loop has levels of concurrency, an open loop has either rates, a ramp, stages or the
//! times of a workload; each level and each rate is a point, a ramp or a list of stages is one.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::duration;

/// How requests arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrival {
    /// Each slot sends its next request when its last one ended.
    Closed,
    /// Equal gaps.
    Constant,
    /// Exponential gaps.
    Poisson,
    /// Gamma gaps with shape [`Load::burstiness`].
    Gamma,
    /// Arrival times of the workload file.
    Replay,
}

/// What becomes of an arrival that is due while as many requests are in flight as may be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OverLimit {
    /// It is dropped, and recorded so.
    #[default]
    Drop,
    /// It waits its turn and is sent late; its latency counts from the planned instant.
    Wait,
}

/// A rate that changes evenly over the load's duration, in requests per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ramp {
    /// At its start.
    pub from: f64,
    /// At its end.
    pub to: f64,
}

/// A rate that holds for a while.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Stage {
    /// Requests per second.
    pub rate: f64,
    /// For how long.
    #[serde(with = "duration")]
    pub duration: Duration,
}

/// Which part of one schedule this process sends: arrivals `index`, `index + of`, … counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Shard {
    /// Its number, from 1 to `of`.
    pub index: u32,
    /// How many processes share the schedule.
    pub of: u32,
}

impl Shard {
    /// Whether it sends the arrival with this number in the whole schedule.
    #[must_use]
    pub fn holds(&self, seq: u64) -> bool {
        seq % u64::from(self.of.max(1)) == u64::from(self.index.saturating_sub(1))
    }
}

impl std::fmt::Display for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

impl std::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = |(index, of): (&str, &str)| {
            Some(Self {
                index: index.parse().ok()?,
                of: of.parse().ok()?,
            })
        };
        text.split_once('/')
            .and_then(parse)
            .filter(|s| (1..=s.of).contains(&s.index))
            .ok_or_else(|| {
                format!(
                    "\"{text}\" is no part of a schedule; write I/N with I from 1 to N, like 1/4"
                )
            })
    }
}

/// How requests arrive, how many, for how long.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Load {
    /// Arrival process.
    pub arrival: Arrival,
    /// Slots per point, closed loop.
    pub concurrency: Vec<u32>,
    /// Requests per second per point, open loop.
    pub rate: Vec<f64>,
    /// Open loop: the one point's rate goes evenly from one to another.
    pub ramp: Option<Ramp>,
    /// Open loop: the one point's rates, one after the other.
    pub stages: Vec<Stage>,
    /// Shape of gamma gaps: their coefficient of variation is `1 / sqrt(burstiness)`.
    pub burstiness: Option<f64>,
    /// The part of the schedule that this process sends; none sends all of it.
    pub shard: Option<Shard>,
    /// Measured requests per point and arm; with `duration` too, what is reached first stops.
    pub requests: Option<u64>,
    /// Time during which measured requests are issued, per point and arm.
    #[serde(with = "duration::optional")]
    pub duration: Option<Duration>,
    /// Warm-up requests per point and arm, of the same shape, never in a number.
    pub warmup: u64,
    /// Time over which the slots of a closed loop start one after the other.
    #[serde(with = "duration")]
    pub stagger: Duration,
    /// Open loop: requests in flight at most.
    pub max_in_flight: u32,
    /// Open loop: what becomes of an arrival above `max_in_flight`.
    pub over_limit: OverLimit,
    /// Whether connections are used again.
    pub reuse: bool,
}

/// The load of one point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LoadValue {
    /// What `value` counts.
    pub kind: LoadKind,
    /// Slots or requests per second; null for a replay, a ramp and stages.
    pub value: Option<f64>,
}

/// What a point's load value counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoadKind {
    /// Requests in flight (closed loop).
    Concurrency,
    /// Requests per second (open loop).
    Rate,
    /// A rate that changes evenly (open loop).
    Ramp,
    /// Rates one after the other (open loop).
    Stages,
    /// A workload's own arrival times (open loop).
    Replay,
}

impl LoadKind {
    /// Its name in tables and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Concurrency => "concurrency",
            Self::Rate => "rate",
            Self::Ramp => "ramp",
            Self::Stages => "stages",
            Self::Replay => "replay",
        }
    }
}

impl LoadValue {
    /// The part of a point id that names the load: `c4`, `r10`, `r2.5`, `ramp`, `stages`, `replay`.
    #[must_use]
    pub fn label(&self) -> String {
        let value = self.value.unwrap_or(0.0);
        match self.kind {
            LoadKind::Concurrency => format!("c{value}"),
            LoadKind::Rate => format!("r{value}"),
            kind => kind.name().to_owned(),
        }
    }

    /// Whether latency counts from the intended instant instead of the first write.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.kind != LoadKind::Concurrency
    }
}

impl Load {
    /// The loads of a run, one per point and arm, in order.
    #[must_use]
    pub fn values(&self) -> Vec<LoadValue> {
        let one = |kind| vec![LoadValue { kind, value: None }];
        let each = |kind, values: &mut dyn Iterator<Item = f64>| {
            let value = |v| LoadValue {
                kind,
                value: Some(v),
            };
            values.map(value).collect()
        };
        match self.arrival {
            Arrival::Closed => each(
                LoadKind::Concurrency,
                &mut self.concurrency.iter().copied().map(f64::from),
            ),
            Arrival::Replay => one(LoadKind::Replay),
            _ if self.ramp.is_some() => one(LoadKind::Ramp),
            _ if !self.stages.is_empty() => one(LoadKind::Stages),
            _ => each(LoadKind::Rate, &mut self.rate.iter().copied()),
        }
    }

    /// The highest rate at which this process sends one of these loads; none where no rate is set.
    #[must_use]
    pub fn highest_rate(&self, load: LoadValue) -> Option<f64> {
        let whole = match load.kind {
            LoadKind::Rate => load.value,
            LoadKind::Ramp => self.ramp.map(|r| r.from.max(r.to)),
            LoadKind::Stages => self.stages.iter().map(|s| s.rate).reduce(f64::max),
            LoadKind::Concurrency | LoadKind::Replay => None,
        };
        whole.map(|rate| rate / f64::from(self.shard.map_or(1, |s| s.of)))
    }

    /// Arrivals that a ramp or stages plan in their time; none under another load.
    #[must_use]
    pub fn expected(&self) -> Option<f64> {
        if let (Some(ramp), Some(duration)) = (self.ramp, self.duration) {
            return Some((ramp.from + ramp.to) / 2.0 * duration.as_secs_f64());
        }
        let stages = self.stages.iter();
        (!self.stages.is_empty()).then(|| stages.map(|s| s.rate * s.duration.as_secs_f64()).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_cover_a_schedule_once() {
        let shards: Vec<Shard> = (1..=4).map(|i| format!("{i}/4").parse().unwrap()).collect();
        for seq in 0..20 {
            assert_eq!(shards.iter().filter(|s| s.holds(seq)).count(), 1);
        }
        for bad in ["", "1", "0/4", "5/4", "a/4", "1/0", "-1/4"] {
            let text = bad.parse::<Shard>().unwrap_err();
            assert!(text.contains("like 1/4"), "{bad}: {text}");
        }
    }
}
