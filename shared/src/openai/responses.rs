//! The responses API: typed events while streaming, one `response` object otherwise.
//!
//! An answer is one choice, index 0, however many output items it has; a tool call's number is
//! its item's `output_index`. The API has no `[DONE]`: its closing event is the end mark.

use std::borrow::Cow;

use super::chat::{number, push};
use super::lenient::{Object, Text};
use super::wire::{IncompleteDetails, Item, Top};
use super::{ApiError, Choice, Chunk, Delta, Output, OutputKind, errors};

/// What an event whose `type` begins with `response.` says.
pub(super) fn event<'a>(top: Top<'a>, data: &'a str) -> Chunk<'a> {
    let event = top.type_.0.unwrap_or_default();
    let call = OutputKind::ToolCall(number(top.output_index.0, 0));
    let response = top.response.0.unwrap_or_default();
    let mut choice = Choice::default();
    let mut closes = false;
    match &*event {
        "response.completed" | "response.incomplete" => {
            closes = true;
            choice.finish_reason = Some(finish(response.status, response.incomplete_details));
        }
        "response.failed" => {
            return Chunk::Error(response.error.and_then(errors::read).unwrap_or(ApiError {
                message: Cow::Borrowed(data),
                ..ApiError::default()
            }));
        }
        "response.output_item.added" => {
            let item = top.item.0.unwrap_or_default();
            if is_call(&item) {
                push(&mut choice.outputs, call, item.name);
                push(&mut choice.outputs, call, item.arguments);
            }
        }
        other => {
            if let Some(kind) = delta_kind(other, call) {
                push(&mut choice.outputs, kind, top.delta);
            }
        }
    }
    let says_something = closes || !choice.outputs.is_empty();
    Chunk::Delta(Delta {
        id: response.id.0,
        model: response.model.0,
        choices: says_something.then_some(choice).into_iter().collect(),
        usage: response.usage.usage(),
        closes,
        one_prompt: true,
    })
}

/// What a whole `response` object says.
pub(super) fn body(top: Top<'_>) -> Delta<'_> {
    let mut outputs = Vec::new();
    for (place, item) in top.output.0 {
        push_item(&mut outputs, number(None, place), item);
    }
    Delta {
        id: top.id.0,
        model: top.model.0,
        choices: vec![Choice {
            outputs,
            finish_reason: Some(finish(top.status, top.incomplete_details)),
            ..Choice::default()
        }],
        usage: top.usage.usage(),
        closes: true,
        one_prompt: true,
    }
}

fn push_item<'a>(outputs: &mut Vec<Output<'a>>, place: u32, item: Item<'a>) {
    let is_reasoning = item.type_.0.as_deref() == Some("reasoning");
    if is_call(&item) {
        push(outputs, OutputKind::ToolCall(place), item.name);
        push(outputs, OutputKind::ToolCall(place), item.arguments);
        return;
    }
    for (_, part) in item.summary.0.into_iter().chain(item.content.0) {
        let kind = if is_reasoning {
            OutputKind::Reasoning
        } else {
            OutputKind::Text
        };
        push(outputs, kind, part.text);
        push(outputs, OutputKind::Refusal, part.refusal);
    }
}

/// What the delta of an event is a piece of; `None` for events without output.
fn delta_kind(event: &str, call: OutputKind) -> Option<OutputKind> {
    match event.strip_prefix("response.")?.strip_suffix(".delta")? {
        "output_text" => Some(OutputKind::Text),
        "refusal" => Some(OutputKind::Refusal),
        "function_call_arguments" | "mcp_call_arguments" | "custom_tool_call_input" => Some(call),
        reasoning if reasoning.starts_with("reasoning") => Some(OutputKind::Reasoning),
        _ => None,
    }
}

fn is_call(item: &Item<'_>) -> bool {
    matches!(item.type_.0.as_deref(), Some(kind) if kind.ends_with("_call"))
}

/// Why a response ended: the reason for stopping early, else its status.
fn finish<'a>(status: Text<'a>, details: Object<IncompleteDetails<'a>>) -> Cow<'a, str> {
    let reason = details.0.and_then(|it| it.reason.0);
    reason.or(status.0).unwrap_or(Cow::Borrowed("completed"))
}
