//! Endpoints that serve the same models: which one is next, and which are left out.
//!
//! A choice, and a judgement that may take an endpoint out, is made under the pool's one lock, so
//! credit is never given twice and two ejections never see the same last endpoint. Giving a place
//! back takes no lock. A reload hands the lock over with the endpoints.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use inferscope_shared::clock::MonoNs;
use tokio::sync::Notify;

use super::choice::{Candidate, Standing, Turns, choose};
use super::condition::State;
use super::ejection::Sign;
use super::endpoint::{Endpoint, hash};
use super::health::Turn;
use crate::config::{self, Choosing, Policy};
use crate::errors::{Kind, Refusal};
use crate::metrics::Metrics;

/// When to come back to a pool whose endpoints are all drained.
const SOON: Duration = Duration::from_secs(1);

/// See the module head.
#[derive(Debug)]
pub struct Pool {
    /// Its name in configuration, records and metrics.
    pub name: String,
    /// Its engines.
    pub endpoints: Vec<Endpoint>,
    /// What the gateway shows an engine of this pool as its own credential.
    pub credential: Option<http::HeaderValue>,
    /// How they share the requests.
    pub choosing: Choosing,
    /// Requests that each endpoint takes at a time.
    credit: Option<u64>,
    turns: Arc<Mutex<Turns>>,
    /// Told of every change of an endpoint's state.
    changed: Arc<Notify>,
}

/// What a request asks of an endpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wants {
    /// What it may cost.
    pub tokens: u64,
    /// Its session, as [`Pool::session`] gives it.
    pub session: Option<u64>,
}

/// A request's place at an endpoint. Dropping it gives the place back.
#[derive(Debug)]
pub struct Lease {
    pool: Arc<Pool>,
    index: usize,
    tokens: u64,
    stage: Stage,
}

/// How far a request came at its endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// There is no answer yet.
    Fresh,
    /// A good head is there.
    Begun,
    /// It said all that it has to say of the endpoint.
    Judged,
}

