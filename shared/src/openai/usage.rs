//! Token counts, and how the counts of many events become those of one request.
//!
//! The rule is "the last value wins, never add", because engines repeat running totals. The one
//! exception is llama.cpp, which counts each choice apart, and only such counts are summed.

use std::collections::BTreeMap;

use super::{Choice, Delta};

/// Token counts as an engine reported them; null where it said nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: Option<u64>,
    /// Tokens of the answer, reasoning and tool calls included.
    pub completion_tokens: Option<u64>,
    /// Prompt tokens served from the engine's prefix cache.
    pub cached_tokens: Option<u64>,
}

impl Usage {
    /// Each count of `newer`, or ours where it says nothing.
    fn updated_by(self, newer: Self) -> Self {
        Self {
            prompt_tokens: newer.prompt_tokens.or(self.prompt_tokens),
            completion_tokens: newer.completion_tokens.or(self.completion_tokens),
            cached_tokens: newer.cached_tokens.or(self.cached_tokens),
        }
    }
}

/// The counts seen so far, and whom they were for.
///
/// Usage inside an event of one choice is that choice's. Usage on its own is the request's, until
/// output follows it: then it closed the choice that had finished just before (llama.cpp, n > 1).
#[derive(Debug, Default)]
pub(super) struct Tally {
    by_choice: BTreeMap<u32, Usage>,
    /// The last usage on its own.
    alone: Option<Usage>,
    /// The choice that had finished just before `alone`.
    alone_after: Option<u32>,
    last_finished: Option<u32>,
    /// Usage on its own has turned out to be of one choice.
    alone_is_one_choice: bool,
    several_prompts: bool,
}

impl Tally {
    /// Takes the counts of one event; returns the tokens in the event, where they can be told.
    pub(super) fn absorb(&mut self, delta: &Delta<'_>) -> Option<u64> {
        self.several_prompts |= !delta.one_prompt;
        if !delta.choices.is_empty() {
            self.settle_alone();
        }
        let listed = listed_tokens(&delta.choices);
        let counted = delta
            .usage
            .and_then(|usage| self.take(usage, &delta.choices));
        let finished = delta.choices.iter().rfind(|it| it.finish_reason.is_some());
        if let Some(choice) = finished {
            self.last_finished = Some(choice.index);
        }
        listed.or(counted)
    }

    /// Stores `usage`; returns by how much the completion tokens of its choice rose.
    fn take(&mut self, usage: Usage, choices: &[Choice<'_>]) -> Option<u64> {
        let [choice] = choices else {
            self.alone = Some(self.alone.unwrap_or_default().updated_by(usage));
            self.alone_after = self.last_finished.filter(|_| choices.is_empty());
            return None;
        };
        let before = self.by_choice.entry(choice.index).or_default();
        let tokens = usage
            .completion_tokens
            .and_then(|it| it.checked_sub(before.completion_tokens.unwrap_or(0)));
        *before = before.updated_by(usage);
        self.alone = None;
        tokens
    }

    /// More of the answer follows, so usage on its own was not the request's.
    fn settle_alone(&mut self) {
        if let (Some(usage), Some(choice)) = (self.alone, self.alone_after.take()) {
            self.by_choice.insert(choice, usage);
            self.alone = None;
            self.alone_is_one_choice = true;
        }
    }

    /// The counts of the request.
    pub(super) fn usage(&self) -> Option<Usage> {
        let mut by_choice = self.by_choice.clone();
        match (self.alone, self.alone_after) {
            (Some(usage), Some(choice)) if self.alone_is_one_choice => {
                by_choice.insert(choice, usage);
            }
            (Some(usage), _) => {
                let earlier = self.sum(&by_choice).unwrap_or_default();
                return Some(earlier.updated_by(usage));
            }
            (None, _) => {}
        }
        self.sum(&by_choice)
    }

    /// Choices counted apart as one request: completions add up, a prompt that all share counts
    /// once. How many prompts a completion had isn't seen here, so theirs stay unknown.
    fn sum(&self, by_choice: &BTreeMap<u32, Usage>) -> Option<Usage> {
        let (_, first) = by_choice.first_key_value()?;
        let is_one_prompt = by_choice.len() == 1 || !self.several_prompts;
        Some(Usage {
            prompt_tokens: first.prompt_tokens.filter(|_| is_one_prompt),
            completion_tokens: add(by_choice.values().map(|it| it.completion_tokens)),
            cached_tokens: first.cached_tokens.filter(|_| is_one_prompt),
        })
    }
}

/// Tokens whose ids the event lists; `None` unless it does so for each of its choices.
fn listed_tokens(choices: &[Choice<'_>]) -> Option<u64> {
    if choices.is_empty() {
        return None;
    }
    add(choices.iter().map(|it| it.tokens))
}

/// The sum; `None` when a part is unknown or the sum is beyond all sense.
fn add(mut counts: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    counts.try_fold(0_u64, |sum, count| sum.checked_add(count?))
}
