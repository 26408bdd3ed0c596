use std::collections::BTreeSet;

use inferscope_shared::record::request::{Outcome, Phase};

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
    let ids: BTreeSet<_> = RULES.iter().map(|r| r.id).collect();
    assert_eq!(ids.len(), RULES.len());
    for rule in RULES {
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
fn m02_a_late_schedule_fails_an_open_loop_and_never_a_closed_one() {
    let mut it = Synthetic::new(20);
    for row in &mut it.rows {
        row.dispatched_ns = row.dispatched_ns.map(|t| t.plus_ns(11 * MS));
        row.sent_start_ns = row.sent_start_ns.map(|t| t.plus_ns(11 * MS));
        row.sent_end_ns = row.sent_start_ns;
        row.head_ns = row.sent_start_ns;
    }
    assert_eq!(
        gate(&it, "dispatch_lag", DIRECT).status,
        GateStatus::NotApplicable
    );
    it.manifest.points[0].load.kind = LoadKind::Rate;
    let gate = gate(&it, "dispatch_lag", DIRECT);
    assert_eq!((gate.status, gate.measured), (GateStatus::Fail, Some(11.0)));
}

#[test]
fn m15_a_saturated_client_fails_its_own_run() {
    let mut it = Synthetic::new(20);
    it.client[0].loop_lag_ms.p99 = Some(40.0);
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
        (GateStatus::Undecided, Some(59.0))
    );
    assert!(few.remedy.contains("about 59 requests"), "{}", few.remedy);
    it.slo = Some("ttft=1s,at=p50");
    assert_eq!(gate(&it, "sample_size", DIRECT).status, GateStatus::Pass);
    let mut enough = Synthetic::new(59);
    enough.slo = Some("ttft=1s,at=p95");
    assert_eq!(enough.analyze().validation.status, Status::Valid);
}

/// The table of gates as `docs/methodology.md` has it.
fn table() -> String {
    let mut text = String::from(
        "| gate | scope | needs | measures | passes | why | points at | remedy |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for rule in RULES {
        let scope = match rule.check {
            Check::Run(_) => "run",
            Check::Point(_) => "point",
        };
        let blame = serde_json::to_value(rule.blame).unwrap();
        let unit = if rule.unit == "1" { "share" } else { rule.unit };
        text.push_str(&format!(
            "| `{}` | {scope} | {} | {} ({unit}) | {} | {} | {} | {} |\n",
            rule.id,
            rule.needs,
            rule.measures,
            rule.passes,
            rule.why,
            blame.as_str().unwrap(),
            rule.remedy,
        ));
    }
    text
}

/// `UPDATE_DOCS=1 cargo test -p loadgen methodology` rewrites the table.
#[test]
fn the_methodology_has_every_gate_and_every_metric() {
    const BEGIN: &str = "<!-- gates: written from loadgen/src/gates/rules.rs -->\n";
    const END: &str = "<!-- end of gates -->";
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/methodology.md");
    let mut text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (stored, after) = rest.split_once(END).unwrap();
    let stored = stored.to_owned();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        text = format!("{before}{BEGIN}{}{END}{after}", table());
        std::fs::write(&path, &text).unwrap();
    } else {
        assert!(
            stored == table(),
            "{} has another table: run with UPDATE_DOCS=1",
            path.display()
        );
    }
    for metric in inferscope_shared::definitions::ALL {
        let symbol = format!("`{}`", metric.symbol);
        assert!(
            text.contains(&symbol),
            "{symbol} is not in {}",
            path.display()
        );
    }
}

#[test]
fn thresholds_are_said_as_they_are_applied() {
    for rule in RULES.iter().filter(|r| r.unit == "1" || r.unit == "ms") {
        let threshold = rule.threshold.unwrap();
        let said =
            rule.passes.contains(&threshold.to_string()) || rule.passes.contains("all of them");
        assert!(
            said,
            "{}: {} is not in {:?}",
            rule.id, threshold, rule.passes
        );
    }
}
