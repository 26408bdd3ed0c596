//! Which of a pool's endpoints a request goes to. Pure: it is told how each one stands.
//!
//! First what is possible ([`Standing`]). Among those that are equally so, a session's hash decides
//! by weighted rendezvous hashing: an endpoint that goes or comes moves only its own sessions.
//! Without a session it is the least load per weight, and among equally loaded ones the turn that is
//! due by weight (smooth weighted round robin), so that a heavy endpoint gets no more than its share
//! of requests that come one at a time.
//!
//! Sources: Schindelhauer and Schomaker, "Weighted Distributed Hash Tables", 2005; nginx,
//! `ngx_http_upstream_least_conn_module`.

use std::cmp::Ordering;

use super::condition::State;

/// How possible an endpoint is: first by its state, then by this request's own past, then by what
/// else it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Standing {
    /// How it is. Where none is well, one that failed is better than nothing; drained ones are out.
    pub state: State,
    /// This request was not there yet.
    pub untried: bool,
    /// Its credit is not used up.
    pub room: bool,
}

/// One endpoint at the moment of the choice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// How possible it is.
    pub standing: Standing,
    /// Requests or tokens under way there.
    pub load: u64,
    /// Its share beside the others' weights; above zero.
    pub weight: f64,
    /// A number of its own, the same in every gateway.
    pub id: u64,
}

impl Candidate {
    fn load_per_weight(&self) -> f64 {
        self.load as f64 / self.weight
    }

