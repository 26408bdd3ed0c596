//! How late the measuring thread gets to things, and what it costs.
//!
//! Two hundred times a second a thread of its own wakes the measuring thread, which notes how much
//! later than planned it got to it. Each read waits as long, so this bounds the client's own error.
//! Counted from the planned instant, not from the wake-up: a machine that stops both threads at
//! once would not show otherwise. Once a second the distribution becomes a line of
//! `client_metrics.jsonl`, which [`crate::telemetry::client`] completes; one more line opens the
//! file and one closes it, so that even the shortest run lies between two.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use inferscope_shared::clock::MonoNs;
use rustix::time::ClockId;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

use super::{Gauges, timer};
use crate::artifacts::writer::Sink;
use crate::stats::Percentile;
use crate::telemetry::SourceReport;
use crate::telemetry::client::{CgroupUse, Completer, TcpUse, ThreadUse};

/// Twice as often as a second's p99 needs.
const TICK_NS: u64 = 5_000_000;
const LINE_NS: u64 = 1_000_000_000;

/// Line of `client_metrics.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ClientMetrics {
    /// End of the time since the line before, a second but for the first and the last line.
    pub t_ns: MonoNs,
    /// From a tick's planned instant to its taking, in that time.
    pub loop_lag_ms: Lag,
    /// CPU time of the whole process so far.
    pub cpu_seconds: f64,
    /// CPU time of the measuring thread so far.
    pub loop_cpu_seconds: f64,
    /// Time so far that the measuring thread was ready to run and had no core; null where the
    /// kernel does not say.
    #[serde(default)]
    pub loop_run_wait_seconds: Option<f64>,
    /// Requests in flight at `t_ns`.
    pub in_flight: u64,
    /// Answers that wait for the disk.
    #[serde(default)]
    pub writer_backlog_bytes: u64,
    /// What each thread has used so far.
    #[serde(default)]
    pub threads: Vec<ThreadUse>,
    /// What the control group has held back so far; null where it cannot be read.
    #[serde(default)]
    pub cgroup: Option<CgroupUse>,
    /// TCP of the network namespace; null where it cannot be read.
    #[serde(default)]
    pub tcp: Option<TcpUse>,
}

/// Distribution of the loop's lag.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Lag {
    /// Ticks.
    pub n: u64,
    /// Median.
    pub p50: Option<f64>,
    /// Nearest rank; null below 100 ticks.
    pub p99: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
}

impl Lag {
    /// The distribution of `lags` (nanoseconds), which it sorts.
    #[must_use]
    pub fn of(lags: &mut [u64]) -> Self {
        lags.sort_unstable();
        let sorted: Vec<f64> = lags.iter().map(|&ns| ns as f64 / 1e6).collect();
        Self {
            n: sorted.len() as u64,
            p50: Percentile::P50.estimate(&sorted),
            p99: Percentile::P99.estimate(&sorted),
            max: sorted.last().copied(),
        }
    }
}

/// Starts the ticks and takes them, on the calling thread, until the returned monitor ends.
///
/// # Errors
/// When no thread can be started.
pub fn start(gauges: Arc<Gauges>, sink: Sink) -> std::io::Result<Monitor> {
    let (sender, mut ticks) = mpsc::unbounded_channel::<MonoNs>();
    let this_thread = rustix::thread::gettid();
    let completer = Completer::start(sink, this_thread, LINE_NS as f64 / 1e6)?;
    thread::Builder::new()
        .name("lag".to_owned())
        .spawn(move || {
            timer::be_exact();
            let mut at = MonoNs::now();
            loop {
                at = at.plus_ns(TICK_NS).max(MonoNs::now());
                timer::nap_until(at);
                if sender.send(at).is_err() {
                    return;
                }
            }
        })?;
    let lines = completer.lines();
    let (end, mut ended) = oneshot::channel::<()>();
    let task = tokio::spawn(async move {
        let mut lags = Vec::with_capacity(256);
        // The completer outlives this task.
        let write = |lags: &mut Vec<u64>| {
            let _ = lines.send(line(&gauges, lags));
            lags.clear();
        };
        write(&mut lags);
        let mut line_at = MonoNs::now().plus_ns(LINE_NS);
        loop {
            tokio::select! {
                biased;
                _ = &mut ended => break,
                tick = ticks.recv() => {
                    let Some(tick) = tick else { break };
                    let now = MonoNs::now();
                    lags.push(now.since(tick));
                    if now >= line_at {
                        line_at = line_at.plus_ns(LINE_NS).max(now);
                        write(&mut lags);
                    }
                }
            }
        }
        write(&mut lags);
    });
    Ok(Monitor {
        task,
        end,
        completer,
    })
}

fn line(gauges: &Gauges, lags: &mut [u64]) -> ClientMetrics {
    ClientMetrics {
        t_ns: MonoNs::now(),
        loop_lag_ms: Lag::of(lags),
        cpu_seconds: cpu_seconds(ClockId::ProcessCPUTime),
        loop_cpu_seconds: cpu_seconds(ClockId::ThreadCPUTime),
        loop_run_wait_seconds: None,
        in_flight: gauges.in_flight.load(Ordering::Relaxed),
        writer_backlog_bytes: 0,
        threads: Vec::new(),
        cgroup: None,
        tcp: None,
    }
}

/// The running monitor.
#[derive(Debug)]
pub struct Monitor {
    task: tokio::task::JoinHandle<()>,
    end: oneshot::Sender<()>,
    completer: Completer,
}

impl Monitor {
    /// Writes the last line and says what completing lines took.
    pub async fn finish(self) -> SourceReport {
        let _ = self.end.send(());
        let _ = self.task.await;
        self.completer.finish()
    }
}

fn cpu_seconds(clock: ClockId) -> f64 {
    let t = rustix::time::clock_gettime(clock);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_of_ticks_becomes_nearest_rank_percentiles() {
        let mut lags: Vec<u64> = (1..=100).rev().map(|ms| ms * 1_000_000).collect();
        let lag = Lag::of(&mut lags);
        assert_eq!(
            (lag.p50, lag.p99, lag.max),
            (Some(50.0), Some(99.0), Some(100.0))
        );
        assert_eq!(Lag::of(&mut [5; 99]).p99, None, "99 ticks hold no p99");
        assert_eq!(Lag::of(&mut []).max, None);
    }
}
