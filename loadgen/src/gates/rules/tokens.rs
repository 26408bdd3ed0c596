//! Rules about token counts: what was planned, what the engine says, what a tokenizer says.

use super::Rule;
use crate::gates::{Blame, Check, tokens};

/// Share of answers whose prompt must have exactly the tokens planned.
pub(in crate::gates) const EXACT_PROMPT: f64 = 0.95;
/// Share of tokens by which usage and tokenizer may differ.
pub(in crate::gates) const COUNT_DIFFERENCE: f64 = 0.02;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "prompt_tokens",
        needs: "plan.jsonl, requests.jsonl, manifest.json",
        measures: "ok answers whose usage.prompt_tokens is the number planned, of those with both",
        threshold: Some(EXACT_PROMPT),
        unit: "1",
        passes: "at or above 0.95; NOT_APPLICABLE when the plan's lengths are not exact (no \
                 /tokenize, or a workload)",
        why: "prompts were laid out by the engine's own tokenizer, so another count means that \
              another prompt arrived than the one planned; one in twenty may meet a rare merge of \
              words",
        blame: Blame::Engine,
        remedy: "look for what changes prompts on the path (a gateway's template, the engine's \
                 truncation), or whether /tokenize and the served model differ",
        check: Check::Point(tokens::prompt_tokens),
    },
    Rule {
        id: "completion_tokens",
        needs: "manifest.json (token_check), config.resolved.yaml",
        measures: "tokens of some answers, counted again from their text, apart from \
                   usage.completion_tokens",
        threshold: Some(COUNT_DIFFERENCE),
        unit: "1",
        passes: "at or below 0.02 of usage, and one token fewer per text is borne (its end is \
                 generated and not shown); NOT_APPLICABLE when nobody could count and no limit on \
                 TPOT is claimed, or when ignore_eos hides tokens; UNDECIDED when TPOT is claimed",
        why: "TPOT and token rates are usage's word. Text does not always turn back into the same \
              tokens, since a model may spell a word in several ways: hence 2 % over all answers and \
              not equality",
        blame: Blame::Engine,
        remedy: "compare usage with the answers' text: an engine that counts events, or reports \
                 max_tokens, cannot be compared by tokens. Name the model's own tokenizer \
                 (prompts.tokenizer) if /tokenize is another's",
        check: Check::Point(tokens::completion_tokens),
    },
];
