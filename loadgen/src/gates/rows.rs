//! Gates about whether the raw files hold everything that the run did.

use super::{Facts, Finding, GateStatus};
use crate::measure::point::PointMeasure;

const ENDED: &str = "loadgen itself was ended before it could say";

pub(super) fn raw_written(facts: &Facts<'_>) -> Finding {
    if let Some(error) = &facts.manifest.disk_error {
        return Finding::new(GateStatus::Fail, format!("a write failed: {error}"));
    }
    if !facts.manifest.finished {
        return Finding::undecided(ENDED).remedied_by("run it again to its end");
    }
    Finding::new(GateStatus::Pass, "every write succeeded")
}

pub(super) fn rows_complete(facts: &Facts<'_>, point: &PointMeasure) -> Finding {
    let rows = &point.evidence.rows;
    let found = rows.found();
    let Some(run) = facts.point_run(&point.point.point_id) else {
        return Finding::undecided("the manifest does not know this point");
    };
    let planned = run.planned.map(|n| n.saturating_add(run.warmup));
    let expected = planned.unwrap_or_else(|| rows.at_least());
    if rows.repeated > 0 {
        let evidence = format!("{} records repeat the number of another one", rows.repeated);
        return Finding::new(GateStatus::Fail, evidence)
            .measured(Some(found as f64))
            .against(expected as f64);
    }
    let otherwise = if facts.manifest.finished {
        GateStatus::Fail
    } else {
        GateStatus::Undecided
    };
    let evidence = match planned {
        Some(_) => format!("{found} records for {expected} planned arrivals"),
        None => format!("{found} records, numbered up to {expected}; no number was planned"),
    };
    let evidence = if facts.manifest.finished || found == expected {
        evidence
    } else {
        format!("{evidence}; {ENDED}")
    };
    let mut finding = Finding::held(found == expected, otherwise, evidence)
        .measured(Some(found as f64))
        .against(expected as f64);
    if otherwise == GateStatus::Undecided {
        finding = finding.remedied_by("run it again to its end; what was measured is kept");
    }
    finding
}
