//! How an answer comes: event by event or in lumps, evenly or with stalls.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::middle;
use crate::probe::row::Row;
use crate::probe::schedule::Experiment;
use crate::stats::{Percentile, Sorted, Summary};

/// A gap is a stall when it is longer than the median this many times,
const STALL_TIMES: f64 = 5.0;
/// and by this much.
const STALL_MS: f64 = 50.0;
/// Gaps below which no median is trusted to say what a stall is.
const LEAST_GAPS: usize = 20;

/// Events with output that an answer needs to show how it comes.
const LEAST_EVENTS: usize = 8;
/// An answer whose output all came within this share of its time came in one lump,
const LUMP: f64 = 0.05;
/// unless its gaps were this long: a short answer may follow a long wait.
const LUMP_GAP_MS: f64 = 1.0;

/// How output comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// An event at a time, as it is made.
    Streams,
    /// Several events with each read, over the answer's time.
    Bundles,
    /// All output at once, at the answer's end.
    Lump,
    /// No stream came although one was asked for.
    Whole,
    /// Too few events to tell.
    Unknown,
}

/// How streams came.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Streaming {
    /// In one word.
    pub way: Way,
    /// Answers looked at.
    pub answers: u64,
    /// Events with output.
    pub events: u64,
    /// Reads that brought them.
    pub reads: u64,
    /// Share of an answer's time that its output was spread over.
    pub spread: Summary,
    /// Tokens by usage for each event with output; 1 = events are tokens. Null without usage.
    pub tokens_per_event: Option<f64>,
    /// Answers with usage.
    pub with_usage: u64,
    /// Answers after which the engine left the connection open.
    pub kept: u64,
}

/// Looks at all streams that were alone.
pub(in crate::probe) fn streaming(rows: &[Row]) -> Streaming {
    let ok: Vec<&Row> = rows
        .iter()
        .filter(|r| r.ok() && r.stream_asked && r.experiment != Experiment::Parallel)
        .collect();
    let streams = || ok.iter().filter(|r| r.streamed);
    let sum = |value: &dyn Fn(&Row) -> u64| streams().map(|r| value(r)).sum::<u64>();
    let events = sum(&|r| r.output_ms.len() as u64);
    let reads = sum(&|r| r.output_reads);
    let counted = || streams().filter(|r| r.completion_tokens.is_some());
    let tokens: u64 = counted().filter_map(|r| r.completion_tokens).sum();
    let their_events: u64 = counted().map(|r| r.output_ms.len() as u64).sum();
    let telling: Vec<f64> = streams()
        .filter(|r| r.output_ms.len() >= LEAST_EVENTS)
        .filter_map(|r| Some((r.last_output_ms? - r.ttft_ms?) / r.e2e_ms.filter(|&t| t > 0.0)?))
        .collect();
    let typical = middle(telling.clone());
    let gap = middle(
        streams()
            .flat_map(|r| r.gaps())
            .map(|(_, gap)| gap)
            .collect(),
    );
    let at_once = gap.is_none_or(|gap| gap < LUMP_GAP_MS);
    let way = match (ok.is_empty(), streams().next(), typical) {
        (false, None, _) => Way::Whole,
        (_, _, None) => Way::Unknown,
        (_, _, Some(spread)) if spread < LUMP && at_once => Way::Lump,
        _ if events > reads.saturating_mul(3) / 2 => Way::Bundles,
        _ => Way::Streams,
    };
    Streaming {
        way,
        answers: ok.len() as u64,
        events,
        reads,
        spread: Summary::of(telling),
        tokens_per_event: (their_events > 0).then(|| tokens as f64 / their_events as f64),
        with_usage: counted().count() as u64,
        kept: ok.iter().filter(|r| r.kept).count() as u64,
    }
}

/// A gap that was far longer than the others.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stall {
    /// The request.
    pub seq: u32,
    /// Since the probe's start, when it ended.
    pub at_ms: f64,
    /// Event with output that ended it, from 1 for the second.
    pub event: u64,
    /// How long it was.
    pub gap_ms: f64,
    /// Another request waited for its first token through at least half of it.
    pub beside_prefill: bool,
}

/// Stalls among gaps measured alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stalls {
    /// `alone` or `parallel`.
    pub of: String,
    /// Gaps looked at.
    pub gap_ms: Summary,
    /// A longer gap is a stall: the larger of 5 times the median and the median plus 50 ms. Null
    /// of fewer than 20 gaps.
    pub limit_ms: Option<f64>,
    /// The stalls.
    pub stalls: Vec<Stall>,
}

/// Stalls of answers alone and of those at once.
pub(in crate::probe) fn stalls(rows: &[Row]) -> Vec<Stalls> {
    let ok = || rows.iter().filter(|r| r.ok());
    let alone = |r: &&Row| matches!(r.experiment, Experiment::Cold | Experiment::Warm);
    vec![
        stalls_of("alone", ok().filter(alone).collect()),
        stalls_of(
            "parallel",
            ok().filter(|r| r.experiment == Experiment::Parallel)
                .collect(),
        ),
    ]
}

/// Whether another request waited for its first token through at least half of a stretch.
fn beside_prefill(row: &Row, rows: &[&Row], from: f64, to: f64) -> bool {
    rows.iter()
        .filter(|other| other.seq != row.seq)
        .filter_map(|other| Some((other.sent_ms?, other.at(other.ttft_ms)?)))
        .any(|(sent, first)| first.min(to) - sent.max(from) >= (to - from) / 2.0)
}

fn stalls_of(of: &str, rows: Vec<&Row>) -> Stalls {
    let mut gaps: Vec<f64> = rows
        .iter()
        .flat_map(|r| r.gaps())
        .map(|(_, gap)| gap)
        .collect();
    gaps.sort_unstable_by(f64::total_cmp);
    let limit = (gaps.len() >= LEAST_GAPS)
        .then(|| Percentile::P50.nearest(&gaps))
        .flatten()
        .map(|median| (STALL_TIMES * median).max(median + STALL_MS));
    let mut stalls = Vec::new();
    for row in &rows {
        for (event, (at, gap)) in row.gaps().enumerate() {
            if let (true, Some(at_ms)) = (limit.is_some_and(|l| gap > l), row.at(Some(at))) {
                stalls.push(Stall {
                    seq: row.seq,
                    at_ms,
                    event: event as u64 + 1,
                    gap_ms: gap,
                    beside_prefill: beside_prefill(row, &rows, at_ms - gap, at_ms),
                });
            }
        }
    }
    Stalls {
        of: of.to_owned(),
        gap_ms: Summary::of_sorted(&Sorted::of(gaps), rows.len()),
        limit_ms: limit,
        stalls,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::schedule::Step;
    use crate::probe::tests::row;

    /// The way of an answer that waits so long and then has 24 events so far apart.
    fn way(wait_ms: f64, gap_ms: f64) -> Way {
        let step = Step {
            experiment: Experiment::Cold,
            tokens: 64,
            at_once: 1,
        };
        let outputs: Vec<f64> = (0..24).map(|i| wait_ms + gap_ms * f64::from(i)).collect();
        streaming(&[row(0, 0, step, 0.0, &outputs, outputs[23])]).way
    }

    #[test]
    fn a_lump_comes_at_once_and_a_long_wait_makes_none() {
        assert_eq!(way(50.0, 5.0), Way::Streams);
        assert_eq!(way(500.0, 0.1), Way::Lump);
        assert_eq!(way(5_000.0, 5.0), Way::Streams);
    }
}
