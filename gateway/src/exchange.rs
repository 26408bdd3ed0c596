//! One request from its first byte to its record: what each phase learned of it.
//!
//! The connection begins it, intake fills it, pingora's phases carry it as their context, and
//! [`crate::settle`] makes the record of it. It settles itself when it is dropped before anyone
//! did (a cut connection, a panic), so no request goes without a record.
//!
//! Clock: CLOCK_MONOTONIC, absolute; the record makes it relative.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use inferscope_shared::clock::MonoNs;
use inferscope_shared::record::gateway::Outcome;
use pingora::http::RequestHeader;

use crate::auth::Principal;
use crate::intake::ids::Ids;
use crate::listener::track::{Limit, Track};
use crate::metrics::OpenStream;
use crate::routing::{Lease, Target};
use crate::server::{Phase, Services};

/// When what happened; null where it did not.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// First byte of the head.
    pub accept: MonoNs,
    /// The same for people.
    pub accept_utc: SystemTime,
    /// The head was whole.
    pub head: Option<MonoNs>,
    /// The caller was known.
    pub auth: Option<MonoNs>,
    /// The body was whole.
    pub body: Option<MonoNs>,
    /// The request may go on.
    pub admitted: Option<MonoNs>,
    /// The endpoint was chosen.
    pub routed: Option<MonoNs>,
    /// The connection to it stood.
    pub connected: Option<MonoNs>,
    /// The answer's head was in.
    pub response_head: Option<MonoNs>,
}

/// How a request ended, if not well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending {
    /// In the record's terms.
    pub outcome: Outcome,
    /// What exactly; one of a fixed set of words.
    pub kind: &'static str,
}

/// See the module head.
#[derive(Debug)]
pub struct Exchange {
    /// What all requests share.
    pub services: Arc<Services>,
    /// What this connection's stream stamps.
    pub track: Arc<Track>,
    /// Its names.
    pub ids: Ids,
    /// Its clock.
    pub times: Times,
    /// The normal path, or the raw one while it is not known to be ours.
    pub path: String,
    /// Who calls.
    pub principal: Option<Principal>,
    /// The model as the client named it.
    pub model: Option<String>,
    /// The client asked for a stream.
    pub stream: bool,
    /// Decoded bytes of the request's body.
    pub bytes_in: u64,
    /// Where it goes.
    pub target: Option<Target>,
    /// The head that goes upstream; its path lacks the endpoint's base.
    pub upstream_head: Option<RequestHeader>,
    /// The body that goes upstream.
    pub body: Bytes,
    /// Endpoints tried, in order.
    pub tried: Vec<usize>,
    /// Connection attempts.
    pub attempts: u32,
    /// The place at the endpoint in use.
    pub lease: Option<Lease>,
    /// Its name, which outlives the lease.
    pub endpoint: Option<String>,
    /// The answer is an event stream, counted as open.
    pub open: Option<OpenStream>,
    /// Whether the connection in use came from the pool.
    pub conn_reused: Option<bool>,
    /// Addresses that the endpoint's name has.
    pub addresses: usize,
    /// How it ended; `None` is well.
    pub ending: Option<Ending>,
    settled: bool,
}

impl Exchange {
    /// A request whose head began at `accept`.
    #[must_use]
    pub fn new(services: Arc<Services>, track: Arc<Track>, ids: Ids, accept: MonoNs) -> Self {
        let ago = std::time::Duration::from_nanos(MonoNs::now().since(accept));
        services.metrics.request_started();
        Self {
            times: Times {
                accept,
                accept_utc: SystemTime::now() - ago,
                head: None,
                auth: None,
                body: None,
                admitted: None,
                routed: None,
                connected: None,
                response_head: None,
            },
            services,
            track,
            ids,
            path: String::new(),
            principal: None,
            model: None,
            stream: false,
            bytes_in: 0,
            target: None,
            upstream_head: None,
            body: Bytes::new(),
            tried: Vec::new(),
            attempts: 0,
            lease: None,
            endpoint: None,
            open: None,
            conn_reused: None,
            addresses: 0,
            ending: None,
            settled: false,
        }
    }

    /// Notes that the request was handed to the engine's connection.
    pub fn sent(&self, now: MonoNs) {
        self.track.lock().request_sent = Some(now);
    }

    /// Whether a failed connect leaves somewhere to go: another endpoint, or another address of
    /// the only one.
    #[must_use]
    pub fn may_try_another(&self) -> bool {
        let endpoints = self.target.as_ref().map_or(0, |t| t.pool.endpoints.len());
        self.tried.len() < endpoints.max(self.addresses)
    }

    /// Notes how it ended, unless something worse was noted before.
    pub fn ended(&mut self, outcome: Outcome, kind: &'static str) {
        self.ending.get_or_insert(Ending { outcome, kind });
    }

    /// Notes that a limit ended it.
    pub fn ended_by(&mut self, limit: Limit) {
        let outcome = match limit {
            Limit::Drain => Outcome::Drained,
            _ => Outcome::Timeout,
        };
        self.ended(outcome, limit.kind());
    }

    /// Writes the record, once.
    pub fn settle(&mut self) {
        if !std::mem::replace(&mut self.settled, true) {
            self.lease = None;
            self.open = None;
            crate::settle::settle(self);
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if !self.settled {
            if *self.services.phase.borrow() == Phase::Cut {
                self.ended(Outcome::Drained, "cut");
            } else {
                self.ended(Outcome::UpstreamError, "internal");
            }
            self.settle();
        }
    }
}
