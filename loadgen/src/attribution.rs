//! Where the time of a request went, from stamps of client and gateway on one clock.
//!
//! A request's time to first token is cut at every stamp there is, in the order in which things
//! happen: client, gateway, engine, gateway, client. Segments of one request add up to its TTFT
//! from sending exactly; whatever lies between stamps that are missing is "unattributed".
//! Percentiles of segments don't add up, only means do.
//!
//! The surprise: a negative segment (two stamps in the other order) is counted and kept as it
//! is. Clamped to zero it would hide a fault of the instrument.

pub mod chain;
pub mod differences;
pub mod events;
pub mod waterfall;

use inferscope_shared::definitions::arithmetic::ms;
use inferscope_shared::record::gateway::GatewayRecord;
use inferscope_shared::record::request::{Outcome, Phase, RequestRecord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::join::JoinReport;
use crate::stats::spill::{Sorter, Spill};
use crate::stats::{Ordered, Sum, Summary, to_word};
use chain::{Chain, Owner, Step};
use differences::Difference;
use events::{EventTimes, PerEvent};
use waterfall::Waterfall;

/// `attribution.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attribution {
    /// Version of the artifact schemas.
    pub schema_version: u32,
    /// The run.
    pub run_id: String,
    /// Said of every number here when the fake engine answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
    /// How client rows met gateway records; null without records.
    pub join: Option<JoinReport>,
    /// Each point.
    pub points: Vec<PointAttribution>,
    /// Gateway against direct at equal load: differences of medians.
    pub differences: Vec<Difference>,
    /// What the differences do not claim.
    pub differences_note: String,
}

/// Where the time went at one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PointAttribution {
    /// The point.
    pub point_id: String,
    /// Its arm.
    pub arm: String,
    /// Measured requests that ended ok and are looked at here; through a gateway, joined ones.
    pub requests: u64,
    /// What the segments add up to.
    pub ttft_from_sent_ms: Summary,
    /// The segments in order.
    pub segments: Vec<Segment>,
    /// What no segment holds.
    pub unattributed: Unattributed,
    /// Per event; absent on an arm without a gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_event: Option<PerEvent>,
    /// One median request; null when there is none.
    pub waterfall: Option<Waterfall>,
}

/// One part of the way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Segment {
    /// Its id.
    pub id: String,
    /// In words.
    pub name: String,
    /// Whose time it is.
    pub owner: Owner,
    /// Stamp that it starts with.
    pub from: String,
    /// Stamp that it ends with.
    pub to: String,
    /// Its distribution in milliseconds, negative values as they are.
    pub ms: Summary,
    /// Its mean over the mean TTFT from sending.
    pub share: Option<f64>,
    /// Requests in which it is negative.
    pub negative: u64,
    /// Requests that lack one of its stamps.
    pub missing: u64,
}

/// TTFT from sending that no segment holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Unattributed {
    /// Mean, in milliseconds.
    pub mean_ms: Option<f64>,
    /// Mean over the mean TTFT from sending.
    pub share: Option<f64>,
}

/// One point while its requests go by.
#[derive(Debug)]
pub struct PointBuilder {
    point_id: String,
    arm: String,
    through_gateway: bool,
    ttft: Ordered,
    unattributed: Sum,
    steps: Vec<StepValues>,
    events: EventTimes,
    /// Whole time and place of each row.
    whole: Sorter<2>,
}

#[derive(Debug)]
struct StepValues {
    step: &'static Step,
    values: Ordered,
    negative: u64,
    missing: u64,
}

impl PointBuilder {
    /// An empty point.
    #[must_use]
    pub fn new(point_id: &str, arm: &str, through_gateway: bool, spill: &Spill) -> Self {
        Self {
            point_id: point_id.to_owned(),
            arm: arm.to_owned(),
            through_gateway,
            ttft: Ordered::new(spill),
            unattributed: Sum::default(),
            steps: chain::steps(through_gateway)
                .iter()
                .map(|step| StepValues {
                    step,
                    values: Ordered::new(spill),
                    negative: 0,
                    missing: 0,
                })
                .collect(),
            events: EventTimes::new(spill),
            whole: Sorter::new(spill),
        }
    }

    /// Takes a row, with its record on a gateway arm. `offset` is the row's place in its file.
    pub fn push(&mut self, row: &RequestRecord, record: Option<&GatewayRecord>, offset: u64) {
        // Stamps of another boot compare with nothing: such a record is as good as none.
        let record = record.filter(|_| self.through_gateway);
        let measured = row.phase == Phase::Measure && row.outcome == Outcome::Ok;
        if !measured || (self.through_gateway && record.is_none()) {
            return;
        }
        let Some(e2e) = waterfall::whole_ms(row) else {
            return;
        };
        self.whole.push([to_word(e2e), offset]);
        let at = row.dispatched_ns;
        let chain = Chain::of(row, record);
        if let Some(ttft) = chain.total_ns() {
            self.ttft.extend(at, Some(ms(ttft as f64)));
            let mut rest = ttft;
            for (values, ns) in self.steps.iter_mut().zip(chain.steps_ns()) {
                match ns {
                    Some(ns) => {
                        rest = rest.saturating_sub(ns);
                        values.negative += u64::from(ns < 0);
                        values.values.extend(at, Some(ms(ns as f64)));
                    }
                    None => values.missing += 1,
                }
            }
            self.unattributed.add(ms(rest as f64));
        }
        if let Some(record) = record {
            self.events.push(row, record);
        }
    }

    /// The point's attribution. `lay_out` is given the place of the row whose whole time is the
    /// median one.
    ///
    /// # Errors
    /// Those of `lay_out`.
    pub fn finish<E>(
        self,
        lay_out: impl FnOnce(u64) -> Result<Option<Waterfall>, E>,
    ) -> Result<PointAttribution, E> {
        let whole = self.whole.finish();
        let requests = whole.len() as u64;
        let median = whole.len().checked_sub(1).and_then(|n| whole.get(n / 2));
        let waterfall = match median {
            Some([_, offset]) => lay_out(offset)?,
            None => None,
        };
        let ttft = self.ttft.summary();
        let share = |mean: Option<f64>| Some(mean? / ttft.mean.filter(|&m| m > 0.0)?);
        let unattributed = self.unattributed.mean();
        Ok(PointAttribution {
            point_id: self.point_id,
            arm: self.arm,
            requests,
            segments: self
                .steps
                .into_iter()
                .map(|it| {
                    let ms = it.values.summary();
                    Segment {
                        id: it.step.id.to_owned(),
                        name: it.step.name.to_owned(),
                        owner: it.step.owner,
                        from: it.step.from.to_owned(),
                        to: it.step.to.to_owned(),
                        share: share(ms.mean),
                        ms,
                        negative: it.negative,
                        missing: it.missing,
                    }
                })
                .collect(),
            ttft_from_sent_ms: ttft,
            unattributed: Unattributed {
                mean_ms: unattributed,
                share: share(unattributed),
            },
            per_event: self.through_gateway.then(|| self.events.finish()),
            waterfall,
        })
    }
}

#[cfg(test)]
mod tests;
