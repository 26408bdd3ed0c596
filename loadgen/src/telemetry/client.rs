//! The load generator's own state beyond its loop lag: threads, control group, TCP.
//!
//! The measuring thread only counts its own lag; its lines come here once a second, are completed
//! from /proc by a thread that lets all others go first, and go on to the writer.
//!
//! The surprise: a thread that has ended takes its counts out of /proc. What it was last seen with
//! stays in the sum of its name, so that differences never go below zero.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use procfs::net::snmp;
use procfs::process::Process;
use rustix::thread::Pid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{SourceReport, Spent};
use crate::artifacts::host::cgroup;
use crate::artifacts::writer::Sink;
use crate::drive::lag::ClientMetrics;
use crate::drive::timer;

/// What one thread has used so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadUse {
    /// Its name; threads of one name are summed, ended ones included.
    pub name: String,
    /// CPU time.
    pub cpu_seconds: f64,
    /// Time that it was ready to run and had no core (schedstat); null where the kernel keeps none.
    pub run_wait_seconds: Option<f64>,
}

/// What the control group and those above it have held back so far.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CgroupUse {
    /// Periods in which the quota was used up.
    pub throttled_periods: u64,
    /// Time that its threads were held back.
    pub throttled_seconds: f64,
}

/// TCP segments of this network namespace so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TcpUse {
    /// Segments sent.
    pub segments_out: u64,
    /// Of those, sent again.
    pub retransmitted: u64,
}

/// Time on a core and time without one.
#[derive(Debug, Clone, Copy, Default)]
struct Use {
    cpu_seconds: f64,
    run_wait_seconds: Option<f64>,
}

impl Use {
    fn and(self, other: Self) -> Self {
        Self {
            cpu_seconds: self.cpu_seconds + other.cpu_seconds,
            run_wait_seconds: match (self.run_wait_seconds, other.run_wait_seconds) {
                (Some(a), Some(b)) => Some(a + b),
                (a, b) => a.or(b),
            },
        }
    }
}

/// Reads this process's own counts.
#[derive(Debug, Default)]
struct Reader {
    alive: HashMap<i32, (String, Use)>,
    ended: BTreeMap<String, Use>,
}

impl Reader {
    fn threads(&mut self) -> Vec<ThreadUse> {
        let seen = self.see(threads_now());
        seen.into_iter()
            .map(|(name, used)| ThreadUse {
                name,
                cpu_seconds: used.cpu_seconds,
                run_wait_seconds: used.run_wait_seconds,
            })
            .collect()
    }

    /// Of one thread, as last read.
    fn run_wait_of(&self, thread: Pid) -> Option<f64> {
        let (_, used) = self.alive.get(&thread.as_raw_nonzero().get())?;
        used.run_wait_seconds
    }

    /// Sums by name over the threads `now`, by id, and those that were there before.
    fn see(&mut self, now: HashMap<i32, (String, Use)>) -> BTreeMap<String, Use> {
        for (id, (name, last)) in &self.alive {
            // A name that changed is the same thread: its counts go on under the new one.
            if !now.contains_key(id) {
                let sum = self.ended.entry(name.clone()).or_default();
                *sum = sum.and(*last);
            }
        }
        let mut sums = self.ended.clone();
        for (name, used) in now.values() {
            let sum = sums.entry(name.clone()).or_default();
            *sum = sum.and(*used);
        }
        self.alive = now;
        sums
    }
}

fn threads_now() -> HashMap<i32, (String, Use)> {
    let Ok(tasks) = Process::myself().and_then(|me| me.tasks()) else {
        return HashMap::new();
    };
    let ticks = procfs::ticks_per_second() as f64;
    tasks
        .filter_map(|task| {
            let task = task.ok()?;
            let stat = task.stat().ok()?;
            let used = match task.schedstat() {
                Ok(s) => Use {
                    cpu_seconds: s.sum_exec_runtime as f64 / 1e9,
                    run_wait_seconds: Some(s.run_delay as f64 / 1e9),
                },
                Err(_) => Use {
                    cpu_seconds: (stat.utime + stat.stime) as f64 / ticks,
                    run_wait_seconds: None,
                },
            };
            Some((task.tid, (stat.comm, used)))
        })
        .collect()
}

/// Of the group that this process is in and those above it: a quota of any of them holds it back.
fn cgroup_now() -> Option<CgroupUse> {
    cgroup::of_cpu()
        .into_iter()
        .filter_map(|dir| held_back(&fs::read_to_string(dir.join("cpu.stat")).ok()?))
        .reduce(|a, b| CgroupUse {
            throttled_periods: a.throttled_periods + b.throttled_periods,
            throttled_seconds: a.throttled_seconds + b.throttled_seconds,
        })
}

