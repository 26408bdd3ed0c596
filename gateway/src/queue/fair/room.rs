//! Who gives way when a line is full and one more comes.
//!
//! First those that come again, then those of lower classes; both only as many as it takes, and
//! nobody if all of them were not enough. If there are none, one of the same class, whose tenant has
//! more in line for its weight than the comer's would have: without that a tenant could fill the
//! line and shut the others out before turns count for anything. Nobody gives way to a retry, nor
//! to a lower class. Of those that may, the one goes that would be served last.
//!
//! Which bound is full decides what is more: requests, or what they may cost in tokens.

use std::ops::{Bound, RangeBounds};

use super::{Class, Fair, Priority, Tenant, Ticket, Waiter};

/// How many may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Requests.
    pub requests: u64,
    /// What they may cost together, in tokens; one that costs more may wait alone.
    pub tokens: u64,
}

/// Some that wait, in sum.
#[derive(Debug, Clone, Copy, Default)]
struct Load {
    requests: u64,
    tokens: u64,
}

/// Where one of them is.
type Place = (String, Ticket);

impl Bounds {
    fn allow(&self, waiting: Load, tokens: u64) -> bool {
        let alone = waiting.requests == 0;
        waiting.requests < self.requests
            && (alone || waiting.tokens.saturating_add(tokens) <= self.tokens)
    }
}

impl<T> Tenant<T> {
    fn load(&self) -> Load {
        Load {
            requests: self.waiting.len() as u64,
            tokens: self.tokens,
        }
    }

    fn retries(&self) -> Load {
        let tokens = self.retries.iter().filter_map(|t| self.waiting.get(t));
        Load {
            requests: self.retries.len() as u64,
            tokens: tokens.fold(0, |sum, waiter| sum.saturating_add(waiter.tokens)),
        }
    }
}

impl<T> Fair<T> {
    /// Takes out those that give way to `comer`, so that it may wait within `bounds`. `None`, and
    /// nobody is out, if it is the comer that has to go.
    pub fn make_room<U>(&mut self, comer: &Waiter<U>, bounds: Bounds) -> Option<Vec<Waiter<T>>> {
        let mut out = Vec::new();
        if bounds.allow(self.load(), comer.tokens) {
            return Some(out);
        }
        if comer.retry {
            return None;
        }
        let measure: fn(Load) -> u64 = match self.requests < bounds.requests {
            true => |load| load.tokens,
            false => |load| load.requests,
        };
        let left = self.load().less(self.yielding(comer.priority));
        if bounds.allow(left, comer.tokens) {
            while !bounds.allow(self.load(), comer.tokens) {
                let (tenant, ticket) = self
                    .last_retry(comer.priority, measure)
                    .or_else(|| self.last_below(comer.priority, measure))?;
                out.extend(self.remove(&tenant, ticket));
            }
            return Some(out);
        }
        let (tenant, ticket) = self.last_of_a_longer_tenant(comer, measure)?;
        let tokens = self.tokens_of(comer.priority, &tenant, ticket)?;
        let left = self.load().less(Load {
            requests: 1,
            tokens,
        });
        if bounds.allow(left, comer.tokens) {
            out.extend(self.remove(&tenant, ticket));
            return Some(out);
        }
        None
    }

    const fn load(&self) -> Load {
        Load {
            requests: self.requests,
            tokens: self.tokens,
        }
    }

    /// All that give way to a request of class `priority` for what they are themselves.
    fn yielding(&self, priority: Priority) -> Load {
        let mut sum = Load::default();
        for (class, waiting) in self.classes.range(priority..) {
            for tenant in waiting.tenants.values() {
                sum = sum.and(if *class == priority {
                    tenant.retries()
                } else {
                    tenant.load()
                });
            }
        }
        sum
    }

