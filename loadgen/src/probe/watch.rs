//! Samples the engine's process tree on a thread of its own while requests run.
//!
//! The thread lets all others go first and takes its samples at absolute instants; one that is
//! missed is left out. It ends by itself when the process does.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use inferscope_shared::clock::MonoNs;

use super::life::Sample;
use crate::drive::timer;
use crate::telemetry::process::{ProcessSample, Tree};
use crate::telemetry::{SourceReport, Spent};

/// Time between samples.
pub(super) const INTERVAL: Duration = Duration::from_millis(50);

/// A process being watched.
#[derive(Debug)]
pub(super) struct Watch {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

/// What was seen of a process.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub samples: Vec<ProcessSample>,
    /// Why there are none, or none from some instant on.
    pub reason: Option<String>,
    pub cost: SourceReport,
}

impl Watch {
    /// Starts to watch.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(tree: Tree) -> io::Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&over);
        let thread = thread::Builder::new()
            .name("t-process".to_owned())
            .spawn(move || {
                timer::stand_back();
                watch(tree, &asked)
            })?;
        Ok(Self { over, thread })
    }

    /// Takes a last sample and ends.
    pub fn finish(self) -> Seen {
        self.over.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_else(|_| Seen {
            reason: Some("the sampling thread failed".to_owned()),
            ..Seen::default()
        })
    }
}

fn watch(mut tree: Tree, over: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    let mut spent = Spent::default();
    let start = MonoNs::now();
    let mut next = start;
    loop {
        let last = over.load(Ordering::Relaxed);
        // Proportional memory may take long to read; at both ends nothing is in flight.
        let thorough = last || seen.samples.is_empty();
        let sample = spent.time(|| tree.sample(thorough));
        if sample.processes == 0 {
            let after = sample.t_ns.since(start) as f64 / 1e9;
            seen.reason = Some(format!("process {} ended after {after:.1} s", tree.root()));
            break;
        }
        seen.samples.push(sample);
        if last {
            break;
        }
        let now = MonoNs::now();
        while next <= now {
            next = next.plus(INTERVAL);
        }
        while MonoNs::now() < next && !over.load(Ordering::Relaxed) {
            // Unparked when the probe is over.
            thread::park_timeout(Duration::from_nanos(next.since(MonoNs::now())));
        }
    }
    seen.cost = spent.report("process", Some(INTERVAL.as_secs_f64() * 1e3));
    seen
}

/// A sample on the probe's own axis of time.
pub(super) fn placed(sample: &ProcessSample, origin: MonoNs) -> Sample {
    Sample {
        at_ms: sample.t_ns.signed_since(origin) as f64 / 1e6,
        rss_bytes: sample.rss_bytes,
        pss_bytes: sample.pss_bytes,
        cpu_seconds: sample.cpu_seconds,
        threads: sample.threads,
        processes: sample.processes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_seen_until_told_to_stop() {
        let watch = Watch::start(Tree::of(std::process::id()).unwrap()).unwrap();
        let seen = watch.finish();
        assert!(!seen.samples.is_empty());
        assert!(
            seen.samples
                .iter()
                .all(|s| s.rss_bytes > 0 && s.threads > 0)
        );
        assert_eq!(
            (seen.reason, seen.cost.samples),
            (None, seen.samples.len() as u64)
        );
    }

    #[test]
    fn a_process_that_ends_ends_the_watch_and_is_said() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let tree = Tree::of(child.id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let seen = watch(tree, &AtomicBool::new(false));
        assert!(seen.samples.is_empty());
        assert!(seen.reason.unwrap().contains("ended after"));
    }
}
