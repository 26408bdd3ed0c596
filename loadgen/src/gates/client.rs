//! Gates about the load generator itself.

use super::rules::{
    CALM_SECONDS, DISPATCH_LAG_MOST_MS, DISPATCH_LAG_MS, DISPATCH_LAG_SHARE, LOOP_LAG_MS,
};
use super::{Blame, Facts, Finding, GateStatus};
use crate::drive::lag::ClientMetrics;
use crate::measure::point::PointMeasure;

/// A line of `client_metrics.jsonl` is about the second before its stamp.
const SECOND_NS: u64 = 1_000_000_000;

pub(super) fn timing_complete(_: &Facts<'_>, point: &PointMeasure) -> Finding {
    let timed = &point.evidence.timed;
    let Some(share) = timed.fraction() else {
        return Finding::not_applicable("no request ended ok");
    };
    let evidence = match &timed.first_miss {
        None => format!("all {} ok answers have their stamps in order", timed.whole),
        Some(miss) => format!(
            "{} of {} ok answers; first miss {miss}",
            timed.part, timed.whole
        ),
    };
    Finding::held(share >= 1.0, GateStatus::Fail, evidence).measured(Some(share))
}

pub(super) fn dispatch_lag(facts: &Facts<'_>, point: &PointMeasure) -> Finding {
    let Some(lag) = point.evidence.dispatch_ms else {
        return Finding::undecided("no request was sent");
    };
    let evidence = if point.point.load.is_open() {
        let late = point.point.requests.late;
        format!("dispatched up to {lag:.2} ms after plan at p99; {late} requests late")
    } else {
        format!("dispatched up to {lag:.2} ms after a slot came free at p90")
    };
    let limit = dispatch_limit_ms(facts, point);
    Finding::held(lag <= limit, GateStatus::Fail, evidence)
        .measured(Some(lag))
        .against(limit)
}

fn dispatch_limit_ms(facts: &Facts<'_>, point: &PointMeasure) -> f64 {
    if !point.point.load.is_open() {
        return DISPATCH_LAG_MOST_MS;
    }
    let limits = facts.slo.map(|slo| slo.limits).unwrap_or_default();
    let smallest = [limits.ttft_ms, limits.e2e_ms]
        .into_iter()
        .flatten()
        .reduce(f64::min);
    smallest.map_or(DISPATCH_LAG_MS, |ms| {
        (ms * DISPATCH_LAG_SHARE).clamp(DISPATCH_LAG_MS, DISPATCH_LAG_MOST_MS)
    })
}

pub(super) fn client_loop_lag(facts: &Facts<'_>, point: &PointMeasure) -> Finding {
    let run = facts.point_run(&point.point.point_id);
    let Some((start, end)) = run.and_then(|r| Some((r.start_ns?, r.end_ns?))) else {
        return Finding::undecided("the point has no recorded start and end")
            .blaming(Blame::Environment)
            .remedied_by("run it again to its end; what was measured is kept");
    };
    // Lines whose second touches the point; else, for a point shorter than a second, the ones
    // next to it.
    let near = |slack: u64| -> Vec<f64> {
        facts
            .readings
            .client
            .iter()
            .filter(|line| {
                line.t_ns.plus_ns(slack) > start
                    && line.t_ns.0.saturating_sub(SECOND_NS + slack) < end.0
            })
            .filter_map(worst)
            .collect()
    };
    let mut lags = near(0);
    if lags.is_empty() {
        lags = near(SECOND_NS);
    }
    lags.sort_unstable_by(f64::total_cmp);
    let Some(lag) = CALM_SECONDS.nearest(&lags) else {
        return Finding::undecided("no line of client_metrics.jsonl is near this point")
            .remedied_by("measure for longer than a second");
    };
    let max = lags.last().copied().unwrap_or(lag);
    Finding::held(
        lag <= LOOP_LAG_MS,
        GateStatus::Fail,
        format!(
            "{} seconds looked at; the worst of them {max:.2} ms",
            lags.len()
        ),
    )
    .measured(Some(lag))
}

fn worst(line: &ClientMetrics) -> Option<f64> {
    line.loop_lag_ms.p99.or(line.loop_lag_ms.max)
}
