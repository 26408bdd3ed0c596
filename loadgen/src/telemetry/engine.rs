//! What engines count, under one name whatever they call it.
//!
//! Engines expose the same facts under different names, and rename them between versions. [`names`]
//! holds all of them, in one table; [`read`] reads an exposition by it. Where several names for one
//! fact are there, the newest is used and none is added to it; where there is none, the fact is
//! unknown, which is never zero.

pub mod names;
pub mod scrape;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use names::{names_of, read};

/// An engine's counters and gauges at one instant; null = the engine does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Counters {
    /// Requests that ended with an answer, since the engine's start; aborted and broken ones are
    /// left out where the engine tells them apart.
    pub requests_success: Option<f64>,
    /// Prompt tokens, those found in the prefix cache too, since the engine's start.
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
    /// Share of the KV cache in use now, 0 to 1; the fullest one's, if there are several.
    pub kv_usage: Option<f64>,
    /// When the process started, in seconds of Unix time; tells a restart.
    pub process_start: Option<f64>,
}

/// Samples of a Prometheus exposition by name and labels as exposed; values that are not finite
/// are left out.
#[must_use]
pub fn parse(text: &str) -> BTreeMap<String, f64> {
    text.lines()
        .filter(|l| !l.starts_with('#'))
        .filter_map(|line| {
            // An exemplar behind the value is no part of the sample.
            let line = line.split_once(" # {").map_or(line, |(sample, _)| sample);
            // The name ends behind its labels, which may hold blanks.
            let name_end = match line.rfind('}') {
                Some(brace) => brace + 1,
                None => line.find(char::is_whitespace)?,
            };
            let (name, rest) = line.split_at(name_end);
            let value: f64 = rest.split_whitespace().next()?.parse().ok()?;
            value.is_finite().then(|| (name.to_owned(), value))
        })
        .collect()
}

#[cfg(test)]
mod tests;
