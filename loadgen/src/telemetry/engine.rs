//! What engines count, under one name whatever they call it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An engine's counters and gauges at one instant; null = the engine does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Counters {
    /// Requests that ended with an answer, since the engine's start.
    pub requests_success: Option<f64>,
    /// Prompt tokens processed, since the engine's start.
    pub prompt_tokens: Option<f64>,
    /// Tokens generated, since the engine's start.
    pub generation_tokens: Option<f64>,
    /// Requests preempted, since the engine's start.
    pub preemptions: Option<f64>,
    /// Prompt tokens looked up in the prefix cache, since the engine's start.
    pub prefix_queries: Option<f64>,
    /// Prompt tokens found there, since the engine's start.
    pub prefix_hits: Option<f64>,
    /// Requests being computed now.
    pub running: Option<f64>,
    /// Requests that wait now.
    pub waiting: Option<f64>,
    /// Share of the KV cache in use now, 0 to 1.
    pub kv_usage: Option<f64>,
    /// When the process started, in seconds of Unix time; tells a restart.
    pub process_start: Option<f64>,
}

/// Reads the samples of one exposition.
#[must_use]
pub fn read(_samples: &BTreeMap<String, f64>) -> Counters {
    Counters::default()
}
