//! The shape of `validation.json`: gates, what each found, and the verdict over them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

impl Blame {
    /// As printed and as written to `validation.json`.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Network => "network",
            Self::Gateway => "gateway",
            Self::Engine => "engine",
            Self::Environment => "environment",
            Self::Workload => "workload",
            Self::Statistics => "statistics",
        }
    }
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
