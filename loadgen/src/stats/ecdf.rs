//! The empirical distribution function, thinned for drawing.

/// Points `(value, share of values at or below it)`, one per distinct value, thinned to about
/// `most` of them; both ends stay.
#[must_use]
pub fn ecdf(sorted: &[f64], most: usize) -> Vec<(f64, f64)> {
    let n = sorted.len() as f64;
    let mut seen = 0;
    let distinct: Vec<(f64, f64)> = sorted
        .chunk_by(|a, b| a == b)
        .map(|ties| {
            seen += ties.len();
            (ties[0], seen as f64 / n)
        })
        .collect();
    let step = distinct.len().div_ceil(most.max(2)).max(1);
    let last = distinct.len().saturating_sub(1);
    distinct
        .into_iter()
        .enumerate()
        .filter(|(i, _)| i % step == 0 || *i == last)
        .map(|(_, point)| point)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_the_share_at_or_below_it() {
        assert_eq!(
            ecdf(&[1.0, 2.0, 2.0, 4.0], 100),
            [(1.0, 0.25), (2.0, 0.75), (4.0, 1.0)]
        );
        assert!(ecdf(&[], 100).is_empty());
    }

    #[test]
    fn thinning_keeps_both_ends_and_the_order() {
        let values: Vec<f64> = (0..10_000).map(f64::from).collect();
        let points = ecdf(&values, 200);
        assert!(points.len() <= 202);
        assert_eq!(points[0].0, 0.0);
        assert_eq!(points.last(), Some(&(9_999.0, 1.0)));
        assert!(points.is_sorted());
    }
}
