//! The gateway's record: one line per request, written when the request is settled.
//!
//! `t_accept_ns` is the absolute monotonic instant of the first byte of **this** request's head
//! (not of the TCP accept); every other `t_*_ns` is relative to it. Chunk series have one entry
//! per piece that the upstream filter saw: `read_ns[0]` and `written_ns[0]` are relative to
//! `t_accept_ns`, later entries to the one before; `end_offset` counts decoded body bytes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clock::MonoNs;

/// The first line of a record file and of each answer of the admin ring: `{"header": {…}}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeaderLine {
    /// The header itself; a record line has no such key.
    pub header: Header,
}

/// What holds for all records of one file or answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Header {
    /// Schema version of the lines that follow.
    pub schema_version: u32,
    /// Boot within which the absolute instants are comparable.
    pub boot_id: String,
    /// Version of the gateway.
    pub gateway_version: String,
    /// Records that this sink has lost so far: its queue was full or its file failed, and for the
    /// ring also those that left it for newer ones.
    pub dropped: u64,
}

/// How a request ended, as the gateway saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Answered whole.
    Ok,
    /// The client left first.
    ClientGone,
    /// The engine failed: connect, reset, truncation, or an error event inside a 200 stream.
    UpstreamError,
    /// The gateway itself said no.
    Refused,
    /// One of the gateway's time limits ended it.
    Timeout,
    /// Cut by a drain whose time was up.
    Drained,
}

/// Where a token count comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UsageSource {
    /// The engine said so in a usage object.
    Usage,
    /// Nobody said; the counts are null.
    Unknown,
}

/// Whether the watcher could follow the whole answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Extraction {
    /// Every event was parsed.
    Complete,
    /// The watcher gave up somewhere (oversized event, encoding, malformed JSON); bytes went on.
    Partial,
}

/// Token counts of one answer; null where nobody said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: Option<u64>,
    /// Tokens of the answer, all choices together.
    pub completion_tokens: Option<u64>,
    /// Prompt tokens served from the engine's prefix cache.
    pub cached_tokens: Option<u64>,
    /// Who said so.
    pub source: UsageSource,
}

/// One entry per piece of the answer's body. Times and offsets are delta encoded, from
/// `t_accept_ns` and from zero; `events` are plain counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Chunks {
    /// Piece taken into the upstream filter (late under backpressure).
    pub read_ns: Vec<u64>,
    /// Completed flush that carried the piece's last byte; shorter than `read_ns` when the
    /// client left before the rest was written.
    pub written_ns: Vec<u64>,
    /// Decoded body offset of the piece's end.
    pub end_offset: Vec<u64>,
    /// SSE events (comments are none) whose last byte lies in the piece.
    pub events: Vec<u64>,
}

/// One request through the gateway. `t_accept_ns` is absolute CLOCK_MONOTONIC, every other
/// `t_*_ns` is relative to it; what never happened is null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(
    missing_docs,
    reason = "each field is a name of docs/contracts.md, explained there"
)]
pub struct GatewayRecord {
    pub schema_version: u32,
    pub request_id: String,
    pub client_request_id: Option<String>,
    pub trace_id: Option<String>,
    pub boot_id: String,
    pub tenant: Option<String>,
    pub key_id: Option<String>,
    pub model: Option<String>,
    pub upstream_model: Option<String>,
    pub pool: Option<String>,
    pub endpoint: Option<String>,
    pub path: String,
    pub stream: bool,
    /// Status sent to the client; null when it left before one was sent.
    pub status: Option<u16>,
    pub outcome: Outcome,
    pub error_kind: Option<String>,
    /// Connection attempts towards engines.
    pub attempts: u32,
    pub t_accept_ns: MonoNs,
    /// RFC 3339, for people.
    pub t_accept_utc: String,
    pub t_head_ns: Option<u64>,
    pub t_body_ns: Option<u64>,
    pub t_auth_ns: Option<u64>,
    pub t_admitted_ns: Option<u64>,
    pub t_routed_ns: Option<u64>,
    pub t_connected_ns: Option<u64>,
    pub conn_reused: Option<bool>,
    pub t_request_sent_ns: Option<u64>,
    pub t_response_head_ns: Option<u64>,
    pub t_first_byte_ns: Option<u64>,
    pub t_first_output_ns: Option<u64>,
    pub t_last_output_ns: Option<u64>,
    pub t_end_ns: u64,
    /// Time that writes towards the client were pending.
    pub write_blocked_ns: u64,
    pub chunks: Chunks,
    pub usage: Usage,
    pub finish_reason: Option<String>,
    pub extraction: Extraction,
    /// Decoded bytes of the request body.
    pub bytes_in: u64,
    /// Decoded bytes of the answer's body that were written.
    pub bytes_out: u64,
    /// Over the decoded body as the engine sent it; null unless `records.hash` is on.
    pub sha256_upstream: Option<String>,
    /// Over the decoded body as it was written to the client; null unless `records.hash` is on.
    pub sha256_downstream: Option<String>,
}
