//! The limits that a load point is judged by: `ttft=200ms,tpot=50ms,e2e=5s,success=0.99,at=p95`.
//!
//! Owns the text form and its rules; who keeps the limits is found out in [`crate::measure`].
//! Latency limits are milliseconds once read. A limit that is not named does not apply.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::stats::Percentile;

/// Limits of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slo {
    /// Limits of latencies.
    pub limits: Limits,
    /// Least share of planned requests that must end ok.
    pub success: Option<f64>,
    /// The percentile at which each latency limit must hold; p95 when not named.
    pub at: Percentile,
}

/// Latency limits in milliseconds; a value equal to its limit keeps it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// Time to first token.
    pub ttft_ms: Option<f64>,
    /// Time per output token.
    pub tpot_ms: Option<f64>,
    /// End-to-end latency.
    pub e2e_ms: Option<f64>,
}

/// Why a text is no SLO.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SloError {
    /// Nothing in it.
    #[error("slo is empty; write for example {EXAMPLE}")]
    Empty,
    /// A part without `=`.
    #[error("slo part {0:?} is not NAME=VALUE; write for example {EXAMPLE}")]
    NotAPair(String),
    /// A name that is none.
    #[error("slo has no limit called {0:?}; it knows ttft, tpot, e2e, success and at")]
    UnknownName(String),
    /// The same name twice.
    #[error("slo names {0} twice; keep one of them")]
    Twice(String),
    /// A value that its name cannot have.
    #[error("slo {name}={value}: {expected}")]
    BadValue {
        /// The name.
        name: String,
        /// Its value.
        value: String,
        /// What would be right.
        expected: &'static str,
    },
    /// Only `at`, or nothing to hold.
    #[error("slo limits nothing; name at least one of ttft, tpot, e2e and success")]
    NoLimit,
}

const EXAMPLE: &str = "ttft=200ms,tpot=50ms,e2e=5s,success=0.99,at=p95";

impl FromStr for Slo {
    type Err = SloError;

    fn from_str(text: &str) -> Result<Self, SloError> {
        if text.trim().is_empty() {
            return Err(SloError::Empty);
        }
        let mut slo = Self {
            limits: Limits::default(),
            success: None,
            at: Percentile::P95,
        };
        let mut seen: Vec<&str> = Vec::new();
        for part in text.split(',') {
            let (name, value) = part
                .split_once('=')
                .map(|(n, v)| (n.trim(), v.trim()))
                .ok_or_else(|| SloError::NotAPair(part.trim().to_owned()))?;
            let bad = |expected| SloError::BadValue {
                name: name.to_owned(),
                value: value.to_owned(),
                expected,
            };
            let limit = || duration_ms(value).ok_or_else(|| bad(DURATION));
            match name {
                "ttft" => slo.limits.ttft_ms = Some(limit()?),
                "tpot" => slo.limits.tpot_ms = Some(limit()?),
                "e2e" => slo.limits.e2e_ms = Some(limit()?),
                "success" => slo.success = Some(share(value).ok_or_else(|| bad(SHARE))?),
                "at" => slo.at = value.parse().map_err(|_| bad(PERCENTILE))?,
                _ => return Err(SloError::UnknownName(name.to_owned())),
            }
            if seen.contains(&name) {
                return Err(SloError::Twice(name.to_owned()));
            }
            seen.push(name);
        }
        if slo.limits == Limits::default() && slo.success.is_none() {
            return Err(SloError::NoLimit);
        }
        Ok(slo)
    }
}

const DURATION: &str = "a duration above zero with its unit, such as 50us, 200ms, 5s or 1m";
const SHARE: &str = "a share above 0 and at most 1, such as 0.99";
const PERCENTILE: &str = "a percentile such as p50, p95, p99 or p99.9";

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, limit) in [
            ("ttft", self.limits.ttft_ms),
            ("tpot", self.limits.tpot_ms),
            ("e2e", self.limits.e2e_ms),
        ] {
            if let Some(ms) = limit {
                write!(f, "{name}={ms}ms,")?;
            }
        }
        if let Some(success) = self.success {
            write!(f, "success={success},")?;
        }
        write!(f, "at={}", self.at)
    }
}

/// A plain decimal number; `1e3`, `inf`, `nan`, `+1` and `-1` are none.
fn decimal(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    plain.then(|| text.parse().ok()).flatten()
}

fn duration_ms(text: &str) -> Option<f64> {
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(unit_at);
    let per_unit = match unit {
        "us" => 0.001,
        "ms" => 1.0,
        "s" => 1_000.0,
        "m" => 60_000.0,
        _ => return None,
    };
    decimal(number).map(|v| v * per_unit).filter(|&ms| ms > 0.0)
}

fn share(text: &str) -> Option<f64> {
    decimal(text).filter(|&s| s > 0.0 && s <= 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_full_form_is_read_and_printed() {
        let slo: Slo = EXAMPLE.parse().unwrap();
        assert_eq!(slo.limits.ttft_ms, Some(200.0));
        assert_eq!(slo.limits.tpot_ms, Some(50.0));
        assert_eq!(slo.limits.e2e_ms, Some(5_000.0));
        assert_eq!(slo.success, Some(0.99));
        assert_eq!(slo.at, Percentile::P95);
        assert_eq!(
            slo.to_string(),
            "ttft=200ms,tpot=50ms,e2e=5000ms,success=0.99,at=p95"
        );
        assert_eq!(slo.to_string().parse(), Ok(slo));
    }

    #[test]
    fn limits_that_are_not_named_do_not_apply() {
        let slo: Slo = " ttft = 1.5s , at=p99 ".parse().unwrap();
        assert_eq!(slo.limits.ttft_ms, Some(1_500.0));
        assert_eq!((slo.limits.tpot_ms, slo.success), (None, None));
        assert_eq!(slo.at, Percentile::P99);
    }

    #[test]
    fn a_fault_names_the_part_and_what_would_be_right() {
        let faults: String = [
            "",
            "ttft",
            "ttft=200",
            "ttft=0ms",
            "ttft=-1s",
            "ttft=infs",
            "latency=1s",
            "ttft=1s,ttft=2s",
            "success=99",
            "success=0",
            "ttft=1s,at=95",
            "at=p99",
            "ttft=1s,",
        ]
        .iter()
        .map(|text| format!("{text:>16} -> {}\n", text.parse::<Slo>().unwrap_err()))
        .collect();
        insta::assert_snapshot!(faults);
    }
}
