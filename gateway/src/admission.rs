//! Whether a request may go to an engine now, later, or not at all.
//!
//! Two parts decide, in this order: [`limits`](crate::limits) take what the request may cost from
//! what its key, tenant and pool are allowed, all of it or nothing; the [`queue`](crate::queue)
//! lets it wait for a place at an engine. The outcome is one [`Permit`], which the request holds
//! to its end. Dropping it gives everything back, so a refusal by the queue, a client that leaves
//! and a panic cost a caller nothing; [`Permit::settle`] turns the estimate into what was used.
//!
//! Clock: CLOCK_MONOTONIC.

use std::future::Future;
use std::sync::Arc;

use http::{HeaderMap, HeaderName};
use inferscope_shared::clock::MonoNs;

use crate::config::Config;
use crate::errors::Refusal;
use crate::exchange::Exchange;
use crate::intake::facts::Facts;
use crate::limits::{Limits, Reservation};
use crate::metrics::Metrics;
use crate::queue::{Queue, Slot};
use crate::routing::{Router, Target};

/// Which retry of the official clients this is; absent or 0 on the first attempt.
const RETRY_COUNT: HeaderName = HeaderName::from_static("x-stainless-retry-count");
/// Seconds that the official clients wait: for the next bytes (Python), in all (Node).
const CLIENT_TIMEOUTS: [HeaderName; 2] = [
    HeaderName::from_static("x-stainless-read-timeout"),
    HeaderName::from_static("x-stainless-timeout"),
];

/// Answer tokens that count for a request which leaves its length to the engine, where nothing else
/// says how long it can get.
const UNSAID_OUTPUT_TOKENS: u64 = 1_024;

/// Paths whose answers are generated, with the members of their body that limit the length: the one
/// that every engine goes by first. What limits it on another path, engines step over.
const GENERATING: [(&str, &[&str]); 3] = [
    (
        "/v1/chat/completions",
        &["max_tokens", "max_completion_tokens"],
    ),
    ("/v1/completions", &["max_tokens"]),
    ("/v1/responses", &["max_output_tokens"]),
];

/// What a request asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// Whose request it is.
    pub tenant: String,
    /// By which key.
    pub key_id: String,
    /// The pool that serves it.
    pub pool: String,
    /// The model as the client named it.
    pub model: Option<String>,
    /// First byte of its head.
    pub arrived: MonoNs,
    /// Estimated tokens of the prompt.
    pub prompt_tokens: u64,
    /// The most tokens that it asks an engine for, per choice; `None` leaves it to the engine.
    pub output_tokens: Option<u64>,
    /// Choices that an engine generates (`n`, `best_of`).
    pub choices: u64,
    /// It asks for text to be generated, and not for a list or an embedding.
    pub generates: bool,
    /// The members that limit its answer, by its path.
    pub output_members: &'static [&'static str],
    /// Attempts of the same client before this one.
    pub retry_count: u32,
    /// How long the client says it waits, in seconds from `arrived`.
    pub client_timeout_seconds: Option<f64>,
}

impl Ask {
    /// What `exchange` asks for, as its body and headers say.
    #[must_use]
    pub fn new(exchange: &Exchange, facts: &Facts, target: &Target, headers: &HeaderMap) -> Self {
        let text = |name: &HeaderName| headers.get(name)?.to_str().ok().map(str::trim);
        let caller = exchange.principal.as_ref();
        let generating = GENERATING.iter().find(|(path, _)| *path == exchange.path);
        let output_members = generating.map_or(&[][..], |(_, members)| members);
        Self {
            tenant: caller.map(|p| p.tenant.clone()).unwrap_or_default(),
            key_id: caller.map(|p| p.key_id.clone()).unwrap_or_default(),
            pool: target.pool.name.clone(),
            model: exchange.model.clone(),
            arrived: exchange.times.accept,
            prompt_tokens: facts.prompt_tokens(),
            output_tokens: facts.output_tokens(output_members),
            choices: facts.choices(),
            generates: generating.is_some(),
            output_members,
            retry_count: text(&RETRY_COUNT).and_then(|t| t.parse().ok()).unwrap_or(0),
            client_timeout_seconds: CLIENT_TIMEOUTS
                .iter()
                .filter_map(|name| text(name)?.parse::<f64>().ok())
                .filter(|seconds| seconds.is_finite() && *seconds > 0.0)
                .min_by(f64::total_cmp),
        }
    }
}

impl Ask {
    /// The most tokens that it may cost, as far as it says so itself.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.tokens_within(u64::MAX)
    }

    /// The same, for a model with a `context` of so many tokens.
    #[must_use]
    pub fn tokens_within(&self, context: u64) -> u64 {
        let prompt = self.prompt_tokens.min(context);
        if !self.generates {
            return prompt;
        }
        let output = self
            .output_tokens
            .unwrap_or(UNSAID_OUTPUT_TOKENS)
            .min(context - prompt);
        prompt.saturating_add(output.saturating_mul(self.choices))
    }
}

/// Why a request is not admitted.
#[derive(Debug)]
pub enum Denied {
    /// It is told so.
    Refused(Refusal),
    /// Its client left while it waited.
    Gone,
}

/// What a request turned out to cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spent {
    /// The client was sent a byte of an engine's good answer.
    pub answered: bool,
    /// Prompt tokens, as the engine counted them.
    pub prompt_tokens: Option<u64>,
    /// Tokens of all choices, as the engine counted them.
    pub output_tokens: Option<u64>,
    /// Output events that were seen: the estimate where the engine counts nothing.
    pub output_events: u64,
}

/// A request's place under the limits and at an engine. See the module head.
#[derive(Debug)]
pub struct Permit {
    reservation: Reservation,
    /// Given back when the permit is.
    _slot: Slot,
}

impl Permit {
    /// Charges what was `spent` instead of what was reserved.
    pub fn settle(self, spent: Spent) {
        self.reservation.settle(spent, MonoNs::now());
    }

    /// What the caller has left, as response headers.
    #[must_use]
    pub fn fields(&self) -> Vec<(HeaderName, http::HeaderValue)> {
        self.reservation.fields(MonoNs::now())
    }
}

/// The limits and queues of one configuration.
#[derive(Debug)]
pub struct Admission {
    /// Who may use how much.
    pub limits: Limits,
    /// Who waits for an engine.
    pub queue: Queue,
}

impl Admission {
    /// What `config` describes, before the pools of `router`; counts and waiting requests of `before` live on.
    #[must_use]
    pub fn new(
        config: &Config,
        router: &Router,
        before: Option<&Self>,
        metrics: &Arc<Metrics>,
    ) -> Self {
        Self {
            limits: Limits::new(config, before.map(|b| &b.limits), metrics),
            queue: Queue::new(config, router, before.map(|b| &b.queue), metrics),
        }
    }

    /// Admits `ask`, perhaps after a wait, which ends when `gone` does: the client left.
    ///
    /// # Errors
    /// [`Denied`]; nothing is held then.
    pub async fn admit(&self, ask: Ask, gone: impl Future<Output = ()>) -> Result<Permit, Denied> {
        let reservation = self
            .limits
            .reserve(&ask, MonoNs::now())
            .map_err(Denied::Refused)?;
        let slot = self.queue.enter(&ask, gone).await?;
        Ok(Permit {
            reservation,
            _slot: slot,
        })
    }
}
