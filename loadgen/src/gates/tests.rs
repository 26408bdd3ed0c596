mod documented;
mod gpu;
mod machine;
mod server;
mod tokens;

use std::collections::BTreeSet;

use inferscope_shared::clock::MonoNs;
use inferscope_shared::record::request::{Outcome, Phase, RequestRecord};

use super::*;
use crate::analysis::synthetic::{MS, Synthetic, broken};
use crate::artifacts::manifest::StopReason;
use crate::config::LoadKind;

fn gate(it: &Synthetic, id: &str, scope: &str) -> Gate {
    let gates = it.analyze().validation.gates;
    gates
        .into_iter()
        .find(|g| g.id == id && g.scope == scope)
        .unwrap()
}

const DIRECT: &str = "direct.c1";

#[test]
fn a_small_sound_run_is_valid() {
    let analysis = Synthetic::new(20).analyze();
    let open: Vec<_> = analysis
        .validation
        .gates
        .iter()
        .filter(|g| matches!(g.status, GateStatus::Fail | GateStatus::Undecided))
        .collect();
    assert_eq!(analysis.validation.status, Status::Valid, "{open:?}");
    assert_eq!(analysis.exit_code(), 0);
}

#[test]
fn any_fail_is_invalid_else_any_undecided_is_inconclusive() {
    let gate = |status| Gate {
        id: "x".to_owned(),
        scope: "run".to_owned(),
        status,
        measured: None,
        threshold: None,
        unit: "1".to_owned(),
        blame: Blame::Client,
        remedy: String::new(),
        evidence: String::new(),
    };
    use GateStatus::{Fail, NotApplicable, Pass, Undecided};
    for (gates, status, code) in [
        (vec![Pass, NotApplicable], Status::Valid, 0),
        (vec![Pass, Undecided], Status::Inconclusive, 4),
        (vec![Undecided, Fail], Status::Invalid, 3),
        (vec![], Status::Valid, 0),
    ] {
        let gates: Vec<Gate> = gates.into_iter().map(gate).collect();
        assert_eq!(Status::of(&gates), status);
        assert_eq!(status.exit_code(), code);
    }
}

#[test]
fn every_rule_is_said_once_and_in_full() {
    let ids: BTreeSet<_> = rules().map(|r| r.id).collect();
    assert_eq!(ids.len(), rules().count());
    for rule in rules() {
        for text in [
            rule.needs,
            rule.measures,
            rule.passes,
            rule.why,
            rule.remedy,
            rule.unit,
        ] {
            assert!(!text.is_empty(), "{}", rule.id);
        }
    }
}

#[test]
fn an_engine_that_died_fails_the_run_and_is_named() {
    let mut it = Synthetic::new(20);
    it.manifest.points[0].stop_reason = Some(StopReason::EngineGone);
    it.manifest.points[0].alive_after = Some(false);
    it.manifest.points[0].alive_error = Some("connection refused".to_owned());
    let gate = gate(&it, "engine_alive", DIRECT);
    assert_eq!((gate.status, gate.blame), (GateStatus::Fail, Blame::Engine));
    assert!(
        gate.evidence.contains("fake-engine was gone"),
        "{}",
        gate.evidence
    );
    assert!(
        gate.evidence.contains("connection refused"),
        "{}",
        gate.evidence
    );
}

#[test]
fn an_interrupted_run_is_inconclusive_and_not_blamed_on_the_engine() {
    let mut it = Synthetic::new(20);
    it.manifest.interrupted = true;
    it.manifest.points[1].stop_reason = Some(StopReason::Interrupted);
    it.manifest.points[1].alive_after = None;
    for seq in 15..=20 {
        it.change("gateway.c1", seq, |r| {
            *r = broken(r.clone(), Outcome::Dropped, "interrupted", None, 0);
        });
    }
    it.records.as_mut().unwrap().truncate(15);
    let analysis = it.analyze();
    assert_eq!(analysis.validation.status, Status::Inconclusive);
    assert_eq!(
        gate(&it, "success_rate", "gateway.c1").status,
        GateStatus::Undecided
    );
    assert_eq!(gate(&it, "run_complete", "run").measured, Some(1.0));
}

