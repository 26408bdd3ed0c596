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
fn who_came_into_an_empty_line_goes_first() {
    let mut fair = Fair::default();
    fair.push(waiter("b", 500, 1));
    fair.push(waiter("a", 500, 2));
    let told: Vec<u64> = order(&mut fair).into_iter().map(|(_, tell)| tell).collect();
    assert_eq!(told, [1, 2]);
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
