mod pieces;

use inferscope_shared::record::request::{Outcome, RequestRecord, TokensSource};

use super::aggregate::Point;
use crate::analysis::synthetic::{MS, Synthetic, broken, row};
use crate::config::LoadKind;
use crate::gates::{GateStatus, Status};

const POINT: &str = "direct.c1";

fn only_point(it: &Synthetic) -> Point {
    let mut points = it.analyze().aggregate.points;
    assert_eq!(points.len(), 1);
    points.remove(0)
}

/// `n` rows one after the other, after the warm-up's one.
fn rows(n: u64) -> Vec<RequestRecord> {
    (1..=n)
        .map(|seq| row(POINT, seq, 1_000 + seq * 100))
        .collect()
}

#[test]
fn numbers_follow_from_the_definitions() {
    let point = only_point(&Synthetic::direct(rows(20)));
    assert_eq!(point.metrics.ttft_ms.p50, Some(50.0));
    assert_eq!(point.metrics.first_event_ms.p50, Some(5.0));
    assert_eq!(point.metrics.tpot_ms.p50, Some(10.0));
    assert_eq!(point.metrics.itl_event_ms.n, 80);
    assert_eq!(
        point.metrics.itl_event_ms.p99, None,
        "80 gaps do not hold a p99"
    );
    assert_eq!(point.metrics.itl_token_ms.p50, Some(10.0));
    assert_eq!(point.metrics.e2e_ms.max, Some(90.0));
    assert_eq!(point.metrics.dispatch_lag_ms.max, Some(0.0));
    assert_eq!(point.metrics.connect_ms.n, 0);
    // From the first dispatch at 1.1 s to the last answer's end at 3.091 s.
    assert_eq!(point.window.seconds, Some(1.991));
    assert_eq!(point.throughput.completed, 20);
    assert_eq!(point.throughput.output_tokens_per_s, Some(100.0 / 1.991));
    assert_eq!(point.warmup.ok, 1);
    assert_eq!((point.goodput, point.slo), (None, None));
}

#[test]
fn counts_add_up_whatever_happens() {
    let mut all = rows(10);
    all[0].late = true;
    all[1] = broken(all[1].clone(), Outcome::Failed, "connect_refused", None, 1);
    all[2] = broken(
        all[2].clone(),
        Outcome::Incomplete,
        "run_end",
        Some(200),
        70,
    );
    all[3] = broken(all[3].clone(), Outcome::Dropped, "max_in_flight", None, 0);
    let r = only_point(&Synthetic::direct(all)).requests;
    assert_eq!((r.planned, r.sent, r.dropped), (10, 9, 1));
    assert_eq!((r.ok, r.failed, r.incomplete, r.late), (7, 1, 1, 1));
    assert_eq!(r.planned, r.sent + r.dropped);
    assert_eq!(r.sent, r.ok + r.failed + r.incomplete);
}

#[test]
fn m01_an_open_loop_counts_from_the_intended_instant_and_shows_both() {
    let mut it = Synthetic::direct(rows(20));
    it.manifest.points[0].load.kind = LoadKind::Rate;
    for row in &mut it.rows {
        row.intended_ns = row
            .intended_ns
            .map(|t| inferscope_shared::clock::MonoNs(t.0 - 40 * MS));
    }
    let m = only_point(&it).metrics;
    assert_eq!(
        (m.ttft_ms.p50, m.ttft_from_sent_ms.p50),
        (Some(90.0), Some(50.0))
    );
    assert_eq!(
        (m.e2e_ms.p50, m.e2e_from_sent_ms.p50),
        (Some(130.0), Some(90.0))
    );
    assert_eq!(m.dispatch_lag_ms.p50, Some(40.0));
}

#[test]
fn throughput_of_overlapping_slots_is_not_reported_too_slow() {
    // Four slots, each answer 400 ms, one dispatched each 100 ms: 10 answers a second for ever.
    let mut all: Vec<RequestRecord> = (0..44)
        .map(|seq| {
            let mut it = row(POINT, seq, 1_000 + seq * 100);
            let sent = it.sent_start_ns.unwrap();
            it.done_ns = Some(sent.plus_ns(400 * MS - 1));
            it.end_ns = Some(sent.plus_ns(400 * MS - 1));
            it
        })
        .collect();
    for it in &mut all[..4] {
        it.phase = inferscope_shared::record::request::Phase::Warmup;
    }
    let mut it = Synthetic::direct(all);
    it.rows.remove(0);
    it.as_planned();
    let rate = only_point(&it).throughput.requests_per_s.unwrap();
    assert!((rate - 10.0).abs() < 0.3, "{rate}");
}

