//! Whether the instrument's own error is small against the limits that the run is judged by.

use std::fmt;

use super::rules::INSTRUMENT_SHARE;
use super::{Facts, Finding, GateStatus};
use crate::artifacts::manifest::{ErrorSummary, Instrument};
use crate::report::numbers::short;
use crate::slo::Limits;

/// An error of the instrument beside a limit of the SLO.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Excess {
    /// Which error.
    error: &'static str,
    /// Which limit.
    limit: &'static str,
    /// The error's p99, or its maximum where there are too few values for one; milliseconds.
    measured_ms: Option<f64>,
    /// Whether it is the maximum.
    is_max: bool,
    /// What it may be, in milliseconds.
    allowed_ms: f64,
}

impl Excess {
    fn of(error: &'static str, limit: &'static str, summary: &ErrorSummary, ms: f64) -> Self {
        Self {
            error,
            limit,
            measured_ms: summary.p99.or(summary.max),
            is_max: summary.p99.is_none(),
            allowed_ms: INSTRUMENT_SHARE * ms,
        }
    }

    /// PASS, FAIL, or UNDECIDED without a value.
    #[must_use]
    pub fn status(&self) -> GateStatus {
        match self.measured_ms {
            None => GateStatus::Undecided,
            Some(ms) if ms > self.allowed_ms => GateStatus::Fail,
            Some(_) => GateStatus::Pass,
        }
    }

    /// How much of what is allowed is used; 1 is the limit.
    fn share(&self) -> f64 {
        self.measured_ms.unwrap_or(f64::INFINITY) / self.allowed_ms
    }
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let which = if self.is_max { "max" } else { "p99" };
        let measured = self.measured_ms.map_or_else(|| "unknown".to_owned(), short);
        write!(
            f,
            "{} error {which} {measured} ms, a tenth of the {} limit is {} ms",
            self.error,
            self.limit,
            short(self.allowed_ms)
        )
    }
}

/// Each latency limit with the error that its metric carries. An end-to-end time ends with one
/// event, as a time to first token does, so it carries that error.
#[must_use]
pub fn held_against(instrument: &Instrument, limits: &Limits) -> Vec<Excess> {
    let (ttft, itl) = (&instrument.ttft_error_ms, &instrument.itl_error_ms);
    [
        ("TTFT", "ttft", ttft, limits.ttft_ms),
        ("ITL", "tpot", itl, limits.tpot_ms),
        ("TTFT", "e2e", ttft, limits.e2e_ms),
    ]
    .into_iter()
    .filter_map(|(error, limit, summary, ms)| Some(Excess::of(error, limit, summary, ms?)))
    // Answers of one event have no gap that could be off.
    .filter(|e| e.limit != "tpot" || instrument.output_events > 1)
    .collect()
}

pub(super) fn instrument_error(facts: &Facts<'_>) -> Finding {
    let calibration = &facts.manifest.calibration;
    let limits = facts.slo.map(|slo| slo.limits).unwrap_or_default();
    let none = limits == Limits::default();
    let Some(instrument) = &calibration.instrument else {
        let why = calibration
            .instrument_absent
            .as_deref()
            .unwrap_or("not measured by the version that ran it");
        return if none {
            Finding::not_applicable(format!("no latency limit to hold it against; {why}"))
        } else {
            Finding::undecided(format!("the instrument's error is not known: {why}"))
        };
    };
    let held = held_against(instrument, &limits);
    let worst = held.iter().max_by(|a, b| a.share().total_cmp(&b.share()));
    let Some(worst) = worst else {
        let [ttft, itl] = [&instrument.ttft_error_ms, &instrument.itl_error_ms]
            .map(|e| e.p99.or(e.max).map_or_else(|| "–".to_owned(), short));
        return Finding::not_applicable(format!(
            "no latency limit to hold it against; TTFT error {ttft} ms, ITL error {itl} ms"
        ));
    };
    let said: Vec<String> = held.iter().map(ToString::to_string).collect();
    Finding::new(worst.status(), said.join("; "))
        .measured(worst.measured_ms)
        .against(worst.allowed_ms)
}

#[cfg(test)]
mod tests {
    use super::super::{Blame, Gate};
    use super::*;
    use crate::analysis::synthetic::Synthetic;

    fn gate(it: &Synthetic) -> Gate {
        let gates = it.analyze().validation.gates;
        gates
            .into_iter()
            .find(|g| g.id == "instrument_error")
            .unwrap()
    }

    #[test]
    fn an_error_above_a_tenth_of_a_limit_fails_the_client() {
        let mut it = Synthetic::new(20);
        // The instrument's p99 is 0.4 ms.
        for (slo, status, allowed) in [
            ("ttft=4ms,at=p50", GateStatus::Pass, 0.4),
            ("ttft=3ms,at=p50", GateStatus::Fail, 0.3),
            ("ttft=9s,tpot=3ms,at=p50", GateStatus::Fail, 0.3),
            ("ttft=9s,tpot=9s,e2e=3ms,at=p50", GateStatus::Fail, 0.3),
        ] {
            it.slo = Some(slo);
            let gate = gate(&it);
            assert_eq!((gate.status, gate.blame), (status, Blame::Client), "{slo}");
            assert_eq!(gate.measured, Some(0.4), "{slo}");
            assert!((gate.threshold.unwrap() - allowed).abs() < 1e-9, "{slo}");
        }
    }

    #[test]
    fn below_a_hundred_values_the_largest_error_counts() {
        let mut it = Synthetic::new(20);
        it.slo = Some("ttft=5ms,at=p50");
        assert_eq!(gate(&it).status, GateStatus::Pass);
        let instrument = it.manifest.calibration.instrument.as_mut().unwrap();
        instrument.ttft_error_ms.p99 = None;
        assert_eq!(gate(&it).status, GateStatus::Fail);
        assert_eq!(gate(&it).measured, Some(1.0));
    }

    #[test]
    fn what_was_not_measured_decides_nothing_and_says_why() {
        let mut it = Synthetic::new(20);
        it.slo = Some("success=0.5");
        let found = gate(&it);
        assert_eq!(found.status, GateStatus::NotApplicable);
        assert!(found.evidence.contains("0.400 ms"), "{}", found.evidence);
        it.manifest.calibration.instrument = None;
        it.manifest.calibration.instrument_absent = Some("calibration: off".to_owned());
        assert_eq!(gate(&it).status, GateStatus::NotApplicable);
        it.slo = Some("ttft=1s,at=p50");
        let found = gate(&it);
        assert_eq!(found.status, GateStatus::Undecided);
        assert!(
            found.evidence.contains("calibration: off"),
            "{}",
            found.evidence
        );
    }
}