    /// The last retry of the lowest class, down from `priority`, that has one.
    fn last_retry(&self, priority: Priority, measure: fn(Load) -> u64) -> Option<Place> {
        self.lowest(priority.., |class| {
            let (name, tenant) = class.longest(measure, |t| !t.retries.is_empty())?;
            Some((name.clone(), *tenant.retries.last()?))
        })
    }

    /// The last of the lowest class below `priority`.
    fn last_below(&self, priority: Priority, measure: fn(Load) -> u64) -> Option<Place> {
        let below = (Bound::Excluded(priority), Bound::Unbounded);
        self.lowest(below, |class| {
            let (name, tenant) = class.longest(measure, |_| true)?;
            Some((name.clone(), *tenant.waiting.last_key_value()?.0))
        })
    }

    fn lowest(
        &self,
        classes: impl RangeBounds<Priority>,
        find: impl Fn(&Class<T>) -> Option<Place>,
    ) -> Option<Place> {
        let mut classes = self.classes.range(classes).rev();
        classes.find_map(|(_, class)| find(class))
    }

    /// The last of the tenant with the most in line for its weight, if that is more than what the
    /// tenant of `comer` would have with it.
    fn last_of_a_longer_tenant<U>(
        &self,
        comer: &Waiter<U>,
        measure: fn(Load) -> u64,
    ) -> Option<Place> {
        let class = self.classes.get(&comer.priority)?;
        let (name, longest) = class.longest(measure, |_| true)?;
        let own = class.tenants.get(&comer.tenant).map(Tenant::load);
        let with_comer = own.unwrap_or_default().and(Load {
            requests: 1,
            tokens: comer.tokens,
        });
        let more = |load: Load, weight: u64| u128::from(measure(load)) * u128::from(weight);
        if more(with_comer, longest.weight) >= more(longest.load(), comer.weight) {
            return None;
        }
        Some((name.clone(), *longest.waiting.last_key_value()?.0))
    }

    fn tokens_of(&self, priority: Priority, tenant: &str, ticket: Ticket) -> Option<u64> {
        let tenant = self.classes.get(&priority)?.tenants.get(tenant)?;
        Some(tenant.waiting.get(&ticket)?.tokens)
    }
}

impl<T> Class<T> {
    /// The tenant with the most in line for its weight, of those that are `eligible`.
    fn longest(
        &self,
        measure: fn(Load) -> u64,
        eligible: impl Fn(&Tenant<T>) -> bool,
    ) -> Option<(&String, &Tenant<T>)> {
        let tenants = self.tenants.iter().filter(|(_, tenant)| eligible(tenant));
        tenants.max_by_key(|(_, tenant)| {
            // In thousandths, which is fine enough to choose by.
            u128::from(measure(tenant.load())) * 1_000 / u128::from(tenant.weight)
        })
    }
}

impl Load {
    const fn and(self, more: Self) -> Self {
        Self {
            requests: self.requests.saturating_add(more.requests),
            tokens: self.tokens.saturating_add(more.tokens),
        }
    }

    const fn less(self, some: Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(some.requests),
            tokens: self.tokens.saturating_sub(some.tokens),
        }
    }
}

#[cfg(test)]
mod tests {
    use inferscope_shared::clock::MonoNs;

    use super::*;

    const THREE: Bounds = Bounds {
        requests: 3,
        tokens: u64::MAX,
    };

    fn waiter(tenant: &str, tell: u64) -> Waiter<u64> {
        Waiter {
            tenant: tenant.to_owned(),
            priority: Priority::Normal,
            weight: 1,
            tokens: 10,
            deadline: MonoNs(tell),
            retry: false,
            tell,
        }
    }

    fn retry(tenant: &str, tell: u64) -> Waiter<u64> {
        Waiter {
            retry: true,
            ..waiter(tenant, tell)
        }
    }

    fn of(priority: Priority, waiter: Waiter<u64>) -> Waiter<u64> {
        Waiter { priority, ..waiter }
    }

    fn full(waiters: impl IntoIterator<Item = Waiter<u64>>) -> Fair<u64> {
        let mut fair = Fair::default();
        for waiter in waiters {
            fair.push(waiter);
        }
        fair
    }

