//! How much a caller may use: requests, tokens, places, budgets; of its key, its tenant and the
//! pool it asks for.
//!
//! One decision over all of them, under one lock: every account decides first, and only if none
//! refuses do all of them take. So what one limit refuses has used nothing of another. Tokens are
//! reserved as the most that the request may cost (estimated prompt, plus choices times the longest
//! answer) and settled by what it did cost; more than reserved is a debt that the account earns
//! back first. A request that fails before the first byte of an answer costs nothing at all.
//!
//! An account with `enforce: false` decides and counts, and refuses nothing; what it would have
//! refused, it does not take either, so its counts are those it would have if it were enforced.
//!
//! Clock: CLOCK_MONOTONIC; budgets by the calendar, in UTC.

mod account;
pub mod budget;
pub mod caps;
mod ledger;
mod meter;
#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderName, HeaderValue};
use inferscope_shared::clock::MonoNs;

use crate::admission::{Ask, Spent};
use crate::config::{Config, LimitsConfig};
use crate::errors::Refusal;
use crate::metrics::{Counted, Metrics};
use account::{Account, Exceeded, Left, Rules, Taken};
pub use account::{Scope, What};
use budget::Calendar;

/// A request is charged no more than this, or 16 times what was reserved for it: an engine that
/// counts wrongly must not lock its callers out for years.
const BELIEVED: u64 = 10_000_000;

/// One account's name.
type Id = (Scope, String);

/// What was used, by account. It outlives configurations.
#[derive(Debug, Default)]
struct Book(Mutex<BTreeMap<Id, Account>>);

impl Book {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Id, Account>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The limits of one configuration.
#[derive(Debug)]
pub struct Limits {
    rules: BTreeMap<Id, Arc<Rules>>,
    /// Longest prompt and answer together, by model alias.
    contexts: BTreeMap<String, u64>,
    book: Arc<Book>,
    metrics: Arc<Metrics>,
    ledger: Option<PathBuf>,
}

/// What a request has taken. Dropped, it gives all of it back.
#[derive(Debug)]
pub struct Reservation {
    accounts: Vec<(Id, Arc<Rules>)>,
    taken: Taken,
    prompt_tokens: u64,
    book: Arc<Book>,
    metrics: Arc<Metrics>,
    _counted: Counted,
}

impl Limits {
    /// The limits of `config`, with what was used under `before`, or in an earlier process.
    #[must_use]
    pub fn new(config: &Config, before: Option<&Self>, metrics: &Arc<Metrics>) -> Self {
        let mut rules = BTreeMap::new();
        let mut add = |scope, name: &str, limits: &Option<LimitsConfig>| {
            if let Some(limits) = limits {
                rules.insert((scope, name.to_owned()), Arc::new(Rules::from(limits)));
            }
        };
        for key in config.auth.keys() {
            add(Scope::Key, &key.id, &key.limits);
        }
        for (name, tenant) in &config.tenants {
            add(Scope::Tenant, name, &tenant.limits);
        }
        for (name, pool) in &config.pools {
            add(Scope::Pool, name, &pool.limits);
        }
        let contexts = config.models.iter();
        let ledger = ledger::path(config);
        let book = match before {
            Some(before) => Arc::clone(&before.book),
            None => Arc::new(Book(Mutex::new(ledger::load(ledger.as_deref())))),
        };
        book.lock()
            .retain(|id, account| rules.contains_key(id) || !account.is_fresh(MonoNs::now()));
        Self {
            rules,
            contexts: contexts
                .filter_map(|(alias, route)| Some((alias.clone(), route.context_tokens?)))
                .collect(),
            book,
            metrics: Arc::clone(metrics),
            ledger,
        }
    }

    /// The limits that a request of these names is under: key, tenant, pool.
    fn over(&self, ask: &Ask) -> Vec<(Id, Arc<Rules>)> {
        [
            (Scope::Key, &ask.key_id),
            (Scope::Tenant, &ask.tenant),
            (Scope::Pool, &ask.pool),
        ]
        .into_iter()
        .filter_map(|(scope, name)| {
            let id = (scope, name.clone());
            let rules = Arc::clone(self.rules.get(&id)?);
            Some((id, rules))
        })
        .collect()
    }

    /// The most tokens that `ask` may cost.
    fn cost(&self, ask: &Ask) -> u64 {
        let context = ask
            .model
            .as_ref()
            .and_then(|model| self.contexts.get(model));
        ask.tokens_within(context.copied().unwrap_or(u64::MAX))
    }

