//! Chat and text completions: `choices`, streamed or whole.

use std::borrow::Cow;

use super::lenient::Text;
use super::wire::{Message, Top, WireChoice};
use super::{Choice, Delta, Output, OutputKind};

/// What an object with `choices`, or with usage alone, says.
pub(super) fn delta(top: Top<'_>) -> Delta<'_> {
    let one_prompt = top.choices.0.iter().all(|(_, it)| it.text.is_none());
    let choices = top.choices.0.into_iter();
    Delta {
        id: top.id.0,
        model: top.model.0,
        choices: choices.map(|(place, it)| choice(place, it)).collect(),
        usage: top.usage.usage(),
        closes: false,
        one_prompt,
    }
}

fn choice(place: usize, wire: WireChoice<'_>) -> Choice<'_> {
    let mut outputs = Vec::new();
    if let Some(message) = wire.delta.0.or(wire.message.0) {
        push_message(&mut outputs, message);
    }
    push(
        &mut outputs,
        OutputKind::Text,
        wire.text.unwrap_or_default(),
    );
    Choice {
        index: number(wire.index.0, place),
        outputs,
        finish_reason: wire.finish_reason.0,
        tokens: wire.token_ids.0,
    }
}

fn push_message<'a>(outputs: &mut Vec<Output<'a>>, message: Message<'a>) {
    // Two spellings of one text: engines in transition send both.
    let reasoning = match message.reasoning_content {
        Text(None) => message.reasoning,
        given => given,
    };
    push(outputs, OutputKind::Reasoning, reasoning);
    push(outputs, OutputKind::Text, message.content);
    push(outputs, OutputKind::Refusal, message.refusal);
    let calls = message.tool_calls.0.into_iter();
    let calls = calls.map(|(place, call)| (number(call.index.0, place), call.function));
    for (call, function) in calls.chain([(0, message.function_call)]) {
        let function = function.0.unwrap_or_default();
        push(outputs, OutputKind::ToolCall(call), function.name);
        push(outputs, OutputKind::ToolCall(call), function.arguments);
    }
}

/// Adds a piece of output, unless it is empty.
pub(super) fn push<'a>(outputs: &mut Vec<Output<'a>>, kind: OutputKind, text: Text<'a>) {
    let text: Option<Cow<'a, str>> = text.0;
    outputs.extend(text.map(|text| Output { kind, text }));
}

/// An index as given, or the place in the list where there is none that fits.
pub(super) fn number(given: Option<u64>, place: usize) -> u32 {
    given
        .and_then(|it| u32::try_from(it).ok())
        .unwrap_or(u32::try_from(place).unwrap_or(u32::MAX))
}