/// Reads `cpu.stat`: microseconds in version 2, nanoseconds in version 1. A root group without a
/// quota says nothing of either.
fn held_back(text: &str) -> Option<CgroupUse> {
    let value = |key: &str| {
        text.lines().find_map(|line| {
            let (name, value) = line.split_once(' ')?;
            (name == key).then(|| value.trim().parse::<u64>().ok())?
        })
    };
    Some(CgroupUse {
        throttled_periods: value("nr_throttled")?,
        throttled_seconds: match value("throttled_usec") {
            Some(us) => us as f64 / 1e6,
            None => value("throttled_time")? as f64 / 1e9,
        },
    })
}

fn tcp_now() -> Option<TcpUse> {
    snmp().ok().map(|snmp| TcpUse {
        segments_out: snmp.tcp_out_segs,
        retransmitted: snmp.tcp_retrans_segs,
    })
}

/// The thread that completes lines.
#[derive(Debug)]
pub struct Completer {
    lines: Sender<ClientMetrics>,
    thread: JoinHandle<SourceReport>,
}

impl Completer {
    /// Starts it for the thread that measures; complete lines go to `sink`.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(sink: Sink, measuring: Pid, interval_ms: f64) -> std::io::Result<Self> {
        let (lines, unfinished) = mpsc::channel::<ClientMetrics>();
        let thread = thread::Builder::new()
            .name("t-client".to_owned())
            .spawn(move || {
                timer::stand_back();
                let mut reader = Reader::default();
                let mut spent = Spent::default();
                while let Ok(mut line) = unfinished.recv() {
                    spent.time(|| {
                        line.threads = reader.threads();
                        line.loop_run_wait_seconds = reader.run_wait_of(measuring);
                        line.cgroup = cgroup_now();
                        line.tcp = tcp_now();
                    });
                    sink.client_metrics(line);
                }
                spent.report("client", Some(interval_ms))
            })?;
        Ok(Self { lines, thread })
    }

    /// Where lines go in.
    #[must_use]
    pub fn lines(&self) -> Sender<ClientMetrics> {
        self.lines.clone()
    }

    /// Ends once every other sender is gone and all lines are through.
    #[must_use]
    pub fn finish(self) -> SourceReport {
        drop(self.lines);
        self.thread
            .join()
            .unwrap_or_else(|_| SourceReport::absent("client", "its thread failed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(name: &str, cpu: f64, wait: f64) -> (String, Use) {
        let used = Use {
            cpu_seconds: cpu,
            run_wait_seconds: Some(wait),
        };
        (name.to_owned(), used)
    }

    #[test]
    fn threads_of_one_name_are_summed_and_ended_ones_stay() {
        let mut reader = Reader::default();
        let first = reader.see(HashMap::from([
            (1, used("main", 1.0, 0.1)),
            (2, used("feed", 2.0, 0.2)),
            (3, used("feed", 3.0, 0.3)),
        ]));
        assert_eq!(first["feed"].cpu_seconds, 5.0);
        assert_eq!(first["feed"].run_wait_seconds, Some(0.5));
        let later = reader.see(HashMap::from([
            (1, used("main", 1.5, 0.1)),
            (4, used("feed", 0.5, 0.0)),
        ]));
        assert_eq!(later["feed"].cpu_seconds, 5.5);
        assert_eq!(later["main"].cpu_seconds, 1.5);
        let renamed = reader.see(HashMap::from([(1, used("other", 2.0, 0.1))]));
        assert_eq!(renamed["other"].cpu_seconds, 2.0);
        assert!(!renamed.contains_key("main"));
    }

    #[test]
    fn this_process_says_what_its_threads_and_its_network_used() {
        let mut reader = Reader::default();
        let threads = reader.threads();
        assert!(threads.iter().any(|t| t.cpu_seconds > 0.0), "{threads:?}");
        assert!(tcp_now().is_some());
    }

    #[test]
    fn throttling_is_read_from_both_versions_of_control_groups() {
        let v2 = "usage_usec 9\nnr_periods 5\nnr_throttled 3\nthrottled_usec 1500000\n";
        let v1 = "nr_periods 5\nnr_throttled 3\nthrottled_time 1500000000\n";
        for text in [v1, v2] {
            let read = held_back(text).unwrap();
            assert_eq!(read.throttled_periods, 3);
            assert_eq!(read.throttled_seconds, 1.5);
        }
        assert_eq!(held_back("usage_usec 9\nuser_usec 5\n"), None);
    }
}
