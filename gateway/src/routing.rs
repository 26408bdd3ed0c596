//! From a model's name to an endpoint.
//!
//! A model alias leads to a pool and, if it says so, to another name upstream. Of the pool's
//! endpoints those that are well ([`health`]) and were not tried yet are candidates, and [`choice`]
//! picks one. What a request has in flight at an endpoint is a [`Lease`]: it goes back when the lease
//! is dropped, however the request ended.
//!
//! A pool never gives up: it ejects no more than half of its endpoints nor its last one, and where
//! all that are left have failed their probes it uses those, for a probe can be wrong. Only what the
//! operator drained is never used. Health survives a reload, by the endpoint's name and address.

pub mod choice;
pub mod health;
mod probe;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use inferscope_shared::clock::MonoNs;
use tokio::task::JoinHandle;

use crate::config::{self, Choosing, HealthConfig, Policy};
use crate::errors::Refusal;
use crate::queue::line::Line;
use crate::upstream::address::Address;
use choice::{Candidate, choose};
use health::{Health, Out};

/// One engine.
#[derive(Debug)]
pub struct Endpoint {
    /// Its name in records and metrics.
    pub name: String,
    /// Where it listens.
    pub address: Address,
    /// What stands before the normal path, without a slash at its end.
    pub base_path: String,
    weight: u64,
    state: Arc<State>,
}

/// What a reload does not change.
#[derive(Debug, Default)]
struct State {
    requests: AtomicU64,
    tokens: AtomicU64,
    ejections: AtomicU64,
    health: Mutex<Health>,
}

impl State {
    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Endpoints that serve the same models.
#[derive(Debug)]
pub struct Pool {
    /// Its name in configuration, records and metrics.
    pub name: String,
    /// Its engines.
    pub endpoints: Vec<Endpoint>,
    /// What the gateway shows an engine of this pool as its own credential.
    pub credential: Option<http::HeaderValue>,
    /// How it chooses, and watches over its endpoints.
    pub choosing: Choosing,
    /// Requests that each endpoint takes at a time.
    concurrency: Option<u64>,
    turn: AtomicUsize,
    /// Who waits for a place here: told when there are more or fewer of them.
    line: OnceLock<Arc<Line>>,
}

/// What a request asks of an endpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wants {
    /// What it may cost.
    pub tokens: u64,
    /// Where its session is at home, for pools with an affinity.
    pub session: Option<u64>,
}

/// A request's place at an endpoint.
#[derive(Debug)]
pub struct Lease {
    pool: Arc<Pool>,
    index: usize,
    tokens: u64,
}

/// An endpoint as the operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Its pool.
    pub pool: String,
    /// Its name.
    pub endpoint: String,
    /// What keeps it out, if anything.
    pub out: Option<Out>,
    /// Requests in flight.
    pub requests: u64,
    /// Tokens that those may cost.
    pub tokens: u64,
    /// Times it was put out for failed requests.
    pub ejections: u64,
}

impl Lease {
    /// The endpoint.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.pool.endpoints[self.index]
    }

    /// The endpoint's place in its pool.
    #[must_use]
    pub const fn index(&self) -> usize {
        self.index
    }

    /// How long a connection to it may stay unused.
    #[must_use]
    pub fn idle(&self) -> Duration {
        self.pool.choosing.idle
    }

    /// The endpoint answered, with something below 500.
    pub fn succeeded(&self) {
        self.endpoint().state.health().succeeded();
    }

    /// It could not be reached, broke off, or answered 5xx.
    pub fn failed(&self) {
        self.pool.failed(self.index, MonoNs::now());
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let state = &self.endpoint().state;
        state.requests.fetch_sub(1, Ordering::Relaxed);
        state.tokens.fetch_sub(self.tokens, Ordering::Relaxed);
    }
}

impl Pool {
    /// The pool that `config` describes, its endpoints as `before` left them.
    #[must_use]
    pub fn new(name: &str, config: &config::Pool, before: Option<&Self>) -> Self {
        let known = |endpoint: &config::Endpoint| {
            let same = |old: &&Endpoint| {
                old.name == endpoint.name && old.address.is(&endpoint.host, endpoint.port)
            };
            before.and_then(|pool| pool.endpoints.iter().find(same))
        };
        let endpoints = config.endpoints.iter().map(|endpoint| Endpoint {
            name: endpoint.name.clone(),
            address: Address::new(&endpoint.host, endpoint.port),
            base_path: endpoint.base_path.clone(),
            weight: endpoint.weight,
            state: known(endpoint)
                .map(|old| Arc::clone(&old.state))
                .unwrap_or_default(),
        });
        Self {
            name: name.to_owned(),
            endpoints: endpoints.collect(),
            credential: config.credential.as_ref().and_then(bearer),
            choosing: config.choosing.clone(),
            concurrency: config.concurrency,
            turn: AtomicUsize::new(0),
            line: OnceLock::new(),
        }
    }

