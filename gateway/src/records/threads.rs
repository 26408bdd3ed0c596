//! The two threads behind [`Records`](super::Records): one that serialises and feeds the ring,
//! one that writes the file.

use std::convert::Infallible;
use std::sync::mpsc::{Sender as Alive, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use bytes::Bytes;
use inferscope_shared::record::gateway::GatewayRecord;

use super::file::RecordFile;
use super::queue::{Sender, Taker, Weight};
use super::ring::Ring;
use super::{Drops, RecordsError};

/// Bytes from which on a batch is written although more waits.
const BATCH: usize = 1 << 20;

/// What goes to the first thread.
#[derive(Debug)]
pub(super) enum Message {
    Record(Box<GatewayRecord>),
    /// Answered when everything before it is in the ring.
    Reached(SyncSender<()>),
    Stop,
}

impl Weight for Message {
    fn bytes(&self) -> usize {
        let Self::Record(record) = self else {
            return 0;
        };
        let chunks = &record.chunks;
        let numbers = [
            &chunks.read_ns,
            &chunks.written_ns,
            &chunks.end_offset,
            &chunks.events,
        ];
        // The texts are short by comparison.
        size_of::<GatewayRecord>()
            + numbers
                .map(|it| size_of_val(it.as_slice()))
                .iter()
                .sum::<usize>()
    }
}

/// What goes to the file's thread.
#[derive(Debug)]
pub(super) enum Line {
    Text(Bytes),
    Stop,
}

impl Weight for Line {
    fn bytes(&self) -> usize {
        match self {
            Self::Text(line) => line.len(),
            Self::Stop => 0,
        }
    }
}

/// Starts a thread that holds on to `alive` until it ends, by a panic too.
pub(super) fn spawn(
    name: &str,
    alive: &Alive<Infallible>,
    work: impl FnOnce() + Send + 'static,
) -> Result<(), RecordsError> {
    let alive = alive.clone();
    let started = thread::Builder::new().name(name.to_owned()).spawn(move || {
        work();
        drop(alive);
    });
    started.map(drop).map_err(RecordsError::Thread)
}

/// The first thread.
pub(super) fn serialise(
    messages: &Taker<Message>,
    ring: &Mutex<Ring>,
    file: Option<&(Sender<Line>, Arc<Drops>)>,
) {
    while let Some(message) = messages.wait() {
        match message {
            Message::Record(record) => {
                let Ok(mut line) = serde_json::to_vec(&record) else {
                    tracing::error!(request_id = record.request_id, "a record is no JSON");
                    continue;
                };
                line.push(b'\n');
                let line = Bytes::from(line);
                if let Some((lines, drops)) = file
                    && !lines.offer(Line::Text(line.clone()))
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
        && !lines.conclude(Line::Stop)
    {
        tracing::error!("the thread for the record file has ended before its time");
    }
}

/// The file's thread: what waits is written together, up to a batch.
pub(super) fn write_lines(queue: &Taker<Line>, mut file: RecordFile) {
    let mut batch = Vec::new();
    let mut stopped = false;
    while !stopped && let Some(first) = queue.wait() {
        let mut next = Some(first);
        let mut bytes = 0;
        while let Some(Line::Text(line)) = next {
            bytes += line.len();
            batch.push(line);
            next = if bytes < BATCH { queue.next() } else { None };
        }
        stopped = matches!(next, Some(Line::Stop));
        file.write(&batch);
        batch.clear();
    }
}
