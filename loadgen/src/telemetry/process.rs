//! The engine's process tree, from /proc.

use inferscope_shared::clock::MonoNs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Line of `process_metrics.jsonl`: a process and all its descendants at one instant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessSample {
    /// When.
    pub t_ns: MonoNs,
    /// The root of the tree.
    pub pid: u32,
    /// Processes in it.
    pub processes: u32,
    /// Threads in it.
    pub threads: u32,
    /// Resident memory, pages shared between processes counted in each.
    pub rss_bytes: u64,
    /// Proportional memory, shared pages counted once; null where it may not be read.
    pub pss_bytes: Option<u64>,
    /// CPU time so far, of ended children too.
    pub cpu_seconds: f64,
}
