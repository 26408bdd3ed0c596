//! The load generator's record: one line of `requests.jsonl` per planned arrival, those never
//! sent included.
//!
//! All `_ns` fields are absolute CLOCK_MONOTONIC. `events` has one entry per SSE event (comments
//! are none): `at_ns[0]` is relative to `sent_start_ns`, later entries to the one before;
//! `end_offset` is the decoded body offset of the event's end, delta encoded from zero.
//!
//! A kernel receive stamp marks the last segment of a read. So it is exact only for an event with
//! which its read ends; for the others it is an upper bound of their arrival, as the read is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clock::MonoNs;

/// Part of a run that an arrival belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Before the window; never in a number.
    Warmup,
    /// Inside the window.
    Measure,
    /// After the window.
    Drain,
}

/// How an arrival ended, as the client saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A whole answer.
    Ok,
    /// Refused or broken.
    Failed,
    /// Ended without a finish reason, or cut by the end of the run.
    Incomplete,
    /// Planned and never sent.
    Dropped,
}

/// What an event holds, as far as latency is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// Non-empty output: text, reasoning, tool call or refusal.
    Output,
    /// Opening or otherwise empty delta.
    Empty,
    /// Carries a finish reason and no output.
    Finish,
    /// Usage only.
    Usage,
    /// `[DONE]`.
    Done,
    /// An error object.
    Error,
    /// Anything else.
    Other,
}

/// Where a completion's token count comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokensSource {
    /// The engine's usage object.
    Usage,
    /// Nobody said; the counts are null.
    Unknown,
}

/// The connection that carried a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(
    missing_docs,
    reason = "each field is a name of docs/contracts.md, explained there"
)]
pub struct Connect {
    pub reused: bool,
    pub start_ns: Option<MonoNs>,
    pub tcp_ns: Option<MonoNs>,
    pub tls_ns: Option<MonoNs>,
}

/// One entry per SSE event, in order of arrival. `at_ns` and `end_offset` are delta encoded, from
/// `sent_start_ns` and from zero.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Events {
    /// Read that brought the event's last byte, delta encoded.
    pub at_ns: Vec<u64>,
    /// Decoded body offset of the event's end, delta encoded from zero.
    pub end_offset: Vec<u64>,
    /// What each event holds.
    pub kind: Vec<EventKind>,
    /// Tokens in each event where the engine says so, else null.
    pub tokens: Vec<Option<u64>>,
    /// From the kernel's receipt of the last segment of the event's read to the read; null without
    /// a usable stamp, empty when the kernel was not asked for stamps or refused.
    #[serde(default)]
    pub rx_lag_ns: Vec<Option<u64>>,
    /// Indices of events behind which their read went on, with further events or part of one:
    /// `at_ns` minus `rx_lag_ns` is only an upper bound of their arrival. Rising.
    #[serde(default)]
    pub rx_upper_bound: Vec<u32>,
}

/// One planned arrival. `_ns` are absolute CLOCK_MONOTONIC; what never happened is null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(
    missing_docs,
    reason = "each field is a name of docs/contracts.md, explained there"
)]
pub struct RequestRecord {
    pub schema_version: u32,
    pub run_id: String,
    pub point_id: String,
    pub arm: String,
    pub phase: Phase,
    pub block: u32,
    pub seq: u64,
    pub request_id: String,
    pub gateway_request_id: Option<String>,
    pub traceparent: Option<String>,
    /// When the plan wanted it sent (open loop); in closed loop the instant its slot came free.
    pub intended_ns: Option<MonoNs>,
    /// When the limit of requests in flight let it go, if that held it back past its instant.
    #[serde(default)]
    pub released_ns: Option<MonoNs>,
    pub dispatched_ns: Option<MonoNs>,
    pub connect: Connect,
    pub sent_start_ns: Option<MonoNs>,
    pub sent_end_ns: Option<MonoNs>,
    pub head_ns: Option<MonoNs>,
    pub first_event_ns: Option<MonoNs>,
    pub first_output_ns: Option<MonoNs>,
    pub last_output_ns: Option<MonoNs>,
    /// When the kernel had the first output; null without a usable stamp.
    #[serde(default)]
    pub first_output_rx_ns: Option<MonoNs>,
    /// False where that is only an upper bound, or null.
    #[serde(default)]
    pub first_output_rx_exact: bool,
    /// When the kernel had the last output; null without a usable stamp.
    #[serde(default)]
    pub last_output_rx_ns: Option<MonoNs>,
    /// False where that is only an upper bound, or null.
    #[serde(default)]
    pub last_output_rx_exact: bool,
    pub done_ns: Option<MonoNs>,
    pub end_ns: Option<MonoNs>,
    pub status: Option<u16>,
    pub outcome: Outcome,
    pub error_kind: Option<String>,
    /// Message behind `error_kind`, at most 200 characters, escaped.
    pub error_message: Option<String>,
    pub late: bool,
    pub prompt_tokens: Option<u64>,
    pub completion_tokens: Option<u64>,
    pub tokens_source: TokensSource,
    pub finish_reason: Option<String>,
    pub done_missing: bool,
    pub body_bytes: u64,
    pub body_sha256: Option<String>,
    /// Over the assembled output text of all choices in index order.
    pub text_sha256: Option<String>,
    pub events: Events,
}
