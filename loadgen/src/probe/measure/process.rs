//! What the engine's process used: cores by phase, memory over the whole probe.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::probe::life::{Sample, Use, cpu_at};
use crate::probe::row::Row;
use crate::probe::schedule::Experiment;

/// Time in a phase, in all and per request, below which its cores are not told: the kernel counts
/// CPU time in ticks of 10 ms, and samples lie 50 ms apart.
const LEAST_SECONDS: f64 = 0.5;
const LEAST_EACH_SECONDS: f64 = 0.1;

/// CPU time in a phase over the phase's time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Phase {
    /// Cores in use on average.
    pub cores: f64,
    /// Time looked at.
    pub seconds: f64,
    /// Stretches looked at.
    pub n: u64,
}

/// Cores in use by phase; null where there was too little to see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cores {
    /// Before anything was asked.
    pub at_rest: Option<Phase>,
    /// From first write to first token of the longest prompts.
    pub until_first_token: Option<Phase>,
    /// From first token to the end of answers alone.
    pub after_first_token: Option<Phase>,
    /// While several were asked at once.
    pub parallel: Option<Phase>,
}

/// Memory and threads over the whole probe.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Memory {
    /// First sample.
    pub before: Use,
    /// The highest of each.
    pub peak: Use,
    /// Last sample.
    pub after: Use,
    /// CPU time spent between the two.
    pub cpu_seconds: f64,
}

fn phase(stretches: Vec<(f64, f64)>) -> Option<Phase> {
    let n = stretches.len() as u64;
    let (cpu, seconds) = stretches
        .into_iter()
        .fold((0.0, 0.0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
    let enough = seconds >= LEAST_SECONDS && seconds >= LEAST_EACH_SECONDS * n as f64;
    enough.then(|| Phase {
        cores: cpu / seconds,
        seconds,
        n,
    })
}

/// Cores by phase.
pub(in crate::probe) fn cores(rows: &[Row], samples: &[Sample]) -> Cores {
    let ok = || rows.iter().filter(|r| r.ok());
    let longest = rows.iter().map(|r| r.asked_tokens).max();
    let rest = rows.first().and_then(|first| {
        let from = samples.first()?.at_ms;
        let spent = cpu_at(samples, first.start_ms)? - cpu_at_first(samples)?;
        Some((spent, (first.start_ms - from) / 1e3))
    });
    let until = |r: &Row| {
        let cpu = r.life?.cpu_to_first_token_seconds?;
        Some((cpu, r.ttft_ms? / 1e3))
    };
    let after = |r: &Row| {
        let life = r.life?;
        let cpu = life.cpu_seconds? - life.cpu_to_first_token_seconds?;
        Some((cpu, (r.end_ms - r.at(r.ttft_ms)?) / 1e3))
    };
    let rounds = rows.iter().map(|r| r.round).max().unwrap_or(0);
    let together = |round: u32| {
        let batch = ok().filter(|r| r.experiment == Experiment::Parallel && r.round == round);
        let (mut from, mut to) = (f64::INFINITY, f64::NEG_INFINITY);
        for row in batch {
            from = from.min(row.sent_ms?);
            to = to.max(row.end_ms);
        }
        let cpu = cpu_at(samples, to)? - cpu_at(samples, from)?;
        (to > from).then_some((cpu, (to - from) / 1e3))
    };
    Cores {
        at_rest: phase(rest.into_iter().collect()),
        until_first_token: phase(
            ok().filter(|r| r.experiment == Experiment::Cold && Some(r.asked_tokens) == longest)
                .filter_map(until)
                .collect(),
        ),
        after_first_token: phase(
            ok().filter(|r| matches!(r.experiment, Experiment::Cold | Experiment::Warm))
                .filter_map(after)
                .collect(),
        ),
        parallel: phase((0..=rounds).filter_map(together).collect()),
    }
}

fn cpu_at_first(samples: &[Sample]) -> Option<f64> {
    samples.first().map(|s| s.cpu_seconds)
}

/// Memory over the whole probe; none without samples.
pub(in crate::probe) fn memory(samples: &[Sample]) -> Option<Memory> {
    let (first, last) = (samples.first()?, samples.last()?);
    Some(Memory {
        before: first.into(),
        peak: Use {
            rss_bytes: samples.iter().map(|s| s.rss_bytes).max()?,
            pss_bytes: samples.iter().filter_map(|s| s.pss_bytes).max(),
            threads: samples.iter().map(|s| s.threads).max()?,
        },
        after: last.into(),
        cpu_seconds: last.cpu_seconds - first.cpu_seconds,
    })
}
