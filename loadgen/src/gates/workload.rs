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

/// A run of more requests is no advice.
const MOST_REQUESTS: u64 = 10_000_000;

/// Requests that would certify the limit if they missed it as often as these and depended on each
/// other as much, to a hundredth of those there are; none below a hundred times as many.
fn requests_needed(at: Percentile, sample: &Sample) -> Option<u64> {
    let now = sample.planned.max(1);
    let share = sample.misses as f64 / now as f64;
    let step = now / 100 + 1;
    let certify = |planned: u64| {
        let misses = (share * planned as f64).ceil() as u64;
        let (n, misses) = independent(&Sample {
            planned,
            misses,
            ..sample.clone()
        });
        chance_of_fewer(at, n, misses) <= CERTIFY_RISK
    };
    let most = now.saturating_mul(100).min(MOST_REQUESTS);
    let (mut few, mut enough) = (0, most.saturating_sub(now) / step);
    // Each try adds up as many terms as there are misses, so there is no trying all of them.
    if !certify(now + enough * step) {
        return None;
    }
    while few < enough {
        let middle = u64::midpoint(few, enough);
        if certify(now + middle * step) {
            enough = middle;
        } else {
            few = middle + 1;
        }
    }
    Some(now + enough * step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needed(planned: u64, misses: u64, worth: f64) -> Option<u64> {
        let sample = Sample {
            metric: "ttft_ms",
            planned,
            misses,
            worth,
        };
        requests_needed(Percentile::P95, &sample)
    }

    #[test]
    fn the_advice_is_the_number_that_certifies() {
        assert_eq!(needed(20, 0, 1.0), Some(59));
        assert_eq!(needed(20, 0, 0.5), Some(118));
        // As many misses as the percentile allows certify nothing, however many there are.
        assert_eq!(needed(20, 1, 1.0), None);
    }

    /// (1.645/0.001)² · 0.05 · 0.95 requests, by the normal approximation.
    #[test]
    fn the_advice_for_a_large_run_takes_no_longer() {
        let advice = needed(100_000, 4_900, 1.0).unwrap();
        assert!((120_000..140_000).contains(&advice), "{advice}");
        assert_eq!(needed(1_000_000, 50_000, 1.0), None);
    }
}
