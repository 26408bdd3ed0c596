//! The answer on its way through: forward first, look after.
//!
//! As a piece passes, [`Watch::take`] stamps it and keeps a reference to its bytes, nothing more.
//! Once the kernel has the bytes ([`super::listener::stamped`]), [`Watch::look`] reads what has
//! gathered: events, first and last output, usage, finish reason. It reads a copy: it may give
//! up ([`Extraction::Partial`]), it can't change, delay, merge or end a byte.
//!
//! Clock: CLOCK_MONOTONIC, absolute. A piece's `read` is taken as pingora's filter gets it, so
//! under backpressure it is late by what waits in pingora's queue of four.

pub mod excise;
pub mod observe;
mod series;

use bytes::Bytes;
use inferscope_shared::clock::MonoNs;
use inferscope_shared::record::gateway::Extraction;
use sha2::{Digest as _, Sha256};

use observe::{Body, Reader, Seen};
pub use series::chunks;

/// A piece of the answer's body, as the upstream filter got it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// When the filter got it.
    pub read: MonoNs,
    /// Decoded body offset of its end, as the client gets it.
    pub end_offset: u64,
    /// Events with data whose last byte lies in it.
    pub events: u64,
}

/// What one answer showed.
#[derive(Debug, Default)]
pub struct Watch {
    pieces: Vec<Piece>,
    /// Bytes of the pieces from `looked` on, and how many of their events the client does not get.
    waiting: Vec<(Bytes, u64)>,
    looked: usize,
    body: Body,
    reader: Reader,
    seen: Seen,
    first_output: Option<MonoNs>,
    last_output: Option<MonoNs>,
    last_event: Option<MonoNs>,
    hash: Option<Sha256>,
}

impl Watch {
    /// A watch that hashes what the engine sent when `hash` is on.
    #[must_use]
    pub fn new(hash: bool) -> Self {
        Self {
            hash: hash.then(Sha256::new),
            ..Self::default()
        }
    }

    /// The answer's head is in: what kind of body follows.
    pub fn head(&mut self, body: Body) {
        self.body = body;
        self.reader = Reader::new(body);
    }

    /// A piece passes as it is. Nothing but its stamp and a reference to it is kept here.
    pub fn take(&mut self, bytes: &Bytes, now: MonoNs) {
        self.take_in_part(bytes, bytes.len(), 0, now);
    }

    /// A piece of which the client gets `passed` bytes (some may be those of the piece before that
    /// were held back) and `cut` events less.
    pub fn take_in_part(&mut self, bytes: &Bytes, passed: usize, cut: u64, now: MonoNs) {
        if bytes.is_empty() {
            return;
        }
        let end_offset = self.pieces.last().map_or(0, |p| p.end_offset) + passed as u64;
        self.pieces.push(Piece {
            read: now,
            end_offset,
            events: 0,
        });
        self.waiting.push((bytes.clone(), cut));
    }

    /// Reads what has passed since the last look.
    pub fn look(&mut self) {
        for (bytes, cut) in self.waiting.drain(..) {
            let Some(piece) = self.pieces.get_mut(self.looked) else {
                break;
            };
            self.looked += 1;
            if let Some(hash) = &mut self.hash {
                hash.update(&bytes);
            }
            let found = self.reader.read(&bytes, &mut self.seen);
            piece.events = found.events.saturating_sub(cut);
            if found.output {
                self.first_output.get_or_insert(piece.read);
                self.last_output = Some(piece.read);
            }
            if found.events > 0 {
                self.last_event = Some(piece.read);
            }
        }
    }

    /// The body is over: what was kept for a reading in one piece is read now.
    pub fn finish(&mut self) {
        self.look();
        if self.reader.finish(&mut self.seen)
            && let Some(last) = self.pieces.last()
        {
            self.first_output.get_or_insert(last.read);
            self.last_output = Some(last.read);
        }
    }

    /// The pieces so far.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// What the events or the body said.
    #[must_use]
    pub const fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Whether everything could be read.
    #[must_use]
    pub fn extraction(&self) -> Extraction {
        if self.seen.gave_up() {
            Extraction::Partial
        } else {
            Extraction::Complete
        }
    }

    /// When the piece that completed the first output event was read.
    #[must_use]
    pub const fn first_output(&self) -> Option<MonoNs> {
        self.first_output
    }

    /// When the piece that completed the last output event was read.
    #[must_use]
    pub const fn last_output(&self) -> Option<MonoNs> {
        self.last_output
    }

    /// When the engine last got on: an event with data, or any byte of another body. A head is
    /// no progress: engines send theirs before they begin to work.
    #[must_use]
    pub fn progress(&self) -> Option<MonoNs> {
        match self.body {
            Body::Events => self.last_event,
            _ => self.pieces.last().map(|piece| piece.read),
        }
    }

    /// SHA-256 of the decoded body as the engine sent it, in hexadecimal.
    #[must_use]
    pub fn sha256(&self) -> Option<String> {
        self.hash.clone().map(|hash| hex::encode(hash.finalize()))
    }
}

#[cfg(test)]
mod tests;
