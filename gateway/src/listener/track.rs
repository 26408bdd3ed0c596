//! What one connection's stream and the request being served on it share.
//!
//! The stream writes here when its first byte of a request came in and when the kernel took
//! bytes of an answer; the relay reads it when the request is settled. All of it belongs to the
//! request in progress: [`Track::begin`] starts over. The lock is never contended (stream and
//! proxy run in one task; the watchdog looks a few times a request), and never held across an
//! await.
//!
//! Clock: CLOCK_MONOTONIC, absolute. The surprise: a tripped limit reaches pingora as a read
//! error of the client's stream, because that read is polled in every phase of an exchange.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use inferscope_shared::clock::MonoNs;
use sha2::{Digest as _, Sha256};

use super::egress::Egress;
use crate::errors::Kind;
use crate::fault::Cause;
use crate::relay::Watch;

/// A time limit, or the drain, that ends a request from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// No byte of an answer in time.
    FirstByte,
    /// The stream fell silent (comments don't count).
    BetweenEvents,
    /// The request took too long as a whole.
    Total,
    /// The client does not read what it asked for.
    ClientStalled,
    /// The drain's time is up.
    Drain,
}

impl Limit {
    /// What a request that it ended failed of.
    #[must_use]
    pub const fn cause(self) -> Cause {
        match self {
            Self::FirstByte => Cause::Told(Kind::FirstByteTimeout),
            Self::BetweenEvents => Cause::Told(Kind::BetweenEventsTimeout),
            Self::Total => Cause::Told(Kind::TotalTimeout),
            Self::ClientStalled => Cause::ClientStalled,
            Self::Drain => Cause::Told(Kind::Drain),
        }
    }

    const ALL: [Self; 5] = [
        Self::FirstByte,
        Self::BetweenEvents,
        Self::Total,
        Self::ClientStalled,
        Self::Drain,
    ];
}

/// The connection reads a request.
const REQUEST: u8 = 0;
/// The request is in hand and its answer under way: reads only watch for the client leaving.
const EXCHANGE: u8 = 1;
/// From here on: the limit that was tripped.
const TRIPPED: u8 = 2;

/// The kernel took bytes of the answer's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Decoded body offset reached.
    pub end_offset: u64,
    /// When the write returned.
    pub at: MonoNs,
}

/// How the answer leaves.
#[derive(Debug, Default)]
pub struct Delivery {
    egress: Egress,
    marks: Vec<Mark>,
    hash: Option<Sha256>,
    blocked_ns: u64,
    blocked_since: Option<MonoNs>,
    unblocked_at: Option<MonoNs>,
}

impl Delivery {
    /// The kernel took `bytes` at `at`.
    pub(super) fn written(&mut self, bytes: &[u8], at: MonoNs) {
        let before = self.egress.offset();
        let hash = &mut self.hash;
        self.egress.advance(bytes, |run| {
            if let Some(hash) = hash {
                hash.update(run);
            }
        });
        let end_offset = self.egress.offset();
        if end_offset > before {
            self.marks.push(Mark { end_offset, at });
        }
    }

    /// A write found the socket full.
    pub(super) fn blocked(&mut self, at: MonoNs) {
        self.blocked_since.get_or_insert(at);
    }

    /// A write went on.
    pub(super) fn unblocked(&mut self, at: MonoNs) {
        if let Some(since) = self.blocked_since.take() {
            self.blocked_ns += at.since(since);
            self.unblocked_at = Some(at);
        }
    }

    /// Since when a write has been waiting for the client to read.
    #[must_use]
    pub const fn blocked_since(&self) -> Option<MonoNs> {
        self.blocked_since
    }

    /// When the client last began to read again.
    #[must_use]
    pub const fn unblocked_at(&self) -> Option<MonoNs> {
        self.unblocked_at
    }

    /// Time that writes were pending, in nanoseconds, one that still is included.
    #[must_use]
    pub fn write_blocked_ns(&self, now: MonoNs) -> u64 {
        self.blocked_ns + self.blocked_since.map_or(0, |since| now.since(since))
    }

    /// Each write that took body bytes, in order.
    #[must_use]
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// Decoded body bytes that left.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.egress.offset()
    }

    /// Status of the head that left.
    #[must_use]
    pub const fn status(&self) -> Option<u16> {
        self.egress.status()
    }

    /// Whether what left could not be followed: offsets and bytes end early then.
    #[must_use]
    pub fn lost(&self) -> bool {
        self.egress.lost()
    }

    /// SHA-256 of the decoded body that left, in hexadecimal; none if it could not be followed.
    #[must_use]
    pub fn sha256(&self) -> Option<String> {
        let hash = self.hash.as_ref().filter(|_| !self.lost());
        hash.cloned().map(|hash| hex::encode(hash.finalize()))
    }
}

/// The part under the lock.
#[derive(Debug, Default)]
pub struct State {
    /// First byte of this request's head.
    pub head_started: Option<MonoNs>,
    /// The request was handed to the engine's connection (the last attempt's).
    pub request_sent: Option<MonoNs>,
    /// How the answer leaves.
    pub delivery: Delivery,
    /// What the relay saw of the answer.
    pub watch: Watch,
}

/// See the module head.
#[derive(Debug, Default)]
pub struct Track {
    mode: AtomicU8,
    connecting: AtomicBool,
    /// The client left where nobody was reading.
    left: AtomicBool,
    state: Mutex<State>,
}

impl Track {
    /// The state of the request in progress.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts over for the next request of the connection.
    pub fn begin(&self) {
        *self.lock() = State::default();
        self.connecting.store(false, Ordering::Relaxed);
        self.left.store(false, Ordering::Relaxed);
        self.mode.store(REQUEST, Ordering::Relaxed);
    }

    /// The request is known: `no_body` for a HEAD, `hash` to hash both directions of the answer.
    pub fn expect_answer(&self, no_body: bool, hash: bool) {
        let mut state = self.lock();
        state.delivery.egress = Egress::new(no_body);
        state.delivery.hash = hash.then(Sha256::new);
        state.watch = Watch::new(hash);
    }

    /// The request is whole: from here on reads only watch for the client leaving.
    pub fn exchange(&self) {
        self.mode.store(EXCHANGE, Ordering::Relaxed);
    }

    /// Whether the answer is under way.
    #[must_use]
    pub fn in_exchange(&self) -> bool {
        self.mode.load(Ordering::Relaxed) != REQUEST
    }

    /// An engine is being connected to, or not any more.
    pub fn set_connecting(&self, connecting: bool) {
        self.connecting.store(connecting, Ordering::Relaxed);
    }

    /// Whether an engine is being connected to.
    #[must_use]
    pub fn connecting(&self) -> bool {
        self.connecting.load(Ordering::Relaxed)
    }

    /// The client left where nobody was reading: the exchange is dropped for that.
    pub fn set_left(&self) {
        self.left.store(true, Ordering::Relaxed);
    }

    /// Whether it did.
    #[must_use]
    pub fn left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }

    /// Ends the exchange by `limit`; the first one counts.
    pub fn trip(&self, limit: Limit) {
        let code = TRIPPED + Limit::ALL.iter().position(|&l| l == limit).unwrap_or(0) as u8;
        let _ = self
            .mode
            .compare_exchange(EXCHANGE, code, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The limit that ended the exchange.
    #[must_use]
    pub fn tripped(&self) -> Option<Limit> {
        let code = self.mode.load(Ordering::Relaxed).checked_sub(TRIPPED)?;
        Limit::ALL.get(usize::from(code)).copied()
    }
}
