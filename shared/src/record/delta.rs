//! Delta encoding of rising series: small numbers instead of absolute ones.

/// Encodes `values` as differences, the first against `origin`. A value below its predecessor
/// (it cannot be, on a monotonic clock) is written as zero so that decoding never goes back.
#[must_use]
pub fn encode(origin: u64, values: &[u64]) -> Vec<u64> {
    let mut last = origin;
    values
        .iter()
        .map(|&v| {
            let d = v.saturating_sub(last);
            last = last.max(v);
            d
        })
        .collect()
}

/// The inverse of [`encode`].
#[must_use]
pub fn decode(origin: u64, deltas: &[u64]) -> Vec<u64> {
    let mut last = origin;
    deltas
        .iter()
        .map(|&d| {
            last = last.saturating_add(d);
            last
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_gives_the_series_back() {
        let series = [1_000, 1_000, 1_500, 9_000];
        assert_eq!(encode(990, &series), [10, 0, 500, 7_500]);
        assert_eq!(decode(990, &encode(990, &series)), series);
        assert!(encode(5, &[]).is_empty());
    }
}
