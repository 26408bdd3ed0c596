//! The reader of a copy: events of a stream, or one JSON body, and what they say.
//!
//! It never fails hard. What it can't read (a compressed body, an event past the parser's cap,
//! JSON that is none, an answer too large to keep) makes the extraction partial, and the bytes
//! have long gone on.

use bytes::{Bytes, BytesMut};
use inferscope_shared::openai::{self, Chunk, StreamState};
use inferscope_shared::record::request::EventKind;
use inferscope_shared::sse::Parser;

/// A body in one piece is kept for reading up to this size.
const MAX_WHOLE_BYTES: usize = 16 * 1024 * 1024;

/// What kind of body an answer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Body {
    /// Server-sent events.
    Events,
    /// One JSON document.
    Json,
    /// Compressed although identity was asked for: forwarded, not readable.
    Encoded,
    /// Anything else, nothing to read in it.
    #[default]
    Opaque,
}

impl Body {
    /// By the head of the answer.
    #[must_use]
    pub fn of(headers: &http::HeaderMap) -> Self {
        let text = |name| {
            headers
                .get(name)
                .and_then(|v: &http::HeaderValue| v.to_str().ok())
                .unwrap_or("")
                .trim()
        };
        let encoding = text(http::header::CONTENT_ENCODING);
        if !(encoding.is_empty() || encoding.eq_ignore_ascii_case("identity")) {
            return Self::Encoded;
        }
        let media = text(http::header::CONTENT_TYPE);
        let media = media.split(';').next().unwrap_or("").trim_end();
        if media.eq_ignore_ascii_case("text/event-stream") {
            Self::Events
        } else if media.eq_ignore_ascii_case("application/json") {
            Self::Json
        } else {
            Self::Opaque
        }
    }
}

/// Everything that was said.
#[derive(Debug, Default)]
pub struct Seen {
    answer: StreamState,
    unreadable: bool,
}

impl Seen {
    /// The fold of all chunks.
    #[must_use]
    pub const fn answer(&self) -> &StreamState {
        &self.answer
    }

    /// Whether something could not be read.
    #[must_use]
    pub const fn gave_up(&self) -> bool {
        self.unreadable || self.answer.unreadable_events() > 0
    }
}

/// What one piece held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Found {
    /// Events with data that it completed.
    pub events: u64,
    /// One of them was output.
    pub output: bool,
}

/// The reader of one body.
#[derive(Debug, Default)]
pub enum Reader {
    /// Of events.
    Events(Box<Parser>),
    /// Of a document, kept until it is whole.
    Json(BytesMut),
    /// Of nothing.
    #[default]
    Nothing,
    /// Gave up.
    Blind,
}

impl Reader {
    /// A reader for such a body.
    #[must_use]
    pub fn new(body: Body) -> Self {
        match body {
            Body::Events => Self::Events(Box::default()),
            Body::Json => Self::Json(BytesMut::new()),
            Body::Encoded => Self::Blind,
            Body::Opaque => Self::Nothing,
        }
    }

    /// Reads a piece.
    pub fn read(&mut self, bytes: &Bytes, seen: &mut Seen) -> Found {
        match self {
            Self::Events(parser) => {
                let mut found = Found::default();
                parser.push(bytes, &mut |event| {
                    found.events += 1;
                    let chunk = openai::chunk(&event);
                    found.output |= seen.answer.absorb(&chunk).kind == EventKind::Output;
                });
                found
            }
            Self::Json(kept) => {
                if kept.len() + bytes.len() > MAX_WHOLE_BYTES {
                    *self = Self::Blind;
                    seen.unreadable = true;
                } else {
                    kept.extend_from_slice(bytes);
                }
                Found::default()
            }
            Self::Blind => {
                seen.unreadable = true;
                Found::default()
            }
            Self::Nothing => Found::default(),
        }
    }

    /// The body is over; whether a document kept until now held output.
    pub fn finish(&mut self, seen: &mut Seen) -> bool {
        let Self::Json(kept) = std::mem::take(self) else {
            return false;
        };
        if kept.is_empty() {
            return false;
        }
        let chunk = openai::body(&kept);
        // A list of models or token ids is no answer, and nothing is missing in it.
        if matches!(chunk, Chunk::Unreadable(_)) {
            seen.unreadable = true;
            return false;
        }
        seen.answer.absorb(&chunk).kind == EventKind::Output
    }
}
