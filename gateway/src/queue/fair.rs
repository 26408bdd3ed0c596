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

use std::collections::{BTreeMap, VecDeque};

use inferscope_shared::clock::MonoNs;

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
        let others = class.tenants.iter().filter(|(name, _)| *name != tenant);
        let weights: u64 = others.map(|(_, t)| t.weight).sum();
        let turns = (own + 1).saturating_mul(weights + weight) / weight;
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
            });
        tenant.weight = waiter.weight.max(1);
        tenant.waiting.insert(ticket, waiter);
        ticket
    }

    /// Takes the waiter of `tenant` with this ticket out, if it still waits.
    pub fn remove(&mut self, tenant: &str, ticket: Ticket) -> Option<Waiter<T>> {
        let class = self.classes.get_mut(&ticket.priority)?;
        let found = class.tenants.get_mut(tenant)?.waiting.remove(&ticket)?;
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

    /// Takes out the retry that would go last, to make room for a request that is none.
    pub fn shed_retry(&mut self) -> Option<Waiter<T>> {
        let (tenant, ticket) = self.classes.values().rev().find_map(|class| {
            let retries = class.tenants.iter().flat_map(|(name, tenant)| {
                let waiting = tenant.waiting.iter().filter(|(_, waiter)| waiter.retry);
                waiting.map(move |(ticket, _)| (name, *ticket))
            });
            retries
                .max_by_key(|(_, ticket)| ticket.turn)
                .map(|(name, ticket)| (name.clone(), ticket))
        })?;
        self.remove(&tenant, ticket)
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
            if let Some(entry) = tenant.waiting.first_entry()
                && cost(entry.get()) <= tenant.earned
            {
                let waiter = entry.remove();
                tenant.earned -= cost(&waiter);
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
            tenant.earned = tenant.earned.saturating_add(QUANTUM * tenant.weight);
        }
    }

    /// Rounds in which nobody can be served yet happen at once instead of one by one: a request
    /// of a million tokens would need thousands of them.
    fn earn_until_somebody_can_go(&mut self) {
        let rounds = self.tenants.values().filter_map(|tenant| {
            let (_, next) = tenant.waiting.first_key_value()?;
            let missing = cost(next).saturating_sub(tenant.earned);
            Some(missing.div_ceil(QUANTUM * tenant.weight))
        });
        // The last round is walked, so that the order inside it is kept.
        let rounds = rounds.min().unwrap_or(0).saturating_sub(1);
        for tenant in self.tenants.values_mut() {
            let earned = QUANTUM.saturating_mul(tenant.weight).saturating_mul(rounds);
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn waiter(tenant: &str, tokens: u64, deadline: u64) -> Waiter<u64> {
        Waiter {
            tenant: tenant.to_owned(),
            priority: Priority::Normal,
            weight: 1,
            tokens,
            deadline: MonoNs(deadline),
            retry: false,
            tell: deadline,
        }
    }

    fn order(fair: &mut Fair<u64>) -> Vec<(String, u64)> {
        std::iter::from_fn(|| fair.pop().map(|w| (w.tenant, w.tell))).collect()
    }

    #[test]
    fn the_earliest_deadline_of_a_tenant_goes_first_and_equal_ones_in_turn() {
        let mut fair = Fair::default();
        for (deadline, tell) in [(30, 1), (10, 2), (10, 3), (20, 4)] {
            fair.push(Waiter {
                tell,
                ..waiter("a", 1, deadline)
            });
        }
        let told: Vec<u64> = order(&mut fair).into_iter().map(|(_, tell)| tell).collect();
        assert_eq!(told, [2, 3, 4, 1]);
    }

    #[test]
    fn a_higher_class_goes_first() {
        let mut fair = Fair::default();
        for (i, priority) in [Priority::Low, Priority::Normal, Priority::High]
            .into_iter()
            .enumerate()
        {
            fair.push(Waiter {
                priority,
                ..waiter("a", 1, i as u64)
            });
        }
        let told: Vec<u64> = order(&mut fair).into_iter().map(|(_, tell)| tell).collect();
        assert_eq!(told, [2, 1, 0]);
    }

    /// Of `n` services, how many tokens each of two always busy tenants got.
    fn shares(weights: [u64; 2], tokens: [u64; 2], n: usize) -> [u64; 2] {
        let mut fair = Fair::default();
        let names = ["a", "b"];
        let push = |fair: &mut Fair<u64>, i: usize, k: u64| {
            fair.push(Waiter {
                weight: weights[i],
                ..waiter(names[i], tokens[i], k)
            });
        };
        // Ten times as many of the first.
        for k in 0..20 {
            push(&mut fair, 0, k);
        }
        for k in 0..2 {
            push(&mut fair, 1, k);
        }
        let mut got = [0; 2];
        for k in 0..n as u64 {
            let next = fair.pop().unwrap();
            let i = usize::from(next.tenant == "b");
            got[i] += next.tokens;
            push(&mut fair, i, 100 + k);
        }
        got
    }

    #[test]
    fn equal_weights_share_the_work_equally_whatever_is_offered() {
        for tokens in [[500, 500], [100, 900], [5_000, 20], [1, 1]] {
            let [a, b] = shares([1, 1], tokens, 4_000);
            let share = a as f64 / (a + b) as f64;
            assert!((share - 0.5).abs() < 0.025, "{tokens:?}: {share}");
        }
    }

    #[test]
    fn weights_are_shares() {
        let [a, b] = shares([3, 1], [700, 700], 4_000);
        let share = a as f64 / (a + b) as f64;
        assert!((share - 0.75).abs() < 0.025, "{share}");
    }

    #[test]
    fn a_retry_makes_room_the_youngest_of_the_lowest_class_first() {
        let mut fair = Fair::default();
        fair.push(waiter("a", 1, 1));
        for (deadline, priority) in [
            (2, Priority::Normal),
            (3, Priority::High),
            (4, Priority::Normal),
        ] {
            fair.push(Waiter {
                retry: true,
                priority,
                ..waiter("b", 1, deadline)
            });
        }
        let shed: Vec<u64> = std::iter::from_fn(|| fair.shed_retry().map(|w| w.tell)).collect();
        assert_eq!(shed, [4, 2, 3]);
        assert_eq!(fair.requests(), 1);
    }

    #[test]
    fn a_light_tenant_has_few_ahead() {
        let mut fair = Fair::default();
        for k in 0..100 {
            fair.push(waiter("heavy", 1, k));
        }
        assert_eq!(fair.ahead("heavy", Priority::Normal, 1), 100);
        assert_eq!(fair.ahead("light", Priority::Normal, 1), 1);
        assert_eq!(fair.ahead("light", Priority::High, 1), 0);
        assert_eq!(fair.ahead("light", Priority::Low, 1), 100);
    }

    proptest! {
        #[test]
        fn everybody_goes_once_and_the_sums_are_right(
            waiters in prop::collection::vec((0_usize..4, 0_usize..3, 0_u64..3_000_000, 0_u64..50, 1_u64..5), 0..80),
            removed in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
        ) {
            let mut fair = Fair::default();
            let mut all = Vec::new();
            for (k, (tenant, class, tokens, deadline, weight)) in waiters.into_iter().enumerate() {
                let priority = [Priority::High, Priority::Normal, Priority::Low][class];
                let tenant = ["a", "b", "c", "d"][tenant];
                let ticket = fair.push(Waiter { priority, weight, tell: k as u64, ..waiter(tenant, tokens, deadline) });
                all.push((tenant, ticket, k as u64, tokens));
            }
            for index in removed {
                if !all.is_empty() {
                    let (tenant, ticket, k, _) = all.remove(index.index(all.len()));
                    prop_assert_eq!(fair.remove(tenant, ticket).map(|w| w.tell), Some(k));
                    prop_assert!(fair.remove(tenant, ticket).is_none());
                }
            }
            prop_assert_eq!(fair.requests(), all.len() as u64);
            prop_assert_eq!(fair.tokens(), all.iter().map(|a| a.3).sum::<u64>());
            let mut told: Vec<u64> = order(&mut fair).into_iter().map(|(_, tell)| tell).collect();
            told.sort_unstable();
            let mut expected: Vec<u64> = all.iter().map(|a| a.2).collect();
            expected.sort_unstable();
            prop_assert_eq!(told, expected);
            prop_assert_eq!((fair.requests(), fair.tokens()), (0, 0));
        }
    }
}
