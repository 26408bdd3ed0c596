//! The values that labels may have.

use inferscope_shared::record::gateway::{GatewayRecord, Outcome};

use crate::errors::Kind;
use crate::fault::Cause;

/// What stands for every value that is not known beforehand.
pub const OTHER: &str = "other";

/// Which way bytes went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From clients: request bodies.
    In,
    /// To clients: answer bodies.
    Out,
}

impl Direction {
    /// The label's value.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::Out => "out",
        }
    }
}

/// Which tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// Of prompts.
    Prompt,
    /// Of answers.
    Completion,
    /// Of prompts, served from the engine's prefix cache; also in `prompt`.
    Cached,
}

impl TokenKind {
    /// The label's value.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Completion => "completion",
            Self::Cached => "cached",
        }
    }
}

/// Why a request is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// No connection could be made.
    Connect,
    /// The engine had closed the connection that was kept.
    Stale,
}

impl Retry {
    /// The label's value.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Stale => "stale",
        }
    }
}

/// How a reload ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reload {
    /// The file is in force.
    Done,
    /// It had faults; nothing changed.
    Refused,
}

impl Reload {
    /// The label's value.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => "refused",
        }
    }
}

/// Where records go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sink {
    /// The file.
    File,
    /// The ring in memory.
    Ring,
}

impl Sink {
    /// The label's value.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Ring => "ring",
        }
    }
}

/// A part of a request's time; they follow each other and share their edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The head came in.
    Head,
    /// The caller became known.
    Auth,
    /// The body came in.
    Body,
    /// Model and route were found, limits let it pass.
    Admit,
    /// An endpoint was chosen.
    Route,
    /// A connection to it was had.
    Connect,
    /// The request was written to it.
    Send,
    /// The engine worked until its first output.
    Engine,
    /// From first to last output.
    Output,
    /// From the last output to the end.
    Finish,
}

impl Phase {
    /// In their order.
    pub const ALL: [Self; 10] = [
        Self::Head,
        Self::Auth,
        Self::Body,
        Self::Admit,
        Self::Route,
        Self::Connect,
        Self::Send,
        Self::Engine,
        Self::Output,
        Self::Finish,
    ];

    /// The label's value.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Auth => "auth",
            Self::Body => "body",
            Self::Admit => "admit",
            Self::Route => "route",
            Self::Connect => "connect",
            Self::Send => "send",
            Self::Engine => "engine",
            Self::Output => "output",
            Self::Finish => "finish",
        }
    }

    /// Its length in `record`, in nanoseconds; `None` unless both of its edges were reached.
    #[must_use]
    pub fn of(self, record: &GatewayRecord) -> Option<u64> {
        let r = record;
        let (from, to) = match self {
            Self::Head => (Some(0), r.t_head_ns),
            Self::Auth => (r.t_head_ns, r.t_auth_ns),
            Self::Body => (r.t_auth_ns, r.t_body_ns),
            Self::Admit => (r.t_body_ns, r.t_admitted_ns),
            Self::Route => (r.t_admitted_ns, r.t_routed_ns),
            Self::Connect => (r.t_routed_ns, r.t_connected_ns),
            Self::Send => (r.t_connected_ns, r.t_request_sent_ns),
            Self::Engine => (r.t_request_sent_ns, r.t_first_output_ns),
            Self::Output => (r.t_first_output_ns, r.t_last_output_ns),
            Self::Finish => (r.t_last_output_ns, Some(r.t_end_ns)),
        };
        Some(to?.saturating_sub(from?))
    }
}

/// How a request ended.
#[must_use]
pub const fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Ok => "ok",
        Outcome::ClientGone => "client_gone",
        Outcome::UpstreamError => "upstream_error",
        Outcome::Refused => "refused",
        Outcome::Timeout => "timeout",
        Outcome::Drained => "drained",
    }
}

/// The class of a status; `none` when the client left before one was sent.
#[must_use]
pub const fn status_class(status: Option<u16>) -> &'static str {
    match status {
        Some(100..=199) => "1xx",
        Some(200..=299) => "2xx",
        Some(300..=399) => "3xx",
        Some(400..=499) => "4xx",
        Some(500..=599) => "5xx",
        Some(_) => OTHER,
        None => "none",
    }
}

/// A record's `error_kind`, if it is one of the known ones.
#[must_use]
pub fn failure(kind: &str) -> &'static str {
    Kind::ALL
        .iter()
        .map(|kind| kind.label())
        .chain(Cause::UNTOLD.map(Cause::label))
        .find(|known| *known == kind)
        .unwrap_or(OTHER)
}
