//! Gates about token counts: what was planned, what the engine says, what a tokenizer says.

use super::rules::{COUNT_DIFFERENCE, EXACT_PROMPT};
use super::{Blame, Facts, Finding, GateStatus};
use crate::config::ArmKind;
use crate::measure::point::PointMeasure;
use crate::plan::body::ignores_end;

pub(super) fn prompt_tokens(facts: &Facts<'_>, point: &PointMeasure) -> Finding {
    let calibration = &facts.manifest.calibration;
    if !calibration.exact {
        let how = &calibration.prompt_tokens;
        return Finding::not_applicable(format!("lengths of prompts are not exact ({how})"));
    }
    let exact = &point.evidence.exact_prompt;
    let Some(share) = exact.fraction() else {
        return Finding::not_applicable("no ok answer has a count of its prompt");
    };
    let evidence = match &exact.first_miss {
        None => format!("all {} prompts have the length planned", exact.whole),
        Some(miss) => format!("{} of {}; first miss {miss}", exact.part, exact.whole),
    };
    let finding = Finding::held(share >= EXACT_PROMPT, GateStatus::Fail, evidence);
    let arms = &facts.manifest.arms;
    let through = |name: &str| {
        arms.iter()
            .any(|a| a.name == name && a.kind == ArmKind::Gateway)
    };
    let finding = if through(&point.point.arm) {
        finding.blaming(Blame::Gateway)
    } else {
        finding
    };
    finding.measured(Some(share))
}

pub(super) fn completion_tokens(facts: &Facts<'_>, point: &PointMeasure) -> Finding {
    let run = facts.point_run(&point.point.point_id);
    let check = run.and_then(|r| r.token_check.as_ref());
    let Some(check) = check.filter(|c| c.answers > 0 && c.usage_tokens > 0) else {
        let why = check.and_then(|c| c.reason.as_deref());
        let why = format!(
            "no answer was counted again: {}",
            why.unwrap_or("not tried")
        );
        let claimed = facts.slo.is_some_and(|slo| slo.limits.tpot_ms.is_some());
        return if claimed {
            Finding::undecided(format!("{why}; the SLO claims TPOT, which rests on usage"))
                .remedied_by("name the model's tokenizer.json (prompts.tokenizer)")
        } else {
            Finding::not_applicable(why)
        };
    };
    let (usage, counted) = (check.usage_tokens, check.counted_tokens);
    let evidence = format!(
        "{} answers: {usage} tokens by usage, {counted} by {}{}",
        check.answers,
        check.tokenizer,
        check
            .worst
            .as_deref()
            .map_or_else(String::new, |w| format!("; worst {w}"))
    );
    let fewer = usage.saturating_sub(counted);
    let amiss = if counted > usage {
        counted - usage
    } else {
        fewer.saturating_sub(check.texts)
    };
    let share = amiss as f64 / usage as f64;
    if share > COUNT_DIFFERENCE && counted < usage && ignores_end(facts.config) {
        return Finding::not_applicable(format!(
            "{evidence}; with ignore_eos tokens after an answer's end are generated and not shown"
        ));
    }
    Finding::held(share <= COUNT_DIFFERENCE, GateStatus::Fail, evidence).measured(Some(share))
}
