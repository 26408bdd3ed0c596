//! What clients did: every request's bytes, every connection's life, and the in-flight peak.
//!
//! Stamps are CLOCK_MONOTONIC ns. The latest requests are kept, up to a limit set by the config;
//! connections without limit. [`Recorder::wait`] lets a test wait for a state of affairs without
//! sleeping.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::clock::now_ns;
use crate::line::lock;
use crate::program::End;

/// One request as it came in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecordedRequest {
    /// Position among all requests, from 0.
    pub seq: u64,
    /// The connection it came on.
    pub connection: u64,
    /// Method as sent.
    pub method: String,
    /// Target as sent, query included.
    pub target: String,
    /// Fields as sent, in order; values that aren't UTF-8 are shown with replacements.
    pub headers: Vec<(String, String)>,
    /// The head's exact bytes, the empty line included.
    #[serde(serialize_with = "as_text")]
    pub head: Vec<u8>,
    /// The decoded body, up to the configured length.
    #[serde(serialize_with = "as_text")]
    pub body: Vec<u8>,
    /// Whole length of the decoded body.
    pub body_bytes: u64,
    /// Its first byte was read.
    pub recv_first_ns: u64,
    /// Its head was complete.
    pub recv_head_ns: u64,
    /// Its last byte was read; `None` where a script answered before the body.
    pub recv_end_ns: Option<u64>,
    /// How its answer ended; `None` while it runs.
    pub end: Option<End>,
    /// When it ended.
    pub end_ns: Option<u64>,
}

fn as_text<S: serde::Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(bytes))
}

impl RecordedRequest {
    /// The first field of that name, in any case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, v)| v.as_str())
    }
}

/// Who ended a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClosedBy {
    /// The client sent FIN.
    ClientFin,
    /// The client sent RST.
    ClientReset,
    /// The fake engine, by keep-alive, script, `connection: close` or stop.
    Engine,
}

/// One connection's life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecordedConnection {
    /// Position among all connections, from 0.
    pub id: u64,
    /// The client's address.
    pub peer: SocketAddr,
    /// It was accepted.
    pub opened_ns: u64,
    /// Its end was seen or made.
    pub closed_ns: Option<u64>,
    /// Who ended it.
    pub closed_by: Option<ClosedBy>,
    /// Requests that came on it.
    pub requests: u64,
}

/// Counts over the engine's life so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Requests read.
    pub requests: u64,
    /// Requests being answered.
    pub in_flight: u64,
    /// Most requests answered at once.
    pub in_flight_peak: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Connections open.
    pub connections_open: u64,
    /// Requests whose client left before the end.
    pub client_gone: u64,
}

#[derive(Debug, Default)]
struct State {
    counts: Counts,
    requests: VecDeque<RecordedRequest>,
    connections: BTreeMap<u64, RecordedConnection>,
}

/// Keeps the recordings.
#[derive(Debug)]
pub(crate) struct Recorder {
    state: Mutex<State>,
    changed: Condvar,
    max_requests: usize,
    pub max_body: usize,
}

impl Recorder {
    pub fn new(max_requests: usize, max_body: usize) -> Self {
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            max_requests,
            max_body,
        }
    }

    fn change<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        let result = f(&mut lock(&self.state));
        self.changed.notify_all();
        result
    }

    pub fn opened(&self, peer: SocketAddr) -> u64 {
        self.change(|s| {
            let id = s.counts.connections;
            s.counts.connections += 1;
            s.counts.connections_open += 1;
            s.connections.insert(
                id,
                RecordedConnection {
                    id,
                    peer,
                    opened_ns: now_ns(),
                    closed_ns: None,
                    closed_by: None,
                    requests: 0,
                },
            );
            id
        })
    }

    pub fn closed(&self, id: u64, by: ClosedBy, at_ns: u64) {
        self.change(|s| {
            s.counts.connections_open = s.counts.connections_open.saturating_sub(1);
            if let Some(c) = s.connections.get_mut(&id) {
                (c.closed_ns, c.closed_by) = (Some(at_ns), Some(by));
            }
        });
    }

    /// Takes a request in and returns its `seq`.
    pub fn request(&self, mut request: RecordedRequest) -> u64 {
        self.change(|s| {
            let seq = s.counts.requests;
            request.seq = seq;
            s.counts.requests += 1;
            s.counts.in_flight += 1;
            s.counts.in_flight_peak = s.counts.in_flight_peak.max(s.counts.in_flight);
            if let Some(c) = s.connections.get_mut(&request.connection) {
                c.requests += 1;
            }
            if self.max_requests > 0 {
                if s.requests.len() == self.max_requests {
                    s.requests.pop_front();
                }
                s.requests.push_back(request);
            }
            seq
        })
    }

    pub fn ended(&self, seq: u64, end: End, at_ns: u64) {
        self.change(|s| {
            s.counts.in_flight = s.counts.in_flight.saturating_sub(1);
            s.counts.client_gone += u64::from(end == End::ClientGone);
            if let Some(r) = s.requests.iter_mut().rev().find(|r| r.seq == seq) {
                (r.end, r.end_ns) = (Some(end), Some(at_ns));
            }
        });
    }

    pub fn counts(&self) -> Counts {
        lock(&self.state).counts
    }

    pub fn requests(&self) -> Vec<RecordedRequest> {
        lock(&self.state).requests.iter().cloned().collect()
    }

    pub fn connections(&self) -> Vec<RecordedConnection> {
        lock(&self.state).connections.values().cloned().collect()
    }

    /// Waits until `holds`, or for `limit`; true when it holds.
    pub fn wait(&self, limit: Duration, holds: impl Fn(&Counts) -> bool) -> bool {
        let until = Instant::now() + limit;
        let mut state = lock(&self.state);
        while !holds(&state.counts) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        true
    }
}
