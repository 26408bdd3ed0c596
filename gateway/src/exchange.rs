//! One request from its first byte to its record: what each phase learned of it.
//!
//! The connection begins it, intake fills it, pingora's phases carry it as their context, and
//! [`crate::settle`] makes the record of it. It settles itself when it is dropped before anyone
//! did (a cut connection, a panic), so no request goes without a record.
//!
//! Clock: CLOCK_MONOTONIC, absolute; the record makes it relative.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use inferscope_shared::clock::MonoNs;
use inferscope_shared::record::gateway::Outcome;
use pingora::http::RequestHeader;

use crate::admission::Permit;
use crate::auth::Principal;
use crate::errors::Kind;
use crate::fault::Cause;
use crate::intake::ids::Ids;
use crate::listener::track::{Limit, Track};
use crate::metrics::Counted;
use crate::relay::excise::Excise;
use crate::relay::observe::Body;
use crate::routing::{Lease, Target, Wants};
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
    /// What exactly.
    pub cause: Cause,
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
    /// The normal path, or the raw one while it is not known to be ours; of a long one the start.
    pub path: String,
    /// Who calls.
    pub principal: Option<Principal>,
    /// The model as the client named it; of a long name the start.
    pub model: Option<String>,
    /// The client asked for a stream.
    pub stream: bool,
    /// Decoded bytes of the request's body.
    pub bytes_in: u64,
    /// Where it goes.
    pub target: Option<Target>,
    /// What it asks of an endpoint.
    pub wants: Wants,
    /// Its place under the limits and in the queue.
    pub permit: Option<Permit>,
    /// The head that goes upstream; its path lacks the endpoint's base.
    pub upstream_head: Option<RequestHeader>,
    /// The body that goes upstream.
    pub body: Bytes,
    /// Endpoints tried, in order.
    pub tried: Vec<usize>,
    /// Further addresses of those: places to go beside the untried endpoints.
    spare: usize,
    /// Connection attempts.
    pub attempts: u32,
    /// It was sent again because a connection from the pool was stale; that happens once.
    pub replayed: bool,
    /// The place at the endpoint in use.
    pub lease: Option<Lease>,
    /// Its name, which outlives the lease.
    pub endpoint: Option<String>,
    /// What kind of body the answer has.
    pub answer: Body,
    /// The client did not ask for the usage event that the engine was asked for.
    pub cut_usage: bool,
    /// What cuts it out, while its stream runs.
    pub excise: Option<Excise>,
    /// The answer is an event stream, counted as open.
    pub open: Option<Counted>,
    /// Whether the connection in use came from the pool.
    pub conn_reused: Option<bool>,
    /// How it ended; `None` is well.
    pub ending: Option<Ending>,
    settled: bool,
}

impl Exchange {
    /// A request whose head began at `accept`.
    #[must_use]
    pub fn new(services: Arc<Services>, track: Arc<Track>, ids: Ids, accept: MonoNs) -> Self {
        let ago = Duration::from_nanos(MonoNs::now().since(accept));
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
            wants: Wants::default(),
            permit: None,
            upstream_head: None,
            body: Bytes::new(),
            tried: Vec::new(),
            spare: 0,
            attempts: 0,
            replayed: false,
            lease: None,
            endpoint: None,
            answer: Body::default(),
            cut_usage: false,
            excise: None,
            open: None,
            conn_reused: None,
            ending: None,
            settled: false,
        }
    }

    /// A place at an endpoint for the next attempt; what an earlier one held and stamped is over.
    /// The request counts as routed from the first one on. `None` when all endpoints are drained.
    pub fn next_lease(&mut self) -> Option<Lease> {
        self.lease = None;
        let pool = &self.target.as_ref()?.pool;
        let lease = pool.lease(&self.tried, self.wants, MonoNs::now())?;
        self.attempts += 1;
        self.tried.push(lease.index());
        self.endpoint = Some(lease.endpoint().name.clone());
        self.times.routed.get_or_insert_with(MonoNs::now);
        self.times.connected = None;
        self.conn_reused = None;
        self.track.lock().request_sent = None;
        Some(lease)
    }

    /// Notes how many addresses the endpoint of this attempt has.
    pub fn found(&mut self, addresses: usize) {
        if let Some((endpoint, before)) = self.tried.split_last()
            && !before.contains(endpoint)
        {
            self.spare += addresses.saturating_sub(1);
        }
    }

    /// Time since the request was handed to the engine's connection.
    #[must_use]
    pub fn since_sent(&self, now: MonoNs) -> Duration {
        let sent = self.track.lock().request_sent;
        Duration::from_nanos(sent.map_or(0, |at| now.since(at)))
    }

    /// Notes that the request was handed to the engine's connection.
    pub fn sent(&self, now: MonoNs) {
        self.track.lock().request_sent = Some(now);
    }

    /// Whether a failed connect leaves somewhere to go: another endpoint, or another address of
    /// one that was tried.
    #[must_use]
    pub fn may_try_another(&self) -> bool {
        let Some(target) = &self.target else {
            return false;
        };
        let again = |place: usize| self.tried[..place].contains(&self.tried[place]);
        let repeats = (0..self.tried.len()).filter(|place| again(*place)).count();
        repeats < self.spare || target.pool.offers_another(&self.tried, MonoNs::now())
    }

    /// Notes how it ended, unless something worse was noted before.
    pub fn ended(&mut self, outcome: Outcome, cause: impl Into<Cause>) {
        let cause = cause.into();
        self.ending.get_or_insert(Ending { outcome, cause });
    }

    /// Notes that a limit ended it.
    pub fn ended_by(&mut self, limit: Limit) {
        let outcome = match limit {
            Limit::Drain => Outcome::Drained,
            _ => Outcome::Timeout,
        };
        self.ended(outcome, limit.cause());
    }

    /// A piece of the answer's body passes: it is stamped and, where an event is not the client's,
    /// left without that.
    pub fn pass(&mut self, body: &mut Option<Bytes>, end: bool, now: MonoNs) {
        let Some(excise) = &mut self.excise else {
            if let Some(bytes) = body {
                self.track.lock().watch.take(bytes, now);
            }
            return;
        };
        let piece = body.take().unwrap_or_default();
        let mut passed = excise.push(&piece);
        if end {
            let rest = excise.finish();
            if !rest.is_empty() {
                passed.bytes = [passed.bytes, rest].concat().into();
            }
        }
        let length = passed.bytes.len();
        self.track
            .lock()
            .watch
            .take_in_part(&piece, length, passed.cut, now);
        *body = Some(passed.bytes);
    }

    /// Writes the record, once.
    pub fn settle(&mut self) {
        if !std::mem::replace(&mut self.settled, true) {
            self.open = None;
            if let (None, Some(lease)) = (self.ending, &mut self.lease) {
                lease.ended();
            }
            // Before the permit: who gets its place in the queue must find one at an endpoint.
            self.lease = None;
            crate::settle::settle(self);
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if !self.settled {
            if self.track.left() {
                self.ended(Outcome::ClientGone, Cause::ClientGone);
            } else if *self.services.phase.borrow() == Phase::Cut {
                self.ended(Outcome::Drained, Cause::Cut);
            } else {
                self.ended(Outcome::UpstreamError, Kind::Internal);
            }
            self.settle();
        }
    }
}
