//! The output of an answer, put together.

use std::collections::BTreeMap;

use super::{Choice, OutputKind};

/// Output by choice and kind. Grows with the answer: meant for clients, not for relays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Texts {
    by_choice: BTreeMap<u32, BTreeMap<OutputKind, String>>,
}

impl Texts {
    pub(super) fn extend(&mut self, choice: &Choice<'_>) {
        for output in &choice.outputs {
            let texts = self.by_choice.entry(choice.index).or_default();
            texts.entry(output.kind).or_default().push_str(&output.text);
        }
    }

    /// The text of one kind of one choice; empty when there is none.
    #[must_use]
    pub fn get(&self, choice: u32, kind: OutputKind) -> &str {
        let texts = self.by_choice.get(&choice);
        texts
            .and_then(|it| it.get(&kind))
            .map_or("", String::as_str)
    }

    /// Everything in the one order that hashes are taken over: choices by index; in each its
    /// reasoning, text, refusal, then tool calls by number, each as name and arguments.
    pub fn pieces(&self) -> impl Iterator<Item = &str> {
        let choices = self.by_choice.values();
        choices.flat_map(BTreeMap::values).map(String::as_str)
    }
}
