//! `loadgen probe`: one engine as a black box, for whoever has just started it.
//!
//! ```text
//! find -> open (what it understands) -> rounds (ask, watch its process) -> measure -> say
//! ```
//!
//! Owns the experiments and what may be concluded from them; sending and stamping is
//! [`crate::client`]'s, sampling the process [`crate::telemetry`]'s. Each round makes every
//! experiment once, so that a drift of the engine touches all of them alike and comparisons are
//! made within rounds. Times are milliseconds since the probe's start, or since a request's first
//! write. The surprise: no configuration, no gates, no verdict on validity; a claim that its
//! sample does not carry is left out, and the text says so.

mod ask;
mod conduct;
mod find;
mod fit;
mod life;
mod measure;
mod report;
mod row;
mod schedule;
mod text;
mod timeline;
mod verdict;
mod watch;

use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

use crate::run::Signal;

pub use report::Report;

/// What to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The engine's base URL.
    pub url: String,
    /// Model to ask; none takes the only one served.
    pub model: Option<String>,
    /// Where the API key lies: `env:NAME`.
    pub api_key: Option<String>,
    /// Whose resources to watch.
    pub process: WhichProcess,
    /// Shortest and longest prompt in tokens; none takes what suits the engine.
    pub prompt: Option<(u64, u64)>,
    /// Tokens asked for per answer.
    pub output_tokens: u64,
    /// How often each experiment is made.
    pub rounds: u32,
    /// Requests at once in the experiment about batching.
    pub at_once: u32,
    /// Longest request.
    pub timeout: Duration,
    /// Longest probe; what was measured until then is kept.
    pub within: Duration,
    /// Folder for JSON, text and picture.
    pub out: Option<PathBuf>,
}

/// Whose resources to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhichProcess {
    /// Whoever listens at the URL, if that is this host.
    Listener,
    /// The process of this id.
    Id(u32),
    /// The process of this name.
    Named(String),
}

/// Why there is nothing to show.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// What was asked for cannot be done.
    #[error("{0}")]
    Usage(String),
    /// The engine, or the disk, failed.
    #[error("{0}")]
    Failed(String),
}

/// A probe that has something to show.
#[derive(Debug)]
pub struct Probed {
    /// Everything that was found.
    pub report: Report,
    /// Files written.
    pub files: Vec<PathBuf>,
    /// The signal that ended it early.
    pub interrupted: Option<Signal>,
}

impl Probed {
    /// What to print.
    #[must_use]
    pub fn text(&self, as_json: bool) -> String {
        if as_json {
            return json(&self.report);
        }
        let mut out = text::of(&self.report);
        for file in &self.files {
            out.push_str(&format!("written: {}\n", file.display()));
        }
        out
    }

    /// 0, 1 when the engine left the probe without an end or an answer, or the signal's.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self.interrupted {
            Some(signal) => signal.exit_code(),
            None => u8::from(self.report.failure.is_some()),
        }
    }
}

/// Probes an engine.
///
/// # Errors
/// When nothing could be measured, or a file could not be written.
pub async fn run(options: &Options) -> Result<Probed, ProbeError> {
    if let Some(folder) = &options.out {
        check_folder(folder)?;
    }
    let engine = find::engine(options).await?;
    let (measured, interrupted) = conduct::rounds(options, engine).await?;
    let report = report::of(measured);
    let files = match &options.out {
        Some(folder) => write(folder, &report)?,
        None => Vec::new(),
    };
    Ok(Probed {
        report,
        files,
        interrupted,
    })
}

const FILES: [&str; 3] = ["probe.json", "probe.txt", "timeline.svg"];

/// Earlier results are never written over.
fn check_folder(folder: &Path) -> Result<(), ProbeError> {
    let fault = |why: String| {
        Err(ProbeError::Usage(format!(
            "--out {}: {why}",
            folder.display()
        )))
    };
    for name in FILES {
        if folder.join(name).exists() {
            return fault(format!("holds a {name} already; choose another folder"));
        }
    }
    match std::fs::create_dir_all(folder) {
        Ok(()) => Ok(()),
        Err(e) => fault(format!("cannot be made ({e}); choose another folder")),
    }
}

fn write(folder: &Path, report: &Report) -> Result<Vec<PathBuf>, ProbeError> {
    let texts = [json(report), text::of(report), timeline::svg(report)];
    let mut files = Vec::new();
    for (name, content) in FILES.iter().zip(texts) {
        let path = folder.join(name);
        std::fs::write(&path, content)
            .map_err(|e| ProbeError::Failed(format!("{}: {e}", path.display())))?;
        files.push(path);
    }
    Ok(files)
}

fn json(report: &Report) -> String {
    let mut text = serde_json::to_string_pretty(report).unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests;
