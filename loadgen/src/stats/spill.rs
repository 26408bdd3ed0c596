//! Series of any length in a fixed amount of memory.
//!
//! All series of one analysis share a [`Spill`]: a budget of memory, and one temporary file
//! without a name that takes what does not fit. A series that stays within its part of the budget
//! never touches the disk, and the file is made only when the first one outgrows it. Items are
//! `K` words of 64 bits; the first word is what they are sorted by.
//!
//! The surprise: writing to a series cannot fail. The first failure of the disk is kept, what
//! comes after it is thrown away, and [`Spill::check`] says so: whoever hands out numbers asks it
//! before.

mod log;
mod sorter;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;

pub use log::Log;
pub use sorter::Sorter;

/// Memory of all series together.
const BUDGET_BYTES: usize = 64 << 20;
/// Least and most of one series.
const SHARE_BYTES: (usize, usize) = (4 << 10, 4 << 20);
const WORD: usize = 8;

/// The disk that series were sorted on failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{dir}: {why}; the analysis sorts there what memory does not hold: make room, or name another directory with TMPDIR"
)]
pub struct SpillError {
    dir: String,
    why: String,
}

/// Memory and disk that series share.
#[derive(Debug, Clone)]
pub struct Spill(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    dirs: Vec<PathBuf>,
    budget_bytes: usize,
    series: AtomicUsize,
    failed: AtomicBool,
    disk: Mutex<Disk>,
}

#[derive(Debug, Default)]
struct Disk {
    file: Option<File>,
    dir: PathBuf,
    end: u64,
    error: Option<SpillError>,
    bytes: Vec<u8>,
}

/// Items that lie one after the other in the file.
#[derive(Debug, Clone, Copy)]
struct Run {
    offset: u64,
    items: usize,
}

impl Spill {
    /// Spills into a nameless file in the first of `dirs` that takes one.
    #[must_use]
    pub fn new(dirs: Vec<PathBuf>) -> Self {
        Self::with_budget(dirs, BUDGET_BYTES)
    }

    /// Never spills; for series that are known to be small.
    #[must_use]
    pub fn never() -> Self {
        Self::with_budget(Vec::new(), usize::MAX)
    }

    /// As [`Spill::new`], with another budget.
    #[must_use]
    pub fn with_budget(dirs: Vec<PathBuf>, budget_bytes: usize) -> Self {
        Self(Arc::new(Shared {
            dirs,
            budget_bytes,
            series: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
            disk: Mutex::default(),
        }))
    }

    /// Whether everything that was handed in so far can be had back.
    ///
    /// # Errors
    /// The first failure of the disk: numbers of these series are not to be believed then.
    pub fn check(&self) -> Result<(), SpillError> {
        if !self.0.failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.disk().error.clone().map_or(Ok(()), Err)
    }

    /// Bytes on disk.
    #[must_use]
    pub fn spilled_bytes(&self) -> u64 {
        self.disk().end
    }

    fn join(&self) -> Self {
        self.0.series.fetch_add(1, Ordering::Relaxed);
        self.clone()
    }

    /// Items of `words` words that one series may hold in memory.
    fn share(&self, words: usize) -> usize {
        let budget = self.0.budget_bytes;
        if budget == usize::MAX {
            return budget;
        }
        let series = self.0.series.load(Ordering::Relaxed).max(1);
        // A budget of a test may be below the least share of a series.
        let (least, most) = (SHARE_BYTES.0.min(budget), SHARE_BYTES.1.min(budget));
        ((budget / series).clamp(least, most) / (words * WORD)).max(1)
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, disk: &mut Disk, e: &io::Error) {
        self.0.failed.store(true, Ordering::Relaxed);
        disk.error.get_or_insert_with(|| SpillError {
            dir: disk.dir.display().to_string(),
            why: e.to_string(),
        });
    }

