//! The request log: one JSON line per request that was answered by the pacer.
//!
//! Stamps are CLOCK_MONOTONIC ns. `events_sent_ns` holds one stamp per output step, the first
//! absolute and the rest as differences. In exact mode a step was due at
//! `recv_end_ns + ttft_ns + i * itl_ns`, so lateness can be worked out of a line alone; with the
//! timing model both are null.

use std::fs::File;
use std::io::{self, LineWriter, Write as _};
use std::path::Path;
use std::sync::Mutex;

use serde::Serialize;

use crate::line::lock;
use crate::program::End;

/// One line of the log.
#[derive(Debug, Serialize)]
pub(crate) struct Entry<'a> {
    pub request_id: Option<&'a str>,
    pub path: &'a str,
    pub connection: u64,
    pub recv_first_ns: u64,
    pub recv_head_ns: u64,
    pub recv_end_ns: u64,
    pub ttft_ns: Option<u64>,
    pub itl_ns: Option<u64>,
    pub first_output_sent_ns: Option<u64>,
    pub last_output_sent_ns: Option<u64>,
    pub done_sent_ns: Option<u64>,
    pub end_ns: u64,
    pub events_sent_ns: Vec<u64>,
    /// Steps that the client's full receive window held up.
    pub blocked: u32,
    pub prompt_tokens: Option<u64>,
    pub completion_tokens: u64,
    pub end: End,
}

/// First value absolute, the others as differences to the one before.
pub(crate) fn deltas(stamps: &[u64]) -> Vec<u64> {
    let mut before = 0;
    stamps
        .iter()
        .map(|&at| at.saturating_sub(std::mem::replace(&mut before, at)))
        .collect()
}

/// The open log.
#[derive(Debug)]
pub(crate) struct Log(Option<Mutex<LineWriter<File>>>);

impl Log {
    /// Appends to `path`; without one nothing is written.
    pub fn open(path: Option<&Path>) -> io::Result<Self> {
        let file = path
            .map(|path| {
                File::options()
                    .create(true)
                    .append(true)
                    .open(path)
                    .map_err(|e| io::Error::new(e.kind(), format!("log {}: {e}", path.display())))
            })
            .transpose()?;
        Ok(Self(file.map(|file| {
            Mutex::new(LineWriter::with_capacity(64 << 10, file))
        })))
    }

    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Writes one line. A failed write is told on stderr: the engine goes on.
    pub fn write(&self, entry: &Entry<'_>) {
        let Some(file) = &self.0 else { return };
        let Ok(mut line) = serde_json::to_vec(entry) else {
            return;
        };
        line.push(b'\n');
        if let Err(e) = lock(file).write_all(&line) {
            eprintln!("fake-engine: log line lost: {e}");
        }
    }
}
