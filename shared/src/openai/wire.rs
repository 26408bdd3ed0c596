//! The fields that matter of every object an engine sends, events and bodies of all three APIs
//! in one type, so that each is parsed in one pass.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::lenient::{Count, Length, Object, Objects, Text};
use super::usage::Usage;

/// The object at the top.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Top<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) object: Text<'a>,
    #[serde(borrow)]
    pub(super) model: Text<'a>,
    pub(super) usage: Object<Counts>,
    #[serde(borrow)]
    pub(super) choices: Objects<WireChoice<'a>>,

    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) message: Text<'a>,
    #[serde(borrow)]
    pub(super) code: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) detail: Option<&'a RawValue>,

    /// Names an event of the responses API, and the kind of a bare error.
    #[serde(borrow, rename = "type")]
    pub(super) type_: Text<'a>,
    #[serde(borrow)]
    pub(super) delta: Text<'a>,
    pub(super) output_index: Count,
    #[serde(borrow)]
    pub(super) item: Object<Item<'a>>,
    #[serde(borrow)]
    pub(super) response: Object<Response<'a>>,
    #[serde(borrow)]
    pub(super) output: Objects<Item<'a>>,
    #[serde(borrow)]
    pub(super) status: Text<'a>,
    #[serde(borrow)]
    pub(super) incomplete_details: Object<IncompleteDetails<'a>>,
}

/// One of `choices`, streamed or whole.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireChoice<'a> {
    pub(super) index: Count,
    #[serde(borrow)]
    pub(super) delta: Object<Message<'a>>,
    #[serde(borrow)]
    pub(super) message: Object<Message<'a>>,
    /// Completions have this in place of a message; null there is different from absent.
    #[serde(borrow)]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) finish_reason: Text<'a>,
    pub(super) token_ids: Length,
}

/// A chat message or a part of one.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) content: Text<'a>,
    #[serde(borrow)]
    pub(super) reasoning: Text<'a>,
    #[serde(borrow)]
    pub(super) reasoning_content: Text<'a>,
    #[serde(borrow)]
    pub(super) refusal: Text<'a>,
    #[serde(borrow)]
    pub(super) tool_calls: Objects<ToolCall<'a>>,
    #[serde(borrow)]
    pub(super) function_call: Object<Function<'a>>,
}

/// One of `tool_calls`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ToolCall<'a> {
    pub(super) index: Count,
    #[serde(borrow)]
    pub(super) function: Object<Function<'a>>,
}

/// What a tool call calls.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Function<'a> {
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) arguments: Text<'a>,
}

/// The answer object of the responses API, inside an event.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Response<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) model: Text<'a>,
    #[serde(borrow)]
    pub(super) status: Text<'a>,
    #[serde(borrow)]
    pub(super) incomplete_details: Object<IncompleteDetails<'a>>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    pub(super) usage: Object<Counts>,
}

/// Why a response stopped early.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct IncompleteDetails<'a> {
    #[serde(borrow)]
    pub(super) reason: Text<'a>,
}

/// An output item of the responses API.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Item<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) type_: Text<'a>,
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) arguments: Text<'a>,
    #[serde(borrow)]
    pub(super) content: Objects<Part<'a>>,
    #[serde(borrow)]
    pub(super) summary: Objects<Part<'a>>,
}

/// A part of an item's content.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Part<'a> {
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) refusal: Text<'a>,
}

/// An error object.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ErrorObject<'a> {
    #[serde(borrow)]
    pub(super) message: Text<'a>,
    #[serde(borrow, rename = "type")]
    pub(super) type_: Text<'a>,
    #[serde(borrow)]
    pub(super) code: Option<&'a RawValue>,
}

/// Token counts under both naming schemes.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Counts {
    prompt_tokens: Count,
    input_tokens: Count,
    completion_tokens: Count,
    output_tokens: Count,
    prompt_tokens_details: Object<Details>,
    input_tokens_details: Object<Details>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Details {
    cached_tokens: Count,
}

impl Object<Counts> {
    /// The counts, or `None` when there is no number among them.
    pub(super) fn usage(self) -> Option<Usage> {
        let counts = self.0?;
        let details = counts
            .prompt_tokens_details
            .0
            .or(counts.input_tokens_details.0)
            .unwrap_or_default();
        let usage = Usage {
            prompt_tokens: counts.prompt_tokens.0.or(counts.input_tokens.0),
            completion_tokens: counts.completion_tokens.0.or(counts.output_tokens.0),
            cached_tokens: details.cached_tokens.0,
        };
        (usage != Usage::default()).then_some(usage)
    }
}
