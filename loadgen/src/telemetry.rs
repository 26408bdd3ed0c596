//! What is sampled beside a run: the client itself, the engine's counters, its processes, the GPU.
//!
//! Owns the lines of `client_metrics`, `server_metrics`, `process_metrics` and `gpu_metrics.jsonl`
//! and who writes them; what they mean for a run is judged by [`crate::gates`]. Sampling never
//! happens on the measuring thread, and what it costs is measured. What a source does not say is
//! null, never zero; a source without data leaves one line with the reason.

pub mod client;
pub mod engine;
pub mod gpu;
pub mod process;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How one source went, in the manifest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SourceReport {
    /// `client`, `engine`, `process` or `gpu`.
    pub source: String,
    /// Whether it gave anything.
    pub available: bool,
    /// Why not.
    pub reason: Option<String>,
    /// Samples written.
    pub samples: u64,
    /// Time between samples, in milliseconds.
    pub interval_ms: Option<f64>,
    /// Wall time of taking one sample, in milliseconds.
    pub sample_ms: Cost,
    /// CPU time that sampling took in all, in seconds.
    pub cpu_seconds: Option<f64>,
}

/// Distribution of what a sample took, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Median.
    pub p50: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
}
