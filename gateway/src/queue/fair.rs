//! Who is next: classes by priority, tenants in turn by weight, the earliest deadline of a tenant.
//!
//! A higher class goes first, always. Inside a class tenants share by deficit round robin: each
//! visit earns a tenant `QUANTUM × weight` tokens, and it is served while what it has earned covers
//! what its next request may cost. So shares are of work, not of requests, and a tenant with ten
//! times the requests gets no more than one that always has one waiting. A tenant with nobody waiting
//! earns nothing.
//!
//! Source: Shreedhar and Varghese, "Efficient Fair Queuing Using Deficit Round Robin", 1996. Pure:
//! no clock, no lock.

mod room;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use inferscope_shared::clock::MonoNs;
pub use room::Bounds;

/// Tokens that a visit earns, times the tenant's weight.
const QUANTUM: u64 = 512;

/// Which requests go first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Before all others.
    High,
    /// Unless something else is said.
    #[default]
    Normal,
    /// When nobody else waits.
    Low,
}

impl Priority {
    /// Its name in configurations.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Normal => "normal",
            Self::Low => "low",
        }
    }
}

/// Somebody who waits.
#[derive(Debug)]
pub struct Waiter<T> {
    /// Whose turn it uses.
    pub tenant: String,
    /// Its class.
    pub priority: Priority,
    /// Its tenant's share, relative to others, at least 1.
    pub weight: u64,
    /// What it may cost, in tokens.
    pub tokens: u64,
    /// When it is no use any more.
    pub deadline: MonoNs,
    /// It was refused or failed before and comes again.
    pub retry: bool,
    /// How it is told.
    pub tell: T,
}

impl Waiter<()> {
    /// The same, told by `tell`.
    pub fn told_by<T>(self, tell: T) -> Waiter<T> {
        Waiter {
            tenant: self.tenant,
            priority: self.priority,
            weight: self.weight,
            tokens: self.tokens,
            deadline: self.deadline,
            retry: self.retry,
            tell,
        }
    }
}

/// Finds a waiter again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    priority: Priority,
    deadline: MonoNs,
    turn: u64,
}

#[derive(Debug)]
struct Tenant<T> {
    earned: u64,
    weight: u64,
    waiting: BTreeMap<Ticket, Waiter<T>>,
    /// Those of them that come again.
    retries: BTreeSet<Ticket>,
    /// What they may cost together.
    tokens: u64,
}

impl<T> Tenant<T> {
    fn put(&mut self, ticket: Ticket, waiter: Waiter<T>) {
        self.weight = waiter.weight.max(1);
        self.tokens = self.tokens.saturating_add(waiter.tokens);
        if waiter.retry {
            self.retries.insert(ticket);
        }
        self.waiting.insert(ticket, waiter);
    }

    fn take(&mut self, ticket: Ticket) -> Option<Waiter<T>> {
        let waiter = self.waiting.remove(&ticket)?;
        self.retries.remove(&ticket);
        self.tokens = self.tokens.saturating_sub(waiter.tokens);
        Some(waiter)
    }

    /// What a visit earns.
    const fn quantum(&self) -> u64 {
        QUANTUM.saturating_mul(self.weight)
    }
}

#[derive(Debug)]
struct Class<T> {
    tenants: BTreeMap<String, Tenant<T>>,
    /// Those with somebody waiting; the first is being served.
    ring: VecDeque<String>,
}

impl<T> Default for Class<T> {
    fn default() -> Self {
        Self {
            tenants: BTreeMap::new(),
            ring: VecDeque::new(),
        }
    }
}

/// See the module head.
#[derive(Debug)]
pub struct Fair<T> {
    classes: BTreeMap<Priority, Class<T>>,
    turns: u64,
    requests: u64,
    tokens: u64,
}

impl<T> Default for Fair<T> {
    fn default() -> Self {
        Self {
            classes: BTreeMap::new(),
            turns: 0,
            requests: 0,
            tokens: 0,
        }
    }
}

impl<T> Fair<T> {
    /// Requests that wait.
    #[must_use]
    pub const fn requests(&self) -> u64 {
        self.requests
    }

