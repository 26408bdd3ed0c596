//! Answers per second of the window, in the two ways that the two kinds of load ask for.
//!
//! A closed loop counts every answer that **ended inside the window**, whatever its phase: those
//! of the warm-up that end in it make up for those that end after it. An open loop counts the
//! **measured** answers, whenever they ended: its window ends with the last planned arrival, and
//! answers still to come then are answers to what arrived in it. Left out, a rate of r and an
//! answer of s seconds would be reported too slow by r·s answers.

use std::collections::BTreeMap;

use inferscope_shared::clock::MonoNs;
use inferscope_shared::definitions::arithmetic::per_second;
use inferscope_shared::record::request::{EventKind, Outcome, Phase, RequestRecord};

use super::aggregate::Throughput;
use super::series::answer_end;
use crate::stats::spill::{Log, Spill};

/// Answers of one point that ended ok, of whatever phase.
#[derive(Debug)]
pub(super) struct Completions {
    /// End, flags, completion tokens.
    answers: Log<3>,
    /// Tokens by the second of the clock in which they were read.
    seconds: BTreeMap<u64, f64>,
}

const SECOND_NS: u64 = 1_000_000_000;

const MEASURED: u64 = 1;
const GOOD: u64 = 2;
const COUNTED: u64 = 4;

/// What follows from them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rates {
    pub throughput: Throughput,
    /// Answers within every limit, per second.
    pub good_per_s: Option<f64>,
}

impl Completions {
    /// None yet.
    pub fn new(spill: &Spill) -> Self {
        Self {
            answers: Log::new(spill),
            seconds: BTreeMap::new(),
        }
    }

    /// Takes any record; `good` when it kept every limit.
    pub fn add(&mut self, record: &RequestRecord, good: bool) {
        if record.outcome == Outcome::Ok
            && let Some(end) = answer_end(record)
        {
            let flag = |is: bool, flag: u64| if is { flag } else { 0 };
            let flags = flag(record.phase == Phase::Measure, MEASURED)
                | flag(good, GOOD)
                | flag(record.completion_tokens.is_some(), COUNTED);
            let tokens = record.completion_tokens.unwrap_or(0);
            self.answers.push([end.0, flags, tokens]);
            self.spread(record, tokens);
        }
    }

    /// Spreads an answer's tokens over the instants at which its output was read.
    fn spread(&mut self, record: &RequestRecord, tokens: u64) {
        let kinds = record.events.kind.iter();
        let outputs = kinds.filter(|kind| **kind == EventKind::Output).count();
        let each = tokens as f64 / outputs as f64;
        let mut at = record.sent_start_ns.map_or(0, |sent| sent.0);
        for (gap, kind) in record.events.at_ns.iter().zip(&record.events.kind) {
            at = at.saturating_add(*gap);
            if *kind == EventKind::Output {
                *self.seconds.entry(at / SECOND_NS).or_default() += each;
            }
        }
    }

    /// The most tokens of any second that lies inside the window whole.
    fn fullest_second(&self, (start, end): (MonoNs, MonoNs)) -> Option<f64> {
        let seconds = start.0.div_ceil(SECOND_NS)..end.0 / SECOND_NS;
        if seconds.is_empty() {
            return None;
        }
        let inside = self.seconds.range(seconds).map(|(_, tokens)| *tokens);
        inside.max_by(f64::total_cmp)
    }

    /// Rates over the window; null without one.
    pub fn rates(&self, window: Option<(MonoNs, MonoNs)>, open_loop: bool) -> Rates {
        let window_ns = window.map_or(0, |(start, end)| end.since(start));
        let (mut completed, mut good, mut tokens) = (0, 0, Some(0_u64));
        for [end, flags, count] in self.answers.iter() {
            let counts = match window {
                Some(_) if open_loop => flags & MEASURED > 0,
                Some((start, last)) => end > start.0 && end <= last.0,
                None => false,
            };
            if counts {
                completed += 1;
                good += u64::from(flags & GOOD > 0);
                let known = tokens.filter(|_| flags & COUNTED > 0);
                tokens = known.map(|sum| sum.saturating_add(count));
            }
        }
        let output_tokens_per_s = tokens.and_then(|n| per_second(n, window_ns));
        let fullest = window.and_then(|window| self.fullest_second(window));
        Rates {
            throughput: Throughput {
                completed,
                requests_per_s: per_second(completed, window_ns),
                output_tokens_per_s,
                peak_output_tokens_per_s: output_tokens_per_s
                    .map(|mean| fullest.map_or(mean, |fullest| fullest.max(mean))),
            },
            good_per_s: per_second(good, window_ns),
        }
    }
}
