//! What one key, tenant or pool is allowed and has used.
//!
//! Deciding and taking are apart, so that several accounts can decide first and take only if none
//! of them refused. Pure: time and calendar come in as arguments.

use std::time::Duration;

use inferscope_shared::clock::MonoNs;
use serde::{Deserialize, Serialize};

use super::budget::{Calendar, Used};
use super::meter::{Meter, Rate};
use crate::config::LimitsConfig;

/// Whose limits they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// An API key's.
    Key,
    /// A tenant's.
    Tenant,
    /// A pool's.
    Pool,
}

impl Scope {
    /// Its name in messages and metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Tenant => "tenant",
            Self::Pool => "pool",
        }
    }
}

/// Which limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Requests per second.
    Requests,
    /// Tokens per minute.
    Tokens,
    /// Requests at a time.
    Concurrency,
    /// Tokens per day.
    Daily,
    /// Tokens per month.
    Monthly,
}

impl What {
    /// Its name in metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Requests => "requests_per_s",
            Self::Tokens => "tokens_per_min",
            Self::Concurrency => "concurrency",
            Self::Daily => "daily_tokens",
            Self::Monthly => "monthly_tokens",
        }
    }
}

/// A limit that a request does not fit under.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exceeded {
    /// Which.
    pub what: What,
    /// Its value: requests, or tokens.
    pub limit: f64,
    /// When it will fit. `None`: never, for it asks for more than the limit itself; for
    /// concurrency, nobody knows.
    pub wait: Option<Duration>,
}

/// An account's limits as rates.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Requests.
    pub requests: Option<Rate>,
    /// Tokens.
    pub tokens: Option<Rate>,
    /// The rest, and all of them as they were written.
    pub config: LimitsConfig,
}

impl From<&LimitsConfig> for Rules {
    fn from(config: &LimitsConfig) -> Self {
        let requests = config.requests_per_s.map(|rate| {
            let burst = config.burst.unwrap_or(rate.ceil().max(1.0) as u64);
            Rate::per_second(rate, burst)
        });
        Self {
            requests,
            tokens: config.tokens_per_min.map(Rate::per_minute),
            config: config.clone(),
        }
    }
}

/// What was used of an account.
#[derive(Debug, Clone, Default)]
pub struct Account {
    requests: Meter,
    tokens: Meter,
    in_flight: u64,
    /// Survives the process, by way of the ledger.
    pub spent: Spending,
}

impl From<Spending> for Account {
    fn from(spent: Spending) -> Self {
        Self {
            spent,
            ..Self::default()
        }
    }
}

/// Tokens against budgets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spending {
    /// Of the day.
    pub day: Used,
    /// Of the month.
    pub month: Used,
}

impl Account {
    /// Whether a request that may cost `tokens` fits.
    ///
    /// # Errors
    /// The limit that takes longest to make room.
    pub fn decide(
        &self,
        rules: &Rules,
        tokens: u64,
        now: MonoNs,
        calendar: &Calendar,
    ) -> Result<(), Exceeded> {
        let mut worst: Option<Exceeded> = None;
        let mut over = |what, limit: f64, wait: Option<Duration>| {
            let longer = |w: &Exceeded| match (wait, w.wait) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(new), Some(old)) => new > old,
            };
            if worst.as_ref().is_none_or(longer) {
                worst = Some(Exceeded { what, limit, wait });
            }
        };
        if let Some(limit) = rules.config.concurrency
            && self.in_flight >= limit
        {
            over(What::Concurrency, limit as f64, Some(Duration::ZERO));
        }
        if let Some(rate) = &rules.requests {
            let wait = self.requests.wait(rate, 1, now);
            if wait != Some(Duration::ZERO) {
                over(
                    What::Requests,
                    rules.config.requests_per_s.unwrap_or(0.0),
                    wait,
                );
            }
        }
        if let Some(rate) = &rules.tokens {
            let wait = self.tokens.wait(rate, tokens, now);
            if wait != Some(Duration::ZERO) {
                over(What::Tokens, rate.capacity as f64, wait);
            }
        }
        let budgets = [
            (
                What::Daily,
                rules.config.daily_tokens,
                &self.spent.day,
                &calendar.day,
                calendar.day_left,
            ),
            (
                What::Monthly,
                rules.config.monthly_tokens,
                &self.spent.month,
                &calendar.month,
                calendar.month_left,
            ),
        ];
        for (what, limit, used, period, left) in budgets {
            if let Some(limit) = limit
                && used.within(period).saturating_add(tokens) > limit
            {
                over(what, limit as f64, (tokens <= limit).then_some(left));
            }
        }
        worst.map_or(Ok(()), Err)
    }

    /// Takes a request that may cost `tokens`.
    pub fn take(&mut self, rules: &Rules, tokens: u64, now: MonoNs, calendar: &Calendar) {
        self.in_flight += 1;
        if let Some(rate) = &rules.requests {
            self.requests.take(rate, 1, now);
        }
        if let Some(rate) = &rules.tokens {
            self.tokens.take(rate, tokens, now);
        }
        self.spent.day.add(&calendar.day, tokens);
        self.spent.month.add(&calendar.month, tokens);
    }

    /// The request is over: its place is free. Its request counts when it was `answered`, and of
    /// its tokens `used` ones instead of the `reserved`.
    pub fn settle(&mut self, rules: &Rules, taken: &Taken, answered: bool, used: u64, now: MonoNs) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Some(rate) = &rules.requests
            && !answered
        {
            self.requests.give(rate, 1);
        }
        if let Some(rate) = &rules.tokens {
            if used > taken.tokens {
                self.tokens.take(rate, used - taken.tokens, now);
            } else {
                self.tokens.give(rate, taken.tokens - used);
            }
        }
        for (period, spent) in [
            (&taken.day, &mut self.spent.day),
            (&taken.month, &mut self.spent.month),
        ] {
            spent.sub(period, taken.tokens);
            if spent.period == *period {
                spent.add(period, used);
            }
        }
    }

    /// Requests that hold a place.
    #[must_use]
    pub const fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Whether it says nothing that a fresh one does not.
    #[must_use]
    pub fn is_fresh(&self, now: MonoNs) -> bool {
        self.in_flight == 0
            && self.requests.reset(now).is_zero()
            && self.tokens.reset(now).is_zero()
            && self.spent == Spending::default()
    }

    /// Limit, what is left of it, and when it is full again: of requests and of tokens.
    #[must_use]
    pub fn left(&self, rules: &Rules, now: MonoNs) -> [Option<Left>; 2] {
        let left = |rate: &Option<Rate>, meter: &Meter| {
            rate.as_ref().map(|rate| Left {
                limit: rate.capacity,
                remaining: meter.left(rate, now),
                reset: meter.reset(now),
            })
        };
        [
            left(&rules.requests, &self.requests),
            left(&rules.tokens, &self.tokens),
        ]
    }
}

/// What a request took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// Tokens that it may cost.
    pub tokens: u64,
    /// The day they belong to.
    pub day: String,
    /// The month they belong to.
    pub month: String,
}

/// What is left of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    /// Units at once.
    pub limit: u64,
    /// Units now.
    pub remaining: u64,
    /// Until all of them are back.
    pub reset: Duration,
}
