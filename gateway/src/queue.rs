//! Who waits for a place at an engine, for how long, and who is turned away.
//!
//! The queue is ours and not the engine's: of each endpoint only `concurrency` requests are ever
//! handed over, and the others wait here, where they are ordered ([`fair`]), can be given up at
//! once, and cost an engine nothing. A pool without `concurrency` has no queue.
//!
//! A request waits no longer than the configured time and than its client will ([`Ask`] has what
//! the official clients say of that). One that would wait longer than that, by the pace at which places
//! came free lately, is refused at the door. Refusals here are 503: the gateway is busy, the caller
//! did nothing wrong.

pub mod fair;
pub mod line;
mod pace;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use inferscope_shared::clock::MonoNs;

use crate::admission::{Ask, Denied};
use crate::config::{Config, Tenant};
use crate::errors::{Kind, MAX_PAUSE, Refusal};
use crate::metrics::Metrics;
use crate::routing::Router;
use fair::{Priority, Waiter};
pub use line::Slot;
use line::{Bounds, Joined, Line, NoPlace};

/// When to come back where no pace is known yet.
const SHORTLY: Duration = Duration::from_secs(1);
/// A refused one is told up to this much longer, so that not all of them come back at once.
const SPREAD: f64 = 0.25;

/// The queues of one configuration.
#[derive(Debug)]
pub struct Queue {
    lines: BTreeMap<String, Arc<Line>>,
    tenants: BTreeMap<String, Tenant>,
    max_wait: Duration,
    metrics: Arc<Metrics>,
}

impl Queue {
    /// The queues of `config` before the pools of `router`; those who wait in `before` wait on,
    /// under the new bounds.
    #[must_use]
    pub fn new(
        config: &Config,
        router: &Router,
        before: Option<&Self>,
        metrics: &Arc<Metrics>,
    ) -> Self {
        let bounds = Bounds {
            requests: config.queue.max_requests,
            tokens: config.queue.max_tokens.unwrap_or(u64::MAX),
        };
        let now = MonoNs::now();
        let lines = router.pools().map(|pool| {
            let (name, capacity) = (&pool.name, pool.capacity(now));
            let line = match before.and_then(|before| before.lines.get(name)) {
                Some(line) => {
                    // Its capacity follows once these pools are in force ([`crate::routing::keeper`]):
                    // who gets a place must find the endpoints that it comes from.
                    line.set_bounds(bounds);
                    Arc::clone(line)
                }
                None => Line::new(capacity, bounds),
            };
            (name.clone(), line)
        });
        Self {
            lines: lines.collect(),
            tenants: config.tenants.clone(),
            max_wait: config.queue.max_wait,
            metrics: Arc::clone(metrics),
        }
    }

    /// The endpoints of `pool` take so many requests at a time from now on.
    pub fn set_capacity(&self, pool: &str, capacity: Option<u64>) {
        if let Some(line) = self.lines.get(pool) {
            line.set_capacity(capacity);
        }
    }

    /// The line before `pool`.
    #[must_use]
    pub fn line(&self, pool: &str) -> Option<&Arc<Line>> {
        self.lines.get(pool)
    }

    /// Requests that hold a place and that wait, by pool.
    #[must_use]
    pub fn counts(&self) -> Vec<(&str, u64, u64)> {
        self.lines
            .iter()
            .map(|(name, line)| {
                let (in_flight, waiting) = line.counts();
                (name.as_str(), in_flight, waiting)
            })
            .collect()
    }

    /// A place for `ask`, after a wait that ends when `gone` does.
    ///
    /// # Errors
    /// There is none in time, or the client left.
    pub async fn enter(&self, ask: &Ask, gone: impl Future<Output = ()>) -> Result<Slot, Denied> {
        let Some(line) = self.lines.get(&ask.pool) else {
            return Ok(Slot::default());
        };
        let now = MonoNs::now();
        let patience = self.patience(ask);
        let deadline = ask.arrived.plus(patience);
        let tenant = self.tenants.get(&ask.tenant);
        let comer = Waiter {
            tenant: ask.tenant.clone(),
            priority: tenant.map_or(Priority::default(), |t| t.priority),
            weight: tenant.map_or(1, |t| t.weight),
            tokens: ask.tokens(),
            deadline,
            retry: ask.retry_count > 0,
            tell: (),
        };
        let refuse = |why| Denied::Refused(refusal(&ask.pool, why, patience, line.pause()));
        let mut in_line = match line.join(comer, now).map_err(refuse)? {
            Joined::Slot(slot) => return Ok(slot),
            Joined::Waits(in_line) => in_line,
        };
        let _waiting = self.metrics.waiting();
        let left = Duration::from_nanos(deadline.since(now));
        let got = tokio::select! {
            biased;
            word = in_line.wait() => word.map_err(refuse),
            () = gone => Err(Denied::Gone),
            () = tokio::time::sleep(left) => Err(refuse(NoPlace::Expired)),
        };
        self.metrics.waited(MonoNs::now().since(now));
        got
    }

    /// How long the caller and the operator let it wait, from its first byte.
    fn patience(&self, ask: &Ask) -> Duration {
        let client = ask
            .client_timeout_seconds
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        client.map_or(self.max_wait, |client| client.min(self.max_wait))
    }
}

/// What a request without a place is told.
fn refusal(pool: &str, why: NoPlace, patience: Duration, pause: Option<Duration>) -> Refusal {
    let (kind, what) = match why {
        NoPlace::Full => (
            Kind::QueueFull,
            format!("as many requests wait for pool `{pool}` as may"),
        ),
        NoPlace::TooLong => (
            Kind::QueueTooLong,
            format!("the wait for pool `{pool}` would be longer than {patience:?}"),
        ),
        NoPlace::Expired => (
            Kind::QueueTimeout,
            format!("no engine of pool `{pool}` had a place within {patience:?}"),
        ),
        NoPlace::Shed => (
            Kind::QueueFull,
            format!("pool `{pool}` is overloaded, and repeated requests give way first"),
        ),
        NoPlace::GaveWay => (
            Kind::QueueFull,
            format!(
                "pool `{pool}` is overloaded, and this request gave way to one of a higher priority, or of a tenant with less in line"
            ),
        ),
    };
    // Within what is told at most, or the longest pauses would all be the same one.
    let pause = pause
        .unwrap_or(SHORTLY)
        .min(MAX_PAUSE.div_f64(1.0 + SPREAD));
    let pause = pause.mul_f64(1.0 + SPREAD * rand::random::<f64>());
    Refusal::because(kind, format!("{what}: try again later")).after(pause)
}
