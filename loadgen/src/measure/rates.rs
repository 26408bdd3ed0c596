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
use crate::stats::spill::{Log, Spill};

/// Answers of one point that ended ok, of whatever phase: end, flags, completion tokens.
#[derive(Debug)]
pub(super) struct Completions(Log<3>);

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
        Self(Log::new(spill))
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
            self.0.push([end.0, flags, tokens]);
        }
    }

    /// Rates over the window; null without one.
    pub fn rates(&self, window: Option<(MonoNs, MonoNs)>, open_loop: bool) -> Rates {
        let window_ns = window.map_or(0, |(start, end)| end.since(start));
        let (mut completed, mut good, mut tokens) = (0, 0, Some(0_u64));
        for [end, flags, count] in self.0.iter() {
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
