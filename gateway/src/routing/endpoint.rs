//! One engine: where it is, what it has under way, and how it is.
//!
//! The part that is learned and not configured ([`Vital`]) is handed over by a reload to the
//! endpoint of equal name and URL, so that a request which began before gives back its place there
//! and an engine that was out stays out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use inferscope_shared::clock::MonoNs;
use sha2::{Digest as _, Sha256};

use super::condition::{Condition, State};
use crate::config;
use crate::metrics::EndpointMetrics;
use crate::upstream::address::Address;

/// One engine.
#[derive(Debug)]
pub struct Endpoint {
    /// Its name in records and metrics.
    pub name: String,
    /// Where it listens.
    pub address: Address,
    /// What stands before the normal path, without a slash at its end.
    pub base_path: String,
    /// Its share beside the others' weights.
    pub(super) weight: f64,
    /// A number of its own, the same in every gateway.
    pub(super) id: u64,
    pub(super) vital: Arc<Vital>,
}

/// What is learned about an endpoint.
#[derive(Debug)]
pub(super) struct Vital {
    requests: AtomicU64,
    tokens: AtomicU64,
    ejections: AtomicU64,
    condition: Mutex<Condition>,
    probing: Mutex<Probing>,
    pub(super) metrics: EndpointMetrics,
}

/// When it is probed.
#[derive(Debug, Clone, Copy, Default)]
struct Probing {
    /// A probe is under way.
    running: bool,
    /// When the next one is due; none for at once.
    next: Option<MonoNs>,
}

impl Endpoint {
    /// The endpoint that `config` describes; how it is comes from `before`, if that is the same
    /// one. One that `joins` a pool which serves already warms up first.
    pub(super) fn new(
        config: &config::Endpoint,
        resolve: Duration,
        before: Option<&Self>,
        joins: bool,
        metrics: impl FnOnce() -> EndpointMetrics,
    ) -> Self {
        let address = Address::new(&config.host, config.port, resolve);
        let (address, vital) = match before {
            Some(before) => (
                before.address.with_fresh(resolve),
                Arc::clone(&before.vital),
            ),
            None => (address, Arc::new(Vital::new(joins, metrics()))),
        };
        Self {
            name: config.name.clone(),
            address,
            base_path: config.base_path.clone(),
            weight: config.weight as f64,
            id: hash(config.name.as_bytes()),
            vital,
        }
    }

    /// Whether it is the endpoint that `config` describes.
    pub(super) fn is(&self, config: &config::Endpoint) -> bool {
        self.name == config.name
            && self.base_path == config.base_path
            && self.address.is(&config.host, config.port)
    }

    /// Whether it is that endpoint, perhaps under another configuration.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.vital, &other.vital)
    }

    /// Requests and tokens under way.
    #[must_use]
    pub fn load(&self) -> (u64, u64) {
        let vital = &self.vital;
        (
            vital.requests.load(Ordering::Acquire),
            vital.tokens.load(Ordering::Acquire),
        )
    }

    /// Whether it gets requests at `now`.
    #[must_use]
    pub fn state(&self, now: MonoNs) -> State {
        self.condition().state(now)
    }

    pub(super) fn condition(&self) -> MutexGuard<'_, Condition> {
        let condition = &self.vital.condition;
        condition.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Times that it was ejected.
    #[must_use]
    pub fn ejections(&self) -> u64 {
        self.vital.ejections.load(Ordering::Acquire)
    }

    pub(super) fn ejected(&self) {
        self.vital.ejections.fetch_add(1, Ordering::AcqRel);
        self.vital.metrics.ejections.inc();
    }

    pub(super) fn take(&self, tokens: u64) {
        self.vital.requests.fetch_add(1, Ordering::AcqRel);
        self.vital.tokens.fetch_add(tokens, Ordering::AcqRel);
        self.vital.metrics.requests.inc();
    }

    pub(super) fn give_back(&self, tokens: u64) {
        self.vital.requests.fetch_sub(1, Ordering::AcqRel);
        self.vital.tokens.fetch_sub(tokens, Ordering::AcqRel);
        self.vital.metrics.requests.dec();
    }

    fn probing(&self) -> MutexGuard<'_, Probing> {
        let probing = &self.vital.probing;
        probing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a probe is to begin at `now`; if so, it counts as under way.
    pub(super) fn begin_probe(&self, now: MonoNs) -> bool {
        let mut probing = self.probing();
        let due = !probing.running && probing.next.is_none_or(|next| next <= now);
        probing.running |= due;
        due
    }

    /// The probe that was under way ended, and the next one is due at `next`.
    pub(super) fn end_probe(&self, next: MonoNs) {
        *self.probing() = Probing {
            running: false,
            next: Some(next),
        };
    }

    /// When the next probe is due; none while one is under way.
    pub(super) fn next_probe(&self) -> Option<MonoNs> {
        let probing = self.probing();
        probing.next.filter(|_| !probing.running)
    }
}

impl Vital {
    fn new(joins: bool, metrics: EndpointMetrics) -> Self {
        let condition = if joins {
            Condition::joining(MonoNs::now())
        } else {
            Condition::default()
        };
        Self {
            requests: AtomicU64::new(0),
            tokens: AtomicU64::new(0),
            ejections: AtomicU64::new(0),
            condition: Mutex::new(condition),
            probing: Mutex::default(),
            metrics,
        }
    }
}

/// A number for `bytes` that is the same in every gateway.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    let digest = Sha256::digest(bytes);
    digest
        .iter()
        .take(8)
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}
