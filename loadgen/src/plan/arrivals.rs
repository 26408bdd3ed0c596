//! Arrival processes: endless rising offsets in nanoseconds, the same for the same seed.
//!
//! Offsets are cumulative sums, so nothing that happens while a run is driven can shift them.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Equal gaps of `1 / rate`; the first arrival is at zero. Each offset is computed from its
/// number, so that rounding does not add up.
pub fn constant(rate: f64) -> impl Iterator<Item = u64> {
    (0_u64..).map(move |i| (i as f64 * 1e9 / rate).round() as u64)
}

/// Exponential gaps with mean `1 / rate`; the first arrival is at zero.
pub fn poisson(rate: f64, seed: [u8; 32]) -> impl Iterator<Item = u64> {
    let mut rng = ChaCha8Rng::from_seed(seed);
    let mut at = 0.0_f64;
    std::iter::from_fn(move || {
        let this = at;
        let uniform: f64 = rng.random();
        at += -(1.0 - uniform).ln() * 1e9 / rate;
        Some(this.round() as u64)
    })
}

/// Cuts a process: `warmup` arrivals, then measured ones until `requests` of them or until
/// `duration_ns` after the first of them, whichever comes first.
#[must_use]
pub fn cut(
    offsets: impl Iterator<Item = u64>,
    warmup: u64,
    requests: Option<u64>,
    duration_ns: Option<u64>,
) -> Vec<u64> {
    let limit = requests.map_or(u64::MAX, |n| warmup.saturating_add(n));
    let mut measured_from = None;
    offsets
        .zip(0_u64..limit)
        .take_while(|&(offset, i)| {
            if i < warmup {
                return true;
            }
            let from = *measured_from.get_or_insert(offset);
            duration_ns.is_none_or(|d| offset - from < d)
        })
        .map(|(offset, _)| offset)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m02_a_constant_schedule_does_not_drift() {
        let all: Vec<u64> = constant(250.0).take(5_000).collect();
        assert_eq!(all[0], 0);
        assert_eq!(all[1], 4_000_000);
        assert_eq!(all[4_999], 4_999 * 4_000_000);
        assert_eq!(constant(3.0).nth(3), Some(1_000_000_000));
    }

    #[test]
    fn m23_the_seed_decides_a_poisson_schedule() {
        let take = |seed| poisson(40.0, [seed; 32]).take(10_000).collect::<Vec<_>>();
        let (a, b) = (take(7), take(8));
        assert_eq!(a, take(7));
        assert_ne!(a, b);
        let mean = *a.last().unwrap() as f64 / 9_999.0;
        assert!((mean / 25e6 - 1.0).abs() < 0.02, "mean gap {mean} ns");
        let variance = a
            .windows(2)
            .map(|w| ((w[1] - w[0]) as f64 - mean).powi(2))
            .sum::<f64>()
            / 9_999.0;
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.05);
    }

    #[test]
    fn the_first_limit_reached_cuts_and_time_counts_from_the_first_measured_arrival() {
        let ms = |n: u64| n * 1_000_000;
        let ten = || (0..).map(move |i| ms(i * 10));
        assert_eq!(cut(ten(), 2, Some(3), None).len(), 5);
        assert_eq!(cut(ten(), 2, None, Some(ms(30))).len(), 5);
        assert_eq!(cut(ten(), 2, Some(2), Some(ms(30))).len(), 4);
        assert_eq!(cut([0, 5].into_iter(), 0, Some(9), None).len(), 2);
    }
}
