//! Load generator for OpenAI-compatible servers that measures its own error and says whether a
//! run can be believed.
//!
//! ```text
//! cli -> config -> preflight -> plan -> drive (client) -> artifacts -> analysis -> report
//! ```
//!
//! Left of `artifacts` everything touches the world and writes `raw/<run-id>/`; right of it
//! everything reads those files and nothing else, so every number can be recomputed offline.
//! All intervals are CLOCK_MONOTONIC nanoseconds until they become `_ms` in results.

pub mod artifacts;
pub mod calibration;
pub mod cli;
pub mod client;
pub mod config;
pub mod doctor;
pub mod drive;
pub mod plan;
pub mod preflight;
pub mod progress;
pub mod records;
pub mod run;
pub mod telemetry;
pub mod token_check;

pub mod analysis;
pub mod attribution;
pub mod gates;
pub mod join;
pub mod measure;
pub mod probe;
pub mod reconcile;
pub mod report;
pub mod show;
pub mod slo;
pub mod stats;
