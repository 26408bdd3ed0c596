//! Whether a run can be believed: gates, and the verdict that follows from them.
//!
//! Gates judge the instrument and the experiment, never the engine's speed: refusals, time-outs
//! and growing queues are results. Each gate is a pure function from [`Facts`] to findings; what
//! it needs, its threshold and why, whom it blames and what to do stands once, in [`rules`].
//!
//! The surprise: a gate that lacks evidence is UNDECIDED and makes the run INCONCLUSIVE; it never
//! passes by silence. NOT_APPLICABLE always says why.

mod client;
mod engine;
mod gpu;
pub mod instrument;
mod joined;
mod machine;
mod rows;
mod rules;
mod server;
mod tokens;
mod verdict;
mod workload;

use inferscope_shared::record::SCHEMA_VERSION;

use crate::artifacts::manifest::{Manifest, PointRun};
use crate::config::Resolved;
use crate::join::JoinReport;
use crate::measure::point::PointMeasure;
use crate::slo::Slo;
use crate::telemetry::readings::Readings;

pub use rules::{Rule, rules};
pub use verdict::{Blame, Gate, GateStatus, Status, Validation};

/// What gates look at.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The run.
    pub manifest: &'a Manifest,
    /// What it was asked to do.
    pub config: &'a Resolved,
    /// Limits that the run was given.
    pub slo: Option<&'a Slo>,
    /// Its points.
    pub points: &'a [PointMeasure],
    /// What was sampled beside the run.
    pub readings: &'a Readings,
    /// The join; none when the run has no gateway records.
    pub join: Option<&'a JoinReport>,
}

impl<'a> Facts<'a> {
    /// What happened at a point.
    #[must_use]
    pub fn point_run(&self, point_id: &str) -> Option<&'a PointRun> {
        self.manifest.points.iter().find(|p| p.point_id == point_id)
    }

    /// Why a source of telemetry gave nothing.
    fn absent(&self, source: &str) -> Option<&'a str> {
        let report = self
            .manifest
            .telemetry
            .iter()
            .find(|r| r.source == source)?;
        report.reason.as_deref()
    }
}

/// What a gate's function returns: the part of a [`Gate`] that its rule does not fix.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    status: GateStatus,
    measured: Option<f64>,
    threshold: Option<f64>,
    evidence: String,
    blame: Option<Blame>,
    remedy: Option<String>,
}

impl Finding {
    fn new(status: GateStatus, evidence: impl Into<String>) -> Self {
        Self {
            status,
            measured: None,
            threshold: None,
            evidence: evidence.into(),
            blame: None,
            remedy: None,
        }
    }

    fn not_applicable(why: impl Into<String>) -> Self {
        Self::new(GateStatus::NotApplicable, why)
    }

    fn undecided(why: impl Into<String>) -> Self {
        Self::new(GateStatus::Undecided, why)
    }

    /// PASS or `otherwise`.
    fn held(ok: bool, otherwise: GateStatus, evidence: impl Into<String>) -> Self {
        Self::new(if ok { GateStatus::Pass } else { otherwise }, evidence)
    }

    fn measured(mut self, value: Option<f64>) -> Self {
        self.measured = value.filter(|v| v.is_finite());
        self
    }

    fn against(mut self, threshold: f64) -> Self {
        self.threshold = Some(threshold);
        self
    }

    fn blaming(mut self, blame: Blame) -> Self {
        self.blame = Some(blame);
        self
    }

    fn remedied_by(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    fn under(self, rule: &Rule, scope: &str) -> Gate {
        let judged = self.status != GateStatus::NotApplicable;
        Gate {
            id: rule.id.to_owned(),
            scope: scope.to_owned(),
            status: self.status,
            measured: self.measured,
            threshold: self.threshold.or(rule.threshold).filter(|_| judged),
            unit: rule.unit.to_owned(),
            blame: self.blame.unwrap_or(rule.blame),
            remedy: self.remedy.unwrap_or_else(|| rule.remedy.to_owned()),
            evidence: self.evidence,
        }
    }
}

/// A gate's function.
#[derive(Debug, Clone, Copy)]
pub enum Check {
    /// Once over the run.
    Run(fn(&Facts<'_>) -> Finding),
    /// Once per point.
    Point(fn(&Facts<'_>, &PointMeasure) -> Finding),
}

/// Judges a run: every rule on every scope it has.
#[must_use]
pub fn judge(facts: &Facts<'_>) -> Validation {
    let mut gates = Vec::new();
    for rule in rules() {
        match rule.check {
            Check::Run(check) => gates.push(check(facts).under(rule, "run")),
            Check::Point(check) => gates.extend(
                facts
                    .points
                    .iter()
                    .map(|point| check(facts, point).under(rule, &point.point.point_id)),
            ),
        }
    }
    Validation {
        schema_version: SCHEMA_VERSION,
        status: Status::of(&gates),
        gates,
    }
}

#[cfg(test)]
mod tests;
