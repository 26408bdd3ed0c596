//! The engine's own counters around a point, held against what the client was answered.
//!
//! Owns both sides: [`Claim`] adds up a point's records of every phase, since the snapshots enclose
//! the whole point; [`Around`] subtracts the snapshots. Whether they agree is judged by
//! [`crate::gates`]. Counts are requests and tokens.
//!
//! The surprise: a request that ended otherwise than ok may or may not have been counted by the
//! engine, so a claim is a range. Without such requests its ends are equal and the two sides must
//! agree exactly.

use inferscope_shared::record::request::{Outcome, RequestRecord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::telemetry::engine::Counters;
use crate::telemetry::readings::Readings;

/// What a request was planned to be, as far as that is exact.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lengths {
    /// Tokens of its prompt.
    pub prompt_tokens: Option<u64>,
    /// Tokens that it may be answered with.
    pub output_tokens: Option<u64>,
}

/// So much at least, and so much at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// Least.
    pub least: u64,
    /// Most; null when nothing bounds it.
    pub most: Option<u64>,
}

impl Default for Range {
    fn default() -> Self {
        Self {
            least: 0,
            most: Some(0),
        }
    }
}

impl Range {
    fn add(&mut self, least: u64, most: Option<u64>) {
        self.least = self.least.saturating_add(least);
        self.most = self.most.zip(most).map(|(all, n)| all.saturating_add(n));
    }

    /// How far a count lies outside: negative below, positive above, zero inside.
    #[must_use]
    pub fn outside(&self, counted: u64) -> f64 {
        if counted < self.least {
            -((self.least - counted) as f64)
        } else {
            self.most
                .map_or(0.0, |most| counted.saturating_sub(most) as f64)
        }
    }
}

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.most {
            Some(most) if most == self.least => write!(f, "{most}"),
            Some(most) => write!(f, "{} to {most}", self.least),
            None => write!(f, "at least {}", self.least),
        }
    }
}

/// What the client can claim of a point, its warm-up included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Claim {
    /// Requests that ended ok.
    pub ok: u64,
    /// Requests that were sent and ended otherwise, not by a refusal: the engine may have counted
    /// them, in part or not at all.
    pub unsure: u64,
    /// Requests that the engine answered to their end.
    pub requests: Range,
    /// Prompt tokens that it took in.
    pub prompt_tokens: Range,
    /// Tokens that it generated.
    pub generation_tokens: Range,
}

impl Claim {
    /// Adds a record of whatever phase and outcome.
    pub fn add(&mut self, record: &RequestRecord, asked: Lengths) {
        if record.sent_start_ns.is_none() {
            return;
        }
        let (prompt, output) = (record.prompt_tokens, record.completion_tokens);
        if record.outcome == Outcome::Ok {
            self.ok += 1;
            self.requests.add(1, Some(1));
            let most = prompt.or(asked.prompt_tokens);
            self.prompt_tokens.add(prompt.unwrap_or(0), most);
            let most = output.or(asked.output_tokens);
            self.generation_tokens.add(output.unwrap_or(0), most);
            return;
        }
        // What was refused took nothing in.
        if record.status.is_some_and(|s| (400..500).contains(&s)) {
            return;
        }
        self.unsure += 1;
        self.requests.add(0, Some(1));
        self.prompt_tokens.add(0, prompt.or(asked.prompt_tokens));
        self.generation_tokens.add(0, asked.output_tokens);
    }
}

/// What the engine counted while a point ran; null = it does not count that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Served {
    /// Requests answered to their end.
    pub requests: Option<u64>,
    /// Prompt tokens processed.
    pub prompt_tokens: Option<u64>,
    /// Tokens generated.
    pub generation_tokens: Option<u64>,
    /// Requests preempted for want of KV cache. A result, not a fault.
    pub preemptions: Option<u64>,
    /// Prompt tokens looked up in the prefix cache.
    pub prefix_queries: Option<u64>,
    /// Prompt tokens found there.
    pub prefix_hits: Option<u64>,
    /// `prefix_hits / prefix_queries`; null without a look-up.
    pub prefix_hit_share: Option<f64>,
}

/// The engine's counters on both sides of a point.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Around {
    /// Before its first request.
    pub before: Option<Counters>,
    /// After its last one.
    pub after: Option<Counters>,
}

/// Why there is no difference of two snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gap {
    /// One of them, or both, are missing.
    Missing(&'static str),
    /// They are not of one process.
    Restarted(String),
}

/// Start times of one process are given with rounding, and by more than one process at times.
const SAME_START_SECONDS: f64 = 2.0;

impl Around {
    /// Those around a point of a run.
    #[must_use]
    pub fn point(readings: &Readings, point_id: &str) -> Self {
        let (before, after) = readings.around(point_id);
        Self {
            before: before.copied(),
            after: after.copied(),
        }
    }

    /// What was counted in between.
    ///
    /// # Errors
    /// When a snapshot is missing, or the engine was started anew between them.
    pub fn served(&self) -> Result<Served, Gap> {
        let (before, after) = match (&self.before, &self.after) {
            (Some(before), Some(after)) => (before, after),
            (None, None) => return Err(Gap::Missing("before and after")),
            (None, Some(_)) => return Err(Gap::Missing("before")),
            (Some(_), None) => return Err(Gap::Missing("after")),
        };
        if let (Some(a), Some(b)) = (before.process_start, after.process_start)
            && (b - a).abs() > SAME_START_SECONDS
        {
            let later = b - a;
            return Err(Gap::Restarted(format!(
                "the process behind /metrics started {later:.0} s after the one before the point"
            )));
        }
        let difference = |name: &str, read: fn(&Counters) -> Option<f64>| {
            let Some(now) = read(after) else {
                return Ok(None);
            };
            // A counter that shows up at its first count stood at zero before.
            let then = read(before).unwrap_or(0.0);
            if now < then {
                return Err(Gap::Restarted(format!(
                    "{name} went back from {then} to {now}"
                )));
            }
            Ok(Some((now - then).round() as u64))
        };
        let prefix_queries = difference("prefix_queries", |c| c.prefix_queries)?;
        let prefix_hits = difference("prefix_hits", |c| c.prefix_hits)?;
        Ok(Served {
            requests: difference("requests_success", |c| c.requests_success)?,
            prompt_tokens: difference("prompt_tokens", |c| c.prompt_tokens)?,
            generation_tokens: difference("generation_tokens", |c| c.generation_tokens)?,
            preemptions: difference("preemptions", |c| c.preemptions)?,
            prefix_queries,
            prefix_hits,
            prefix_hit_share: prefix_hits
                .zip(prefix_queries)
                .filter(|(_, queries)| *queries > 0)
                .map(|(hits, queries)| hits as f64 / queries as f64),
        })
    }
}

#[cfg(test)]
mod tests;
