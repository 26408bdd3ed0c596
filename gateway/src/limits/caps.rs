//! How large one request may be: its prompt, its answer, its choices.
//!
//! A cap on answers either replaces the number in the request (and puts one in where there is
//! none, for an engine would go on to the end of its context) or refuses it. Where a number decides
//! what a request may cost, one that is no whole number is refused: engines read it in different
//! ways, and to some `-1` is "without end".

use std::sync::Arc;

use super::account::{Rules, Scope};
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
    /// What has to be changed in the body of `ask` so that it is no larger than its caps; `ask` is
    /// then for that much.
    ///
    /// # Errors
    /// It is too large, and the cap is not to clamp it.
    pub fn fit(&self, ask: &mut Ask, facts: &Facts) -> Result<Vec<Edit>, Refusal> {
        let accounts = self.over(ask);
        let needed = accounts.iter().any(|(_, rules)| rules.config.needs_body());
        if needed {
            readable(ask, facts)?;
        }
        for (id, cap, enforced) in ascending(&accounts, |c| c.max_prompt_tokens, |cap| *cap) {
            if ask.prompt_tokens > cap {
                let message = format!(
                    "{} may send prompts of up to {cap} tokens, and this one has about {}: shorten it",
                    who(id),
                    ask.prompt_tokens
                );
                let refusal = Refusal::because(Kind::PromptTooLong, message);
                self.too_large(id, enforced, TooLarge::Refused(refusal))?;
            }
        }
        for (id, cap, enforced) in ascending(&accounts, |c| c.max_n, |cap| *cap) {
            if ask.choices > cap {
                let message = format!(
                    "{} may ask for up to {cap} choices, and this request asks for {}: lower n (and best_of)",
                    who(id),
                    ask.choices
                );
                let refusal = Refusal::because(Kind::TooManyChoices, message);
                self.too_large(id, enforced, TooLarge::Refused(refusal))?;
            }
        }
        if !ask.generates {
            return Ok(Vec::new());
        }
        for (id, cap, enforced) in ascending(&accounts, |c| c.max_output_tokens, |cap| cap.tokens) {
            if let Some(found) = output_over(id, cap, ask, facts)
                && let Some(edits) = self.too_large(id, enforced, found)?
            {
                ask.output_tokens = Some(cap.tokens);
                return Ok(edits);
            }
        }
        Ok(Vec::new())
    }

    /// Counts what was `found` over a cap. What is not enforced stays at that.
    fn too_large(
        &self,
        id: &Id,
        enforced: bool,
        found: TooLarge,
    ) -> Result<Option<Vec<Edit>>, Refusal> {
        self.metrics
            .capped(id.0, matches!(found, TooLarge::Clamped(_)), enforced);
        match found {
            _ if !enforced => Ok(None),
            TooLarge::Refused(refusal) => Err(refusal),
            TooLarge::Clamped(edits) => Ok(Some(edits)),
        }
    }
}

/// The caps of one kind, the smallest first, with whose they are and whether they are enforced: one
/// that is not must not hide a larger one that is.
fn ascending<T: Copy>(
    accounts: &[(Id, Arc<Rules>)],
    cap: impl Fn(&LimitsConfig) -> Option<T>,
    size: impl Fn(&T) -> u64,
) -> Vec<(&Id, T, bool)> {
    let mut caps: Vec<_> = accounts
        .iter()
        .filter_map(|(id, rules)| Some((id, cap(&rules.config)?, rules.config.enforce)))
        .collect();
    caps.sort_by_key(|(_, cap, _)| size(cap));
    caps
}

/// Whether the body says what limits depend on.
fn readable(ask: &Ask, facts: &Facts) -> Result<(), Refusal> {
    let no = |message: String| Err(Refusal::because(Kind::BodyInvalid, message));
    if ask.generates && facts.first_member == 0 {
        return no(
            "the body is no JSON object, and limits of this caller depend on it: send one, without \
             a content-encoding"
                .to_owned(),
        );
    }
    match facts.amounts().find(|amount| amount.number.is_none()) {
        Some(odd) => no(format!(
            "`{}` is no whole number from 0 on, and limits of this caller depend on it: send one",
            odd.name
        )),
        None => Ok(()),
    }
}

fn output_over(id: &Id, cap: OutputCap, ask: &Ask, facts: &Facts) -> Option<TooLarge> {
    let is_over = |amount: &&Amount| amount.number.is_none_or(|n| n > cap.tokens);
    let said = facts.limits_of(ask.output_members).next().is_some();
    let over: Vec<&Amount> = facts
        .limits_of(ask.output_members)
        .filter(is_over)
        .collect();
    if said && over.is_empty() {
        return None;
    }
    let member = *ask.output_members.first()?;
    Some(match cap.over {
        Over::Refuse => {
            let asks = match over.first() {
                Some(amount) => format!("asks for more with `{}`", amount.name),
                None => "does not say how long its answer may get".to_owned(),
            };
            let message = format!(
                "{} may ask for answers of up to {} tokens, and this request {asks}: send {member} of at most that",
                who(id),
                cap.tokens,
            );
            TooLarge::Refused(Refusal::because(Kind::AnswerTooLong, message))
        }
        Over::Clamp if !said => TooLarge::Clamped(vec![said_once(member, cap.tokens, facts)]),
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

/// What makes `member` say `tokens` where it says nothing. One that is there as null is replaced:
/// of a member that stands there twice, engines take the last one.
fn said_once(member: &str, tokens: u64, facts: &Facts) -> Edit {
    if let Some((_, place)) = facts.null_limits.iter().find(|(name, _)| *name == member) {
        return Edit {
            place: place.clone(),
            text: tokens.to_string(),
        };
    }
    let comma = if facts.empty { "" } else { "," };
    Edit {
        place: facts.first_member..facts.first_member,
        text: format!("\"{member}\":{tokens}{comma}"),
    }
}

fn who((scope, name): &(Scope, String)) -> String {
    format!("{} `{name}`", scope.label())
}
