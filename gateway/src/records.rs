//! Records on their way out: never in the way of a request.
//!
//! [`Records::submit`] puts a record into a bounded [`queue`] and returns; when the queue is full
//! the record is dropped and counted. One thread serialises, puts the line into the ring in memory
//! ([`ring`]) and hands it to a second thread that owns the file ([`file`]), through a bounded
//! queue again: a disk that hangs costs file lines, nothing else ([`threads`]).
//!
//! The surprise: [`Records::query`] first waits (up to a second) until what was submitted before
//! it is in the ring, so a caller whose answer just ended finds its record.

pub mod file;
mod queue;
mod ring;
mod threads;

use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use inferscope_shared::record::SCHEMA_VERSION;
use inferscope_shared::record::gateway::{GatewayRecord, Header, HeaderLine};

use crate::config::RecordsConfig;
use crate::metrics::Metrics;
use crate::metrics::labels::Sink;
use file::RecordFile;
use queue::{Sender, bounded};
use ring::Ring;
use threads::{Message, serialise, spawn, write_lines};

/// How long a query waits for what was submitted before it.
const CATCH_UP: Duration = Duration::from_secs(1);
/// How long the end of the process waits for the last records.
const CLOSE: Duration = Duration::from_secs(5);

/// Why records can't be written.
#[derive(Debug)]
pub enum RecordsError {
    /// The file can't be opened, rotated or written.
    File(PathBuf, std::io::Error),
    /// No thread could be started.
    Thread(std::io::Error),
}

impl fmt::Display for RecordsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, error) => write!(
                f,
                "cannot write records to {}: {error}; choose a path in a writable directory",
                path.display()
            ),
            Self::Thread(error) => write!(
                f,
                "cannot start a thread for records: {error}; raise the limit of threads \
                 (ulimit -u, or the container's pids limit)"
            ),
        }
    }
}

impl std::error::Error for RecordsError {}

/// Losses of one sink; the metric of the same name counts along.
#[derive(Debug)]
struct Drops {
    sink: Sink,
    count: AtomicU64,
    /// The last write failed.
    failing: AtomicBool,
    metrics: Arc<Metrics>,
}

impl Drops {
    fn add(&self, records: u64) {
        self.count.fetch_add(records, Ordering::Relaxed);
        self.metrics.records_dropped(self.sink, records);
    }

    fn get(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

/// The way in, and the ring.
#[derive(Debug)]
pub struct Records {
    queue: Sender<Message>,
    ring: Arc<Mutex<Ring>>,
    ring_drops: Arc<Drops>,
    file_drops: Option<Arc<Drops>>,
    boot_id: String,
    /// Carries nothing; its senders go when the threads end.
    alive: Mutex<Receiver<Infallible>>,
}

/// What stands where, for `/status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordsStatus {
    /// Records in the ring.
    pub in_ring: usize,
    /// Bytes of them.
    pub ring_bytes: usize,
    /// Old records that left the ring for newer ones.
    pub evicted: u64,
    /// Records lost before they reached the ring.
    pub ring_dropped: u64,
    /// Records that the file lost; `None` without a file.
    pub file_dropped: Option<u64>,
}

impl Records {
    /// Whether the last write to the file went well, if there is one.
    #[must_use]
    pub fn writable(&self) -> bool {
        let failing = |drops: &Arc<Drops>| drops.failing.load(Ordering::Relaxed);
        !self.file_drops.as_ref().is_some_and(failing)
    }

    /// Opens the file, if there is one, and starts the threads.
    ///
    /// # Errors
    /// The file can't be written, or a thread can't be started.
    pub fn start(
        config: &RecordsConfig,
        boot_id: &str,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, RecordsError> {
        let drops = |sink| {
            Arc::new(Drops {
                sink,
                count: AtomicU64::new(0),
                failing: AtomicBool::new(false),
                metrics: Arc::clone(metrics),
            })
        };
        let (thread, alive) = channel();
        let file = match &config.file {
            Some(settings) => {
                let drops = drops(Sink::File);
                let file = RecordFile::open(settings, boot_id, Arc::clone(&drops))
                    .map_err(|error| RecordsError::File(settings.path.clone(), error))?;
                let (lines, queue) = bounded();
                spawn("records-file", &thread, move || write_lines(&queue, file))?;
                Some((lines, drops))
            }
            None => None,
        };
        let file_drops = file.as_ref().map(|(_, drops)| Arc::clone(drops));
        let ring = Arc::new(Mutex::new(Ring::new(&config.ring)));
        let (queue, messages) = bounded();
        let into = Arc::clone(&ring);
        spawn("records", &thread, move || {
            serialise(&messages, &into, file.as_ref());
        })?;
        Ok(Self {
            queue,
            ring,
            ring_drops: drops(Sink::Ring),
            file_drops,
            boot_id: boot_id.to_owned(),
            alive: Mutex::new(alive),
        })
    }

    /// Takes a record. Never waits: a full queue drops it and counts that, for both sinks.
    pub fn submit(&self, record: GatewayRecord) {
        if !self.queue.offer(Message::Record(Box::new(record))) {
            self.ring_drops.add(1);
            if let Some(drops) = &self.file_drops {
                drops.add(1);
            }
        }
    }

    /// Records whose `client_request_id` begins with `prefix` (all of them for `None`), oldest
    /// first, as JSON lines behind a header line. The header's `dropped` counts what the ring
    /// lost and what it let go for newer records. May wait up to a second: not for async tasks.
    #[must_use]
    pub fn query(&self, prefix: Option<&str>) -> Vec<u8> {
        let (reached, wait) = sync_channel(1);
        if self.queue.offer(Message::Reached(reached)) {
            let _ = wait.recv_timeout(CATCH_UP);
        }
        // Handles under the lock, which the data path's thread and `/status` want too; the copy
        // of what may be many megabytes after it.
        let (lost, lines) = {
            let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
            (self.ring_drops.get() + ring.evicted(), ring.lines(prefix))
        };
        let mut answer = header(&self.boot_id, lost);
        answer.reserve(lines.iter().map(|line| line.len()).sum());
        for line in lines {
            answer.extend_from_slice(&line);
        }
        answer
    }

    /// What stands where.
    #[must_use]
    pub fn status(&self) -> RecordsStatus {
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        RecordsStatus {
            in_ring: ring.len(),
            ring_bytes: ring.bytes(),
            evicted: ring.evicted(),
            ring_dropped: self.ring_drops.get(),
            file_dropped: self.file_drops.as_ref().map(|drops| drops.get()),
        }
    }

    /// Writes out what was submitted and ends the threads; records submitted later are dropped.
    /// Blocks until that is done, but gives up on a disk that hangs.
    pub fn close(&self) {
        // Without a thread to take it, there is nothing left to wait for either.
        let _ = self.queue.conclude(Message::Stop);
        let alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        if alive.recv_timeout(CLOSE) == Err(RecvTimeoutError::Timeout) {
            tracing::error!(limit = ?CLOSE, "the last records could not be written in time");
        }
    }
}

/// The first line of a file and of an answer.
fn header(boot_id: &str, dropped: u64) -> Vec<u8> {
    let header = HeaderLine {
        header: Header {
            schema_version: SCHEMA_VERSION,
            boot_id: boot_id.to_owned(),
            gateway_version: env!("CARGO_PKG_VERSION").to_owned(),
            dropped,
        },
    };
    let mut line = serde_json::to_vec(&header).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests;
