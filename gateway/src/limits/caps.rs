//! How large one request may be: its prompt, its answer, its choices.
//!
//! A cap on answers either replaces the number in the request (and puts one in where there is
//! none, for an engine would go on to the end of its context) or refuses it. Where a number decides
//! what a request may cost, one that is no whole number is refused: engines read it in different
//! ways, and to some `-1` is "without end".

use super::account::Scope;
use super::{Id, Limits};
use crate::admission::Ask;
use crate::config::{LimitsConfig, OutputCap, Over};
use crate::errors::{Kind, Refusal};
use crate::intake::edit::Edit;
use crate::intake::facts::{Amount, Facts};

/// Where a request is too large.
enum TooLarge {
    Refused(Refusal),
    /// These changes make it fit.
    Clamped(Vec<Edit>),
}

impl Limits {
    /// What has to be changed in the body of `ask` so that it is no larger than its caps.
    ///
    /// # Errors
    /// It is too large, and the cap is not to clamp it.
    pub fn fit(&self, ask: &Ask, facts: &Facts) -> Result<Vec<Edit>, Refusal> {
        let mut edits = Vec::new();
        let accounts = self.over(ask);
        let smallest = |cap: fn(&LimitsConfig) -> Option<u64>| {
            accounts
                .iter()
                .filter_map(|(id, rules)| Some((id, cap(&rules.config)?, rules.config.enforce)))
                .min_by_key(|(_, cap, _)| *cap)
        };
        let counted = accounts
            .iter()
            .any(|(_, rules)| rules.config.counts_tokens());
        if counted && ask.generates && facts.first_member == 0 {
            let message = "the body is no JSON object, and limits of this caller depend on it: send \
                           one, without a content-encoding";
            return Err(Refusal::because(Kind::BodyInvalid, message.to_owned()));
        }
        if counted && let Some(odd) = facts.amounts().find(|amount| amount.number.is_none()) {
            let message = format!(
                "`{}` is no whole number from 0 on, and limits of this caller depend on it: send one",
                odd.name
            );
            return Err(Refusal::because(Kind::BodyInvalid, message));
        }
        if let Some((id, cap, enforced)) = smallest(|c| c.max_prompt_tokens)
            && ask.prompt_tokens > cap
        {
            let message = format!(
                "{} may send prompts of up to {cap} tokens, and this one has about {}: shorten it",
                who(id),
                ask.prompt_tokens
            );
            self.too_large(
                id,
                enforced,
                TooLarge::Refused(Refusal::because(Kind::PromptTooLong, message)),
                &mut edits,
            )?;
        }
        if let Some((id, cap, enforced)) = smallest(|c| c.max_n)
            && ask.choices > cap
        {
            let message = format!(
                "{} may ask for up to {cap} choices, and this request asks for {}: lower n (and best_of)",
                who(id),
                ask.choices
            );
            self.too_large(
                id,
                enforced,
                TooLarge::Refused(Refusal::because(Kind::TooManyChoices, message)),
                &mut edits,
            )?;
        }
        let output = accounts
            .iter()
            .filter_map(|(id, rules)| {
                Some((id, rules.config.max_output_tokens?, rules.config.enforce))
            })
            .min_by_key(|(_, cap, _)| cap.tokens);
        if let Some((id, cap, enforced)) = output
            && ask.generates
            && let Some(found) = output_over(id, cap, ask, facts)
        {
            self.too_large(id, enforced, found, &mut edits)?;
        }
        Ok(edits)
    }

    fn too_large(
        &self,
        id: &Id,
        enforced: bool,
        found: TooLarge,
        edits: &mut Vec<Edit>,
    ) -> Result<(), Refusal> {
        self.metrics
            .capped(id.0, matches!(found, TooLarge::Clamped(_)), enforced);
        match found {
            _ if !enforced => Ok(()),
            TooLarge::Refused(refusal) => Err(refusal),
            TooLarge::Clamped(more) => {
                edits.extend(more);
                Ok(())
            }
        }
    }
}

fn output_over(id: &Id, cap: OutputCap, ask: &Ask, facts: &Facts) -> Option<TooLarge> {
    let over: Vec<&Amount> = facts
        .output_limits
        .iter()
        .filter(|amount| amount.number.is_none_or(|n| n > cap.tokens))
        .collect();
    if over.is_empty() && !facts.output_limits.is_empty() {
        return None;
    }
    Some(match cap.over {
        Over::Refuse => {
            let asks = match over.first() {
                Some(amount) => format!("asks for more with `{}`", amount.name),
                None => "does not say how long its answer may get".to_owned(),
            };
            let message = format!(
                "{} may ask for answers of up to {} tokens, and this request {asks}: send {} of at most that",
                who(id),
                cap.tokens,
                ask.output_member
            );
            TooLarge::Refused(Refusal::because(Kind::AnswerTooLong, message))
        }
        Over::Clamp if over.is_empty() => TooLarge::Clamped(vec![Edit {
            place: facts.first_member..facts.first_member,
            text: format!(
                "\"{}\":{}{}",
                ask.output_member,
                cap.tokens,
                if facts.empty { "" } else { "," }
            ),
        }]),
        Over::Clamp => TooLarge::Clamped(
            over.iter()
                .map(|amount| Edit {
                    place: amount.value.clone(),
                    text: cap.tokens.to_string(),
                })
                .collect(),
        ),
    })
}

fn who((scope, name): &(Scope, String)) -> String {
    format!("{} `{name}`", scope.label())
}
