//! One request of a probe, as `probe.json` keeps it.

use inferscope_shared::record::request::Outcome;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::life::Life;
use super::schedule::Experiment;

/// One request. `start_ms`, `sent_ms` and `end_ms` count from the probe's start, all other times
/// from the request's first write. What never happened is null.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// Number in order of asking, from 0.
    pub seq: u32,
    /// What it was sent for.
    pub experiment: Experiment,
    /// Round, from 0.
    pub round: u32,
    /// Length that its prompt was meant to have, in tokens.
    pub asked_tokens: u64,
    /// Whether a stream was asked for.
    pub stream_asked: bool,
    /// Whether a stream came.
    pub streamed: bool,
    /// Connecting begins.
    pub start_ms: f64,
    /// First write.
    pub sent_ms: Option<f64>,
    /// The answer's end, or what took its place.
    pub end_ms: f64,
    /// Time that connecting took.
    pub connect_ms: Option<f64>,
    /// Last write.
    pub upload_ms: Option<f64>,
    /// The answer's head was read.
    pub head_ms: Option<f64>,
    /// First event, whatever it held.
    pub first_event_ms: Option<f64>,
    /// First output.
    pub ttft_ms: Option<f64>,
    /// Last output.
    pub last_output_ms: Option<f64>,
    /// End mark, else the end of the answer.
    pub e2e_ms: Option<f64>,
    /// HTTP status.
    pub status: Option<u16>,
    /// How it ended.
    pub outcome: Outcome,
    /// Why not well.
    pub error_kind: Option<String>,
    /// The same in words.
    pub error_message: Option<String>,
    /// By usage.
    pub prompt_tokens: Option<u64>,
    /// By usage.
    pub completion_tokens: Option<u64>,
    /// Prompt tokens that the engine says came from its cache.
    pub cached_tokens: Option<u64>,
    /// Why the answer ended.
    pub finish_reason: Option<String>,
    /// Every event with output.
    pub output_ms: Vec<f64>,
    /// Reads that brought those events.
    pub output_reads: u64,
    /// From the kernel's receipt of an event's last segment to the read that brought it, where the
    /// kernel said so.
    pub read_lag_ms: Vec<f64>,
    /// Whether the connection could have carried another request.
    pub kept: bool,
    /// The engine's process over the request's life; null where it was not watched.
    pub life: Option<Life>,
}

impl Row {
    /// A whole answer.
    pub(super) fn ok(&self) -> bool {
        self.outcome == Outcome::Ok
    }

    /// Gaps between events with output, with the instant (from the first write) that ends each.
    pub(super) fn gaps(&self) -> impl Iterator<Item = (f64, f64)> {
        self.output_ms.windows(2).map(|w| (w[1], w[1] - w[0]))
    }

    /// Tokens of the answer: by usage, else its events with output.
    pub(super) fn tokens(&self) -> Option<u64> {
        let events = self.output_ms.len() as u64;
        self.completion_tokens.or((events > 0).then_some(events))
    }

    /// Tokens per second from the first output to the last.
    pub(super) fn decode_rate(&self) -> Option<f64> {
        let seconds = (self.last_output_ms? - self.ttft_ms?) / 1e3;
        let tokens = self.tokens()?.checked_sub(1).filter(|&n| n > 0)?;
        (seconds > 0.0).then(|| tokens as f64 / seconds)
    }

    /// An instant of the request, counted from the probe's start.
    pub(super) fn at(&self, since_sent_ms: Option<f64>) -> Option<f64> {
        Some(self.sent_ms? + since_sent_ms?)
    }
}
