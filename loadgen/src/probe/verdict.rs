//! Plain words about where an engine's time goes, as far as that can be seen from outside.
//!
//! Each sentence carries the figures that it rests on. A sentence that compares is only said when
//! the sample carries it; where it does not, that is the sentence. What cannot be known from
//! outside is said once, in [`unknown`].

mod load;
mod stream;
mod wait;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::measure::{Comparison, Group};
use super::report::Report;
use super::schedule::Experiment;
use crate::report::numbers::NONE;
use crate::stats::Summary;

pub(super) use load::bytes;

/// Rounds from which the median has an interval.
pub(super) const CLAIM_ROUNDS: u32 = 6;

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sentence {
    /// What it is about.
    pub id: String,
    /// The sentence.
    pub text: String,
    /// What it rests on, by name.
    pub figures: BTreeMap<String, f64>,
}

impl Sentence {
    fn new(id: &str, text: String, figures: &[(&str, Option<f64>)]) -> Self {
        let known = figures
            .iter()
            .filter_map(|&(name, value)| Some((name.to_owned(), value?)));
        Self {
            id: id.to_owned(),
            text,
            figures: known.collect(),
        }
    }
}

/// Everything that can be said.
pub(super) fn sentences(report: &Report) -> Vec<Sentence> {
    [
        failed(report),
        wait::first_token(report),
        wait::prefill(report),
        wait::again(report),
        wait::opening(report),
        stream::way(report),
        stream::decode(report),
        stream::drift(report),
        stream::stalls(report),
        stream::whole(report),
        load::parallel(report),
        load::cpu(report),
        load::memory(report),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn failed(report: &Report) -> Option<Sentence> {
    let requests = &report.requests;
    if requests.failed == 0 {
        return None;
    }
    let kinds: Vec<String> = requests
        .failures
        .iter()
        .map(|f| format!("{} × {} ({})", f.n, f.kind, f.message))
        .collect();
    Some(Sentence::new(
        "failed",
        format!(
            "{} of {} requests had no whole answer and are in no figure: {}.",
            requests.failed,
            requests.sent,
            kinds.join("; ")
        ),
        &[
            ("failed", Some(requests.failed as f64)),
            ("sent", Some(requests.sent as f64)),
        ],
    ))
}

/// What stays hidden.
pub(super) fn unknown(report: &Report) -> Vec<String> {
    let mut list = vec![
        "How the wait for the first token divides into queueing, tokenising, scheduling and \
         prefill: from outside it is one wait."
            .to_owned(),
        "What a GPU does, and which layer or kernel is slow.".to_owned(),
        format!(
            "How it behaves under load: at most {} requests ran at once; `loadgen run` measures that.",
            report.asked.at_once
        ),
    ];
    if let Some(why) = &report.process.reason {
        list.push(format!("Memory, CPU and threads of its process: {why}."));
    }
    if !report.prompt_lengths.exact {
        let why = report.prompt_lengths.note.as_deref().unwrap_or("not asked");
        list.push(format!(
            "Exact prompt lengths: one word is taken for one token ({why})."
        ));
    }
    if report.streaming.answers > report.streaming.with_usage {
        list.push(format!(
            "Tokens: {} of {} streams came without usage; their counts are events, not tokens.",
            report.streaming.answers - report.streaming.with_usage,
            report.streaming.answers
        ));
    }
    if report.asked.rounds < CLAIM_ROUNDS {
        list.push(format!(
            "Whether differences are real: {} rounds give no interval; --requests {CLAIM_ROUNDS} does.",
            report.asked.rounds
        ));
    }
    list
}

/// A group by experiment, of its shortest or longest prompt.
fn group(report: &Report, experiment: Experiment, longest: bool) -> Option<&Group> {
    let mut of_kind = report
        .experiments
        .iter()
        .filter(|g| g.experiment == experiment && g.ok > 0);
    if longest {
        of_kind.next_back()
    } else {
        of_kind.next()
    }
}

fn comparison<'a>(report: &'a Report, id: &str) -> Option<&'a Comparison> {
    report
        .comparisons
        .iter()
        .find(|c| c.id == id)
        .filter(|c| c.ratio.n > 0)
}

/// A ratio whose interval lies within this factor of 1 is as good as 1.
const ALIKE: f64 = 1.25;

/// Whether a comparison that shows no difference is exact enough to say that there is none.
fn alike(comparison: &Comparison) -> bool {
    let interval = comparison.ratio.ci95.p50;
    interval.is_some_and(|[low, high]| low > 1.0 / ALIKE && high < ALIKE)
}

/// Times something, with the interval.
fn times(ratio: &Summary) -> String {
    match (ratio.p50.or(ratio.min), ratio.ci95.p50) {
        (Some(r), Some([low, high])) => format!("{r:.2} [{low:.2}, {high:.2}]"),
        (Some(r), None) => format!("{r:.2}"),
        (None, _) => NONE.to_owned(),
    }
}
