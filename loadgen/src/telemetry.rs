//! What is sampled beside a run: the client itself, the engine's counters, its processes, the GPU.
//!
//! Owns the lines of `client_metrics`, `server_metrics`, `process_metrics` and `gpu_metrics.jsonl`
//! and who writes them; what they mean for a run is judged by [`crate::gates`]. Each source has a
//! thread of its own ([`sampler`]), so that one that hangs holds up no other; sampling never
//! happens on the measuring thread, and what it costs is measured. What a source does not say is
//! null, never zero; a source without data leaves one line with the reason.

pub mod client;
pub mod engine;
pub mod gpu;
pub mod process;
pub mod readings;
pub mod sampler;
pub mod sources;
pub mod usage;

use std::collections::BTreeMap;
use std::time::Instant;

use rustix::time::ClockId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::Percentile;

/// How one source went, in the manifest.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SourceReport {
    /// `client`, `engine`, `process` or `gpu`.
    pub source: String,
    /// Whether it gave anything.
    pub available: bool,
    /// Why not, or why the last of the `failed` samples gave nothing.
    pub reason: Option<String>,
    /// Samples written.
    pub samples: u64,
    /// Samples that were due and gave nothing.
    #[serde(default)]
    pub failed: u64,
    /// Time between samples, in milliseconds.
    pub interval_ms: Option<f64>,
    /// Wall time of taking one sample, in milliseconds.
    pub sample_ms: Cost,
    /// CPU time that sampling took in all, in seconds.
    pub cpu_seconds: Option<f64>,
    /// What was sampled: a process, an address, a library.
    #[serde(default)]
    pub subject: Option<String>,
    /// The engine's own name of each counter that it has, by the counter's name here.
    #[serde(default)]
    pub names: BTreeMap<String, String>,
}

impl SourceReport {
    /// A source without data.
    #[must_use]
    pub fn absent(source: &str, reason: impl Into<String>) -> Self {
        Self {
            source: source.to_owned(),
            reason: Some(reason.into()),
            ..Self::default()
        }
    }
}

/// Distribution of what a sample took, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Median.
    pub p50: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
}

/// Adds up what a source's thread spends.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    wall_ms: Vec<f64>,
}

impl Spent {
    /// Does the work of one sample.
    pub fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = work();
        self.wall_ms.push(start.elapsed().as_secs_f64() * 1e3);
        done
    }

    /// The report of a source whose every sample gave something. Called on the source's own
    /// thread, whose CPU time it takes.
    pub fn report(mut self, source: &str, interval_ms: Option<f64>) -> SourceReport {
        self.wall_ms.sort_unstable_by(f64::total_cmp);
        let cpu = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
        SourceReport {
            source: source.to_owned(),
            available: !self.wall_ms.is_empty(),
            samples: self.wall_ms.len() as u64,
            interval_ms,
            sample_ms: Cost {
                p50: Percentile::P50.estimate(&self.wall_ms),
                max: self.wall_ms.last().copied(),
            },
            cpu_seconds: Some(cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9),
            ..SourceReport::default()
        }
    }
}
