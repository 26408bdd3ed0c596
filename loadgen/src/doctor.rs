//! Everything that can be looked at before a run, one finding a line.
//!
//! Owns the order of checks, their shape and where the result lies; [`machine`] looks at this
//! host, [`service`] at arms, engine and gateway. A FAIL is what a run would be refused or ruined
//! for, a warning what may cost it evidence. Every wait has a limit. Each arm gets one tiny
//! request; nothing else is sent that costs an engine more than a look.

mod machine;
mod service;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use inferscope_shared::record::SCHEMA_VERSION;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::artifacts::host;
use crate::artifacts::manifest::{Host, ManifestEngine};
use crate::config::settings::Settings;
use crate::run::{RunError, settle};

/// What a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Nothing to do.
    Ok,
    /// A run works, and lacks something or may be disturbed.
    Warn,
    /// A run would be refused or worth nothing.
    Fail,
}

impl Level {
    const fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "FAIL",
        }
    }
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// What was looked at.
    pub check: String,
    /// What that means for a run.
    pub level: Level,
    /// What was seen.
    pub saw: String,
    /// What to do about it; null when there is nothing to do or `saw` says it.
    pub remedy: Option<String>,
}

/// `results/validation/<date>/doctor-<time>.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Examination {
    /// Version of the artifact schemas.
    pub schema_version: u32,
    /// When, RFC 3339, for people.
    pub created_utc: String,
    /// All findings, in the order in which they were made.
    pub findings: Vec<Finding>,
    /// The machine.
    pub host: Host,
    /// The engine, where it answered.
    pub engine: Option<ManifestEngine>,
}

/// Findings as they come.
#[derive(Debug, Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, check: &str, level: Level, saw: impl Into<String>, remedy: Option<&str>) {
        self.0.push(Finding {
            check: check.to_owned(),
            level,
            saw: saw.into(),
            remedy: remedy.map(str::to_owned),
        });
    }

    fn ok(&mut self, check: &str, saw: impl Into<String>) {
        self.add(check, Level::Ok, saw, None);
    }

    fn warn(&mut self, check: &str, saw: impl Into<String>, remedy: &str) {
        self.add(check, Level::Warn, saw, Some(remedy));
    }

    /// A sentence of preflight's, which holds its remedy.
    fn fail(&mut self, check: &str, fault: impl Into<String>) {
        self.add(check, Level::Fail, fault, None);
    }
}

/// Looks at everything that a run with these settings needs.
///
/// # Errors
/// [`RunError::Usage`], when the settings themselves are at fault.
pub async fn examine(settings: Settings) -> Result<(Examination, PathBuf), RunError> {
    let (config, _) = settle(settings)?;
    let host = host::describe();
    let mut findings = Findings::default();
    let engine = service::look(&config, &mut findings).await;
    machine::look(&config, &host, &mut findings);
    let examination = Examination {
        schema_version: SCHEMA_VERSION,
        created_utc: Timestamp::now().to_string(),
        findings: findings.0,
        host,
        engine,
    };
    Ok((examination, config.results_dir))
}

impl Examination {
    /// 0, or 1 when something failed.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        u8::from(self.findings.iter().any(|f| f.level == Level::Fail))
    }

    /// A line per finding, and the sum.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        for f in &self.findings {
            let _ = write!(out, "{:<4}  {}: {}", f.level.label(), f.check, f.saw);
            if let Some(remedy) = &f.remedy {
                let _ = write!(out, "; {remedy}");
            }
            out.push('\n');
        }
        let count = |level| self.findings.iter().filter(|f| f.level == level).count();
        let _ = writeln!(
            out,
            "{} ok, {} warnings, {} failed",
            count(Level::Ok),
            count(Level::Warn),
            count(Level::Fail)
        );
        out
    }

    /// Writes it below `results`, in a file that no other examination has; returns its path.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, results: &Path) -> io::Result<PathBuf> {
        let (date, time) = self.created_utc.split_once('T').unwrap_or(("", ""));
        let dir = results.join("validation").join(date);
        fs::create_dir_all(&dir)?;
        let time: String = time.chars().filter(char::is_ascii_digit).take(9).collect();
        let path = dir.join(format!("doctor-{time}.json"));
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        File::create_new(&path)?.write_all(&text)?;
        Ok(path)
    }
}
