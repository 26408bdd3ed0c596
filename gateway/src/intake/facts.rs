//! What the gateway has to know of a request body, found without building the document.
//!
//! The body is walked once; of the members that matter the value's bytes are noted, everything
//! else is skipped unread. What may be changed has its [`Range`] in the body, so that
//! [`super::edit`] can replace those bytes and no other. A member that is named twice is an error:
//! gateway and engine could read different ones.
//!
//! Token counts here are estimates or requests, never what was used.

mod members;

use std::ops::Range;

use members::Members;

/// Bytes of prompt text per token, roughly: English text in current tokenizers has about four.
const BYTES_PER_TOKEN: u64 = 4;

/// See the module head.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// The model named, if one is.
    pub model: Option<Model>,
    /// `"stream": true`.
    pub stream: bool,
    /// `stream_options`, unless absent.
    pub stream_options: Option<StreamOptions>,
    /// `max_tokens`, `max_completion_tokens`, `max_output_tokens`: those that are there and not
    /// null. An engine goes by one of them; which one is its own affair.
    pub output_limits: Vec<Amount>,
    /// Those of them that are null, with the bytes of the value: unset, but not to be named again.
    pub null_limits: Vec<(&'static str, Range<usize>)>,
    /// `n`, unless absent or null.
    pub n: Option<Amount>,
    /// `best_of`, unless absent or null: choices generated, of which `n` are shown.
    pub best_of: Option<Amount>,
    /// Bytes of the values of `messages`, `prompt`, `input` and `tools`, as they stand in the body.
    pub prompt_bytes: u64,
    /// Where a member can be put in: right behind the object's opening brace. 0 where there is
    /// no object, and nothing is known.
    pub first_member: usize,
    /// The object has no member.
    pub empty: bool,
}

/// The model's name and where its JSON value lies in the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// The name, unescaped.
    pub name: String,
    /// Bytes of the value, quotes included.
    pub value: Range<usize>,
}

/// `stream_options` as the client sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamOptions {
    /// Bytes of the value.
    pub value: Range<usize>,
    /// `include_usage`, where it is true or false.
    pub include_usage: Option<bool>,
    /// Bytes of the value of `include_usage`, if it is there.
    pub include_usage_value: Option<Range<usize>>,
}

/// A number that a limit depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Amount {
    /// The member's name.
    pub name: &'static str,
    /// The number; saturated where it is larger than can be held. `None` for a value that is no
    /// whole number from 0 on: engines refuse it.
    pub number: Option<u64>,
    /// Bytes of the value.
    pub value: Range<usize>,
}

/// Why a body says nothing about its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// It is no JSON object.
    NotAnObject,
    /// It has this member twice.
    Repeated(&'static str),
    /// Its model is no string.
    ModelNotText,
}

/// Finds the facts in `body`.
///
/// # Errors
/// [`Unread`] when the body can't be understood, or not without doubt.
pub fn read(body: &[u8]) -> Result<Facts, Unread> {
    let members: Members<'_> = serde_json::from_slice(body).map_err(|_| Unread::NotAnObject)?;
    members.facts(body)
}

impl Facts {
    /// Every number that decides what the request may cost.
    pub fn amounts(&self) -> impl Iterator<Item = &Amount> {
        let choices = [&self.n, &self.best_of].into_iter().flatten();
        self.output_limits.iter().chain(choices)
    }

    /// Estimated tokens of the prompt, from its bytes.
    #[must_use]
    pub const fn prompt_tokens(&self) -> u64 {
        self.prompt_bytes.div_ceil(BYTES_PER_TOKEN)
    }

    /// Those limits of the answer that an engine goes by on a path: the ones of these `names`.
    pub fn limits_of<'a>(&'a self, names: &'a [&str]) -> impl Iterator<Item = &'a Amount> {
        self.output_limits
            .iter()
            .filter(move |amount| names.contains(&amount.name))
    }

    /// The most tokens per choice that the request asks for: the largest of its limits of these
    /// `names`. `None` leaves it to the engine.
    #[must_use]
    pub fn output_tokens(&self, names: &[&str]) -> Option<u64> {
        self.limits_of(names).filter_map(|a| a.number).max()
    }

    /// Choices that an engine generates, at least 1.
    #[must_use]
    pub fn choices(&self) -> u64 {
        let asked = [&self.n, &self.best_of].into_iter().flatten();
        asked.filter_map(|a| a.number).max().unwrap_or(1).max(1)
    }
}

#[cfg(test)]
mod tests;
