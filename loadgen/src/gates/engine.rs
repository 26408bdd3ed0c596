//! Gates about how the run and the engine ended.

use super::rules::SUCCESS_RATE;
use super::{Blame, Facts, Finding, GateStatus};
use crate::artifacts::manifest::StopReason;
use crate::artifacts::writer::BACKLOG;
use crate::measure::point::PointMeasure;
use inferscope_shared::definitions::arithmetic::fraction;

const AGAIN: &str = "run it again to its end; what was measured is kept";

pub(super) fn run_complete(facts: &Facts<'_>) -> Finding {
    let points = &facts.manifest.points;
    let whole = points.iter().filter(|p| {
        matches!(
            p.stop_reason,
            Some(StopReason::Requests | StopReason::Duration | StopReason::EngineGone)
        )
    });
    let (whole, all) = (whole.count(), points.len());
    let ok = whole == all && !facts.manifest.interrupted;
    let stopped = |reason| {
        let mut points = points.iter();
        points
            .find(|p| p.stop_reason == Some(reason))
            .map(|p| p.point_id.as_str())
    };
    let dry: Vec<&str> = points
        .iter()
        .filter(|p| p.stop_reason == Some(StopReason::PoolExhausted))
        .map(|p| p.point_id.as_str())
        .collect();
    let evidence = if ok {
        format!("all {all} points ran to their end")
    } else if facts.manifest.interrupted {
        format!("interrupted; {whole} of {all} points ran to their end")
    } else if !dry.is_empty() {
        format!(
            "{} ran out of prepared requests before its time",
            dry.join(", ")
        )
    } else if let Some(point) = stopped(StopReason::PointTimeout) {
        format!("{point} was not over when timeouts.point ended it")
    } else {
        format!("{whole} of {all} points ran to their end; loadgen itself was ended")
    };
    let finding = Finding::held(ok, GateStatus::Undecided, evidence)
        .measured(Some(whole as f64))
        .against(all as f64);
    if facts.manifest.interrupted {
        return finding;
    }
    if dry.is_empty() {
        return match stopped(StopReason::PointTimeout) {
            None => finding,
            Some(_) => finding.blaming(Blame::Workload).remedied_by(
                "ask for fewer requests, bound each by timeouts.total, or raise timeouts.point",
            ),
        };
    }
    finding
        .blaming(Blame::Workload)
        .remedied_by("measure for a shorter time, or limit the point by load.requests")
}

pub(super) fn engine_alive(facts: &Facts<'_>, point: &PointMeasure) -> Finding {
    let Some(run) = facts.point_run(&point.point.point_id) else {
        return Finding::undecided("the manifest does not know this point");
    };
    let saw = run.alive_error.as_deref().unwrap_or("no reason given");
    let engine = facts.manifest.engine.name.as_deref().unwrap_or("engine");
    if run.stop_reason == Some(StopReason::EngineGone) {
        return Finding::new(
            GateStatus::Fail,
            format!("the {engine} was gone before the point was over: {saw}"),
        );
    }
    match (run.alive_after, run.stop_reason) {
        (Some(true), _) => Finding::new(GateStatus::Pass, "answered after the point"),
        (Some(false), _) => Finding::new(
            GateStatus::Fail,
            format!("the {engine} did not answer after the point: {saw}"),
        ),
        (None, Some(StopReason::Interrupted)) => {
            Finding::not_applicable("interrupted, so not asked")
        }
        (None, _) if run.alive_error.is_some() => {
            Finding::undecided(format!("the {engine} gave no clear answer: {saw}"))
        }
        (None, _) => Finding::undecided("the point has no recorded end, so nobody asked")
            .blaming(Blame::Environment)
            .remedied_by(AGAIN),
    }
}

pub(super) fn success_rate(facts: &Facts<'_>, point: &PointMeasure) -> Finding {
    let (requests, errors) = (point.point.requests, &point.point.errors);
    let Some(rate) = point.point.success_rate else {
        return Finding::undecided("no measured request was planned here or reached");
    };
    let own = facts.slo.and_then(|slo| slo.success);
    let threshold = own.map_or(SUCCESS_RATE, |limit| limit.min(SUCCESS_RATE));
    let mut evidence = format!(
        "{} of {} planned requests ended ok",
        requests.ok, requests.planned
    );
    if !errors.is_empty() {
        let kinds: Vec<String> = errors.iter().map(|(k, n)| format!("{k} {n}")).collect();
        evidence.push_str(&format!("; {}", kinds.join(", ")));
    }
    let apart_from_signal = fraction(
        requests.ok,
        requests.planned.saturating_sub(point.evidence.interrupted),
    );
    let all: u64 = errors.values().sum();
    let most = |kinds: &[&str]| {
        let these = kinds.iter().filter_map(|kind| errors.get(*kind));
        these.sum::<u64>().saturating_mul(2) > all
    };
    let finding = if rate >= threshold {
        Finding::new(GateStatus::Pass, evidence)
    } else if point.evidence.interrupted > 0 && apart_from_signal.is_none_or(|r| r >= threshold) {
        Finding::undecided(evidence)
            .blaming(Blame::Environment)
            .remedied_by(AGAIN)
    } else if most(&OWN_LIMITS) {
        Finding::new(GateStatus::Fail, evidence)
            .blaming(Blame::Client)
            .remedied_by(
                "most of them are the client's own limits: raise load.max_in_flight or the \
                 limit of open files (ulimit -n), write to a faster disk, or lower the load",
            )
    } else if most(&OWN_TIME) {
        Finding::new(GateStatus::Fail, evidence)
            .blaming(Blame::Workload)
            .remedied_by(
                "most of them were cut or not sent because the run's own time was over: limit \
                 the point by load.requests, raise timeouts.drain or timeouts.point, or lower \
                 the load",
            )
    } else if most(&OF_A_LIMIT) {
        Finding::new(GateStatus::Fail, evidence)
            .blaming(Blame::Workload)
            .remedied_by(
                "most of them met a limit on the way (429): the key, tenant or pool may not send \
                 so much. The answers' messages say which limit (error_message in \
                 requests.jsonl): raise it, use another key, or lower the load",
            )
    } else {
        Finding::new(GateStatus::Fail, evidence)
    };
    finding.measured(Some(rate)).against(threshold)
}

/// Requests that the client itself did not send or could not connect, for want of room.
const OWN_LIMITS: [&str; 4] = ["max_in_flight", "client_limit", "client_panic", BACKLOG];

/// Requests that were more than their sender may send.
const OF_A_LIMIT: [&str; 1] = ["http_429"];

/// Requests that the run's own time limits cut, or kept from being sent.
const OWN_TIME: [&str; 3] = ["run_end", "point_timeout", "duration"];