/// An open loop at 20 arrivals a second, each answered after 2 s.
fn steady(n: u64) -> Synthetic {
    let mut rows: Vec<RequestRecord> = (1..=n)
        .map(|seq| {
            let mut it = row(POINT, seq, 1_000 + seq * 50);
            let sent = it.sent_start_ns.unwrap();
            let at = |ms: u64| Some(sent.plus_ns(ms * MS));
            (it.first_output_ns, it.last_output_ns) = (at(2_000), at(2_040));
            (it.done_ns, it.end_ns) = (at(2_040), at(2_041));
            it
        })
        .collect();
    rows.sort_by_key(|r| r.end_ns);
    let mut it = Synthetic::direct(rows);
    it.manifest.points[0].load.kind = LoadKind::Rate;
    it.slo = Some("ttft=3s,at=p50");
    it
}

#[test]
fn an_open_loop_counts_every_measured_answer_over_its_window() {
    let point = only_point(&steady(80));
    assert_eq!(point.window.seconds, Some(3.95));
    assert_eq!(point.throughput.completed, 80);
    assert_eq!(point.throughput.requests_per_s, Some(80.0 / 3.95));
    assert_eq!(point.throughput.output_tokens_per_s, Some(400.0 / 3.95));
    let goodput = point.goodput.unwrap();
    assert_eq!((goodput.good, goodput.fraction), (80, Some(1.0)));
    assert_eq!(goodput.requests_per_s, point.throughput.requests_per_s);
}

#[test]
fn a_late_request_of_an_open_loop_misses_its_limits_and_one_of_a_closed_loop_cannot_be_late() {
    let mut it = steady(80);
    for seq in 1..=50 {
        it.change(POINT, seq, |r| r.late = true);
    }
    let point = only_point(&it);
    let goodput = point.goodput.unwrap();
    assert_eq!((goodput.good, goodput.fraction), (30, Some(30.0 / 80.0)));
    assert_eq!(goodput.requests_per_s, Some(30.0 / 3.95));
    let slo = point.slo.unwrap();
    assert_eq!((slo.met, slo.checks[0].value), (Some(false), None));
    assert!(slo.reasons[0].contains("50 late"), "{:?}", slo.reasons);

    it.manifest.points[0].load.kind = LoadKind::Concurrency;
    assert_eq!(only_point(&it).goodput.unwrap().good, 80);
}

#[test]
fn an_interval_widens_where_a_slow_request_follows_a_slow_one() {
    let values = |order: fn(u64) -> u64| {
        let mut all = rows(200);
        for it in &mut all {
            let late = order(it.seq) * MS / 10;
            it.first_output_ns = it.first_output_ns.map(|t| t.plus_ns(late));
        }
        only_point(&Synthetic::direct(all)).metrics.ttft_ms
    };
    let mixed = values(|seq| seq * 83 % 200);
    let drifting = values(|seq| seq % 200);
    assert_eq!((mixed.n, mixed.p50), (drifting.n, drifting.p50));
    assert!(mixed.ci95.p50.is_some());
    assert_eq!(drifting.ci95.p50, None, "worth about one value");
}

#[test]
fn counts_from_outside_that_overflow_are_borne() {
    let mut it = Synthetic::direct(rows(3));
    for seq in 1..=3 {
        it.change(POINT, seq, |r| {
            r.completion_tokens = Some(u64::MAX);
            r.prompt_tokens = Some(u64::MAX);
        });
    }
    let point = only_point(&it);
    assert_eq!(point.tokens.completion.sum, Some(u64::MAX));
    assert!(point.throughput.output_tokens_per_s.unwrap().is_finite());

    let mut it = Synthetic::new(3);
    for record in it.records.as_mut().unwrap() {
        record.t_accept_ns = inferscope_shared::clock::MonoNs(u64::MAX / 2);
        record.t_first_output_ns = Some(u64::MAX);
        record.t_first_byte_ns = Some(0);
        for all in [&mut record.chunks.events, &mut record.chunks.end_offset] {
            all.fill(u64::MAX);
        }
    }
    it.analyze();
}

