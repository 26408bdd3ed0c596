//! The engine's process tree, from /proc.
//!
//! A root process and all its descendants are one thing here: engines fork workers, and a worker
//! that was seen once stays in the tree though its parent has ended. A process that vanishes is
//! data: the next sample has one fewer. [`find`] says which process is the root.
//!
//! The surprise: proportional memory is the one reading that may disturb the engine, because the
//! kernel walks its page tables under its memory lock. During a point it is read only while it
//! comes cheap.

pub mod find;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use inferscope_shared::clock::MonoNs;
use procfs::process::{Process, Stat, all_processes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SourceReport;
use super::sampler::{Lines, Source, When};

/// What reading proportional memory may take for it to be read during a point.
const CHEAP: Duration = Duration::from_millis(5);

/// Line of `process_metrics.jsonl`: a process and all its descendants at one instant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessSample {
    /// When.
    pub t_ns: MonoNs,
    /// The root of the tree.
    pub pid: u32,
    /// Processes in it; 0 = all have ended.
    pub processes: u32,
    /// Threads in it.
    pub threads: u32,
    /// Resident memory, pages shared between processes counted in each.
    pub rss_bytes: u64,
    /// Proportional memory, shared pages counted once; null where it may not be read, and during a
    /// point where reading it takes long.
    pub pss_bytes: Option<u64>,
    /// CPU time so far, of ended children too.
    pub cpu_seconds: f64,
}

/// The processes of one engine.
#[derive(Debug)]
pub struct Tree {
    root: i32,
    /// How its command line begins.
    command: String,
    /// Every process seen, living or not, but for those that their parent counts.
    members: BTreeMap<i32, Member>,
    /// CPU ticks said last; what comes out lower later was lost with a process nobody waited for.
    ticks: u64,
    pss_took: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Member {
    start: u64,
    /// Its own.
    ticks: u64,
    /// Of children that it has waited for.
    ticks_of_ended: u64,
    parent: i32,
    alive: bool,
}

impl Tree {
    /// The tree below a process.
    ///
    /// # Errors
    /// When there is no such process.
    pub fn of(root: u32) -> Result<Self, String> {
        let gone = || format!("process {root} is not there");
        let root = i32::try_from(root).map_err(|_| gone())?;
        let stat = stat_of(root).ok_or_else(gone)?;
        Ok(Self {
            root,
            command: find::command_of(stat.pid.unsigned_abs()),
            members: BTreeMap::from([(root, member(&stat))]),
            ticks: 0,
            pss_took: Duration::ZERO,
        })
    }

    /// The root's id.
    #[must_use]
    pub fn root(&self) -> u32 {
        self.root.unsigned_abs()
    }

    /// Looks at all processes; `thorough` also reads what may take long.
    pub fn sample(&mut self, thorough: bool) -> ProcessSample {
        let t_ns = MonoNs::now();
        let living = self.grow();
        let sum = |of: fn(&Stat) -> u64| living.iter().map(of).sum::<u64>();
        ProcessSample {
            t_ns,
            pid: self.root(),
            processes: u32::try_from(living.len()).unwrap_or(u32::MAX),
            threads: u32::try_from(sum(|s| s.num_threads.unsigned_abs())).unwrap_or(u32::MAX),
            rss_bytes: sum(|s| s.rss) * procfs::page_size(),
            pss_bytes: (thorough || self.pss_took < CHEAP)
                .then(|| self.pss(&living))
                .flatten(),
            cpu_seconds: self.add_up() as f64 / procfs::ticks_per_second() as f64,
        }
    }

    /// Finds the tree's living processes among all there are.
    fn grow(&mut self) -> Vec<Stat> {
        let mut all: BTreeMap<i32, Stat> = all_processes()
            .into_iter()
            .flatten()
            .filter_map(|p| p.ok()?.stat().ok())
            .map(|stat| (stat.pid, stat))
            .collect();
        let here = |pid: i32, known: &Member| {
            // An id that came round again is another process.
            all.get(&pid).is_some_and(|s| s.starttime == known.start)
        };
        let parents: BTreeSet<i32> = self
            .members
            .iter()
            .filter(|&(&pid, m)| here(pid, m))
            .map(|(&pid, _)| pid)
            .collect();
        self.members.retain(|&pid, m| {
            let ended = m.alive && !here(pid, m);
            m.alive &= !ended;
            // A living parent has waited for it, and counts what it used among ended children.
            !(ended && parents.contains(&m.parent))
        });
        let mut living = Vec::new();
        let mut open: Vec<i32> = self
            .members
            .iter()
            .filter(|(_, m)| m.alive)
            .map(|(&pid, _)| pid)
            .collect();
        while let Some(pid) = open.pop() {
            let Some(stat) = all.remove(&pid) else {
                continue;
            };
            self.members.insert(pid, member(&stat));
            open.extend(all.values().filter(|s| s.ppid == pid).map(|s| s.pid));
            // One that has ended and waits for its parent uses nothing any more.
            if stat.state != 'Z' {
                living.push(stat);
            }
        }
        living
    }

    /// CPU ticks of living members, and of ended ones as last seen.
    fn add_up(&mut self) -> u64 {
        let now = self.members.values().map(|m| m.ticks + m.ticks_of_ended);
        let now = now.sum();
        self.ticks = self.ticks.max(now);
        self.ticks
    }

    fn pss(&mut self, living: &[Stat]) -> Option<u64> {
        let start = Instant::now();
        let sum = living.iter().map(|stat| pss_of(stat.pid)).sum();
        self.pss_took = start.elapsed();
        sum
    }
}

fn member(stat: &Stat) -> Member {
    Member {
        start: stat.starttime,
        ticks: stat.utime + stat.stime,
        ticks_of_ended: stat.cutime.unsigned_abs() + stat.cstime.unsigned_abs(),
        parent: stat.ppid,
        alive: true,
    }
}

fn stat_of(pid: i32) -> Option<Stat> {
    Process::new(pid).and_then(|p| p.stat()).ok()
}

fn pss_of(pid: i32) -> Option<u64> {
    let rollup = Process::new(pid).and_then(|p| p.smaps_rollup()).ok()?;
    let maps = rollup.memory_map_rollup;
    maps.iter()
        .find_map(|map| map.extension.map.get("Pss").copied())
}

/// Whether a process belongs to the tree below `root`; null when it cannot be seen from here.
#[must_use]
pub fn belongs(pid: u32, root: u32) -> Option<bool> {
    let mut at = i32::try_from(pid).ok()?;
    let root = i32::try_from(root).ok()?;
    // As deep as any process tree; a parent that is read wrong must not make it endless.
    for _ in 0..1_000 {
        if at == root {
            return Some(true);
        }
        let parent = stat_of(at)?.ppid;
        if parent <= 0 {
            return Some(false);
        }
        at = parent;
    }
    None
}

impl Source for Tree {
    fn sample(&mut self, _: &str, when: When, lines: &mut Lines) -> Result<(), String> {
        lines.push(&Self::sample(self, when != When::During));
        Ok(())
    }

    fn describe(&self, report: &mut SourceReport) {
        report.subject = Some(format!("{} ({})", self.root(), self.command));
    }
}

#[cfg(test)]
mod tests;