    /// Endpoints that may be used now, by their place: those that are well, else all that were not
    /// drained.
    fn usable(&self, now: MonoNs) -> Vec<usize> {
        let outs: Vec<Option<Out>> = self
            .endpoints
            .iter()
            .map(|e| e.state.health().out(now))
            .collect();
        let that = |keep: fn(&Option<Out>) -> bool| -> Vec<usize> {
            (0..outs.len()).filter(|&i| keep(&outs[i])).collect()
        };
        let well = that(Option::is_none);
        if well.is_empty() {
            that(|out| *out != Some(Out::Drained))
        } else {
            well
        }
    }

    /// A place at the endpoint that suits a request best, among those not in `tried`; among all
    /// when every one was tried. `None` where there is none to be used.
    #[must_use]
    pub fn lease(self: &Arc<Self>, tried: &[usize], wants: Wants) -> Option<Lease> {
        let now = MonoNs::now();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let usable = self.usable(now);
        let untried: Vec<usize> = usable
            .iter()
            .filter(|i| !tried.contains(i))
            .copied()
            .collect();
        let indices = if untried.is_empty() { usable } else { untried };
        let candidates: Vec<Candidate<'_>> = indices
            .into_iter()
            .map(|i| self.candidate(i, now))
            .collect();
        let cost = match self.choosing.policy {
            Policy::LeastRequests => 1,
            Policy::LeastTokens => wants.tokens,
        };
        let session = wants.session.filter(|_| self.choosing.affinity.is_some());
        let index = choose(&candidates, cost, turn, session)?;
        let state = &self.endpoints[index].state;
        state.requests.fetch_add(1, Ordering::Relaxed);
        state.tokens.fetch_add(wants.tokens, Ordering::Relaxed);
        Some(Lease {
            pool: Arc::clone(self),
            index,
            tokens: wants.tokens,
        })
    }

    fn candidate(&self, index: usize, now: MonoNs) -> Candidate<'_> {
        let endpoint = &self.endpoints[index];
        let requests = endpoint.state.requests.load(Ordering::Relaxed);
        let load = match self.choosing.policy {
            Policy::LeastRequests => requests,
            Policy::LeastTokens => endpoint.state.tokens.load(Ordering::Relaxed),
        };
        let warmth = endpoint
            .state
            .health()
            .warmth(self.choosing.slow_start, now);
        Candidate {
            index,
            name: &endpoint.name,
            load,
            weight: endpoint.weight as f64 * warmth,
            room: self.concurrency.is_none_or(|most| requests < most),
        }
    }

    /// Requests that its usable endpoints take at a time; `None` is any number.
    #[must_use]
    pub fn capacity(&self, now: MonoNs) -> Option<u64> {
        let each = self.concurrency?;
        Some(each.saturating_mul(self.usable(now).len() as u64))
    }

    /// Those who wait for a place here are in `line`.
    fn feeds(&self, line: &Arc<Line>) {
        let line = self.line.get_or_init(|| Arc::clone(line));
        line.set_capacity(self.capacity(MonoNs::now()));
    }

    /// Tells those who wait how many places there are now.
    fn tell_line(&self, now: MonoNs) {
        if let Some(line) = self.line.get() {
            line.set_capacity(self.capacity(now));
        }
    }

    /// A probe of endpoint `index` ended.
    fn probed(&self, index: usize, ok: bool, config: &HealthConfig, now: MonoNs) {
        let endpoint = &self.endpoints[index];
        let (before, after) = {
            let mut health = endpoint.state.health();
            let before = health.out(now);
            health.probed(ok, config, now);
            (before, health.out(now))
        };
        if before != after {
            let state = after.map_or("well", Out::label);
            tracing::warn!(pool = %self.name, endpoint = %endpoint.name, state, "an endpoint's state changed by its probes");
            self.tell_line(now);
        }
    }

    fn failed(self: &Arc<Self>, index: usize, now: MonoNs) {
        let n = self.endpoints.len();
        let out = self
            .endpoints
            .iter()
            .filter(|e| e.state.health().out(now).is_some());
        // Never more than half of the pool, nor its last one.
        let may = (out.count() + 1) * 2 <= n;
        let endpoint = &self.endpoints[index];
        let ejected = endpoint
            .state
            .health()
            .failed(&self.choosing.ejection, may, now);
        if let Some(time) = ejected {
            endpoint.state.ejections.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(pool = %self.name, endpoint = %endpoint.name, ?time, "an endpoint is out: requests to it failed in a row");
            self.tell_line(now);
            probe::look_again(self, time);
        }
    }

    fn drain(&self, index: usize, drained: bool) {
        let now = MonoNs::now();
        self.endpoints[index].state.health().drain(drained, now);
        self.tell_line(now);
    }
}

