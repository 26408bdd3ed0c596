//! A simulated run in numbers. Latencies are milliseconds, rates per second of virtual time.

use serde::Serialize;

use super::{Outcome, Run};

/// One latency over the measured requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Latency {
    /// Arithmetic mean.
    pub mean: f64,
    /// Percentiles by nearest rank.
    pub p50: f64,
    /// 95 of 100 are at or below.
    pub p95: f64,
    /// 99 of 100 are at or below.
    pub p99: f64,
    /// The highest.
    pub max: f64,
}

/// A run's numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Measured requests.
    pub requests: usize,
    /// Length of the window that rates refer to; `None` where there is none.
    pub window_seconds: Option<f64>,
    /// Requests completed per second.
    pub requests_per_s: Option<f64>,
    /// Output tokens per second.
    pub output_tokens_per_s: Option<f64>,
    /// Arrival to first token.
    pub ttft_ms: Option<Latency>,
    /// Mean gap between a request's tokens; `None` if no request had two.
    pub tpot_ms: Option<Latency>,
    /// Arrival to last token.
    pub e2e_ms: Option<Latency>,
    /// Mean sequences in a step's batch, over the whole run.
    pub mean_batch: Option<f64>,
    /// Running sequences that lost their blocks.
    pub preemptions: u64,
    /// Share of prompt tokens found in the prefix cache.
    pub prefix_hit_share: Option<f64>,
}

impl Outcome {
    /// Arrival to first token, ns.
    #[must_use]
    pub const fn ttft_ns(&self) -> u64 {
        self.first_ns - self.arrived_ns
    }

    /// Arrival to last token, ns.
    #[must_use]
    pub const fn e2e_ns(&self) -> u64 {
        self.last_ns - self.arrived_ns
    }

    /// Mean gap between tokens, ns; `None` below two tokens.
    #[must_use]
    pub fn tpot_ns(&self) -> Option<f64> {
        (self.output_tokens > 1)
            .then(|| (self.last_ns - self.first_ns) as f64 / f64::from(self.output_tokens - 1))
    }
}

impl Run {
    /// The run's numbers.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let measured = || self.outcomes.iter().filter(|o| o.measured);
        let window = self.window();
        let ended: Vec<&Outcome> = self
            .outcomes
            .iter()
            .filter(|o| match window {
                None => false,
                Some(_) if self.open => o.measured,
                Some((start, end)) => o.last_ns > start && o.last_ns <= end,
            })
            .collect();
        let seconds = window.map(|(start, end)| (end - start) as f64 / 1e9);
        let tokens: u64 = ended.iter().map(|o| u64::from(o.output_tokens)).sum();
        let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        let c = &self.counters;
        Summary {
            requests: measured().count(),
            window_seconds: seconds,
            requests_per_s: seconds.map(|s| ended.len() as f64 / s),
            output_tokens_per_s: seconds.map(|s| tokens as f64 / s),
            ttft_ms: latency(measured().map(|o| o.ttft_ns() as f64)),
            tpot_ms: latency(measured().filter_map(Outcome::tpot_ns)),
            e2e_ms: latency(measured().map(|o| o.e2e_ns() as f64)),
            mean_batch: share(c.batched_sequences, c.steps),
            preemptions: c.preemptions,
            prefix_hit_share: share(c.prefix_cache_hits, c.prefix_cache_queries),
        }
    }

    /// From the first measured arrival to the last planned one (open), or to the first end after
    /// the last request was sent (closed).
    fn window(&self) -> Option<(u64, u64)> {
        let measured = || self.outcomes.iter().filter(|o| o.measured);
        let start = measured().map(|o| o.arrived_ns).min()?;
        let end = if self.open {
            measured().map(|o| o.arrived_ns).max()?
        } else {
            let last = self.outcomes.iter().map(|o| o.arrived_ns).max()?;
            let ends = self.outcomes.iter().map(|o| o.last_ns);
            ends.filter(|&end| end > last).min()?
        };
        (end > start).then_some((start, end))
    }
}

fn latency(values_ns: impl Iterator<Item = f64>) -> Option<Latency> {
    let mut ms: Vec<f64> = values_ns.map(|ns| ns / 1e6).collect();
    ms.sort_by(f64::total_cmp);
    let max = *ms.last()?;
    Some(Latency {
        mean: ms.iter().sum::<f64>() / ms.len() as f64,
        p50: percentile(&ms, 0.50),
        p95: percentile(&ms, 0.95),
        p99: percentile(&ms, 0.99),
        max,
    })
}

/// Nearest rank; 0 of nothing.
pub(super) fn percentile(sorted: &[f64], p: f64) -> f64 {
    let rank = (p * sorted.len() as f64).ceil().max(1.0) as usize;
    let last = sorted.len().saturating_sub(1);
    sorted.get((rank - 1).min(last)).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Counters;

    fn outcome(arrived: u64, first: u64, last: u64, measured: bool) -> Outcome {
        let ms = 1_000_000;
        Outcome {
            arrived_ns: arrived * ms,
            first_ns: first * ms,
            last_ns: last * ms,
            output_tokens: 3,
            measured,
        }
    }

    #[test]
    fn windows_and_rates_are_loadgens() {
        let mut run = Run {
            outcomes: vec![
                outcome(0, 10, 100, false),
                outcome(0, 20, 120, true),
                outcome(100, 110, 200, true),
                outcome(120, 140, 250, true),
            ],
            counters: Counters::default(),
            open: false,
        };
        let closed = run.summary();
        assert_eq!(
            closed.window_seconds,
            Some(0.2),
            "to the first end after 120 ms"
        );
        assert_eq!(
            closed.requests_per_s,
            Some(3.0 / 0.2),
            "warm-up's answers too"
        );
        assert_eq!(closed.output_tokens_per_s, Some(9.0 / 0.2));
        let ttft = closed.ttft_ms.unwrap();
        assert_eq!((ttft.p50, ttft.max), (20.0, 20.0));
        assert_eq!(closed.tpot_ms.unwrap().max, 55.0);
        run.open = true;
        let open = run.summary();
        assert_eq!(open.window_seconds, Some(0.12));
        assert_eq!(open.requests_per_s, Some(3.0 / 0.12), "whenever they ended");
    }

    #[test]
    fn nothing_measured_has_no_numbers() {
        let run = Run {
            outcomes: vec![outcome(0, 10, 100, false)],
            counters: Counters::default(),
            open: true,
        };
        let summary = run.summary();
        assert_eq!((summary.requests, summary.window_seconds), (0, None));
        assert_eq!((summary.ttft_ms, summary.requests_per_s), (None, None));
    }
}
