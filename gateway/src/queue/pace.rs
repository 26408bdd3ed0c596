//! How fast places come free: the mean time between two of them while all are taken.
//!
//! Exponentially weighted, so that it follows a change within some ten requests. It tells a
//! newcomer how long it would wait and a refused one when to come back; it decides nothing else.

use std::time::Duration;

use inferscope_shared::clock::MonoNs;

/// Share of the newest gap in the mean.
const NEWEST: f64 = 0.1;

/// See the module head.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pace {
    gap_ns: Option<f64>,
    /// Since when all places were taken without one coming free.
    since: Option<MonoNs>,
}

impl Pace {
    /// All places are taken from `now` on, if they were not before.
    pub fn full(&mut self, now: MonoNs) {
        self.since.get_or_insert(now);
    }

    /// A place came free; `still_full` when it is taken again at once.
    pub fn freed(&mut self, now: MonoNs, still_full: bool) {
        if let Some(since) = self.since.take() {
            let gap = now.since(since) as f64;
            self.gap_ns = Some(match self.gap_ns {
                Some(mean) => mean + NEWEST * (gap - mean),
                None => gap,
            });
        }
        self.since = still_full.then_some(now);
    }

    /// Places are free, and not because one was given back.
    pub const fn idle(&mut self) {
        self.since = None;
    }

    /// How long until `places` have come free; `None` while none ever has.
    #[must_use]
    pub fn time_for(&self, places: u64) -> Option<Duration> {
        let ns = self.gap_ns? * places as f64;
        Some(Duration::from_nanos(ns as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_gap_while_full_is_what_counts() {
        let ms = |n: u64| MonoNs(n * 1_000_000);
        let mut pace = Pace::default();
        assert_eq!(pace.time_for(3), None);
        pace.freed(ms(5), false);
        assert_eq!(pace.time_for(3), None, "nobody waited for that one");
        pace.full(ms(10));
        pace.full(ms(15));
        pace.freed(ms(30), true);
        assert_eq!(pace.time_for(3), Some(Duration::from_millis(60)));
        pace.freed(ms(50), false);
        // A long time in which places were free says nothing.
        pace.full(ms(9_000));
        pace.freed(ms(9_020), true);
        assert_eq!(pace.time_for(1), Some(Duration::from_millis(20)));
        for k in 1..100 {
            pace.freed(ms(9_020 + 5 * k), true);
        }
        let now = pace.time_for(1).unwrap();
        assert!(now < Duration::from_micros(5_010), "{now:?}");
    }
}