#[test]
fn m29_what_a_killed_run_left_is_analysed_as_far_as_it_goes() {
    let mut it = Synthetic::new(20);
    it.manifest.finished = false;
    for point in &mut it.manifest.points {
        point.stop_reason = None;
        point.start_ns = None;
        point.end_ns = None;
        point.alive_after = None;
    }
    it.rows.truncate(15);
    it.records = None;
    let analysis = it.analyze();
    assert_eq!(analysis.validation.status, Status::Inconclusive);
    assert_eq!(analysis.aggregate.points[0].requests.ok, 14);
    assert_eq!(analysis.aggregate.points[1].requests.planned, 0);
}

#[test]
fn m11_a_run_without_a_warm_up_is_inconclusive_and_one_whose_warm_up_failed_invalid() {
    let mut it = Synthetic::new(20);
    it.rows.retain(|r| r.seq > 0 || r.arm == "gateway");
    for row in &mut it.rows {
        row.seq -= u64::from(row.arm == "direct");
    }
    it.as_planned();
    assert_eq!(gate(&it, "warmup", DIRECT).status, GateStatus::Undecided);

    let mut it = Synthetic::new(20);
    it.change(DIRECT, 0, |r| {
        *r = broken(r.clone(), Outcome::Failed, "http_500", Some(500), 1)
    });
    assert_eq!(gate(&it, "warmup", DIRECT).status, GateStatus::Fail);
    assert!(it.rows.iter().any(|r| r.phase == Phase::Warmup));
}

#[test]
fn a_missing_or_reordered_stamp_is_the_instruments_fault() {
    let mut it = Synthetic::new(20);
    it.change(DIRECT, 4, |r| r.head_ns = None);
    let missing = gate(&it, "timing_complete", DIRECT);
    assert_eq!(
        (missing.status, missing.blame),
        (GateStatus::Fail, Blame::Client)
    );
    assert!(
        missing
            .evidence
            .contains("r1.direct.c1.4: head_ns is missing"),
        "{}",
        missing.evidence
    );

    let mut it = Synthetic::new(20);
    it.change(DIRECT, 4, |r| r.first_output_ns = r.sent_start_ns);
    let reordered = gate(&it, "timing_complete", DIRECT);
    assert!(
        reordered.evidence.contains("first_output_ns lies before"),
        "{}",
        reordered.evidence
    );

    let mut it = Synthetic::new(20);
    it.manifest.points[0].start_ns = it.rows[5].dispatched_ns;
    let early = gate(&it, "timing_complete", DIRECT);
    assert_eq!(
        (early.status, early.measured),
        (GateStatus::Fail, Some(0.8))
    );
    assert!(
        early
            .evidence
            .contains("r1.direct.c1.1: intended_ns lies before the point began"),
        "{}",
        early.evidence
    );
}

#[test]
fn answers_of_another_length_than_asked_for_fail() {
    let mut it = Synthetic::new(20);
    it.change(DIRECT, 1, |r| r.completion_tokens = Some(4));
    assert_eq!(gate(&it, "output_length", DIRECT).status, GateStatus::Pass);
    it.change(DIRECT, 2, |r| r.completion_tokens = Some(4));
    let gate = gate(&it, "output_length", DIRECT);
    assert_eq!((gate.status, gate.measured), (GateStatus::Fail, Some(0.9)));
    assert!(
        gate.evidence.contains("has 4 tokens, 5 were asked for"),
        "{}",
        gate.evidence
    );
}

#[test]
fn m02_a_late_schedule_fails_its_run() {
    let mut it = Synthetic::new(20);
    for row in &mut it.rows {
        row.dispatched_ns = row.dispatched_ns.map(|t| t.plus_ns(11 * MS));
        row.sent_start_ns = row.sent_start_ns.map(|t| t.plus_ns(11 * MS));
        row.sent_end_ns = row.sent_start_ns;
        row.head_ns = row.sent_start_ns;
    }
    for kind in [LoadKind::Concurrency, LoadKind::Rate] {
        it.manifest.points[0].load.kind = kind;
        let gate = gate(&it, "dispatch_lag", DIRECT);
        assert_eq!((gate.status, gate.measured), (GateStatus::Fail, Some(11.0)));
        assert_eq!(gate.blame, Blame::Client);
    }
}

