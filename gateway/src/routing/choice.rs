//! Which of the endpoints that could take a request does.
//!
//! The least loaded in proportion to its weight: the one with the smallest `(load + cost) / weight`
//! after it took the request, in turn where several have equally little. With an affinity, the one
//! that the session's hash points to (weighted rendezvous hashing: when an endpoint goes, only its
//! own sessions move), while it has room.
//!
//! Source of the weighted hash: Schindelhauer and Schomaker, "Weighted Distributed Hash Tables",
//! 2005. Pure.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// An endpoint as the choice sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate<'a> {
    /// Its place in the pool.
    pub index: usize,
    /// Its name, which sessions hash to.
    pub name: &'a str,
    /// What it has in flight, requests or tokens.
    pub load: u64,
    /// Its share, above zero.
    pub weight: f64,
    /// It may take one more.
    pub room: bool,
}

/// The one of `all` that takes a request which adds `cost` to its load. `turn` is another number
/// each time, and decides between equals. `None` only where there is none.
#[must_use]
pub fn choose(
    all: &[Candidate<'_>],
    cost: u64,
    turn: usize,
    session: Option<u64>,
) -> Option<usize> {
    let roomy = |c: &&Candidate<'_>| c.room || all.iter().all(|c| !c.room);
    if let Some(session) = session {
        let best = all.iter().filter(roomy).max_by(|a, b| {
            let scores = (score(a, session), score(b, session));
            scores.0.total_cmp(&scores.1)
        });
        return best.map(|c| c.index);
    }
    let n = all.len().max(1);
    let mut best: Option<(&Candidate<'_>, f64)> = None;
    for i in 0..all.len() {
        let candidate = &all[(turn.wrapping_add(i)) % n];
        if !roomy(&candidate) {
            continue;
        }
        let load = (candidate.load.saturating_add(cost.max(1))) as f64 / candidate.weight;
        if best.is_none_or(|(_, least)| load < least) {
            best = Some((candidate, load));
        }
    }
    best.map(|(c, _)| c.index)
}

/// How much `session` belongs to an endpoint. The weight is the configured one times how warm it
/// is; hashes are stable within a process, and sessions outlive none.
fn score(candidate: &Candidate<'_>, session: u64) -> f64 {
    let mut hasher = DefaultHasher::new();
    (session, candidate.name).hash(&mut hasher);
    // In (0, 1), never on its edges.
    let unit = ((hasher.finish() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    -candidate.weight / unit.ln()
}

/// The hash of a session's name.
#[must_use]
pub fn session(name: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(index: usize, load: u64, weight: f64) -> Candidate<'static> {
        Candidate {
            index,
            name: ["e0", "e1", "e2", "e3"][index],
            load,
            weight,
            room: true,
        }
    }

    #[test]
    fn the_least_loaded_for_its_weight_is_next() {
        let all = [
            candidate(0, 3, 1.0),
            candidate(1, 4, 2.0),
            candidate(2, 9, 1.0),
        ];
        assert_eq!(choose(&all, 1, 0, None), Some(1));
        let cold = [candidate(0, 3, 1.0), candidate(1, 0, 0.1)];
        assert_eq!(choose(&cold, 1, 0, None), Some(0), "one that starts slowly");
        assert_eq!(choose(&[], 1, 7, None), None);
    }

    #[test]
    fn equals_take_turns() {
        let all = [
            candidate(0, 0, 1.0),
            candidate(1, 0, 1.0),
            candidate(2, 0, 1.0),
        ];
        let chosen: Vec<_> = (0..4)
            .map(|turn| choose(&all, 1, turn, None).unwrap())
            .collect();
        assert_eq!(chosen, [0, 1, 2, 0]);
    }

    #[test]
    fn one_without_room_is_taken_only_when_none_has_any() {
        let mut all = [candidate(0, 0, 1.0), candidate(1, 9, 1.0)];
        all[0].room = false;
        assert_eq!(choose(&all, 1, 0, None), Some(1));
        assert_eq!(choose(&all, 1, 0, Some(1)), Some(1));
        all[1].room = false;
        assert_eq!(choose(&all, 1, 0, None), Some(0));
    }

    #[test]
    fn weights_are_shares_of_requests() {
        let mut loads = [0_u64; 2];
        for turn in 0..400 {
            let all = [candidate(0, loads[0], 3.0), candidate(1, loads[1], 1.0)];
            loads[choose(&all, 1, turn, None).unwrap()] += 1;
        }
        assert_eq!(loads, [300, 100]);
    }

    #[test]
    fn a_session_stays_and_only_those_of_an_endpoint_that_goes_move() {
        let all: Vec<_> = (0..4).map(|i| candidate(i, i as u64 * 10, 1.0)).collect();
        let mut counts = [0; 4];
        for s in 0..4_000_u64 {
            let session = session(&s.to_le_bytes());
            let home = choose(&all, 1, s as usize, Some(session)).unwrap();
            assert_eq!(choose(&all, 1, 1, Some(session)), Some(home));
            counts[home] += 1;
            let fewer: Vec<_> = all.iter().filter(|c| c.index != 3).copied().collect();
            let then = choose(&fewer, 1, 0, Some(session)).unwrap();
            assert!(home == 3 || then == home);
        }
        assert!(
            counts.iter().all(|n| (800..1_200).contains(n)),
            "{counts:?}"
        );
    }
}