/// A credential as the engine wants to see it; marked, so that it is never printed.
fn bearer(secret: &config::Secret) -> Option<http::HeaderValue> {
    let mut value = http::HeaderValue::try_from(format!("Bearer {}", secret.expose())).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Where a request goes.
#[derive(Debug, Clone)]
pub struct Target {
    /// The pool that serves it.
    pub pool: Arc<Pool>,
    /// The model's name there, where it is another one.
    pub upstream_model: Option<String>,
}

/// The table of models and pools of one configuration.
#[derive(Debug)]
pub struct Router {
    pools: BTreeMap<String, Arc<Pool>>,
    models: BTreeMap<String, config::ModelRoute>,
    probes: Mutex<Vec<JoinHandle<()>>>,
}

impl Router {
    /// The table that `config` describes, the endpoints as `before` left them.
    #[must_use]
    pub fn new(config: &config::Config, before: Option<&Self>) -> Self {
        let pools = config.pools.iter().map(|(name, pool)| {
            let before = before.and_then(|router| router.pools.get(name));
            let pool = Pool::new(name, pool, before.map(Arc::as_ref));
            (name.clone(), Arc::new(pool))
        });
        Self {
            pools: pools.collect(),
            models: config.models.clone(),
            probes: Mutex::default(),
        }
    }

    /// Begins to probe endpoints, and to tell `lines`, by pool, how many places there are.
    pub fn start<'a>(&self, lines: impl Fn(&str) -> Option<&'a Arc<Line>>) {
        let mut probes = self.probes.lock().unwrap_or_else(PoisonError::into_inner);
        for pool in self.pools.values() {
            if let Some(line) = lines(&pool.name) {
                pool.feeds(line);
            }
            if let Some(health) = &pool.choosing.health {
                let watch = probe::watch(Arc::downgrade(pool), health.clone());
                probes.push(tokio::spawn(watch));
            }
        }
    }

    /// Ends the probes: another table is in force. Requests that run keep their endpoints.
    pub fn stop(&self) {
        let mut probes = self.probes.lock().unwrap_or_else(PoisonError::into_inner);
        for probe in probes.drain(..) {
            probe.abort();
        }
    }

    /// Every endpoint.
    #[must_use]
    pub fn status(&self) -> Vec<Status> {
        let now = MonoNs::now();
        let endpoints = self
            .pools
            .values()
            .flat_map(|pool| pool.endpoints.iter().map(move |endpoint| (pool, endpoint)));
        endpoints
            .map(|(pool, endpoint)| Status {
                pool: pool.name.clone(),
                endpoint: endpoint.name.clone(),
                out: endpoint.state.health().out(now),
                requests: endpoint.state.requests.load(Ordering::Relaxed),
                tokens: endpoint.state.tokens.load(Ordering::Relaxed),
                ejections: endpoint.state.ejections.load(Ordering::Relaxed),
            })
            .collect()
    }

    /// Takes an endpoint out, or lets it in again; requests that run there go on.
    ///
    /// # Errors
    /// A sentence: there is no such pool or endpoint, and those that there are.
    pub fn drain(&self, pool: &str, endpoint: &str, drained: bool) -> Result<(), String> {
        let found = self.pools.get(pool).ok_or_else(|| {
            let names: Vec<&str> = self.pools.keys().map(String::as_str).collect();
            format!(
                "there is no pool \"{pool}\"; there are: {}",
                names.join(", ")
            )
        })?;
        let index = found
            .endpoints
            .iter()
            .position(|e| e.name == endpoint)
            .ok_or_else(|| {
                let names: Vec<&str> = found.endpoints.iter().map(|e| e.name.as_str()).collect();
                format!(
                    "pool \"{pool}\" has no endpoint \"{endpoint}\"; it has: {}",
                    names.join(", ")
                )
            })?;
        found.drain(index, drained);
        tracing::warn!(
            pool,
            endpoint,
            drained,
            "an endpoint was drained or let in by the operator"
        );
        Ok(())
    }

    /// OpenAI's list of models: the aliases that `visible` lets through.
    pub fn list(&self, visible: impl Fn(&str) -> bool) -> Bytes {
        let models: Vec<_> = self
            .models
            .keys()
            .filter(|alias| visible(alias))
            .map(|alias| {
                serde_json::json!({
                    "id": alias,
                    "object": "model",
                    "created": 0,
                    "owned_by": "inferscope",
                })
            })
            .collect();
        let list = serde_json::json!({"object": "list", "data": models});
        Bytes::from(format!("{list}\n"))
    }

    /// Where a request for `model` goes. Without configured models any name, or none, goes to
    /// the only pool.
    ///
    /// # Errors
    /// The refusal: the model is unknown, or none is named where it decides.
    pub fn target(&self, model: Option<&str>) -> Result<Target, Refusal> {
        match model {
            Some(name) if !self.models.is_empty() => {
                let route = self
                    .models
                    .get(name)
                    .ok_or_else(|| Refusal::model_not_found(name))?;
                let pool = self
                    .pools
                    .get(&route.pool)
                    .ok_or_else(|| Refusal::model_not_found(name))?;
                Ok(Target {
                    pool: Arc::clone(pool),
                    upstream_model: route.upstream_model.clone(),
                })
            }
            _ => match self.pools.values().next() {
                Some(pool) if self.pools.len() == 1 => Ok(Target {
                    pool: Arc::clone(pool),
                    upstream_model: None,
                }),
                _ => Err(Refusal::model_required()),
            },
        }
    }
}