#[test]
fn m02_the_limit_of_dispatch_lag_follows_the_slo_between_1_and_10_ms() {
    let mut it = Synthetic::new(20);
    it.manifest.points[0].load.kind = LoadKind::Rate;
    for (slo, limit) in [
        (None, 1.0),
        (Some("ttft=2ms"), 1.0),
        (Some("ttft=50ms,e2e=2s"), 5.0),
        (Some("e2e=2s"), 10.0),
        (Some("tpot=20ms"), 1.0),
    ] {
        it.slo = slo;
        let gate = gate(&it, "dispatch_lag", DIRECT);
        assert_eq!(gate.threshold, Some(limit), "{slo:?}");
    }
    it.slo = None;
    it.change(DIRECT, 3, |r| {
        r.intended_ns = r.intended_ns.map(|t| MonoNs(t.0 - 2 * MS));
    });
    assert_eq!(gate(&it, "dispatch_lag", DIRECT).status, GateStatus::Fail);
    // Held back by the stated limit of requests in flight: no fault of the client.
    it.change(DIRECT, 3, |r| r.released_ns = r.dispatched_ns);
    assert_eq!(gate(&it, "dispatch_lag", DIRECT).status, GateStatus::Pass);
}

#[test]
fn a_point_that_ran_into_its_own_limit_is_named() {
    let mut it = Synthetic::new(20);
    it.manifest.points[1].stop_reason = Some(StopReason::PointTimeout);
    let gate = gate(&it, "run_complete", "run");
    assert_eq!(
        (gate.status, gate.blame),
        (GateStatus::Undecided, Blame::Workload)
    );
    assert!(
        gate.evidence.contains("timeouts.point"),
        "{}",
        gate.evidence
    );
}

#[test]
fn one_hiccup_in_ten_dispatches_is_borne_by_a_closed_loop_only() {
    let mut it = Synthetic::new(20);
    it.change(DIRECT, 3, |r| {
        r.intended_ns = r.intended_ns.map(|t| MonoNs(t.0 - 11 * MS));
    });
    assert_eq!(gate(&it, "dispatch_lag", DIRECT).status, GateStatus::Pass);
    it.manifest.points[0].load.kind = LoadKind::Rate;
    assert_eq!(gate(&it, "dispatch_lag", DIRECT).status, GateStatus::Fail);
}

#[test]
fn m15_a_saturated_client_fails_its_own_run() {
    let mut it = Synthetic::new(20);
    it.client[1].loop_lag_ms.p99 = Some(40.0);
    let lag = gate(&it, "client_loop_lag", DIRECT);
    assert_eq!((lag.status, lag.blame), (GateStatus::Fail, Blame::Client));
    assert_eq!(
        gate(&it, "client_loop_lag", "gateway.c1").status,
        GateStatus::Pass
    );
    it.client.clear();
    assert_eq!(
        gate(&it, "client_loop_lag", DIRECT).status,
        GateStatus::Undecided
    );
}

#[test]
fn sample_size_is_asked_only_for_what_is_claimed() {
    let mut it = Synthetic::new(20);
    assert_eq!(
        gate(&it, "sample_size", DIRECT).status,
        GateStatus::NotApplicable
    );
    it.slo = Some("ttft=1s,at=p95");
    let few = gate(&it, "sample_size", DIRECT);
    assert_eq!(
        (few.status, few.threshold),
        (GateStatus::Undecided, Some(0.05))
    );
    assert!(few.remedy.contains("about 59 requests"), "{}", few.remedy);
    it.slo = Some("ttft=1s,at=p50");
    assert_eq!(gate(&it, "sample_size", DIRECT).status, GateStatus::Pass);
    let mut enough = Synthetic::new(59);
    enough.slo = Some("ttft=1s,at=p95");
    assert_eq!(enough.analyze().validation.status, Status::Valid);
}

#[test]
fn a_miss_takes_more_samples_to_certify_and_a_limit_that_is_not_met_takes_none() {
    let mut it = Synthetic::new(59);
    it.slo = Some("ttft=60ms,at=p95");
    let slow = |r: &mut RequestRecord| {
        r.first_output_ns = r.first_output_ns.map(|t| t.plus_ns(20 * MS));
    };
    it.change(DIRECT, 7, slow);
    let one = gate(&it, "sample_size", DIRECT);
    assert_eq!(one.status, GateStatus::Undecided);
    assert!(one.evidence.contains("1 of 59"), "{}", one.evidence);
    for seq in 8..12 {
        it.change(DIRECT, seq, slow);
    }
    let analysis = it.analyze();
    let point = &analysis.aggregate.points[0];
    assert_eq!(point.slo.as_ref().unwrap().met, Some(false));
    assert_eq!(
        gate(&it, "sample_size", DIRECT).status,
        GateStatus::NotApplicable
    );
}