#[test]
fn m16_missing_usage_is_unknown_and_never_zero() {
    let mut all = rows(100);
    for it in all.iter_mut().skip(50) {
        it.completion_tokens = None;
        it.prompt_tokens = None;
        it.tokens_source = TokensSource::Unknown;
    }
    let it = Synthetic::direct(all);
    let point = only_point(&it);
    let tokens = point.tokens.completion;
    assert_eq!(
        (tokens.sum, tokens.exact, tokens.unknown),
        (Some(250), 50, 50)
    );
    assert_eq!(point.metrics.tpot_ms.n, 50);
    assert_eq!(point.throughput.output_tokens_per_s, None);
    assert!(point.throughput.requests_per_s.is_some());
    let validation = it.analyze().validation;
    let gate = validation
        .gates
        .iter()
        .find(|g| g.id == "token_availability")
        .unwrap();
    assert_eq!(
        (gate.status, gate.measured),
        (GateStatus::Undecided, Some(0.5))
    );

    let mut none = rows(3);
    for it in &mut none {
        it.completion_tokens = None;
        it.tokens_source = TokensSource::Unknown;
    }
    assert_eq!(
        only_point(&Synthetic::direct(none)).tokens.completion.sum,
        None
    );
}

#[test]
fn m18_failures_stay_in_every_denominator_and_are_named() {
    let mut it = Synthetic::direct(rows(100));
    it.slo = Some("e2e=2s,at=p50");
    for seq in 61..=90 {
        it.change(POINT, seq, |r| {
            *r = broken(r.clone(), Outcome::Failed, "http_503", Some(503), 1)
        });
    }
    for seq in 91..=100 {
        it.change(POINT, seq, |r| {
            *r = broken(r.clone(), Outcome::Failed, "total_timeout", None, 30_000);
        });
    }
    let analysis = it.analyze();
    let point = &analysis.aggregate.points[0];
    assert_eq!(point.metrics.e2e_ms.n, 60, "latency is that of successes");
    assert_eq!(point.metrics.e2e_ms.max, Some(90.0));
    assert_eq!(point.errors["http_503"], 30);
    assert_eq!(point.errors["total_timeout"], 10);
    assert_eq!(point.success_rate, Some(0.6));
    assert_eq!(point.throughput.completed, 60);
    assert_eq!(point.goodput.as_ref().unwrap().fraction, Some(0.6));
    assert_eq!(analysis.validation.status, Status::Invalid);
    assert_eq!(analysis.exit_code(), 3);
    let headline = crate::report::headline::text(&analysis);
    assert!(
        headline.contains("http_503 30, total_timeout 10"),
        "{headline}"
    );
}

#[test]
fn m18_a_run_that_states_its_success_limit_measures_failures() {
    let mut it = Synthetic::direct(rows(100));
    it.slo = Some("e2e=2s,success=0.5,at=p50");
    for seq in 61..=100 {
        it.change(POINT, seq, |r| {
            *r = broken(r.clone(), Outcome::Failed, "http_503", Some(503), 1)
        });
    }
    let analysis = it.analyze();
    assert_eq!(analysis.validation.status, Status::Valid);
    assert_eq!(
        analysis.aggregate.points[0].slo.as_ref().unwrap().met,
        Some(true)
    );
}

