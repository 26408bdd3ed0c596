//! The shape of `aggregate.json`. Null is "not defined", never zero; what does not apply is
//! absent.

use std::collections::BTreeMap;

use inferscope_shared::clock::MonoNs;
use inferscope_shared::definitions::{self as defs, Definition};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::LoadValue;
use crate::reconcile::Served;
use crate::slo::Limits;
use crate::stats::Summary;
use crate::telemetry::usage::Usage;

/// All points of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Aggregate {
    /// Version of the artifact schemas.
    pub schema_version: u32,
    /// The run.
    pub run_id: String,
    /// Said of every number here when the fake engine answered: it checks the chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
    /// Points in the order in which they ran.
    pub points: Vec<Point>,
}

/// One load on one arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// `<arm>.c4`, `<arm>.r10`, `<arm>.replay`.
    pub point_id: String,
    /// The arm.
    pub arm: String,
    /// Its load.
    pub load: LoadValue,
    /// The time that rates refer to.
    pub window: Window,
    /// Measured arrivals by how they ended.
    pub requests: Requests,
    /// Those that did not end ok, by `error_kind`.
    pub errors: BTreeMap<String, u64>,
    /// Latencies of measured requests that ended ok.
    pub metrics: Metrics,
    /// What was completed per second of the window.
    pub throughput: Throughput,
    /// What was completed within the limits; absent without limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput: Option<Goodput>,
    /// Whether the limits hold; absent without limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slo: Option<SloResult>,
    /// `ok / planned`; null without a planned arrival.
    pub success_rate: Option<f64>,
    /// Token counts of measured answers that ended ok, and how many have one.
    pub tokens: Tokens,
    /// Connections of measured requests.
    pub connections: Connections,
    /// The warm-up, kept apart.
    pub warmup: Warmup,
    /// What it took of client, engine and cards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<Usage>,
    /// What the engine counted from before the point's first request, warm-up included, until after
    /// its last one; null when it did not say.
    #[serde(default)]
    pub engine: Option<Served>,
}

/// The time that rates refer to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// Its length; null when it has none.
    pub seconds: Option<f64>,
    /// First measured dispatch.
    pub start_ns: Option<MonoNs>,
    /// In-flight first below target (closed loop), or last planned arrival (open loop).
    pub end_ns: Option<MonoNs>,
}

/// Counts of arrivals: `planned = sent + dropped`, `sent = ok + failed + incomplete`, late ones
/// are among the sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "named and related in the type's own words")]
pub struct Requests {
    pub planned: u64,
    pub sent: u64,
    pub ok: u64,
    pub failed: u64,
    pub incomplete: u64,
    pub late: u64,
    pub dropped: u64,
}

/// Every latency, under its symbol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "each is a symbol of the shared definitions")]
pub struct Metrics {
    pub ttft_ms: Summary,
    pub ttft_from_sent_ms: Summary,
    pub first_event_ms: Summary,
    pub tpot_ms: Summary,
    pub itl_event_ms: Summary,
    pub itl_token_ms: Summary,
    pub e2e_ms: Summary,
    pub e2e_from_sent_ms: Summary,
    pub dispatch_lag_ms: Summary,
    pub connect_ms: Summary,
    #[serde(default)]
    pub ttft_kernel_ms: Summary,
    #[serde(default)]
    pub itl_event_kernel_ms: Summary,
    #[serde(default)]
    pub read_lag_ms: Summary,
}

