//! Whether an endpoint takes requests: what probes, requests and the operator say of it.
//!
//! Three things can keep it out. A probe that fails several times in a row, until it succeeds
//! several times; requests that fail in a row, for a time that doubles with each repetition
//! (ejection); the operator, until told otherwise. An endpoint that comes back starts slowly: its
//! share grows to the full one over a while, for an engine with a cold cache is not what it was.
//!
//! Pure; clock: CLOCK_MONOTONIC, handed in.

use std::time::Duration;

use inferscope_shared::clock::MonoNs;

use crate::config::{EjectionConfig, HealthConfig};

/// The longest that an endpoint stays out for failed requests.
const LONGEST: Duration = Duration::from_secs(300);
/// The share that an endpoint which came back begins with.
const COLD: f64 = 0.1;

/// What keeps an endpoint out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Out {
    /// The operator.
    Drained,
    /// Its probes.
    Unhealthy,
    /// Its requests.
    Ejected,
}

impl Out {
    /// Its name on the status page.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Drained => "drained",
            Self::Unhealthy => "unhealthy",
            Self::Ejected => "ejected",
        }
    }
}

/// See the module head. A fresh one takes requests.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Health {
    drained: bool,
    unhealthy: bool,
    /// Probes in a row that say something else than `unhealthy` does.
    contrary: u32,
    /// Failed requests in a row.
    failures: u32,
    ejected_until: Option<MonoNs>,
    /// Ejections in a row, without a request that went well between them.
    ejections: u32,
    /// When it last came back.
    back_since: Option<MonoNs>,
}

impl Health {
    /// What keeps it out, if anything does.
    #[must_use]
    pub fn out(&self, now: MonoNs) -> Option<Out> {
        if self.drained {
            Some(Out::Drained)
        } else if self.unhealthy {
            Some(Out::Unhealthy)
        } else if self.ejected_until.is_some_and(|until| now < until) {
            Some(Out::Ejected)
        } else {
            None
        }
    }

    /// The share of its weight that it gets.
    #[must_use]
    pub fn warmth(&self, slow_start: Duration, now: MonoNs) -> f64 {
        let back = self.ejected_until.max(self.back_since);
        let Some(back) = back.filter(|_| !slow_start.is_zero()) else {
            return 1.0;
        };
        let share = now.since(back) as f64 / slow_start.as_nanos() as f64;
        share.clamp(COLD, 1.0)
    }

    /// The operator takes it out, or lets it in again.
    pub fn drain(&mut self, drained: bool, now: MonoNs) {
        if self.drained && !drained {
            self.back_since = Some(now);
        }
        self.drained = drained;
    }

    /// A probe ended.
    pub fn probed(&mut self, ok: bool, config: &HealthConfig, now: MonoNs) {
        if ok != self.unhealthy {
            self.contrary = 0;
            return;
        }
        self.contrary += 1;
        let enough = if ok {
            config.healthy_after
        } else {
            config.unhealthy_after
        };
        if self.contrary >= enough {
            self.contrary = 0;
            self.unhealthy = !ok;
            if ok {
                self.back_since = Some(now);
            }
        }
    }

    /// A request went well.
    pub const fn succeeded(&mut self) {
        self.failures = 0;
        self.ejections = 0;
    }

    /// A request failed; returns how long it is out for that, if it is. `may` be false where the
    /// pool can't do without it.
    pub fn failed(&mut self, config: &EjectionConfig, may: bool, now: MonoNs) -> Option<Duration> {
        self.failures += 1;
        if self.failures < config.consecutive_failures || !may || self.out(now).is_some() {
            return None;
        }
        self.failures = 0;
        let time = config
            .base_time
            .saturating_mul(1 << self.ejections.min(16))
            .min(LONGEST);
        self.ejections += 1;
        self.ejected_until = Some(now.plus(time));
        Some(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn at(seconds: u64) -> MonoNs {
        MonoNs(seconds * S)
    }

    #[test]
    fn probes_in_a_row_decide_and_a_single_one_does_not() {
        let config = HealthConfig {
            healthy_after: 2,
            unhealthy_after: 3,
            ..HealthConfig::default()
        };
        let mut health = Health::default();
        for ok in [false, false, true, false, false] {
            health.probed(ok, &config, at(1));
            assert_eq!(health.out(at(1)), None);
        }
        health.probed(false, &config, at(1));
        assert_eq!(health.out(at(1)), Some(Out::Unhealthy));
        health.probed(true, &config, at(2));
        health.probed(false, &config, at(2));
        health.probed(true, &config, at(2));
        assert_eq!(health.out(at(2)), Some(Out::Unhealthy));
        health.probed(true, &config, at(3));
        assert_eq!(health.out(at(3)), None);
    }

    #[test]
    fn failures_in_a_row_put_it_out_for_longer_each_time() {
        let config = EjectionConfig {
            consecutive_failures: 2,
            base_time: Duration::from_secs(10),
        };
        let mut health = Health::default();
        assert_eq!(health.failed(&config, true, at(0)), None);
        health.succeeded();
        assert_eq!(health.failed(&config, true, at(0)), None);
        assert_eq!(
            health.failed(&config, true, at(0)),
            Some(Duration::from_secs(10))
        );
        assert_eq!(health.out(at(9)), Some(Out::Ejected));
        assert_eq!(health.out(at(10)), None);
        health.failed(&config, true, at(10));
        assert_eq!(
            health.failed(&config, true, at(10)),
            Some(Duration::from_secs(20))
        );
        for k in 1..40 {
            health.failed(&config, true, at(1_000 * k));
            let time = health.failed(&config, true, at(1_000 * k));
            assert!(time.is_some_and(|t| t <= LONGEST));
        }
        health.failed(&config, false, at(99_000));
        assert_eq!(
            health.failed(&config, false, at(99_000)),
            None,
            "the pool needs it"
        );
    }

    #[test]
    fn who_comes_back_starts_slowly() {
        let mut health = Health::default();
        let slow = Duration::from_secs(100);
        assert_eq!(health.warmth(slow, at(5)), 1.0, "it was never away");
        health.drain(true, at(5));
        health.drain(false, at(10));
        for (now, share) in [(10, COLD), (15, COLD), (60, 0.5), (110, 1.0), (500, 1.0)] {
            assert_eq!(health.warmth(slow, at(now)), share);
        }
        assert_eq!(health.warmth(Duration::ZERO, at(10)), 1.0);
    }
}