    /// Takes what `ask` may cost from all accounts, or from none.
    ///
    /// # Errors
    /// The refusal, which names the limit that takes longest to make room.
    pub fn reserve(&self, ask: &Ask, now: MonoNs) -> Result<Reservation, Refusal> {
        let mut accounts = self.over(ask);
        let tokens = if accounts.is_empty() {
            0
        } else {
            self.cost(ask)
        };
        let mut book = self.book.lock();
        // Under the lock: a day that ends must not begin again for one that read the time before.
        let calendar = if accounts.is_empty() {
            Calendar::default()
        } else {
            Calendar::now()
        };
        let mut refused: Option<(Scope, String, Exceeded)> = None;
        let mut silent = Vec::new();
        for (id, rules) in &accounts {
            let account = book.entry(id.clone()).or_default();
            if let Err(over) = account.decide(rules, tokens, now, &calendar) {
                self.metrics.limited(id.0, over.what, rules.config.enforce);
                if !rules.config.enforce {
                    silent.push(id.clone());
                    continue;
                }
                let longer = refused.as_ref().is_none_or(|(_, _, worst)| {
                    over.wait.is_none() || worst.wait.is_some_and(|w| over.wait > Some(w))
                });
                if longer {
                    refused = Some((id.0, id.1.clone(), over));
                }
            }
        }
        if let Some((scope, name, over)) = refused {
            let fields = fields(&accounts, &book, now);
            drop(book);
            return Err(words::refusal(scope, &name, &over, tokens).and(fields));
        }
        accounts.retain(|(id, _)| !silent.contains(id));
        for (id, rules) in &accounts {
            book.entry(id.clone())
                .or_default()
                .take(rules, tokens, now, &calendar);
        }
        drop(book);
        Ok(Reservation {
            _counted: self.metrics.permit(),
            accounts,
            taken: Taken {
                tokens,
                day: calendar.day,
                month: calendar.month,
            },
            prompt_tokens: ask.prompt_tokens,
            book: Arc::clone(&self.book),
            metrics: Arc::clone(&self.metrics),
        })
    }

    /// Writes what was used of budgets where the next process finds it, if anywhere.
    pub fn save(&self) {
        if let Some(path) = &self.ledger {
            let spent = ledger::spent(&self.book.lock());
            ledger::save(path, &spent);
        }
    }

    /// Requests that hold a place, by account: for people.
    #[must_use]
    pub fn in_flight(&self) -> Vec<(Scope, String, u64)> {
        let book = self.book.lock();
        book.iter()
            .map(|((scope, name), account)| (*scope, name.clone(), account.in_flight()))
            .collect()
    }
}

/// The `x-ratelimit-*` headers: of the account with the least left of each.
fn fields(
    accounts: &[(Id, Arc<Rules>)],
    book: &BTreeMap<Id, Account>,
    now: MonoNs,
) -> Vec<(HeaderName, HeaderValue)> {
    let least = |i: usize| -> Option<Left> {
        accounts
            .iter()
            .filter(|(_, rules)| rules.config.enforce)
            .filter_map(|(id, rules)| book.get(id)?.left(rules, now)[i])
            .min_by_key(|left| left.remaining)
    };
    words::fields(least(0), least(1))
}

impl Reservation {
    /// Charges what was `spent` instead of what was reserved. An answer whose engine counted
    /// nothing is charged by the estimate of its prompt and an output event per token.
    pub fn settle(mut self, spent: Spent, now: MonoNs) {
        let counted = spent.prompt_tokens.is_some() || spent.output_tokens.is_some();
        let used = if spent.answered {
            let prompt = spent.prompt_tokens.unwrap_or(self.prompt_tokens);
            let output = spent.output_tokens.unwrap_or(spent.output_events);
            let most = self.taken.tokens.saturating_mul(16).max(BELIEVED);
            prompt.saturating_add(output).min(most)
        } else {
            0
        };
        if spent.answered && !self.accounts.is_empty() {
            self.metrics.charged(counted, used);
        }
        self.end(spent.answered, used, now);
    }

    fn end(&mut self, answered: bool, used: u64, now: MonoNs) {
        let mut book = self.book.lock();
        for (id, rules) in self.accounts.drain(..) {
            if let Some(account) = book.get_mut(&id) {
                account.settle(&rules, &self.taken, answered, used, now);
            }
        }
    }

    /// What is left of the limits, as response headers.
    #[must_use]
    pub fn fields(&self, now: MonoNs) -> Vec<(HeaderName, HeaderValue)> {
        if self.accounts.is_empty() {
            return Vec::new();
        }
        fields(&self.accounts, &self.book.lock(), now)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.end(false, 0, MonoNs::now());
    }
}
