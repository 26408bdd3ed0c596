//! Gates about the engine's own counters.

use super::*;
use crate::analysis::synthetic::Exposed;
use crate::config::EngineKind;
use crate::telemetry::SourceReport;

const ALL: [&str; 5] = [
    "engine_restart",
    "engine_requests",
    "engine_prompt_tokens",
    "engine_output_tokens",
    "prefix_hits",
];

/// What a gate says of the direct point when the engine exposes this after it.
fn found(id: &str, how: fn(&mut Exposed)) -> Gate {
    let mut it = Synthetic::new(20);
    it.after.insert(DIRECT, how);
    gate(&it, id, DIRECT)
}

#[test]
fn counters_that_agree_pass_and_stand_in_the_aggregate() {
    let it = Synthetic::new(20);
    for id in ALL {
        assert_eq!(gate(&it, id, DIRECT).status, GateStatus::Pass, "{id}");
    }
    let analysis = it.analyze();
    let engine = analysis.aggregate.points[0].engine.unwrap();
    assert_eq!(engine.requests, Some(21));
    assert_eq!(engine.prompt_tokens, Some(168));
    assert_eq!(engine.generation_tokens, Some(105));
    assert_eq!(engine.prefix_hit_share, Some(0.0));
}

#[test]
fn an_engine_that_counted_more_is_used_by_somebody_else() {
    for (id, how) in [
        ("engine_requests", (|e| e.requests += 2) as fn(&mut Exposed)),
        ("engine_prompt_tokens", |e| e.prompt_tokens += 2),
        ("engine_output_tokens", |e| e.generation_tokens += 2),
    ] {
        let it = found(id, how);
        assert_eq!(
            (it.status, it.blame, it.measured),
            (GateStatus::Fail, Blame::Environment, Some(2.0)),
            "{id}"
        );
        assert!(it.remedy.contains("someone else uses this engine"), "{id}");
    }
}

#[test]
fn an_engine_that_counted_less_is_not_the_one_that_answered() {
    let it = found("engine_output_tokens", |e| e.generation_tokens -= 5);
    assert_eq!(
        (it.status, it.blame, it.measured),
        (GateStatus::Fail, Blame::Engine, Some(-5.0))
    );
    assert!(
        it.evidence
            .contains("counted 100 output tokens, the client 105 in 21 answers"),
        "{}",
        it.evidence
    );
}

#[test]
fn m18_requests_that_broke_off_may_be_counted_or_not() {
    for counted in [0, 1] {
        let mut it = Synthetic::new(20);
        it.change(DIRECT, 3, |r| {
            *r = broken(r.clone(), Outcome::Failed, "timeout_first_byte", None, 9);
        });
        if counted == 1 {
            it.after.insert(DIRECT, |e| {
                e.requests += 1;
                e.prompt_tokens += 8;
                e.generation_tokens += 3;
            });
        }
        for id in &ALL[1..4] {
            let it = gate(&it, id, DIRECT);
            assert_eq!(it.status, GateStatus::Pass, "{id}: {}", it.evidence);
            assert!(it.evidence.contains("1 more broke off"), "{}", it.evidence);
        }
    }
}

#[test]
fn a_restart_fails_and_its_counters_are_not_compared() {
    let it = found("engine_restart", |e| e.start += 60);
    assert_eq!((it.status, it.blame), (GateStatus::Fail, Blame::Engine));
    assert!(it.evidence.contains("60 s after"), "{}", it.evidence);
    let it = found("engine_requests", |e| e.requests = 0);
    assert_eq!(it.status, GateStatus::Undecided);
    let it = found("engine_restart", |e| e.requests = 0);
    assert_eq!(it.status, GateStatus::Fail);
}

#[test]
fn preemptions_are_a_result() {
    let it = found("engine_restart", |e| e.preemptions = 4);
    assert_eq!(it.status, GateStatus::Pass);
    assert!(
        it.evidence.contains("preempted 4 requests"),
        "{}",
        it.evidence
    );
}

#[test]
fn m24_hits_that_nobody_asked_for_fail_and_the_chat_template_is_none() {
    let warm: fn(&mut Exposed) = |e| e.prefix_hits = 60;
    let it = found("prefix_hits", warm);
    assert_eq!((it.status, it.blame), (GateStatus::Fail, Blame::Workload));
    assert!(it.measured.unwrap() > 0.3, "{:?}", it.measured);
    assert!(it.remedy.contains("prompts.salt: per_arm"), "{}", it.remedy);
    assert_eq!(
        found("prefix_hits", |e| e.prefix_hits = 1).status,
        GateStatus::Pass
    );

    let mut template = Synthetic::new(20);
    template.after.insert(DIRECT, warm);
    template.manifest.calibration.template_tokens = Some(3);
    let it = gate(&template, "prefix_hits", DIRECT);
    assert_eq!((it.status, it.measured), (GateStatus::Pass, Some(0.0)));

    let mut wanted = Synthetic::new(20);
    wanted.after.insert(DIRECT, warm);
    wanted.salt = "none";
    let it = gate(&wanted, "prefix_hits", DIRECT);
    assert_eq!(it.status, GateStatus::NotApplicable);
    assert!(it.evidence.contains("60 of 168"), "{}", it.evidence);

    let it = found("prefix_hits", |e| (e.prefix_hits, e.preemptions) = (60, 1));
    assert_eq!(
        (it.status, it.blame),
        (GateStatus::Undecided, Blame::Engine)
    );
}

#[test]
fn m33_evidence_that_should_be_there_and_is_not_decides_nothing() {
    let absent = |kind, reason: &str| {
        let mut it = Synthetic::new(20);
        it.server = false;
        it.manifest.engine.kind = kind;
        it.manifest.telemetry = vec![SourceReport::absent("engine", reason)];
        it.gpu_setting = "none";
        gate(&it, "engine_requests", DIRECT)
    };
    let it = absent(EngineKind::Vllm, "/metrics answers 404");
    assert_eq!(it.status, GateStatus::Undecided);
    assert!(
        it.evidence.contains("/metrics answers 404"),
        "{}",
        it.evidence
    );
    let it = absent(EngineKind::Unknown, "/metrics answers 404");
    assert_eq!(it.status, GateStatus::NotApplicable);
    assert!(
        it.evidence.contains("exposes no counters"),
        "{}",
        it.evidence
    );
}