    /// How much it wants the `session`: the highest one gets it, each with a chance in proportion
    /// to its weight.
    fn score(&self, session: u64) -> f64 {
        // 53 bits, shifted off zero and one: the logarithm is finite and below zero.
        let part = ((mix(session ^ self.id) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        -self.weight / part.ln()
    }
}

/// Whose turn it is among equally loaded endpoints: how much each is owed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Turns(Vec<f64>);

/// The place among `candidates` of the one to take, `None` when all are drained.
pub fn choose(candidates: &[Candidate], session: Option<u64>, turns: &mut Turns) -> Option<usize> {
    let best = candidates.iter().map(|c| c.standing).max()?;
    if best.state == State::Drained {
        return None;
    }
    let among = || {
        candidates
            .iter()
            .enumerate()
            .filter(move |(_, c)| c.standing == best)
    };
    if let Some(session) = session {
        let wants = |(_, c): &(usize, &Candidate)| c.score(session);
        return among()
            .max_by(|a, b| wants(a).total_cmp(&wants(b)))
            .map(|(place, _)| place);
    }
    let least = among()
        .map(|(_, c)| c.load_per_weight())
        .min_by(f64::total_cmp)?;
    let equal = among().filter(|(_, c)| c.load_per_weight() == least);
    turns.next(equal.map(|(place, c)| (place, c.weight)))
}

impl Turns {
    /// The next of `equal`: places with their weights.
    fn next(&mut self, equal: impl Iterator<Item = (usize, f64)>) -> Option<usize> {
        let mut total = 0.0;
        let mut due: Option<usize> = None;
        for (place, weight) in equal {
            if self.0.len() <= place {
                self.0.resize(place + 1, 0.0);
            }
            self.0[place] += weight;
            total += weight;
            if due.is_none_or(|due| self.0[place].total_cmp(&self.0[due]) == Ordering::Greater) {
                due = Some(place);
            }
        }
        let due = due?;
        self.0[due] -= total;
        Some(due)
    }
}

/// Spreads the differences of a number over all its bits (the finalizer of splitmix64).
const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FREE: Standing = Standing {
        state: State::Well,
        untried: true,
        room: true,
    };

    fn free(load: u64, weight: f64, id: u64) -> Candidate {
        Candidate {
            standing: FREE,
            load,
            weight,
            id: mix(id + 1),
        }
    }

    fn chosen(candidates: &[Candidate], times: usize) -> Vec<usize> {
        let mut turns = Turns::default();
        let mut counts = vec![0; candidates.len()];
        for _ in 0..times {
            counts[choose(candidates, None, &mut turns).unwrap()] += 1;
        }
        counts
    }

    #[test]
    fn the_least_loaded_for_its_weight_is_next() {
        let pool = [free(4, 1.0, 0), free(9, 3.0, 1), free(5, 1.0, 2)];
        assert_eq!(choose(&pool, None, &mut Turns::default()), Some(1));
    }

    #[test]
    fn idle_endpoints_take_turns_by_weight() {
        let pool = [free(0, 1.0, 0), free(0, 2.0, 1), free(0, 5.0, 2)];
        assert_eq!(chosen(&pool, 80), [10, 20, 50]);
        // One that warms up gets a tenth of its share.
        assert_eq!(chosen(&[free(0, 1.0, 0), free(0, 0.1, 1)], 110), [100, 10]);
        // The turns are spread, not one after the other.
        let mut turns = Turns::default();
        let pool = [free(0, 3.0, 0), free(0, 1.0, 1)];
        let order: Vec<_> = (0..4).map(|_| choose(&pool, None, &mut turns)).collect();
        assert_eq!(order, [Some(0), Some(0), Some(1), Some(0)]);
    }

    #[test]
    fn what_is_possible_comes_before_what_is_even() {
        let standing = |state, untried, room| Standing {
            state,
            untried,
            room,
        };
        let order = [
            FREE,
            standing(State::Well, true, false),
            standing(State::Well, false, true),
            standing(State::Ejected, true, true),
            standing(State::Unhealthy, true, true),
            standing(State::Drained, true, true),
        ];
        for (better, worse) in order.iter().zip(&order[1..]) {
            let mut pool = [free(0, 9.0, 0), free(99, 1.0, 1)];
            pool[0].standing = *worse;
            pool[1].standing = *better;
            for session in [None, Some(7)] {
                let choice = choose(&pool, session, &mut Turns::default());
                assert_eq!(choice, Some(1), "{better:?} before {worse:?}");
            }
        }
        let mut out = free(0, 1.0, 0);
        out.standing.state = State::Drained;
        assert_eq!(choose(&[out], None, &mut Turns::default()), None);
        assert_eq!(choose(&[], None, &mut Turns::default()), None);
    }

    #[test]
    fn a_session_stays_and_only_those_of_a_lost_endpoint_move() {
        let mut pool = [free(0, 1.0, 0), free(50, 1.0, 1), free(3, 2.0, 2)];
        let place =
            |pool: &[Candidate], key| choose(pool, Some(mix(key)), &mut Turns::default()).unwrap();
        let before: Vec<_> = (0..4_000).map(|key| place(&pool, key)).collect();
        let share = |of| before.iter().filter(|place| **place == of).count();
        for (of, expected) in [(0, 1_000), (1, 1_000), (2, 2_000)] {
            assert!(share(of).abs_diff(expected) < 150, "{of}: {}", share(of));
        }
        pool[1].standing.room = false;
        for (key, before) in (0..4_000).zip(&before) {
            let now = place(&pool, key);
            assert!(now != 1 && (*before == 1 || now == *before));
        }
    }

    proptest! {
        #[test]
        fn a_full_endpoint_is_never_taken_while_another_has_a_place(
            endpoints in proptest::collection::vec((any::<bool>(), 0_u64..100, 1_u64..9), 1..8),
            key in proptest::option::of(any::<u64>()),
        ) {
            let pool: Vec<_> = endpoints
                .iter()
                .zip(0..)
                .map(|((has_place, load, weight), id)| Candidate {
                    standing: Standing { room: *has_place, ..FREE },
                    ..free(*load, *weight as f64, id)
                })
                .collect();
            let place = choose(&pool, key, &mut Turns::default()).unwrap();
            prop_assert!(endpoints[place].0 || endpoints.iter().all(|e| !e.0));
        }
    }
}
