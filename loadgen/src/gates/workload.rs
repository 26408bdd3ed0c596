//! Gates about what was asked for and how much of it there is.

use super::rules::EXACT_LENGTH;
use super::{Blame, Facts, Finding, GateStatus};
use crate::measure::point::PointMeasure;
use crate::slo::Limits;
use crate::stats::{certify_needed, effective_size};

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
    if facts.replay {
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
    let needed = certify_needed(slo.at);
    let series = &point.evidence.ttft_in_order;
    let effective = effective_size(series);
    let evidence = format!(
        "{} answers, worth {effective:.0} independent ones; {} needs {needed}",
        series.len(),
        slo.at
    );
    let finding = Finding::held(effective >= needed as f64, GateStatus::Undecided, evidence)
        .measured(Some(effective))
        .against(needed as f64);
    if effective >= needed as f64 || series.is_empty() {
        return finding;
    }
    let more = (needed as f64 / effective * series.len() as f64).ceil();
    finding.remedied_by(format!(
        "measure about {more} requests per point, or claim a lower percentile (at=p50)"
    ))
}
