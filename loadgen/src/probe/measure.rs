//! From rows to numbers: each experiment's distributions, and comparisons within rounds.
//!
//! A comparison is a ratio of two values of the same round; its 95 % interval is that of the
//! ratios' median by order statistics, and it holds when that interval leaves out 1. Below 6
//! pairs there is no interval and so no claim. Only whole answers are measured; the others stand
//! in the counts.

mod compare;
mod process;
mod streaming;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::row::Row;
use super::schedule::Experiment;
use crate::stats::{Sorted, Summary};

pub use compare::Comparison;
pub(super) use compare::all as comparisons;
pub use process::{Cores, Memory, Phase};
pub(super) use process::{cores, memory};
pub use streaming::{Stalls, Streaming, Way};
pub(super) use streaming::{stalls, streaming};

/// One experiment's requests of one length.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// Such as `cold_512` or `parallel_64`.
    pub id: String,
    /// What was tried.
    pub experiment: Experiment,
    /// Length of the prompt, in tokens, as asked.
    pub asked_tokens: u64,
    /// Requests sent.
    pub sent: u64,
    /// Whole answers, those that are measured.
    pub ok: u64,
    /// Connecting.
    pub connect_ms: Summary,
    /// First write to last write.
    pub upload_ms: Summary,
    /// First write to the answer's head.
    pub head_ms: Summary,
    /// First write to first output.
    pub ttft_ms: Summary,
    /// Between events with output; intervals count each answer once.
    pub gap_ms: Summary,
    /// First write to the answer's end.
    pub e2e_ms: Summary,
    /// Tokens per second of one answer, from its first output to its last.
    pub tokens_per_s: Summary,
    /// Tokens of an answer.
    pub tokens: Summary,
    /// CPU time of the engine's process over one request.
    pub cpu_seconds: Summary,
    /// The same per token of the answer.
    pub cpu_ms_per_token: Summary,
    /// Highest resident memory while it ran.
    pub rss_peak_bytes: Summary,
    /// Highest proportional memory while it ran.
    pub pss_peak_bytes: Summary,
    /// Most threads while it ran.
    pub threads_peak: Summary,
}

/// All groups, in order of experiment and length.
pub(super) fn groups(rows: &[Row]) -> Vec<Group> {
    let mut keys: Vec<(Experiment, u64)> = rows
        .iter()
        .map(|r| (r.experiment, r.asked_tokens))
        .collect();
    keys.sort_unstable();
    keys.dedup();
    keys.retain(|(experiment, _)| *experiment != Experiment::Opening);
    keys.into_iter()
        .map(|(experiment, tokens)| {
            let of_group = |r: &&Row| r.experiment == experiment && r.asked_tokens == tokens;
            group(experiment, tokens, rows.iter().filter(of_group).collect())
        })
        .collect()
}

fn group(experiment: Experiment, asked_tokens: u64, all: Vec<&Row>) -> Group {
    let ok: Vec<&Row> = all.iter().copied().filter(|r| r.ok()).collect();
    let of = |value: &dyn Fn(&Row) -> Option<f64>| {
        Summary::of(ok.iter().filter_map(|r| value(r)).collect())
    };
    let gaps: Vec<f64> = ok
        .iter()
        .flat_map(|r| r.gaps())
        .map(|(_, gap)| gap)
        .collect();
    let cpu = |r: &Row| r.life.and_then(|l| l.cpu_seconds);
    Group {
        id: format!("{}_{asked_tokens}", name(experiment)),
        experiment,
        asked_tokens,
        sent: all.len() as u64,
        ok: ok.len() as u64,
        connect_ms: of(&|r| r.connect_ms),
        upload_ms: of(&|r| r.upload_ms),
        head_ms: of(&|r| r.head_ms),
        ttft_ms: of(&|r| r.ttft_ms),
        gap_ms: Summary::of_sorted(&Sorted::of(gaps), ok.len()),
        e2e_ms: of(&|r| r.e2e_ms),
        tokens_per_s: of(&Row::decode_rate),
        tokens: of(&|r| r.tokens().map(|n| n as f64)),
        cpu_seconds: of(&cpu),
        cpu_ms_per_token: of(&|r| Some(cpu(r)? * 1e3 / r.tokens().filter(|&n| n > 0)? as f64)),
        rss_peak_bytes: of(&|r| r.life.map(|l| l.peak.rss_bytes as f64)),
        pss_peak_bytes: of(&|r| r.life.and_then(|l| l.peak.pss_bytes).map(|b| b as f64)),
        threads_peak: of(&|r| r.life.map(|l| f64::from(l.peak.threads))),
    }
}

/// An experiment's name in ids.
pub(super) fn name(experiment: Experiment) -> &'static str {
    match experiment {
        Experiment::Opening => "opening",
        Experiment::Cold => "cold",
        Experiment::Warm => "warm",
        Experiment::Whole => "whole",
        Experiment::Parallel => "parallel",
    }
}

/// The median whatever the number of values; none of none.
fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    crate::stats::Percentile::P50.nearest(&values)
}