impl Pool {
    /// The pool that `config` describes; endpoints that it shares with `before` stay as they are.
    #[must_use]
    pub fn new(
        name: &str,
        config: &config::Pool,
        before: Option<&Self>,
        changed: &Arc<Notify>,
        metrics: &Metrics,
    ) -> Self {
        let endpoints = config.endpoints.iter().map(|endpoint| {
            let same = before.and_then(|pool| pool.endpoints.iter().find(|e| e.is(endpoint)));
            let resolve = config.choosing.resolve;
            Endpoint::new(endpoint, resolve, same, before.is_some(), || {
                metrics.endpoint(name, &endpoint.name)
            })
        });
        let endpoints: Vec<_> = endpoints.collect();
        if config.choosing.health.is_none() {
            for endpoint in &endpoints {
                endpoint.condition().forget_probes();
            }
        }
        Self {
            name: name.to_owned(),
            endpoints,
            credential: config.credential.as_ref().and_then(bearer),
            choosing: config.choosing.clone(),
            credit: config.concurrency,
            turns: before.map_or_else(Arc::default, |before| Arc::clone(&before.turns)),
            changed: Arc::clone(changed),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a request that was at the endpoints `tried`, where [`choose`] says; `None` when
    /// all are drained.
    #[must_use]
    pub fn lease(self: &Arc<Self>, tried: &[usize], wants: Wants, now: MonoNs) -> Option<Lease> {
        let mut turns = self.lock();
        let candidates = self.endpoints.iter().enumerate().map(|(index, endpoint)| {
            let condition = *endpoint.condition();
            let (requests, tokens) = endpoint.load();
            Candidate {
                standing: Standing {
                    state: condition.state(now),
                    untried: !tried.contains(&index),
                    room: self.credit.is_none_or(|credit| requests < credit),
                },
                load: match self.choosing.policy {
                    Policy::LeastRequests => requests,
                    Policy::LeastTokens => tokens,
                },
                weight: endpoint.weight * condition.share(now, self.choosing.slow_start),
                id: endpoint.id,
            }
        });
        let candidates: Vec<_> = candidates.collect();
        let index = choose(&candidates, wants.session, &mut turns)?;
        self.endpoints[index].take(wants.tokens);
        Some(Lease {
            pool: Arc::clone(self),
            index,
            tokens: wants.tokens,
            stage: Stage::Fresh,
        })
    }

    /// The session that a request with these headers belongs to, if the pool keeps sessions.
    #[must_use]
    pub fn session(&self, headers: &HeaderMap) -> Option<u64> {
        let value = headers.get(self.choosing.affinity.as_ref()?)?;
        Some(hash(value.as_bytes()))
    }

    /// Places of the endpoints that get requests at `now`: those that are well, else those that are
    /// ejected, else those whose probes fail, for a probe can be wrong. Never drained ones.
    fn serving(&self, now: MonoNs) -> Vec<usize> {
        let states: Vec<State> = self.endpoints.iter().map(|e| e.state(now)).collect();
        let best = states.iter().max().filter(|best| **best > State::Drained);
        (0..states.len())
            .filter(|i| Some(&states[*i]) == best)
            .collect()
    }

    /// Requests that it takes at a time at `now`: the credit of those endpoints together.
    #[must_use]
    pub fn capacity(&self, now: MonoNs) -> Option<u64> {
        let credit = self.credit?;
        Some(credit.saturating_mul(self.serving(now).len() as u64))
    }

    /// # Errors
    /// All of its endpoints are drained: nothing is worth waiting for.
    pub fn open(&self, now: MonoNs) -> Result<(), Refusal> {
        if !self.serving(now).is_empty() {
            return Ok(());
        }
        let text = format!(
            "all engines of pool `{}` are drained: try again later",
            self.name
        );
        Err(Refusal::because(Kind::NoEndpoint, text).after(SOON))
    }

    /// Whether an endpoint that gets requests was not `tried` yet.
    #[must_use]
    pub fn offers_another(&self, tried: &[usize], now: MonoNs) -> bool {
        self.serving(now).iter().any(|index| !tried.contains(index))
    }

    /// Takes an endpoint out, or in again; requests that it has stay.
    pub(super) fn drain(&self, endpoint: &Endpoint, drained: bool, now: MonoNs) {
        let _deciding = self.lock();
        endpoint.condition().drain(drained, now);
        tracing::info!(
            pool = self.name,
            endpoint = endpoint.name,
            drained,
            "by the operator"
        );
        self.changed.notify_one();
    }

    /// The probe of an endpoint ended, with what went wrong; another one is due after a while.
    pub(super) fn probed(&self, index: usize, outcome: Result<(), String>, now: MonoNs) {
        let endpoint = &self.endpoints[index];
        let Some(health) = &self.choosing.health else {
            // A reload ended the probes while this one was under way.
            endpoint.end_probe(now);
            return;
        };
        let (pool, name) = (&*self.name, &*endpoint.name);
        let _deciding = self.lock();
        endpoint.vital.metrics.probed(outcome.is_ok());
        match endpoint.condition().probed(outcome.is_ok(), health, now) {
            // When it gets requests again is said where all that matters is known.
            Turn::None | Turn::Well => {}
            Turn::Unwell => {
                let why = outcome.err().unwrap_or_default();
                tracing::warn!(
                    pool,
                    endpoint = name,
                    why,
                    "unhealthy: others get its requests"
                );
            }
        }
        endpoint.end_probe(now.plus(health.interval));
        self.changed.notify_one();
    }

    /// Endpoints to probe now; those probes count as under way.
    pub(super) fn to_probe(&self, now: MonoNs) -> Vec<usize> {
        if self.choosing.health.is_none() {
            return Vec::new();
        }
        let due = |index: &usize| self.endpoints[*index].begin_probe(now);
        (0..self.endpoints.len()).filter(due).collect()
    }

    /// Shows the state of each endpoint in the metrics; when to look again.
    pub(super) fn show(&self, now: MonoNs) -> Option<MonoNs> {
        let next = self.endpoints.iter().filter_map(|endpoint| {
            let condition = *endpoint.condition();
            let well = condition.state(now) == State::Well;
            let up = &endpoint.vital.metrics.up;
            if well && up.get() == 0 {
                tracing::info!(
                    pool = self.name,
                    endpoint = endpoint.name,
                    "gets requests again"
                );
            }
            up.set(i64::from(well));
            let probe = self.choosing.health.as_ref().and(endpoint.next_probe());
            [condition.changes(now), probe].into_iter().flatten().min()
        });
        next.min()
    }

    fn judge(&self, index: usize, sign: Sign, now: MonoNs) {
        let endpoint = &self.endpoints[index];
        let config = &self.choosing.ejection;
        if matches!(sign, Sign::Began | Sign::Ended) {
            endpoint.condition().saw(sign, now, config, false);
            return;
        }
        let _deciding = self.lock();
        let may = self.may_eject(index, now);
        let ejected = endpoint.condition().saw(sign, now, config, may);
        if let Some(time) = ejected {
            endpoint.ejected();
            tracing::warn!(pool = self.name, endpoint = endpoint.name, ?time, "ejected");
            self.changed.notify_one();
        }
    }

    /// Whether another one may be ejected: not the last that is up, and no more of the pool than
    /// configured.
    fn may_eject(&self, index: usize, now: MonoNs) -> bool {
        let others = self
            .endpoints
            .iter()
            .enumerate()
            .filter(|(i, _)| *i != index);
        let states: Vec<State> = others.map(|(_, e)| e.state(now)).collect();
        let ejected = states.iter().filter(|s| **s == State::Ejected).count();
        let most =
            self.endpoints.len() * usize::from(self.choosing.ejection.max_share_percent) / 100;
        ejected < most && states.contains(&State::Well)
    }
}

impl Lease {
    /// The endpoint.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.pool.endpoints[self.index]
    }

    /// How long a connection to it may stay unused.
    #[must_use]
    pub fn idle(&self) -> Duration {
        self.pool.choosing.idle
    }

    /// The endpoint's place in its pool.
    #[must_use]
    pub const fn index(&self) -> usize {
        self.index
    }

    /// The engine began to answer, if only to say that the request is wrong.
    pub fn began(&mut self) {
        self.stage = Stage::Begun;
        self.pool.judge(self.index, Sign::Began, MonoNs::now());
    }

    /// Its answer is whole.
    pub fn ended(&mut self) {
        if std::mem::replace(&mut self.stage, Stage::Judged) == Stage::Begun {
            self.pool.judge(self.index, Sign::Ended, MonoNs::now());
        }
    }

    /// The engine failed: no connection, a status of 5xx, an answer that broke off. A request counts
    /// once, whatever else goes wrong with it.
    pub fn failed(&mut self) {
        let sign = match std::mem::replace(&mut self.stage, Stage::Judged) {
            Stage::Fresh => Sign::Failed,
            Stage::Begun => Sign::BrokeOff,
            Stage::Judged => return,
        };
        self.pool.judge(self.index, sign, MonoNs::now());
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.endpoint().give_back(self.tokens);
    }
}

/// A credential as the engine wants to see it; marked, so that it is never printed.
fn bearer(secret: &config::Secret) -> Option<http::HeaderValue> {
    let mut value = http::HeaderValue::try_from(format!("Bearer {}", secret.expose())).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests;
