//! Gates about what was asked for and how much of it there is.

use super::rules::{CERTIFY_RISK, EXACT_LENGTH};
use super::{Blame, Facts, Finding, GateStatus};
use crate::measure::judge::Sample;
use crate::measure::point::PointMeasure;
use crate::slo::Limits;
use crate::stats::{Percentile, chance_of_fewer};

pub(super) fn warmup(_: &Facts<'_>, point: &PointMeasure) -> Finding {
    let warmup = point.point.warmup;
    if warmup.planned == 0 {
        return Finding::undecided("no warm-up was planned; first requests are in the numbers");
    }
    let evidence = format!(
        "{} of {} warm-up requests ended ok",
        warmup.ok, warmup.planned
    );
    let finding = if warmup.ok >= 1 {
        Finding::new(GateStatus::Pass, evidence)
    } else {
        Finding::new(GateStatus::Fail, evidence)
            .blaming(Blame::Engine)
            .remedied_by("look at error_kind of the warm-up's lines in requests.jsonl")
    };
    finding.measured(Some(warmup.ok as f64))
}

pub(super) fn output_length(facts: &Facts<'_>, point: &PointMeasure) -> Finding {
    if facts.config.prompts.workload.is_some() {
        return Finding::not_applicable("a replayed workload states caps, not lengths");
    }
    let exact = &point.evidence.exact_length;
    let Some(share) = exact.fraction() else {
        return Finding::not_applicable("no ok answer has a token count");
    };
    let evidence = match &exact.first_miss {
        None => format!("all {} answers have the length asked for", exact.whole),
        Some(miss) => format!("{} of {}; first miss {miss}", exact.part, exact.whole),
    };
    Finding::held(share >= EXACT_LENGTH, GateStatus::Fail, evidence).measured(Some(share))
}

pub(super) fn token_availability(_: &Facts<'_>, point: &PointMeasure) -> Finding {
    let counted = &point.evidence.counted;
    let Some(share) = counted.fraction() else {
        return Finding::not_applicable("no request ended ok");
    };
    let evidence = match &counted.first_miss {
        None => format!(
            "all {} ok answers were counted by the engine",
            counted.whole
        ),
        Some(miss) => format!("{} of {}; first miss {miss}", counted.part, counted.whole),
    };
    Finding::held(share >= 1.0, GateStatus::Undecided, evidence).measured(Some(share))
}

pub(super) fn sample_size(facts: &Facts<'_>, point: &PointMeasure) -> Finding {
    let Some(slo) = facts.slo.filter(|slo| slo.limits != Limits::default()) else {
        return Finding::not_applicable("no percentile is claimed: the run has no latency limit");
    };
    if point
        .point
        .slo
        .as_ref()
        .is_some_and(|s| s.met == Some(false))
    {
        return Finding::not_applicable("the limits are not met, so there is none to certify");
    }
    let certified = point.evidence.samples.iter().map(|sample| {
        let (n, misses) = independent(sample);
        (chance_of_fewer(slo.at, n, misses), sample)
    });
    let Some((chance, worst)) = certified.max_by(|a, b| a.0.total_cmp(&b.0)) else {
        return Finding::undecided("nothing was judged");
    };
    let evidence = format!(
        "{}: {} of {} planned requests missed the limit; worth {} independent ones at {}",
        worst.metric,
        worst.misses,
        worst.planned,
        independent(worst).0,
        slo.at
    );
    let enough = chance <= CERTIFY_RISK;
    let finding = Finding::held(enough, GateStatus::Undecided, evidence).measured(Some(chance));
    match requests_needed(slo.at, worst).filter(|_| !enough) {
        Some(more) => finding.remedied_by(format!(
            "measure about {more} requests per point, or claim a lower percentile (at=p50)"
        )),
        None => finding,
    }
}

/// A sample by its effective number: values rounded down, misses up.
fn independent(sample: &Sample) -> (usize, usize) {
    let worth = |n: u64| n as f64 * sample.worth;
    (
        worth(sample.planned).floor() as usize,
        worth(sample.misses).ceil() as usize,
    )
}

/// Requests that would certify the limit if they missed it as often as these and depended on each
/// other as much; none below a hundred times as many.
fn requests_needed(at: Percentile, sample: &Sample) -> Option<u64> {
    let now = sample.planned.max(1);
    let share = sample.misses as f64 / now as f64;
    (now..now.saturating_mul(100))
        .step_by(usize::try_from(now / 100 + 1).unwrap_or(1))
        .find(|&planned| {
            let misses = (share * planned as f64).ceil() as u64;
            let (n, misses) = independent(&Sample {
                planned,
                misses,
                ..sample.clone()
            });
            chance_of_fewer(at, n, misses) <= CERTIFY_RISK
        })
}