#[test]
fn records_that_are_lost_fail_the_run() {
    let sound = Synthetic::new(20);
    let it = gate(&sound, "rows_complete", DIRECT);
    assert_eq!((it.status, it.measured), (GateStatus::Pass, Some(21.0)));

    let mut cut = Synthetic::new(20);
    cut.rows.pop();
    let it = gate(&cut, "rows_complete", "gateway.c1");
    assert_eq!(
        (it.status, it.measured, it.threshold, it.blame),
        (GateStatus::Fail, Some(20.0), Some(21.0), Blame::Environment)
    );
    assert_eq!(cut.analyze().validation.status, Status::Invalid);
    cut.manifest.finished = false;
    assert_eq!(
        gate(&cut, "rows_complete", "gateway.c1").status,
        GateStatus::Undecided
    );

    let mut twice = Synthetic::new(20);
    let last = twice.rows.len() - 1;
    twice.rows[last] = twice.rows[last - 1].clone();
    let it = gate(&twice, "rows_complete", "gateway.c1");
    assert!(it.evidence.contains("repeat"), "{}", it.evidence);
    assert_eq!(it.status, GateStatus::Fail);

    let mut timed = Synthetic::new(20);
    timed.manifest.points[0].planned = None;
    assert_eq!(
        gate(&timed, "rows_complete", DIRECT).status,
        GateStatus::Pass
    );
    let run = timed.write();
    let text = std::fs::read_to_string(run.requests()).unwrap();
    let fourth = text.lines().nth(4).unwrap();
    let gone = text.replace(&format!("{fourth}\n"), "");
    std::fs::write(run.requests(), gone).unwrap();
    let gates = crate::analysis::analyze(&run).unwrap().validation.gates;
    let it = gates
        .iter()
        .find(|g| (g.id.as_str(), g.scope.as_str()) == ("rows_complete", DIRECT));
    assert_eq!(it.unwrap().status, GateStatus::Fail);
}

#[test]
fn a_failed_write_fails_the_run() {
    let mut it = Synthetic::new(20);
    it.manifest.disk_error = Some("requests.jsonl: no space left on device".to_owned());
    let gate = gate(&it, "raw_written", "run");
    assert_eq!(
        (gate.status, gate.blame),
        (GateStatus::Fail, Blame::Environment)
    );
    assert!(gate.evidence.contains("no space"), "{}", gate.evidence);
}

#[test]
fn failures_of_the_clients_or_the_runs_own_making_do_not_point_at_the_engine() {
    for (kind, blame) in [
        ("max_in_flight", Blame::Client),
        ("client_limit", Blame::Client),
        ("writer_backlog", Blame::Client),
        ("run_end", Blame::Workload),
        ("point_timeout", Blame::Workload),
        ("http_429", Blame::Workload),
        ("http_503", Blame::Engine),
    ] {
        let mut it = Synthetic::new(20);
        for seq in 1..=5 {
            it.change(DIRECT, seq, |r| {
                *r = broken(r.clone(), Outcome::Failed, kind, None, 1)
            });
        }
        let gate = gate(&it, "success_rate", DIRECT);
        assert_eq!(
            (gate.status, gate.blame),
            (GateStatus::Fail, blame),
            "{kind}"
        );
    }
}

#[test]
fn a_point_that_ran_dry_or_whose_engine_said_nothing_clear_is_undecided() {
    let mut it = Synthetic::new(20);
    it.manifest.points[0].stop_reason = Some(StopReason::PoolExhausted);
    let dry = gate(&it, "run_complete", "run");
    assert_eq!(
        (dry.status, dry.blame),
        (GateStatus::Undecided, Blame::Workload)
    );
    assert!(
        dry.evidence.contains("direct.c1 ran out"),
        "{}",
        dry.evidence
    );

    let mut it = Synthetic::new(20);
    it.manifest.points[0].alive_after = None;
    it.manifest.points[0].alive_error = Some("timed out for 30 s".to_owned());
    let mute = gate(&it, "engine_alive", DIRECT);
    assert_eq!(mute.status, GateStatus::Undecided);
    assert!(mute.evidence.contains("30 s"), "{}", mute.evidence);
}
