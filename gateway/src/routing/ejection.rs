//! What requests say of an endpoint: after so many failures in a row it is left alone for a while.
//!
//! There are two rows, for an engine that breaks its answers off begins each of them well: one of
//! requests that got no good head (no connection, a status of 5xx, nothing), which a good head ends,
//! and one of answers that broke off, which a whole answer ends. A status of 4xx is an answer like a
//! good one, for it is the caller's. The time doubles with each ejection in a row, and an endpoint
//! that has served for as long as the first one begins anew. How many of a pool may be out at a time
//! is the pool's business. Clock: CLOCK_MONOTONIC.

use std::time::Duration;

use inferscope_shared::clock::MonoNs;

use crate::config::EjectionConfig;

/// The longest time.
const LONGEST: Duration = Duration::from_secs(300);

/// What a request saw of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// A head with a status below 500.
    Began,
    /// The whole answer behind such a head.
    Ended,
    /// No such head.
    Failed,
    /// The end of an answer that was not whole.
    BrokeOff,
}

/// See the module head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ejection {
    /// Requests without a good head, in a row.
    failed: u32,
    /// Answers that broke off, in a row.
    broke_off: u32,
    /// Ejections in a row.
    times: u32,
    until: Option<MonoNs>,
}

impl Ejection {
    /// When it ends, if it is not over at `now`.
    #[must_use]
    pub fn until(&self, now: MonoNs) -> Option<MonoNs> {
        self.until.filter(|until| now < *until)
    }

    /// A request saw `sign`; for how long the endpoint is ejected now, if it is. It never is unless
    /// `may` be; the next failure asks again. One that is out already was judged.
    pub fn saw(
        &mut self,
        sign: Sign,
        now: MonoNs,
        config: &EjectionConfig,
        may: bool,
    ) -> Option<Duration> {
        let row = match sign {
            Sign::Began | Sign::Failed => &mut self.failed,
            Sign::Ended | Sign::BrokeOff => &mut self.broke_off,
        };
        if matches!(sign, Sign::Began | Sign::Ended) {
            *row = 0;
            let served = |until: MonoNs| now > until.plus(config.base_time);
            if self.until.is_some_and(served) {
                self.times = 0;
            }
            return None;
        }
        if self.until.is_some_and(|until| now < until) {
            return None;
        }
        *row = row.saturating_add(1);
        if *row < config.consecutive_failures || !may {
            return None;
        }
        let time = config.base_time.saturating_mul(1 << self.times.min(16));
        let time = time.min(LONGEST.max(config.base_time));
        *self = Self {
            times: self.times.saturating_add(1),
            until: Some(now.plus(time)),
            ..Self::default()
        };
        Some(time)
    }
}

#[cfg(test)]
mod tests {
    use super::Sign::{Began, BrokeOff, Ended, Failed};
    use super::*;

    const CONFIG: EjectionConfig = EjectionConfig {
        consecutive_failures: 3,
        base_time: Duration::from_secs(10),
        max_share_percent: 50,
    };

    fn at(seconds: u64) -> MonoNs {
        MonoNs(seconds * 1_000_000_000)
    }

    /// Fails three times at `now`.
    fn thrice(ejection: &mut Ejection, now: MonoNs) -> Option<Duration> {
        (0..3).fold(None, |out, _| {
            ejection.saw(Failed, now, &CONFIG, true).or(out)
        })
    }

    #[test]
    fn so_many_failures_in_a_row_eject_for_a_while() {
        let mut ejection = Ejection::default();
        for _ in 0..5 {
            assert_eq!(ejection.saw(Failed, at(1), &CONFIG, true), None);
            assert_eq!(ejection.saw(Failed, at(1), &CONFIG, true), None);
            ejection.saw(Began, at(1), &CONFIG, true);
        }
        assert_eq!(thrice(&mut ejection, at(1)), Some(CONFIG.base_time));
        assert_eq!(ejection.until(at(10)), Some(at(11)));
        assert_eq!(ejection.until(at(11)), None);
    }

    #[test]
    fn failures_of_requests_that_were_under_way_do_not_count_again() {
        let mut ejection = Ejection::default();
        thrice(&mut ejection, at(1));
        assert_eq!(thrice(&mut ejection, at(2)), None);
        assert_eq!(ejection.until(at(10)), Some(at(11)));
    }

    #[test]
    fn each_time_in_a_row_is_longer_until_it_served_well_again() {
        let mut ejection = Ejection::default();
        let mut now = 0;
        for times in 0..40 {
            let time = LONGEST.min(CONFIG.base_time * (1 << times.min(16)));
            assert_eq!(thrice(&mut ejection, at(now)), Some(time));
            now += time.as_secs();
            ejection.saw(Began, at(now + 1), &CONFIG, true);
        }
        ejection.saw(Began, at(now + 11), &CONFIG, true);
        assert_eq!(thrice(&mut ejection, at(now + 12)), Some(CONFIG.base_time));
    }

    #[test]
    fn one_that_may_not_go_goes_when_it_may() {
        let mut ejection = Ejection::default();
        for _ in 0..9 {
            assert_eq!(ejection.saw(Failed, at(1), &CONFIG, false), None);
        }
        assert!(ejection.saw(Failed, at(2), &CONFIG, true).is_some());
    }

    #[test]
    fn answers_that_break_off_are_a_row_of_their_own() {
        let mut ejection = Ejection::default();
        let mut saw = |sign| ejection.saw(sign, at(1), &CONFIG, true);
        for sign in [Began, BrokeOff, Began, BrokeOff, Began, Ended] {
            assert_eq!(saw(sign), None);
        }
        for sign in [Began, BrokeOff, Began, BrokeOff, Began] {
            assert_eq!(saw(sign), None);
        }
        assert_eq!(saw(BrokeOff), Some(CONFIG.base_time));
    }
}
