//! Answers per second of the window, in the two ways that the two kinds of load ask for.
//!
//! A closed loop counts every answer that **ended inside the window**, whatever its phase: those
//! of the warm-up that end in it make up for those that end after it. An open loop counts the
//! **measured** answers, whenever they ended: its window ends with the last planned arrival, and
//! answers still to come then are answers to what arrived in it. Left out, a rate of r and an
//! answer of s seconds would be reported too slow by r·s answers.

use inferscope_shared::clock::MonoNs;
use inferscope_shared::definitions::arithmetic::per_second;
use inferscope_shared::record::request::{Outcome, Phase, RequestRecord};

use super::aggregate::Throughput;
use super::series::answer_end;

/// Answers of one point that ended ok, of whatever phase.
#[derive(Debug, Default)]
pub(super) struct Completions(Vec<Completion>);

#[derive(Debug, Clone, Copy)]
struct Completion {
    end: MonoNs,
    measured: bool,
    tokens: Option<u64>,
    good: bool,
}

/// What follows from them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rates {
    pub throughput: Throughput,
    /// Answers within every limit, per second.
    pub good_per_s: Option<f64>,
}

impl Completions {
    /// Takes any record; `good` when it kept every limit.
    pub fn add(&mut self, record: &RequestRecord, good: bool) {
        if record.outcome == Outcome::Ok
            && let Some(end) = answer_end(record)
        {
            self.0.push(Completion {
                end,
                measured: record.phase == Phase::Measure,
                tokens: record.completion_tokens,
                good,
            });
        }
    }

    /// Rates over the window; null without one.
    pub fn rates(&self, window: Option<(MonoNs, MonoNs)>, open_loop: bool) -> Rates {
        let window_ns = window.map_or(0, |(start, end)| end.since(start));
        let counted: Vec<&Completion> = self
            .0
            .iter()
            .filter(|c| match window {
                Some(_) if open_loop => c.measured,
                Some((start, end)) => c.end > start && c.end <= end,
                None => false,
            })
            .collect();
        let completed = counted.len() as u64;
        let good = counted.iter().filter(|c| c.good).count() as u64;
        let tokens = counted
            .iter()
            .try_fold(0_u64, |sum, c| Some(sum.saturating_add(c.tokens?)));
        Rates {
            throughput: Throughput {
                completed,
                requests_per_s: per_second(completed, window_ns),
                output_tokens_per_s: tokens.and_then(|n| per_second(n, window_ns)),
            },
            good_per_s: per_second(good, window_ns),
        }
    }
}
