//! Comparisons within rounds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::middle;
use crate::probe::row::Row;
use crate::probe::schedule::Experiment;
use crate::stats::Summary;

/// Gaps that each half of an answer needs to be compared with the other.
const HALF: usize = 4;

/// How many times larger one thing is than another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Such as `warm_ttft`.
    pub id: String,
    /// What is divided by what.
    pub what: String,
    /// The ratios; `n` is the number of pairs.
    pub ratio: Summary,
    /// Whether the interval of the median leaves out 1; null below 6 pairs.
    pub differs: Option<bool>,
}

impl Comparison {
    fn of(id: &str, what: &str, ratios: Vec<f64>) -> Self {
        let ratio = Summary::of(ratios);
        Self {
            id: id.to_owned(),
            what: what.to_owned(),
            ratio,
            differs: ratio.ci95.p50.map(|[low, high]| high < 1.0 || low > 1.0),
        }
    }
}

/// The rows of one round.
struct Round<'a>(Vec<&'a Row>);

impl Round<'_> {
    /// The answer to the one prompt of an experiment, at its shortest or longest.
    fn one(&self, experiment: Experiment, longest: bool) -> Option<&Row> {
        let mut of_kind: Vec<&Row> = self.rows(experiment).collect();
        of_kind.sort_by_key(|r| r.asked_tokens);
        let row = if longest {
            of_kind.last()
        } else {
            of_kind.first()
        };
        row.copied().filter(|r| r.ok())
    }

    fn rows(&self, experiment: Experiment) -> impl Iterator<Item = &Row> {
        self.0
            .iter()
            .copied()
            .filter(move |r| r.experiment == experiment)
    }

    /// The answers of the group sent at once, if all of them are whole.
    fn batch(&self) -> Option<Vec<&Row>> {
        let rows: Vec<&Row> = self.rows(Experiment::Parallel).collect();
        (!rows.is_empty() && rows.iter().all(|r| r.ok())).then_some(rows)
    }
}

fn gap(row: &Row) -> Option<f64> {
    middle(row.gaps().map(|(_, gap)| gap).collect())
}

fn over(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    Some(a? / b.filter(|&b| b > 0.0)?)
}

/// Every comparison, those without a pair too.
pub(in crate::probe) fn all(rows: &[Row]) -> Vec<Comparison> {
    let last = rows.iter().map(|r| r.round).max().unwrap_or(0);
    let rounds: Vec<Round<'_>> = (0..=last)
        .map(|n| Round(rows.iter().filter(|r| r.round == n).collect()))
        .collect();
    let each = |id: &str, what: &str, ratio: &dyn Fn(&Round<'_>) -> Option<f64>| {
        Comparison::of(id, what, rounds.iter().filter_map(ratio).collect())
    };
    vec![
        each(
            "warm_ttft",
            "TTFT of the longest prompt asked again / asked for the first time",
            &|round| {
                let again = round.one(Experiment::Warm, true)?;
                over(again.ttft_ms, round.one(Experiment::Cold, true)?.ttft_ms)
            },
        ),
        each(
            "whole_e2e",
            "E2E of an answer in one piece / of a stream of as many tokens",
            &|round| {
                let whole = round.one(Experiment::Whole, false)?;
                let stream = round.one(Experiment::Cold, false)?;
                (whole.completion_tokens == stream.completion_tokens)
                    .then(|| over(whole.e2e_ms, stream.e2e_ms))?
            },
        ),
        each(
            "parallel_gap",
            "gap between events of answers at once / of one alone",
            &|round| {
                let gaps = round.batch()?.into_iter().filter_map(gap).collect();
                over(middle(gaps), gap(round.one(Experiment::Cold, false)?))
            },
        ),
        each(
            "parallel_ttft",
            "TTFT of answers at once / of one alone",
            &|round| {
                let firsts = round.batch()?.iter().filter_map(|r| r.ttft_ms).collect();
                over(middle(firsts), round.one(Experiment::Cold, false)?.ttft_ms)
            },
        ),
        each(
            "parallel_rate",
            "tokens per second of all answers at once / of one alone",
            &|round| {
                let alone = round.one(Experiment::Cold, false)?;
                let alone = rate(&[alone])?;
                over(rate(&round.batch()?), Some(alone))
            },
        ),
        each(
            "long_gap",
            "gap between events behind the longest prompt / behind the shortest",
            &|round| {
                let long = gap(round.one(Experiment::Cold, true)?);
                over(long, gap(round.one(Experiment::Cold, false)?))
            },
        ),
        Comparison::of(
            "late_gap",
            "gap between events in an answer's second half / in its first",
            rows.iter().filter_map(late).collect(),
        ),
    ]
}

/// Tokens per second from the first write to the last end.
fn rate(rows: &[&Row]) -> Option<f64> {
    let mut tokens = 0;
    let (mut from, mut to) = (f64::INFINITY, f64::NEG_INFINITY);
    for row in rows {
        tokens += row.tokens()?;
        from = from.min(row.sent_ms?);
        to = to.max(row.at(row.e2e_ms)?);
    }
    (to > from).then(|| tokens as f64 / ((to - from) / 1e3))
}

fn late(row: &Row) -> Option<f64> {
    let alone = matches!(row.experiment, Experiment::Cold | Experiment::Warm);
    let gaps: Vec<f64> = row.gaps().map(|(_, gap)| gap).collect();
    let half = gaps.len() / 2;
    if !alone || !row.ok() || half < HALF {
        return None;
    }
    over(
        middle(gaps[gaps.len() - half..].to_vec()),
        middle(gaps[..half].to_vec()),
    )
}
