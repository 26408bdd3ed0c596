//! Records on their way out: never in the way of a request.
//!
//! [`Records::submit`] puts a record into a bounded queue and returns; when the queue is full the
//! record is dropped and counted. One thread serialises, puts the line into the ring in memory
//! ([`ring`]) and hands it to a second thread that owns the file ([`file`]), through a bounded
//! queue again: a disk that hangs costs file lines, nothing else.
//!
//! The surprise: [`Records::query`] first waits (up to a second) until what was submitted before
//! it is in the ring, so a caller whose answer just ended finds its record.

mod file;
mod ring;

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use inferscope_shared::record::SCHEMA_VERSION;
use inferscope_shared::record::gateway::{GatewayRecord, Header, HeaderLine};

use crate::config::RecordsConfig;
use crate::metrics::Metrics;
use crate::metrics::labels::Sink;
use file::RecordFile;
use ring::Ring;

/// Records that may wait for each thread.
const QUEUE: usize = 8_192;
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
            Self::Thread(error) => write!(f, "cannot start the thread for records: {error}"),
        }
    }
}

impl std::error::Error for RecordsError {}

/// What goes to the first thread.
enum Message {
    Record(Box<GatewayRecord>),
    /// Answered when everything before it is in the ring.
    Reached(SyncSender<()>),
    Stop,
}

/// What goes to the file's thread.
enum Line {
    Text(Bytes),
    Stop,
}

/// Losses of one sink; the metric of the same name counts along.
#[derive(Debug)]
struct Drops {
    sink: Sink,
    count: AtomicU64,
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
    queue: SyncSender<Message>,
    ring: Arc<Mutex<Ring>>,
    ring_drops: Arc<Drops>,
    file_drops: Option<Arc<Drops>>,
    boot_id: String,
    threads: Mutex<Vec<JoinHandle<()>>>,
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
                metrics: Arc::clone(metrics),
            })
        };
        let mut threads = Vec::new();
        let file = match &config.file {
            Some(settings) => {
                let drops = drops(Sink::File);
                let file = RecordFile::open(settings, boot_id, Arc::clone(&drops))
                    .map_err(|error| RecordsError::File(settings.path.clone(), error))?;
                let (lines, queue) = sync_channel(QUEUE);
                threads.push(spawn("records-file", move || write_lines(&queue, file))?);
                Some((lines, drops))
            }
            None => None,
        };
        let file_drops = file.as_ref().map(|(_, drops)| Arc::clone(drops));
        let ring = Arc::new(Mutex::new(Ring::new(&config.ring)));
        let (queue, messages) = sync_channel(QUEUE);
        let into = Arc::clone(&ring);
        threads.push(spawn("records", move || {
            serialise(&messages, &into, file.as_ref());
        })?);
        Ok(Self {
            queue,
            ring,
            ring_drops: drops(Sink::Ring),
            file_drops,
            boot_id: boot_id.to_owned(),
            threads: Mutex::new(threads),
        })
    }

    /// Takes a record. Never waits: a full queue drops it and counts that, for both sinks.
    pub fn submit(&self, record: GatewayRecord) {
        if self
            .queue
            .try_send(Message::Record(Box::new(record)))
            .is_err()
        {
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
        if self.queue.try_send(Message::Reached(reached)).is_ok() {
            let _ = wait.recv_timeout(CATCH_UP);
        }
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = header(&self.boot_id, self.ring_drops.get() + ring.evicted());
        ring.copy(prefix, &mut lines);
        lines
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
    /// Gives up on a disk that hangs.
    pub async fn close(&self) {
        let end = self.end();
        let ended = tokio::time::timeout(CLOSE, tokio::task::spawn_blocking(end)).await;
        if !matches!(ended, Ok(Ok(()))) {
            tracing::error!("the last records could not be written in time");
        }
    }

    /// What ends the threads; it blocks until they have written everything.
    fn end(&self) -> impl FnOnce() + Send + use<> {
        let queue = self.queue.clone();
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let threads = std::mem::take(&mut *threads);
        move || {
            // An error means that they have ended already.
            let _ = queue.send(Message::Stop);
            for thread in threads.into_iter().rev() {
                if thread.join().is_err() {
                    tracing::error!("a thread for records panicked");
                }
            }
        }
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, RecordsError> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map_err(RecordsError::Thread)
}

/// The first thread.
fn serialise(
    messages: &Receiver<Message>,
    ring: &Mutex<Ring>,
    file: Option<&(SyncSender<Line>, Arc<Drops>)>,
) {
    for message in messages {
        match message {
            Message::Record(record) => {
                let Ok(mut line) = serde_json::to_vec(&record) else {
                    tracing::error!(request_id = record.request_id, "a record is no JSON");
                    continue;
                };
                line.push(b'\n');
                let line = Bytes::from(line);
                if let Some((lines, drops)) = file
                    && let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
                        lines.try_send(Line::Text(line.clone()))
                {
                    drops.add(1);
                }
                ring.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(record.client_request_id.as_deref(), line);
            }
            // The asker may have stopped waiting.
            Message::Reached(reply) => drop(reply.try_send(())),
            Message::Stop => break,
        }
    }
    if let Some((lines, _)) = file
        && lines.send(Line::Stop).is_err()
    {
        tracing::error!("the thread for the record file has ended before its time");
    }
}

/// The file's thread: whatever waits is written at once.
fn write_lines(queue: &Receiver<Line>, mut file: RecordFile) {
    let mut batch = Vec::new();
    while let Ok(first) = queue.recv() {
        let mut next = Some(first);
        while let Some(Line::Text(line)) = next {
            batch.push(line);
            next = queue.try_recv().ok();
        }
        file.write(&batch);
        batch.clear();
        if matches!(next, Some(Line::Stop)) {
            return;
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
