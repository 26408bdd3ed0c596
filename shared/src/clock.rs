//! The one clock that intervals are measured by.
//!
//! Everything here is CLOCK_MONOTONIC in integer nanoseconds. Absolute values are comparable
//! between processes of one boot only, so whoever stores one stores the boot id beside it.
//! Wall time is for people and never enters an interval.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An instant of CLOCK_MONOTONIC, in nanoseconds since an arbitrary point of this boot.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(transparent)]
pub struct MonoNs(pub u64);

impl MonoNs {
    /// Reads the clock (a vDSO call, tens of nanoseconds).
    #[must_use]
    pub fn now() -> Self {
        let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Self(
            (t.tv_sec as u64)
                .saturating_mul(1_000_000_000)
                .saturating_add(t.tv_nsec as u64),
        )
    }

    /// Nanoseconds from `earlier` to `self`; zero when `earlier` is the later one.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Signed nanoseconds from `other` to `self`.
    #[must_use]
    pub const fn signed_since(self, other: Self) -> i64 {
        self.0.wrapping_sub(other.0).cast_signed()
    }

    /// The instant `ns` nanoseconds later.
    #[must_use]
    pub const fn plus_ns(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }

    /// The instant `d` later.
    #[must_use]
    pub fn plus(self, d: Duration) -> Self {
        self.plus_ns(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_saturate_and_keep_their_sign() {
        let (a, b) = (MonoNs(5), MonoNs(9));
        assert_eq!(b.since(a), 4);
        assert_eq!(a.since(b), 0);
        assert_eq!(a.signed_since(b), -4);
        assert_eq!(a.plus(Duration::from_micros(2)), MonoNs(2_005));
    }

    #[test]
    fn the_clock_never_goes_back() {
        let mut last = MonoNs::now();
        for _ in 0..1_000 {
            let now = MonoNs::now();
            assert!(now >= last);
            last = now;
        }
    }
}