impl Metrics {
    /// Each with its definition, in the order in which reports show them.
    #[must_use]
    pub fn all(&self) -> [(&'static Definition, &Summary); 13] {
        [
            (&defs::TTFT, &self.ttft_ms),
            (&defs::TTFT_FROM_SENT, &self.ttft_from_sent_ms),
            (&defs::FIRST_EVENT, &self.first_event_ms),
            (&defs::TPOT, &self.tpot_ms),
            (&defs::ITL_EVENT, &self.itl_event_ms),
            (&defs::ITL_TOKEN, &self.itl_token_ms),
            (&defs::E2E, &self.e2e_ms),
            (&defs::E2E_FROM_SENT, &self.e2e_from_sent_ms),
            (&defs::DISPATCH_LAG, &self.dispatch_lag_ms),
            (&defs::CONNECT, &self.connect_ms),
            (&defs::TTFT_KERNEL, &self.ttft_kernel_ms),
            (&defs::ITL_EVENT_KERNEL, &self.itl_event_kernel_ms),
            (&defs::READ_LAG, &self.read_lag_ms),
        ]
    }
}

/// What was completed per second of the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Throughput {
    /// Answers that ended ok: inside the window, of whatever phase (closed loop), or measured ones
    /// whenever they ended (open loop).
    pub completed: u64,
    /// Per second of the window.
    pub requests_per_s: Option<f64>,
    /// Their completion tokens per second; null when one of them has no exact count.
    pub output_tokens_per_s: Option<f64>,
    /// The highest rate of output tokens over any whole second inside the window, or over the
    /// window itself; null where that has none.
    #[serde(default)]
    pub peak_output_tokens_per_s: Option<f64>,
}

/// What was completed within the limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Goodput {
    /// Answers counted by the throughput that kept every latency limit, per second.
    pub requests_per_s: Option<f64>,
    /// Measured answers that kept every limit, of all planned ones.
    pub fraction: Option<f64>,
    /// Measured answers that kept every latency limit.
    pub good: u64,
    /// Why it is zero, or what counted as a miss without a value of its own.
    pub reason: Option<String>,
}

/// Whether a point keeps its limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SloResult {
    /// All limits hold; null when there are too few requests to say.
    pub met: Option<bool>,
    /// The percentile at which latency limits must hold.
    pub at: String,
    /// The latency limits.
    pub limits: Limits,
    /// Least share of planned requests that must end ok.
    pub success: Option<f64>,
    /// Each limit on its own.
    pub checks: Vec<SloCheck>,
    /// Why `met` is false or null.
    pub reasons: Vec<String>,
}

/// One limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SloCheck {
    /// `ttft_ms`, `tpot_ms`, `e2e_ms` or `success_rate`.
    pub metric: String,
    /// The limit.
    pub limit: f64,
    /// The value that is held against it; for latencies the percentile over all planned
    /// requests, null when it falls among those without an answer.
    pub value: Option<f64>,
    /// Whether it holds; null when there are too few requests to say.
    pub met: Option<bool>,
}

/// Token counts of measured answers that ended ok.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tokens {
    /// Of prompts.
    pub prompt: TokenCount,
    /// Of answers.
    pub completion: TokenCount,
    /// Events that carried output.
    pub output_events: u64,
    /// Completion tokens per event that carried output, over the answers with an exact count.
    #[serde(default)]
    pub per_event: Option<f64>,
}

/// A sum that says what it is a sum of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenCount {
    /// Over the answers with an exact count; null when there is none.
    pub sum: Option<u64>,
    /// Answers whose count the engine reported.
    pub exact: u64,
    /// Answers without a count; they are in no sum.
    pub unknown: u64,
}

impl TokenCount {
    /// Adds one answer.
    pub fn add(&mut self, tokens: Option<u64>) {
        match tokens {
            Some(n) => {
                self.sum = Some(self.sum.unwrap_or(0).saturating_add(n));
                self.exact += 1;
            }
            None => self.unknown += 1,
        }
    }
}

/// Connections of measured requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Connections {
    /// Requests on a connection that had carried another one.
    pub reused: u64,
    /// Requests on a connection of their own.
    pub opened: u64,
    /// `reused / (reused + opened)`.
    pub reuse_fraction: Option<f64>,
}

/// The warm-up's own numbers; they are in no other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Warmup {
    /// Arrivals.
    pub planned: u64,
    /// Those that ended ok.
    pub ok: u64,
    /// Their time to first token.
    pub ttft_ms: Summary,
}
