//! The formulas that are plain arithmetic. Undefined is `None`, never zero and never NaN.

use crate::clock::MonoNs;

/// More tokens than any event holds; a larger count is a broken counter, not a count.
const MAX_TOKENS_PER_EVENT: u64 = 65_536;

/// Nanoseconds as the milliseconds of results.
#[must_use]
pub const fn ms(ns: f64) -> f64 {
    ns / 1e6
}

/// Time per output token in nanoseconds ([`super::TPOT`]): the first token costs no gap, so
/// `completion_tokens - 1` gaps share the time. `None` below two tokens, or out of order.
#[must_use]
pub fn tpot_ns(first_output: MonoNs, last_output: MonoNs, completion_tokens: u64) -> Option<f64> {
    let gaps = completion_tokens.checked_sub(1).filter(|&it| it > 0)?;
    let total = last_output.0.checked_sub(first_output.0)?;
    Some(total as f64 / gaps as f64)
}

/// Gaps between output events in nanoseconds ([`super::ITL_EVENT`]), one fewer than events.
pub fn itl_event_ns(outputs: &[MonoNs]) -> impl Iterator<Item = u64> {
    outputs.windows(2).map(|pair| pair[1].since(pair[0]))
}

/// Gaps between tokens in nanoseconds ([`super::ITL_TOKEN`]). `outputs` are the output events
/// with their tokens, where known. A gap that ends in an event of k tokens counts as k gaps of
/// one k-th each; an event said to hold none adds no gap. `None` unless every event's tokens are
/// known, or there are as many events as `completion_tokens`.
#[must_use]
pub fn itl_token_ns(
    outputs: &[(MonoNs, Option<u64>)],
    completion_tokens: Option<u64>,
) -> Option<Vec<f64>> {
    let one_each = completion_tokens == Some(outputs.len() as u64);
    let mut gaps = Vec::with_capacity(outputs.len());
    for pair in outputs.windows(2) {
        let [(before, _), (at, tokens)] = [pair[0], pair[1]];
        let tokens = if one_each { 1 } else { tokens? };
        if tokens > MAX_TOKENS_PER_EVENT {
            return None;
        }
        let gap = at.since(before) as f64 / tokens as f64;
        gaps.extend((0..tokens).map(|_| gap));
    }
    Some(gaps)
}

/// Things per second; `None` for a window of no length.
#[must_use]
pub fn per_second(count: u64, window_ns: u64) -> Option<f64> {
    (window_ns > 0).then(|| count as f64 / (window_ns as f64 / 1e9))
}

/// The share `part / whole`; `None` of nothing.
#[must_use]
pub fn fraction(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn d05_tpot_comes_from_usage_and_not_from_events() {
        let tpot = tpot_ns(MonoNs(300 * MS), MonoNs(900 * MS), 31);
        assert_eq!(tpot.map(ms), Some(20.0));
    }

    #[test]
    fn tpot_is_undefined_below_two_tokens_and_out_of_order() {
        assert_eq!(tpot_ns(MonoNs(5), MonoNs(5), 0), None);
        assert_eq!(tpot_ns(MonoNs(5), MonoNs(5), 1), None);
        assert_eq!(tpot_ns(MonoNs(5), MonoNs(5), 2), Some(0.0));
        assert_eq!(tpot_ns(MonoNs(6), MonoNs(5), 2), None);
    }

    #[test]
    fn m05_gaps_per_event_and_per_token_are_told_apart() {
        let at: Vec<_> = (0..25).map(|i| MonoNs(i * 100 * MS)).collect();
        let four_each: Vec<_> = at.iter().map(|&it| (it, Some(4))).collect();
        assert!(itl_event_ns(&at).all(|it| it == 100 * MS));
        let gaps = itl_token_ns(&four_each, Some(100)).expect("all counts are known");
        assert_eq!(gaps.len(), 96);
        assert!(gaps.iter().all(|&it| ms(it) == 25.0));

        let unknown: Vec<_> = at.iter().map(|&it| (it, None)).collect();
        assert_eq!(itl_token_ns(&unknown, Some(100)), None);
        assert_eq!(itl_token_ns(&unknown, None), None);
        let gaps = itl_token_ns(&unknown, Some(25)).expect("as many events as tokens");
        assert_eq!(gaps.len(), 24);
    }

    #[test]
    fn shares_and_rates_of_nothing_are_undefined() {
        assert_eq!(per_second(3, 0), None);
        assert_eq!(per_second(3, 1_500_000_000), Some(2.0));
        assert_eq!(fraction(0, 0), None);
        assert_eq!(fraction(1, 4), Some(0.25));
    }
}
