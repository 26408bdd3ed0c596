//! How much may be used at a time: a generic cell rate algorithm over amounts.
//!
//! A [`Rate`] lets `capacity` units through at once and earns one back every `interval`. What was
//! used is one number, the instant at which everything is earned back: taking moves it into the
//! future, giving back moves it nearer. In no stretch of `t` are more than `capacity + t /
//! interval` units let through, wherever the stretch begins (a fixed window would let twice the
//! limit through around its edge). Taking more than there is, as a settlement does, is a debt: it
//! is earned back first.
//!
//! Source: ITU-T I.371, "virtual scheduling". Clock: CLOCK_MONOTONIC, handed in.

use std::time::Duration;

use inferscope_shared::clock::MonoNs;

/// A limit in units per time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Units at once.
    pub capacity: u64,
    /// Nanoseconds in which one unit is earned back.
    pub interval_ns: f64,
}

impl Rate {
    /// `per_second` units, `burst` of them at once.
    #[must_use]
    pub fn per_second(per_second: f64, burst: u64) -> Self {
        Self {
            capacity: burst,
            interval_ns: 1e9 / per_second,
        }
    }

    /// `per_minute` units, all of them at once.
    #[must_use]
    pub fn per_minute(per_minute: u64) -> Self {
        Self {
            capacity: per_minute,
            interval_ns: 60e9 / per_minute as f64,
        }
    }

    /// Nanoseconds in which `units` are earned back; saturates.
    fn ns(&self, units: u64) -> u64 {
        (self.interval_ns * units as f64).round() as u64
    }
}

/// What was used of a [`Rate`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Meter {
    /// When everything is earned back; in the past when it is.
    full_at: MonoNs,
}

impl Meter {
    /// How long until `units` can be taken; zero when they can be now. `None` when they never
    /// can, for they are more than the capacity.
    #[must_use]
    pub fn wait(&self, rate: &Rate, units: u64, now: MonoNs) -> Option<Duration> {
        if units > rate.capacity {
            return None;
        }
        let after = self.full_at.max(now).plus_ns(rate.ns(units));
        let ahead = after.since(now);
        Some(Duration::from_nanos(
            ahead.saturating_sub(rate.ns(rate.capacity)),
        ))
    }

    /// Takes `units`, there or not.
    pub fn take(&mut self, rate: &Rate, units: u64, now: MonoNs) {
        self.full_at = self.full_at.max(now).plus_ns(rate.ns(units));
    }

    /// Gives `units` back.
    pub fn give(&mut self, rate: &Rate, units: u64) {
        self.full_at = MonoNs(self.full_at.0.saturating_sub(rate.ns(units)));
    }

    /// Whole units that can be taken now.
    #[must_use]
    pub fn left(&self, rate: &Rate, now: MonoNs) -> u64 {
        let used = self.full_at.since(now) as f64 / rate.interval_ns;
        // A unit that is earned back but for rounding counts.
        (rate.capacity as f64 - used + 1e-6).max(0.0) as u64
    }

    /// How long until everything is earned back.
    #[must_use]
    pub fn reset(&self, now: MonoNs) -> Duration {
        Duration::from_nanos(self.full_at.since(now))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const S: u64 = 1_000_000_000;

    fn taken(meter: &mut Meter, rate: &Rate, units: u64, at: u64) -> bool {
        let now = MonoNs(at);
        let free = meter.wait(rate, units, now) == Some(Duration::ZERO);
        if free {
            meter.take(rate, units, now);
        }
        free
    }

    #[test]
    fn l11_the_edge_of_a_minute_lets_no_second_limit_through() {
        let rate = Rate::per_minute(60);
        let mut meter = Meter::default();
        let start = 3_600 * S;
        let at = |offset_ms: u64| start + offset_ms * 1_000_000;
        let before = (0..60)
            .filter(|_| taken(&mut meter, &rate, 1, at(59_500)))
            .count();
        let after = (0..60)
            .filter(|_| taken(&mut meter, &rate, 1, at(60_500)))
            .count();
        assert_eq!((before, after), (60, 1));
    }

    #[test]
    fn the_wait_that_is_told_is_the_wait_that_it_takes() {
        let rate = Rate::per_second(2.0, 3);
        let mut meter = Meter::default();
        for _ in 0..3 {
            assert!(taken(&mut meter, &rate, 1, 10 * S));
        }
        let wait = meter.wait(&rate, 1, MonoNs(10 * S)).unwrap();
        assert_eq!(wait, Duration::from_millis(500));
        assert!(!taken(&mut meter, &rate, 1, 10 * S + 499_999_999));
        assert!(taken(&mut meter, &rate, 1, 10 * S + 500_000_000));
        assert_eq!(
            meter.wait(&rate, 4, MonoNs(99 * S)),
            None,
            "more than there ever is"
        );
    }

    #[test]
    fn a_debt_is_earned_back_first() {
        let rate = Rate::per_minute(600);
        let mut meter = Meter::default();
        meter.take(&rate, 900, MonoNs(0));
        assert_eq!(meter.left(&rate, MonoNs(0)), 0);
        let wait = meter.wait(&rate, 10, MonoNs(0)).unwrap();
        assert_eq!(
            wait,
            Duration::from_secs(31),
            "300 of debt, 10 to take, 10 a second"
        );
        meter.give(&rate, 600);
        assert_eq!(meter.left(&rate, MonoNs(0)), 300);
    }

    proptest! {
        #[test]
        fn no_stretch_of_time_gets_more_than_capacity_and_what_is_earned_in_it(
            capacity in 1_u64..50,
            per_second in 0.1_f64..100.0,
            gaps in prop::collection::vec(0_u64..2 * S, 1..200),
        ) {
            let rate = Rate::per_second(per_second, capacity);
            let mut meter = Meter::default();
            let mut now = 1_000 * S;
            let mut times = Vec::new();
            for gap in gaps {
                now += gap;
                if taken(&mut meter, &rate, 1, now) {
                    times.push(now);
                }
            }
            for (i, &from) in times.iter().enumerate() {
                for (j, &to) in times.iter().enumerate().skip(i) {
                    let earned = (to - from) as f64 / 1e9 * per_second;
                    prop_assert!((j - i + 1) as f64 <= capacity as f64 + earned + 1e-3);
                }
            }
        }

        #[test]
        fn what_is_given_back_was_never_taken(units in 0_u64..1_000, more in 1_u64..1_000) {
            let rate = Rate::per_minute(1_000);
            let now = MonoNs(5 * S);
            let mut meter = Meter::default();
            meter.take(&rate, more, now);
            let before = meter;
            meter.take(&rate, units, now);
            meter.give(&rate, units);
            prop_assert_eq!(meter, before);
        }
    }
}
