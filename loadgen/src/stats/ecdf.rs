//! The empirical distribution function, thinned for drawing.

/// Points `(value, share of values at or below it)`, at most about `most` of them. Ties collapse
/// into their last point, and both ends are always there.
#[must_use]
pub fn ecdf(sorted: &[f64], most: usize) -> Vec<(f64, f64)> {
    let n = sorted.len();
    let step = n.div_ceil(most.max(2)).max(1);
    let mut points: Vec<(f64, f64)> = Vec::new();
    for i in 0..n {
        let last_of_tie = i + 1 == n || sorted[i + 1] > sorted[i];
        let wanted = i == 0 || i + 1 == n || i % step == 0;
        if !wanted && !(last_of_tie && points.last().is_some_and(|p| p.0 == sorted[i])) {
            continue;
        }
        let share = (i + 1) as f64 / n as f64;
        match points.last_mut() {
            Some(last) if last.0 == sorted[i] => last.1 = share,
            _ => points.push((sorted[i], share)),
        }
    }
    points
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
