//! The state of an answer while its chunks come in.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::texts::Texts;
use super::usage::{Tally, Usage};
use super::{ApiError, Chunk, Delta};
use crate::record::request::EventKind;

/// Choices that are told apart; engines allow 128 at most. Output of further ones still counts as
/// output, but the answer never counts as finished and its counts are no longer followed: a broken
/// engine can't make the state grow.
const MAX_CHOICES: usize = 1024;
/// Bytes that are kept of a name: a finish reason, a model, an error's type or code.
const MAX_NAME: usize = 256;
/// Bytes that are kept of an error's message.
const MAX_MESSAGE: usize = 1024;

/// A fold of chunks: what an answer has shown so far. It keeps no text unless asked to, and of
/// long names and error messages the beginning.
///
/// ```
/// use inferscope_shared::openai::{StreamState, chunk};
/// use inferscope_shared::sse::Event;
///
/// let mut answer = StreamState::new();
/// let mut absorb = |data| answer.absorb(&chunk(&Event::of(data)));
/// let role = absorb(br#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#);
/// let text = absorb(br#"{"choices":[{"index":0,"delta":{"content":"hi"}}]}"#);
/// absorb(br#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#);
///
/// assert!(!role.first_output && text.first_output);
/// assert!(answer.finished() && !answer.done());
/// ```
#[derive(Debug, Default)]
pub struct StreamState {
    /// Finish reason of each choice seen.
    choices: BTreeMap<u32, Option<String>>,
    too_many_choices: bool,
    model: Option<String>,
    tally: Tally,
    error: Option<ApiError<'static>>,
    output_events: u64,
    unreadable_events: u64,
    done: bool,
    texts: Option<Texts>,
}

/// What one chunk was, in the light of those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// The chunk in one word.
    pub kind: EventKind,
    /// It holds the answer's first output: TTFT ends here.
    pub first_output: bool,
    /// Tokens in it, where token ids or running counts tell.
    pub tokens: Option<u64>,
}

impl StreamState {
    /// Nothing seen yet; texts are not kept.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Nothing seen yet; the output is assembled in [`StreamState::texts`].
    #[must_use]
    pub fn with_texts() -> Self {
        Self {
            texts: Some(Texts::default()),
            ..Self::default()
        }
    }

    /// Takes the next chunk of the answer.
    pub fn absorb(&mut self, chunk: &Chunk<'_>) -> Seen {
        let kind = chunk.kind();
        let mut tokens = None;
        match chunk {
            Chunk::Delta(delta) => tokens = self.absorb_delta(delta),
            Chunk::Done => self.done = true,
            Chunk::Error(error) => {
                self.error.get_or_insert_with(|| kept(error));
            }
            Chunk::Unreadable(_) => self.unreadable_events += 1,
        }
        let is_output = kind == EventKind::Output;
        self.output_events += u64::from(is_output);
        Seen {
            kind,
            first_output: is_output && self.output_events == 1,
            tokens,
        }
    }

    fn absorb_delta(&mut self, delta: &Delta<'_>) -> Option<u64> {
        if let Some(model) = delta.model.as_deref().map(|name| begin(name, MAX_NAME))
            && self.model.as_deref() != Some(model)
        {
            self.model = Some(model.to_owned());
        }
        for choice in &delta.choices {
            if self.choices.len() == MAX_CHOICES && !self.choices.contains_key(&choice.index) {
                self.too_many_choices = true;
                continue;
            }
            let finish = self.choices.entry(choice.index).or_default();
            if let Some(reason) = &choice.finish_reason {
                *finish = Some(begin(reason, MAX_NAME).to_owned());
            }
            if let Some(texts) = &mut self.texts {
                texts.extend(choice);
            }
        }
        self.done |= delta.closes;
        if self.too_many_choices {
            return None;
        }
        self.tally.absorb(delta)
    }

    /// Every choice seen has a finish reason, and there is at least one.
    #[must_use]
    pub fn finished(&self) -> bool {
        !self.choices.is_empty()
            && !self.too_many_choices
            && self.choices.values().all(Option::is_some)
    }

    /// The end mark came: `[DONE]`, or the closing event of the responses API.
    #[must_use]
    pub const fn done(&self) -> bool {
        self.done
    }

    /// The first error reported inside the answer.
    #[must_use]
    pub const fn error(&self) -> Option<&ApiError<'static>> {
        self.error.as_ref()
    }

    /// Events with output so far.
    #[must_use]
    pub const fn output_events(&self) -> u64 {
        self.output_events
    }

    /// Events that could not be understood; their bytes may have held output.
    #[must_use]
    pub const fn unreadable_events(&self) -> u64 {
        self.unreadable_events
    }

    /// The model that the engine last named.
    #[must_use]
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Finish reason of the first choice by index.
    #[must_use]
    pub fn finish_reason(&self) -> Option<&str> {
        self.choices.values().next()?.as_deref()
    }

    /// Finish reason of each choice seen, by index.
    pub fn finish_reasons(&self) -> impl Iterator<Item = (u32, Option<&str>)> {
        self.choices
            .iter()
            .map(|(&index, it)| (index, it.as_deref()))
    }

    /// Token counts of the whole request; `None` when nobody said.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        self.tally.usage()
    }

    /// The assembled output, where asked for.
    #[must_use]
    pub const fn texts(&self) -> Option<&Texts> {
        self.texts.as_ref()
    }
}

/// A copy of the error that owns its texts.
fn kept(error: &ApiError<'_>) -> ApiError<'static> {
    let name = |text: &Cow<'_, str>| Cow::Owned(begin(text, MAX_NAME).to_owned());
    ApiError {
        message: Cow::Owned(begin(&error.message, MAX_MESSAGE).to_owned()),
        kind: error.kind.as_ref().map(name),
        code: error.code.as_ref().map(name),
    }
}

/// The whole characters within the first `max` bytes.
fn begin(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len())).rfind(|&at| text.is_char_boundary(at));
    &text[..end.unwrap_or(0)]
}
