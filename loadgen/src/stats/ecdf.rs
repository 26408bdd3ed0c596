//! The empirical distribution function, thinned for drawing.

use super::Sorted;

/// Points `(value, share of values at or below it)`, one per distinct value, thinned to about
/// `most` of them; both ends stay.
#[must_use]
pub fn ecdf(sorted: &Sorted, most: usize) -> Vec<(f64, f64)> {
    let n = sorted.len() as f64;
    let mut distinct = 0_usize;
    each_distinct(sorted, |_, _| distinct += 1);
    let step = distinct.div_ceil(most.max(2)).max(1);
    let mut points = Vec::new();
    let mut index = 0;
    each_distinct(sorted, |value, at_or_below| {
        if index % step == 0 || index + 1 == distinct {
            points.push((value, at_or_below as f64 / n));
        }
        index += 1;
    });
    points
}

/// Each distinct value with the number of values at or below it.
fn each_distinct(sorted: &Sorted, mut take: impl FnMut(f64, usize)) {
    let mut values = sorted.iter().enumerate().peekable();
    while let Some((index, value)) = values.next() {
        if values.peek().is_none_or(|(_, next)| *next != value) {
            take(value, index + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_the_share_at_or_below_it() {
        assert_eq!(
            ecdf(&Sorted::of([1.0, 2.0, 2.0, 4.0]), 100),
            [(1.0, 0.25), (2.0, 0.75), (4.0, 1.0)]
        );
        assert!(ecdf(&Sorted::of([]), 100).is_empty());
    }

    #[test]
    fn thinning_keeps_both_ends_and_the_order() {
        let points = ecdf(&Sorted::of((0..10_000).map(f64::from)), 200);
        assert!(points.len() <= 202);
        assert_eq!(points[0].0, 0.0);
        assert_eq!(points.last(), Some(&(9_999.0, 1.0)));
        assert!(points.is_sorted());
    }
}
