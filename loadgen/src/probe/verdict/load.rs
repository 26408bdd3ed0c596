//! Sentences about several requests at once and about the engine's process.

use super::{Sentence, comparison, group, times};
use crate::probe::measure::Phase;
use crate::probe::report::Report;
use crate::probe::row::Row;
use crate::probe::schedule::Experiment;
use crate::report::numbers::short;

/// Times the speed of one from which on working on several at once is a gain.
const GAIN: f64 = 1.2;
/// Times the speed of one that the interval must stay below for batching to bring little.
const LITTLE: f64 = 1.5;

pub(super) fn parallel(report: &Report) -> Option<Sentence> {
    let rate = comparison(report, "parallel_rate")?;
    let ratio = rate.ratio.p50?;
    let n = report.asked.at_once;
    let mut text = format!(
        "{n} at once bring {} times the tokens per second of one alone ({} pairs)",
        times(&rate.ratio),
        rate.ratio.n
    );
    let gap = comparison(report, "parallel_gap");
    let ttft = comparison(report, "parallel_ttft");
    if let (Some(gap), Some(ttft)) = (gap, ttft) {
        text.push_str(&format!(
            "; each has {} times the gap between events and {} times the TTFT",
            times(&gap.ratio),
            times(&ttft.ratio)
        ));
    }
    let overlap = overlap(&report.rows);
    let high = rate.ratio.ci95.p50.map_or(f64::INFINITY, |ci| ci[1]);
    text.push_str(match (rate.differs, overlap) {
        (_, Some(0.0)) => ". They are answered one after the other.",
        (Some(true), _) if ratio >= GAIN => ". It batches.",
        (Some(_), _) if high < LITTLE => {
            ". They share what one has alone: batching brings little here."
        }
        (Some(_), _) => "; too uncertain to say more.",
        (None, _) => "; too few to say more.",
    });
    Some(Sentence::new(
        "parallel",
        text,
        &[
            ("at_once", Some(f64::from(n))),
            ("pairs", Some(rate.ratio.n as f64)),
            ("rate_ratio", Some(ratio)),
            ("rate_low", rate.ratio.ci95.p50.map(|ci| ci[0])),
            ("rate_high", rate.ratio.ci95.p50.map(|ci| ci[1])),
            ("gap_ratio", gap.and_then(|c| c.ratio.p50)),
            ("ttft_ratio", ttft.and_then(|c| c.ratio.p50)),
            ("overlap", overlap),
        ],
    ))
}

/// Share of neighbours, in order of first output, of which the later began before the earlier
/// ended; none without a group.
fn overlap(rows: &[Row]) -> Option<f64> {
    let mut spans: Vec<(u32, f64, f64)> = rows
        .iter()
        .filter(|r| r.experiment == Experiment::Parallel && r.ok())
        .filter_map(|r| Some((r.round, r.at(r.ttft_ms)?, r.at(r.last_output_ms)?)))
        .collect();
    spans.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let neighbours = || spans.windows(2).filter(|w| w[0].0 == w[1].0);
    let all = neighbours().count();
    let over = neighbours().filter(|w| w[1].1 < w[0].2).count();
    (all > 0).then(|| over as f64 / all as f64)
}

pub(super) fn cpu(report: &Report) -> Option<Sentence> {
    let process = &report.process;
    let cores = &process.cores;
    let n = report.asked.at_once;
    let parts: Vec<String> = [
        (
            cores.until_first_token,
            "until the first token of the longest prompts".to_owned(),
        ),
        (cores.after_first_token, "from there to the end".to_owned()),
        (cores.parallel, format!("with {n} at once")),
        (cores.at_rest, "at rest".to_owned()),
    ]
    .into_iter()
    .filter_map(|(phase, when)| Some(format!("{:.2} cores {when}", phase?.cores)))
    .collect();
    if parts.is_empty() {
        return None;
    }
    let mut text = format!("Its process used {}.", parts.join(", "));
    let long = group(report, Experiment::Cold, true);
    let short_group = group(report, Experiment::Cold, false);
    let spent = long.and_then(|g| g.cpu_seconds.p50);
    let per_token = short_group.and_then(|g| g.cpu_ms_per_token.p50);
    if let (Some(long), Some(brief), Some(spent), Some(per_token)) =
        (long, short_group, spent, per_token)
    {
        text.push_str(&format!(
            " A request of {} tokens costs {} s of CPU (n {}), one of {} tokens {} ms per token of \
             its answer (n {}).",
            long.asked_tokens,
            short(spent),
            long.cpu_seconds.n,
            brief.asked_tokens,
            short(per_token),
            brief.cpu_ms_per_token.n
        ));
    }
    let figure = |phase: Option<Phase>| phase.map(|p| p.cores);
    Some(Sentence::new(
        "cpu",
        text,
        &[
            ("cores_until_first_token", figure(cores.until_first_token)),
            ("cores_after_first_token", figure(cores.after_first_token)),
            ("cores_parallel", figure(cores.parallel)),
            ("cores_at_rest", figure(cores.at_rest)),
            ("cpu_seconds_long", spent),
            ("cpu_ms_per_token_short", per_token),
        ],
    ))
}

pub(super) fn memory(report: &Report) -> Option<Sentence> {
    let memory = report.process.memory?;
    let mut text = format!(
        "Resident memory {} before, {} at its peak, {} after",
        bytes(memory.before.rss_bytes),
        bytes(memory.peak.rss_bytes),
        bytes(memory.after.rss_bytes)
    );
    match memory.peak.pss_bytes {
        Some(pss) => text.push_str(&format!(" (proportional: {} at its peak)", bytes(pss))),
        None => text.push_str(" (proportional memory may not be read)"),
    }
    text.push_str(&format!(
        "; {} threads before, {} at most.",
        memory.before.threads, memory.peak.threads
    ));
    Some(Sentence::new(
        "memory",
        text,
        &[
            ("rss_before_bytes", Some(memory.before.rss_bytes as f64)),
            ("rss_peak_bytes", Some(memory.peak.rss_bytes as f64)),
            ("rss_after_bytes", Some(memory.after.rss_bytes as f64)),
            ("pss_peak_bytes", memory.peak.pss_bytes.map(|b| b as f64)),
            ("threads_before", Some(f64::from(memory.before.threads))),
            ("threads_peak", Some(f64::from(memory.peak.threads))),
        ],
    ))
}

/// Memory as people read it.
pub(in crate::probe) fn bytes(n: u64) -> String {
    const MIB: f64 = 1024.0 * 1024.0;
    let mib = n as f64 / MIB;
    if mib >= 1024.0 {
        format!("{:.2} GiB", mib / 1024.0)
    } else {
        format!("{mib:.1} MiB")
    }
}