    /// Who gave way; `None` for the comer.
    fn gave_way(fair: &mut Fair<u64>, comer: &Waiter<u64>, bounds: Bounds) -> Option<Vec<u64>> {
        let out = fair.make_room(comer, bounds)?;
        Some(out.into_iter().map(|waiter| waiter.tell).collect())
    }

    #[test]
    fn retries_give_way_first_the_last_of_the_lowest_class() {
        let mut fair = full([
            waiter("a", 1),
            retry("b", 2),
            of(Priority::High, retry("b", 3)),
            retry("b", 4),
        ]);
        let comer = of(Priority::High, waiter("c", 9));
        assert_eq!(gave_way(&mut fair, &retry("c", 9), THREE), None);
        assert_eq!(gave_way(&mut fair, &comer, THREE), Some(vec![4, 2]));
        fair.push(waiter("d", 5));
        assert_eq!(gave_way(&mut fair, &comer, THREE), Some(vec![3]));
    }

    #[test]
    fn a_lower_class_gives_way_to_a_higher_one_and_never_the_other_way_round() {
        let mut fair = full([1, 2, 3].map(|k| of(Priority::High, retry("a", k))));
        assert_eq!(gave_way(&mut fair, &waiter("b", 9), THREE), None);
        let mut fair = full([
            of(Priority::Low, waiter("a", 1)),
            waiter("b", 2),
            waiter("c", 3),
        ]);
        assert_eq!(
            gave_way(&mut fair, &of(Priority::Low, waiter("d", 9)), THREE),
            None
        );
        assert_eq!(gave_way(&mut fair, &waiter("d", 9), THREE), Some(vec![1]));
    }

    #[test]
    fn a_tenant_that_fills_the_line_gives_way_until_all_have_their_share() {
        let bounds = Bounds {
            requests: 8,
            ..THREE
        };
        let mut fair = full((0..8).map(|k| waiter("heavy", k)));
        for k in 0..4 {
            let comer = waiter("light", 100 + k);
            let out = gave_way(&mut fair, &comer, bounds);
            assert_eq!(out, Some(vec![7 - k]), "the one that would go last");
            fair.push(comer);
        }
        for tenant in ["light", "heavy"] {
            assert_eq!(gave_way(&mut fair, &waiter(tenant, 99), bounds), None);
        }
        let weighty = Waiter {
            weight: 3,
            ..waiter("weighty", 99)
        };
        for _ in 0..4 {
            assert!(gave_way(&mut fair, &weighty, bounds).is_some());
            fair.push(Waiter {
                tenant: weighty.tenant.clone(),
                ..weighty
            });
        }
        let lengths = fair.classes[&Priority::Normal].tenants.values();
        let lengths: Vec<usize> = lengths.map(|tenant| tenant.waiting.len()).collect();
        assert_eq!(lengths, [2, 2, 4]);
    }

    #[test]
    fn nobody_gives_way_for_nothing_and_no_more_than_it_takes() {
        let bounds = Bounds {
            requests: 9,
            tokens: 45,
        };
        let fill = || full([waiter("a", 1), retry("a", 2), retry("a", 3), retry("a", 4)]);
        let comer = |tokens| Waiter {
            tokens,
            ..waiter("b", 9)
        };
        assert_eq!(gave_way(&mut fill(), &comer(5), bounds), Some(vec![]));
        assert_eq!(gave_way(&mut fill(), &comer(20), bounds), Some(vec![4, 3]));
        assert_eq!(gave_way(&mut fill(), &comer(36), bounds), None);
        // Alone it may wait, however much it costs.
        assert_eq!(gave_way(&mut full([]), &comer(99), bounds), Some(vec![]));
        let closed = Bounds {
            requests: 0,
            ..bounds
        };
        assert_eq!(gave_way(&mut full([]), &comer(5), closed), None);
    }
}