#[test]
fn m34_goodput_counts_who_kept_every_limit_of_all_planned() {
    let mut it = Synthetic::direct(rows(10));
    it.slo = Some("ttft=500ms,tpot=50ms,e2e=5s,at=p50");
    it.change(POINT, 1, |r| {
        *r = broken(r.clone(), Outcome::Failed, "http_500", Some(500), 1)
    });
    it.change(POINT, 2, |r| {
        *r = broken(
            r.clone(),
            Outcome::Incomplete,
            "no_finish_reason",
            Some(200),
            9,
        )
    });
    it.change(POINT, 3, |r| {
        // One token: TPOT is null and does not apply.
        r.completion_tokens = Some(1);
        r.last_output_ns = r.first_output_ns;
    });
    it.change(POINT, 4, |r| {
        let sent = r.sent_start_ns.unwrap();
        let at = |ms: u64| Some(sent.plus_ns(ms * MS));
        (r.first_output_ns, r.last_output_ns, r.done_ns, r.end_ns) =
            (at(500), at(540), at(540), at(540));
    });
    it.change(POINT, 5, |r| {
        let sent = r.sent_start_ns.unwrap();
        let at = |ms: u64| Some(sent.plus_ns(ms * MS));
        (r.first_output_ns, r.last_output_ns, r.done_ns, r.end_ns) =
            (at(501), at(541), at(541), at(541));
    });
    it.change(POINT, 6, |r| {
        // No count: nobody can say that it kept the TPOT limit.
        r.completion_tokens = None;
        r.tokens_source = TokensSource::Unknown;
    });
    let point = only_point(&it);
    let goodput = point.goodput.unwrap();
    // Misses: failed, incomplete, 501 ms, and the one without a count.
    assert_eq!((goodput.good, goodput.fraction), (6, Some(0.6)));
    assert!(goodput.requests_per_s.unwrap() > 0.0);
    assert!(
        goodput
            .reason
            .unwrap()
            .contains("1 answers have no token count")
    );
}

#[test]
fn m34_without_limits_there_is_no_goodput() {
    let analysis = Synthetic::direct(rows(3)).analyze();
    let text = serde_json::to_string(&analysis.aggregate).unwrap();
    assert!(!text.contains("goodput") && !text.contains("slo"), "{text}");
}

#[test]
fn m34_success_below_its_limit_makes_goodput_zero_with_the_reason() {
    let mut it = Synthetic::direct(rows(10));
    it.slo = Some("ttft=500ms,success=0.95,at=p50");
    it.change(POINT, 1, |r| {
        *r = broken(r.clone(), Outcome::Failed, "http_500", Some(500), 1)
    });
    let point = only_point(&it);
    let goodput = point.goodput.unwrap();
    assert_eq!(
        (goodput.requests_per_s, goodput.fraction),
        (Some(0.0), Some(0.0))
    );
    assert_eq!(goodput.good, 9);
    assert!(
        goodput
            .reason
            .unwrap()
            .contains("0.9000 is below its limit 0.95")
    );
    assert_eq!(point.slo.unwrap().met, Some(false));
}

#[test]
fn a_percentile_over_all_planned_counts_misses_as_infinitely_slow() {
    let mut it = Synthetic::direct(rows(20));
    it.slo = Some("ttft=100ms,at=p95");
    assert_eq!(only_point(&it).slo.unwrap().met, Some(true));
    it.change(POINT, 1, |r| {
        *r = broken(r.clone(), Outcome::Failed, "x", Some(500), 1)
    });
    assert_eq!(
        only_point(&it).slo.unwrap().met,
        Some(true),
        "one of twenty is above p95"
    );
    it.change(POINT, 2, |r| {
        *r = broken(r.clone(), Outcome::Failed, "x", Some(500), 1)
    });
    let slo = only_point(&it).slo.unwrap();
    assert_eq!((slo.met, slo.checks[0].value), (Some(false), None));
    assert!(
        slo.reasons[0].contains("without an answer"),
        "{:?}",
        slo.reasons
    );

    let mut few = Synthetic::direct(rows(19));
    few.slo = Some("ttft=100ms,at=p95");
    let slo = only_point(&few).slo.unwrap();
    assert_eq!(slo.met, None, "19 requests do not hold a p95");
}

#[test]
fn m21_a_run_without_a_success_is_strict_json() {
    let mut it = Synthetic::direct(rows(2));
    it.slo = Some("ttft=1s");
    for seq in 0..=2 {
        it.change(POINT, seq, |r| {
            *r = broken(r.clone(), Outcome::Dropped, "interrupted", None, 0)
        });
    }
    let analysis = it.analyze();
    for text in [
        serde_json::to_string(&analysis.aggregate).unwrap(),
        serde_json::to_string(&analysis.validation).unwrap(),
        serde_json::to_string(&analysis.attribution).unwrap(),
    ] {
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        let _: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(text.contains("\"schema_version\":1"));
    }
    let point = &analysis.aggregate.points[0];
    assert_eq!(point.window.seconds, None);
    assert_eq!(point.throughput.requests_per_s, None);
    assert_eq!(point.success_rate, Some(0.0));
}
