//! Whether a run can be believed: gates, and the verdict that follows from them.
//!
//! Gates judge the instrument and the experiment, never the engine's speed: refusals, time-outs
//! and growing queues are results. Each gate is a pure function from [`Facts`] to findings; what
//! it needs, its threshold and why, whom it blames and what to do stands once, in [`RULES`].
//!
//! The surprise: a gate that lacks evidence is UNDECIDED and makes the run INCONCLUSIVE; it never
//! passes by silence. NOT_APPLICABLE always says why.

mod client;
mod engine;
mod joined;
mod rules;
mod workload;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use inferscope_shared::record::SCHEMA_VERSION;

use crate::artifacts::manifest::{Manifest, PointRun};
use crate::drive::lag::ClientMetrics;
use crate::join::JoinReport;
use crate::measure::point::PointMeasure;
use crate::slo::Slo;

pub use rules::{RULES, Rule};

/// Whom a failed gate points at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Blame {
    /// The load generator or the machine it runs on.
    Client,
    /// Between the parties.
    Network,
    /// The gateway.
    Gateway,
    /// The engine.
    Engine,
    /// The machine or its surroundings.
    Environment,
    /// What was asked for.
    Workload,
    /// Too few samples.
    Statistics,
}

/// What a gate found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum GateStatus {
    /// Sound.
    Pass,
    /// Not sound.
    Fail,
    /// The evidence does not say.
    Undecided,
    /// Nothing here to judge.
    NotApplicable,
}

impl GateStatus {
    /// As printed.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
            Self::Undecided => "UNDECIDED",
            Self::NotApplicable => "NOT_APPLICABLE",
        }
    }
}

/// The verdict over a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    /// Its numbers can be used.
    Valid,
    /// They cannot.
    Invalid,
    /// Not enough is known to say.
    Inconclusive,
}

impl Status {
    /// Any FAIL is INVALID, else any UNDECIDED is INCONCLUSIVE, else VALID.
    #[must_use]
    pub fn of(gates: &[Gate]) -> Self {
        let any = |status| gates.iter().any(|g| g.status == status);
        if any(GateStatus::Fail) {
            Self::Invalid
        } else if any(GateStatus::Undecided) {
            Self::Inconclusive
        } else {
            Self::Valid
        }
    }

    /// As printed.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Valid => "VALID",
            Self::Invalid => "INVALID",
            Self::Inconclusive => "INCONCLUSIVE",
        }
    }

    /// Exit code of a process that reports it.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Valid => 0,
            Self::Invalid => 3,
            Self::Inconclusive => 4,
        }
    }
}

/// One gate on one scope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gate {
    /// Its id, as in docs/methodology.md.
    pub id: String,
    /// `run`, or a point id.
    pub scope: String,
    /// What it found.
    pub status: GateStatus,
    /// The measured value; null when there is none.
    pub measured: Option<f64>,
    /// What it was held against; null when there is no number to hold against.
    pub threshold: Option<f64>,
    /// Unit of both.
    pub unit: String,
    /// Whom a FAIL or UNDECIDED points at.
    pub blame: Blame,
    /// What to do about it.
    pub remedy: String,
    /// What was seen, in words.
    pub evidence: String,
}

/// `validation.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Validation {
    /// Version of the artifact schemas.
    pub schema_version: u32,
    /// The verdict.
    pub status: Status,
    /// Every gate on every scope.
    pub gates: Vec<Gate>,
}

/// What gates look at.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The run.
    pub manifest: &'a Manifest,
    /// Limits that the run was given.
    pub slo: Option<&'a Slo>,
    /// Its points.
    pub points: &'a [PointMeasure],
    /// The client's own state, a line a second.
    pub client: &'a [ClientMetrics],
    /// The join; none when the run has no gateway records.
    pub join: Option<&'a JoinReport>,
    /// Gateway records were asked for.
    pub records_wanted: bool,
    /// Prompts and lengths come from a workload file.
    pub replay: bool,
}

impl<'a> Facts<'a> {
    /// What happened at a point.
    #[must_use]
    pub fn point_run(&self, point_id: &str) -> Option<&'a PointRun> {
        self.manifest.points.iter().find(|p| p.point_id == point_id)
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
    for rule in RULES {
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
