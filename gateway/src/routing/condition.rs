//! Whether an endpoint gets requests, and how many of its share: drained by hand, unwell by its
//! probes, ejected by its requests, or just back and still warming up.
//!
//! Each of the three ways out has its own way back, and none of them cuts what runs. Clock:
//! CLOCK_MONOTONIC.

use std::time::Duration;

use inferscope_shared::clock::MonoNs;

use super::ejection::{Ejection, Sign};
use super::health::{Health, Turn};
use crate::config::{EjectionConfig, HealthConfig};

/// The share with which a slow start begins.
const FIRST_SHARE: f64 = 0.1;

/// Whether an endpoint gets requests; the greater, the rather.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Never: an operator took it out.
    Drained,
    /// Its probes fail.
    Unhealthy,
    /// Too many requests to it failed.
    Ejected,
    /// It does.
    Well,
}

impl State {
    /// Its name in `/status` and logs.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Well => "well",
            Self::Ejected => "ejected",
            Self::Unhealthy => "unhealthy",
            Self::Drained => "drained",
        }
    }
}

/// See the module head.
#[derive(Debug, Clone, Copy, Default)]
pub struct Condition {
    drained: bool,
    health: Health,
    ejection: Ejection,
    /// Since when it has been in, or when it will be; none from the start.
    back: Option<MonoNs>,
}

impl Condition {
    /// One that joins a pool that serves already, and warms up first.
    #[must_use]
    pub fn joining(now: MonoNs) -> Self {
        Self {
            back: Some(now),
            ..Self::default()
        }
    }

    /// Whether it gets requests at `now`.
    #[must_use]
    pub fn state(&self, now: MonoNs) -> State {
        if self.drained {
            State::Drained
        } else if !self.health.is_well() {
            State::Unhealthy
        } else if self.ejection.until(now).is_some() {
            State::Ejected
        } else {
            State::Well
        }
    }

    /// When the state changes by itself, if it does.
    #[must_use]
    pub fn changes(&self, now: MonoNs) -> Option<MonoNs> {
        self.ejection.until(now)
    }

    /// What part of its weight counts at `now`: it grows evenly over `slow_start`.
    #[must_use]
    pub fn share(&self, now: MonoNs, slow_start: Duration) -> f64 {
        let Some(back) = self.back else {
            return 1.0;
        };
        let served = Duration::from_nanos(now.since(back));
        if served >= slow_start {
            return 1.0;
        }
        FIRST_SHARE.max(served.as_secs_f64() / slow_start.as_secs_f64())
    }

    /// An operator takes it out or in again.
    pub fn drain(&mut self, drained: bool, now: MonoNs) {
        if self.drained && !drained {
            self.back = Some(now);
        }
        self.drained = drained;
    }

    /// A probe ended.
    pub fn probed(&mut self, good: bool, config: &HealthConfig, now: MonoNs) -> Turn {
        let turn = self.health.probed(good, config);
        if turn == Turn::Well {
            self.back = Some(now);
        }
        turn
    }

    /// Nobody probes it any more.
    pub fn forget_probes(&mut self) {
        self.health = Health::default();
    }

    /// A request to it saw `sign`; for how long it is ejected now, if it is and `may` be.
    pub fn saw(
        &mut self,
        sign: Sign,
        now: MonoNs,
        config: &EjectionConfig,
        may: bool,
    ) -> Option<Duration> {
        let time = self.ejection.saw(sign, now, config, may)?;
        self.back = Some(now.plus(time));
        Some(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> MonoNs {
        MonoNs(seconds * 1_000_000_000)
    }

    const SLOW: Duration = Duration::from_secs(100);

    #[test]
    fn what_is_worst_is_what_it_is_called() {
        let once = EjectionConfig {
            consecutive_failures: 1,
            ..EjectionConfig::default()
        };
        let mut condition = Condition::default();
        assert_eq!(condition.state(at(1)), State::Well);
        condition.saw(Sign::Failed, at(1), &once, true);
        assert_eq!(condition.state(at(1)), State::Ejected);
        assert_eq!(condition.changes(at(1)), Some(at(11)));
        condition.probed(false, &HealthConfig::default(), at(1));
        assert_eq!(condition.state(at(1)), State::Unhealthy);
        condition.drain(true, at(1));
        assert_eq!(condition.state(at(1)), State::Drained);

        condition.drain(false, at(12));
        assert_eq!(condition.state(at(12)), State::Unhealthy);
        condition.forget_probes();
        assert_eq!(condition.state(at(12)), State::Well);
    }

    #[test]
    fn one_that_comes_back_warms_up_and_one_from_the_start_does_not() {
        let mut condition = Condition::default();
        assert_eq!(condition.share(at(1), SLOW), 1.0);
        condition.drain(true, at(1));
        condition.drain(false, at(1_000));
        assert_eq!(condition.share(at(1_001), SLOW), FIRST_SHARE);
        assert_eq!(condition.share(at(1_050), SLOW), 0.5);
        assert_eq!(condition.share(at(1_100), SLOW), 1.0);
        assert_eq!(condition.share(at(1_001), Duration::ZERO), 1.0);
        // What it is told again changes nothing.
        condition.drain(false, at(2_000));
        assert_eq!(condition.share(at(2_001), SLOW), 1.0);
    }

    #[test]
    fn an_ejected_one_warms_up_from_its_end_on() {
        let once = EjectionConfig {
            consecutive_failures: 1,
            ..EjectionConfig::default()
        };
        let mut condition = Condition::default();
        condition.saw(Sign::Failed, at(0), &once, true);
        assert_eq!(condition.share(at(5), SLOW), FIRST_SHARE);
        assert_eq!(condition.share(at(60), SLOW), 0.5);
    }
}