    /// Puts items at the end of the file; nothing after a failure.
    fn append<const K: usize>(&self, items: &[[u64; K]]) -> Option<Run> {
        let mut guard = self.disk();
        let disk = &mut *guard;
        if disk.error.is_some() {
            return None;
        }
        match disk.append(&self.0.dirs, items) {
            Ok(run) => Some(run),
            Err(e) => {
                self.fail(disk, &e);
                None
            }
        }
    }

    /// Reads `count` items at `offset` into `items`, which stays empty on a failure.
    fn read<const K: usize>(&self, offset: u64, count: usize, items: &mut Vec<[u64; K]>) {
        items.clear();
        let mut guard = self.disk();
        let disk = &mut *guard;
        if let Err(e) = disk.read(offset, count, items) {
            items.clear();
            self.fail(disk, &e);
        }
    }
}

impl Disk {
    fn open(&mut self, dirs: &[PathBuf]) -> io::Result<()> {
        let mut result = Err(io::Error::other(
            "there is no directory for temporary files",
        ));
        for dir in dirs {
            self.dir.clone_from(dir);
            result = tempfile::tempfile_in(dir).map(|file| self.file = Some(file));
            if result.is_ok() {
                break;
            }
        }
        result
    }

    fn append<const K: usize>(&mut self, dirs: &[PathBuf], items: &[[u64; K]]) -> io::Result<Run> {
        if self.file.is_none() {
            self.open(dirs)?;
        }
        self.bytes.clear();
        let words = items.as_flattened().iter();
        self.bytes.extend(words.flat_map(|word| word.to_le_bytes()));
        let run = Run {
            offset: self.end,
            items: items.len(),
        };
        if let Some(file) = &self.file {
            file.write_all_at(&self.bytes, self.end)?;
        }
        self.end += self.bytes.len() as u64;
        Ok(run)
    }

    fn read<const K: usize>(
        &mut self,
        offset: u64,
        count: usize,
        items: &mut Vec<[u64; K]>,
    ) -> io::Result<()> {
        let Some(file) = &self.file else {
            return Err(io::Error::other("the temporary file is gone"));
        };
        self.bytes.resize(count * K * WORD, 0);
        file.read_exact_at(&mut self.bytes, offset)?;
        let (words, _) = self.bytes.as_chunks::<WORD>();
        items.extend(words.chunks_exact(K).map(|words| {
            let mut item = [0; K];
            for (word, bytes) in item.iter_mut().zip(words) {
                *word = u64::from_le_bytes(*bytes);
            }
            item
        }));
        Ok(())
    }
}

/// Items of one run, a buffer at a time.
#[derive(Debug)]
struct Cursor<const K: usize> {
    spill: Spill,
    offset: u64,
    left: usize,
    buffer: Vec<[u64; K]>,
    at: usize,
}

/// Bytes that a cursor reads at once.
const READ_BYTES: usize = 32 << 10;

impl<const K: usize> Cursor<K> {
    fn new(spill: &Spill, run: Run) -> Self {
        Self {
            spill: spill.clone(),
            offset: run.offset,
            left: run.items,
            buffer: Vec::new(),
            at: 0,
        }
    }
}

impl<const K: usize> Iterator for Cursor<K> {
    type Item = [u64; K];

    fn next(&mut self) -> Option<[u64; K]> {
        if self.at == self.buffer.len() {
            let count = self.left.min(READ_BYTES / (K * WORD));
            if count == 0 {
                return None;
            }
            self.spill.read(self.offset, count, &mut self.buffer);
            self.offset += (count * K * WORD) as u64;
            self.left -= count;
            self.at = 0;
        }
        let item = self.buffer.get(self.at).copied();
        self.at += usize::from(item.is_some());
        item
    }
}

/// Makes room for one more item, never for more than `most` in all.
fn grow<T>(items: &mut Vec<T>, most: usize) {
    if items.len() == items.capacity() {
        let more = items.len().max(64).min(most.saturating_sub(items.len()));
        items.reserve_exact(more.max(1));
    }
}

#[cfg(test)]
mod tests;