    /// What they may cost together, in tokens.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.tokens
    }

    /// About how many requests go before a new one of `tenant`: all that wait in its class and
    /// above, or fewer where its tenant has a turn sooner.
    #[must_use]
    pub fn ahead(&self, tenant: &str, priority: Priority, weight: u64) -> u64 {
        let waiting = |class: &Class<T>| -> u64 {
            class.tenants.values().map(|t| t.waiting.len() as u64).sum()
        };
        let above: u64 = self
            .classes
            .range(..priority)
            .map(|(_, c)| waiting(c))
            .sum();
        let Some(class) = self.classes.get(&priority) else {
            return above;
        };
        let own = class
            .tenants
            .get(tenant)
            .map_or(0, |t| t.waiting.len() as u64);
        let weight = weight.max(1);
        let others = class.tenants.iter().filter(|(name, _)| *name != tenant);
        let weights = others.fold(weight, |sum, (_, t)| sum.saturating_add(t.weight));
        let turns = (own + 1).saturating_mul(weights) / weight;
        above + waiting(class).min(turns.saturating_sub(1))
    }

    /// Lets `waiter` wait.
    pub fn push(&mut self, waiter: Waiter<T>) -> Ticket {
        self.turns += 1;
        let ticket = Ticket {
            priority: waiter.priority,
            deadline: waiter.deadline,
            turn: self.turns,
        };
        self.requests += 1;
        self.tokens = self.tokens.saturating_add(waiter.tokens);
        let class = self.classes.entry(waiter.priority).or_default();
        if !class.tenants.contains_key(&waiter.tenant) {
            class.ring.push_back(waiter.tenant.clone());
        }
        let tenant = class
            .tenants
            .entry(waiter.tenant.clone())
            .or_insert_with(|| Tenant {
                earned: 0,
                weight: 1,
                waiting: BTreeMap::new(),
                retries: BTreeSet::new(),
                tokens: 0,
            });
        tenant.put(ticket, waiter);
        if class.ring.len() == 1 && class.tenants.values().all(|t| t.waiting.len() == 1) {
            // The first one is at the front already.
            class.visit();
        }
        ticket
    }

    /// Takes the waiter of `tenant` with this ticket out, if it still waits.
    pub fn remove(&mut self, tenant: &str, ticket: Ticket) -> Option<Waiter<T>> {
        let class = self.classes.get_mut(&ticket.priority)?;
        let found = class.tenants.get_mut(tenant)?.take(ticket)?;
        class.forget_idle(tenant);
        self.left(&found);
        Some(found)
    }

    /// Takes the next one out.
    pub fn pop(&mut self) -> Option<Waiter<T>> {
        let next = self.classes.values_mut().find_map(Class::pop)?;
        self.left(&next);
        Some(next)
    }

    fn left(&mut self, waiter: &Waiter<T>) {
        self.requests -= 1;
        self.tokens = self.tokens.saturating_sub(waiter.tokens);
    }
}

impl<T> Class<T> {
    fn pop(&mut self) -> Option<Waiter<T>> {
        self.earn_until_somebody_can_go();
        // Once more round to the one that was in front: it earns its visit, too.
        for _ in 0..=self.ring.len() {
            let name = self.ring.front()?.clone();
            let tenant = self.tenants.get_mut(&name)?;
            let (ticket, next) = tenant.waiting.first_key_value()?;
            let (ticket, cost) = (*ticket, cost(next));
            if cost <= tenant.earned {
                tenant.earned -= cost;
                let waiter = tenant.take(ticket)?;
                self.forget_idle(&name);
                return Some(waiter);
            }
            // Its visit is over; the next one earns as it comes to the front.
            self.ring.rotate_left(1);
            self.visit();
        }
        None
    }

    /// The tenant at the front earns its visit.
    fn visit(&mut self) {
        if let Some(tenant) = self
            .ring
            .front()
            .and_then(|name| self.tenants.get_mut(name))
        {
            tenant.earned = tenant.earned.saturating_add(tenant.quantum());
        }
    }

    /// Rounds in which nobody can be served yet happen at once instead of one by one: a request
    /// of a million tokens would need thousands of them.
    fn earn_until_somebody_can_go(&mut self) {
        let rounds = self.tenants.values().filter_map(|tenant| {
            let (_, next) = tenant.waiting.first_key_value()?;
            let missing = cost(next).saturating_sub(tenant.earned);
            Some(missing.div_ceil(tenant.quantum()))
        });
        // The last round is walked, so that the order inside it is kept.
        let rounds = rounds.min().unwrap_or(0).saturating_sub(1);
        for tenant in self.tenants.values_mut() {
            let earned = tenant.quantum().saturating_mul(rounds);
            tenant.earned = tenant.earned.saturating_add(earned);
        }
    }

    fn forget_idle(&mut self, name: &str) {
        if self.tenants.get(name).is_some_and(|t| t.waiting.is_empty()) {
            self.tenants.remove(name);
            let at_front = self.ring.front().is_some_and(|front| front == name);
            self.ring.retain(|n| n != name);
            if at_front {
                self.visit();
            }
        }
    }
}

/// Even an empty request takes a turn.
const fn cost<T>(waiter: &Waiter<T>) -> u64 {
    if waiter.tokens == 0 { 1 } else { waiter.tokens }
}

#[cfg(test)]
mod tests;
