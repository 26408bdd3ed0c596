//! What one event, or one whole body, of an OpenAI-compatible engine means.
//!
//! [`chunk`] reads a stream's event and [`body`] an answer that came in one piece; both give the
//! same [`Chunk`], borrowed from the bytes, for chat completions, completions and responses.
//! [`StreamState`] folds chunks into the state of an answer. Gateway and loadgen use all three
//! alike, so they can't disagree on what a first token is.
//!
//! Reading is tolerant: an absent, null or oddly typed field means "nothing said", never a
//! failure. Only data that is no JSON object at all is [`Chunk::Unreadable`]. Nothing here has a
//! clock and nothing panics, whatever the bytes.

mod chat;
mod errors;
mod lenient;
mod responses;
mod state;
mod texts;
mod usage;
mod wire;

use std::borrow::Cow;

pub use state::{Seen, StreamState};
pub use texts::Texts;
pub use usage::Usage;

use lenient::Object;

use crate::record::request::EventKind;
use crate::sse::Event;

/// What an event or a body says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chunk<'a> {
    /// A part of the answer, or the whole of it.
    Delta(Delta<'a>),
    /// The end mark, `[DONE]`.
    Done,
    /// An error object, whatever the HTTP status said.
    Error(ApiError<'a>),
    /// Nothing that can be understood.
    Unreadable(Unreadable),
}

/// A part of an answer. Engines put any combination of these fields into one event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delta<'a> {
    /// The answer's id; never empty.
    pub id: Option<Cow<'a, str>>,
    /// The model that the engine says answered; never empty.
    pub model: Option<Cow<'a, str>>,
    /// Every choice that the event names, those without output included.
    pub choices: Vec<Choice<'a>>,
    /// Token counts, of one choice or of the request (see [`StreamState::usage`]).
    pub usage: Option<Usage>,
    /// Nothing follows: the closing event of the responses API, or a whole body.
    pub closes: bool,
    /// All choices answer one prompt (chat and responses); completions may answer several.
    pub one_prompt: bool,
}

/// What an event says about one choice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice<'a> {
    /// The choice's own index, not its place in the list.
    pub index: u32,
    /// Non-empty pieces of output.
    pub outputs: Vec<Output<'a>>,
    /// Why the choice ended; never empty.
    pub finish_reason: Option<Cow<'a, str>>,
    /// Tokens in this event, where the engine lists their ids.
    pub tokens: Option<u64>,
}

/// A non-empty piece of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output<'a> {
    /// What it is a piece of.
    pub kind: OutputKind,
    /// The piece; never empty.
    pub text: Cow<'a, str>,
}

/// What a piece of output belongs to. All of them count as output: the user waits for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OutputKind {
    /// The model's thinking.
    Reasoning,
    /// The answer proper.
    Text,
    /// A refusal to answer.
    Refusal,
    /// Name or arguments of the tool call with this number.
    ToolCall(u32),
}

/// An error that the engine reports in a body or inside a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApiError<'a> {
    /// Text for people; empty when the engine gave none.
    pub message: Cow<'a, str>,
    /// The error's type, such as `invalid_request_error`.
    pub kind: Option<Cow<'a, str>>,
    /// The error's code; a number is kept as its digits.
    pub code: Option<Cow<'a, str>>,
}

/// Why data could not be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// The event was larger than the parser's cap.
    Oversized,
    /// No JSON, or JSON with a nesting or a number beyond what the reader follows.
    NotJson,
    /// JSON, but neither an object nor null.
    NotAnObject,
}

impl Chunk<'_> {
    /// The chunk in one word. Output wins over a finish reason, and both over usage.
    #[must_use]
    pub fn kind(&self) -> EventKind {
        match self {
            Self::Done => EventKind::Done,
            Self::Error(_) => EventKind::Error,
            Self::Unreadable(_) => EventKind::Other,
            Self::Delta(delta) => {
                let choices = &delta.choices;
                if choices.iter().any(|c| !c.outputs.is_empty()) {
                    EventKind::Output
                } else if choices.iter().any(|c| c.finish_reason.is_some()) {
                    EventKind::Finish
                } else if !choices.is_empty() {
                    EventKind::Empty
                } else if delta.usage.is_some() {
                    EventKind::Usage
                } else {
                    EventKind::Other
                }
            }
        }
    }
}

/// Reads one event of a stream.
#[must_use]
pub fn chunk<'a>(event: &Event<'a>) -> Chunk<'a> {
    if event.oversized {
        return Chunk::Unreadable(Unreadable::Oversized);
    }
    match event.data.trim_ascii() {
        b"[DONE]" => Chunk::Done,
        data => read(data, event.name == Some(b"error")),
    }
}

/// Reads an answer that came in one piece, errors included.
#[must_use]
pub fn body(data: &[u8]) -> Chunk<'_> {
    let mut chunk = read(data.trim_ascii(), false);
    if let Chunk::Delta(delta) = &mut chunk {
        delta.closes = true;
    }
    chunk
}

fn read(data: &[u8], named_error: bool) -> Chunk<'_> {
    let Ok(data) = str::from_utf8(data) else {
        return Chunk::Unreadable(Unreadable::NotJson);
    };
    let mut top: wire::Top<'_> = match serde_json::from_str(data) {
        Ok(Object(Some(top))) => top,
        // llama.cpp opens a completion of several prompts with a bare null.
        Ok(Object(None)) if data == "null" => return Chunk::Delta(Delta::default()),
        Ok(Object(None)) => return Chunk::Unreadable(Unreadable::NotAnObject),
        Err(_) => return Chunk::Unreadable(Unreadable::NotJson),
    };
    if let Some(error) = errors::find(&mut top, data, named_error) {
        return Chunk::Error(error);
    }
    if top
        .type_
        .0
        .as_deref()
        .is_some_and(|it| it.starts_with("response."))
    {
        return responses::event(top, data);
    }
    if top.object.0.as_deref() == Some("response") {
        return Chunk::Delta(responses::body(top));
    }
    Chunk::Delta(chat::delta(top))
}
