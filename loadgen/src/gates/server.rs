//! Gates about the engine's own counters, held against what the client was answered.

use super::rules::PREFIX_HITS;
use super::{Blame, Facts, Finding, GateStatus};
use crate::config::{EngineKind, Salt, Sampling};
use crate::measure::point::PointMeasure;
use crate::reconcile::{Around, Gap, Range, Served};

/// Why there is nothing to judge by, with what that means for a gate.
enum Lack {
    Restarted(String),
    Said(Finding),
}

/// What the engine counted during the point.
fn served(facts: &Facts<'_>, point: &PointMeasure) -> Result<Served, Lack> {
    let id = &point.point.point_id;
    let missing = match Around::point(facts.readings, id).served() {
        Ok(served) => return Ok(served),
        Err(Gap::Restarted(why)) => return Err(Lack::Restarted(why)),
        Err(Gap::Missing(which)) => which,
    };
    let ran = facts
        .point_run(id)
        .is_some_and(|run| run.start_ns.is_some());
    Err(Lack::Said(
        if facts.config.telemetry.engine == Sampling::Off {
            Finding::not_applicable("the configuration says telemetry.engine: off")
        } else if facts.config.engine.url.is_none() {
            Finding::not_applicable("engine.url is not known: only the gateway is")
                .remedied_by("name the engine behind the gateway (engine.url)")
        } else if !ran && facts.manifest.interrupted {
            Finding::not_applicable("the point did not run")
        } else {
            let why = facts.absent("engine");
            let why = why.map_or_else(String::new, |why| format!(": {why}"));
            if facts.readings.engine.is_empty() && !counts(facts.manifest.engine.kind) {
                Finding::not_applicable(format!("this engine exposes no counters{why}"))
            } else {
                Finding::undecided(format!("no snapshot {missing} the point{why}")).remedied_by(
                "make the engine's /metrics reachable (llama-server needs --metrics), or say that \
                 it is not (telemetry.engine: off)",
            )
            }
        },
    ))
}

/// Engines that expose counters of requests, tokens and prefix hits, always.
fn counts(kind: EngineKind) -> bool {
    matches!(kind, EngineKind::Fake | EngineKind::Vllm)
}

/// What a gate says of a counter that is not there.
fn uncounted(facts: &Facts<'_>, what: &str) -> Finding {
    let name = facts.manifest.engine.name.as_deref().unwrap_or("engine");
    let text = format!("the {name} does not count {what}");
    if counts(facts.manifest.engine.kind) {
        Finding::undecided(format!("{text} under any name that is known"))
            .remedied_by("report it with the engine's version: its counters have new names")
    } else {
        Finding::not_applicable(text)
    }
}

pub(super) fn engine_restart(facts: &Facts<'_>, point: &PointMeasure) -> Finding {
    match served(facts, point) {
        Ok(served) => Finding::new(
            GateStatus::Pass,
            match served.preemptions {
                Some(n) => format!("one process throughout; it preempted {n} requests"),
                None => "one process throughout".to_owned(),
            },
        ),
        Err(Lack::Restarted(why)) => Finding::new(GateStatus::Fail, why),
        Err(Lack::Said(finding)) => finding,
    }
}

/// One counter against one claim.
fn reconciled(
    facts: &Facts<'_>,
    point: &PointMeasure,
    what: &str,
    counted: fn(&Served) -> Option<u64>,
    claimed: Range,
) -> Finding {
    let served = match served(facts, point) {
        Ok(served) => served,
        Err(Lack::Restarted(_)) => return Finding::undecided("the engine was started anew"),
        Err(Lack::Said(finding)) => return finding,
    };
    let Some(counted) = counted(&served) else {
        return uncounted(facts, what);
    };
    let outside = claimed.outside(counted);
    let claim = point.evidence.claim;
    let mut evidence = format!(
        "the engine counted {counted} {what}, the client {claimed} in {} answers",
        claim.ok
    );
    if claim.unsure > 0 {
        evidence.push_str(&format!(
            "; {} more broke off and may be counted or not",
            claim.unsure
        ));
    }
    let finding = Finding::held(outside == 0.0, GateStatus::Fail, evidence).measured(Some(outside));
    if outside > 0.0 {
        return finding.blaming(Blame::Environment).remedied_by(
            "someone else uses this engine: give the run an engine of its own, or stop the other \
             client",
        );
    }
    finding
}

pub(super) fn engine_requests(facts: &Facts<'_>, point: &PointMeasure) -> Finding {
    let claimed = point.evidence.claim.requests;
    reconciled(facts, point, "requests", |s| s.requests, claimed)
}

pub(super) fn engine_prompt_tokens(facts: &Facts<'_>, point: &PointMeasure) -> Finding {
    let claimed = point.evidence.claim.prompt_tokens;
    reconciled(facts, point, "prompt tokens", |s| s.prompt_tokens, claimed)
}

pub(super) fn engine_output_tokens(facts: &Facts<'_>, point: &PointMeasure) -> Finding {
    let claimed = point.evidence.claim.generation_tokens;
    reconciled(
        facts,
        point,
        "output tokens",
        |s| s.generation_tokens,
        claimed,
    )
}

pub(super) fn prefix_hits(facts: &Facts<'_>, point: &PointMeasure) -> Finding {
    let served = match served(facts, point) {
        Ok(served) => served,
        Err(Lack::Restarted(_)) => return Finding::undecided("the engine was started anew"),
        Err(Lack::Said(finding)) => return finding,
    };
    let Some((hits, queries)) = served.prefix_hits.zip(served.prefix_queries) else {
        return uncounted(facts, "hits of its prefix cache");
    };
    let seen = format!("{hits} of {queries} prompt tokens were in the prefix cache");
    let prompts = &facts.config.prompts;
    let wanted = [
        (prompts.salt == Salt::None, "prompts.salt: none"),
        (prompts.expect_prefix_hits, "prompts.expect_prefix_hits"),
        (
            prompts.workload.is_some(),
            "a workload has what repeats it has",
        ),
    ];
    if let Some((_, why)) = wanted.iter().find(|(wanted, _)| *wanted) {
        return Finding::not_applicable(format!("{seen}; repeats are asked for ({why})"));
    }
    let claim = point.evidence.claim;
    let template = facts.manifest.calibration.template_tokens.unwrap_or(0);
    let allowed = template.saturating_mul(claim.ok.saturating_add(claim.unsure));
    let share = hits.saturating_sub(allowed) as f64 / queries.max(1) as f64;
    let seen = match allowed.min(hits) {
        0 => seen,
        n => format!("{seen}, {n} of them the chat template's"),
    };
    let finding = if share <= PREFIX_HITS {
        Finding::new(GateStatus::Pass, seen)
    } else if let Some(preempted) = served.preemptions.filter(|&n| n > 0) {
        Finding::undecided(format!(
            "{seen}; {preempted} requests were preempted and may have hit their own tokens"
        ))
        .blaming(Blame::Engine)
        .remedied_by("lower the load until nothing is preempted")
    } else {
        Finding::new(GateStatus::Fail, seen)
    };
    finding.measured(Some(share))
}
