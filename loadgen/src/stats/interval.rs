//! How sure a percentile is: intervals by order statistics, and how many samples prove a limit.
//!
//! The number of values at or below the true p-quantile is binomial (n, p), whatever the values'
//! distribution. So the l-th and u-th smallest values enclose it with at least 95 % when each
//! tail of that binomial holds at most 2.5 %.

use super::Percentile;

/// Probability that an interval's side is wrong.
const TAIL: f64 = 0.025;

/// Ranks (from 1) whose values enclose the percentile with 95 % confidence, of `n` independent
/// values; `None` when `n` is too small for one of its sides.
#[must_use]
pub fn order_interval(p: Percentile, n: usize) -> Option<(usize, usize)> {
    let cumulative = Binomial::new(n, p.share());
    // lower: the largest rank l with P(count <= l - 1) <= TAIL.
    // upper: the smallest rank u with P(count <= u - 1) >= 1 - TAIL.
    let (mut lower, mut upper) = (0, None);
    for (count, probability) in cumulative.enumerate() {
        if probability <= TAIL {
            lower = count + 1;
        }
        if probability >= 1.0 - TAIL {
            upper = Some(count + 1);
            break;
        }
    }
    match upper {
        Some(upper) if lower >= 1 && upper <= n => Some((lower, upper)),
        _ => None,
    }
}

/// Clean independent samples that prove, at 95 % confidence, that the percentile keeps a limit
/// which all of them kept: the smallest n with `p^n <= 0.05`. 59 at p95, 299 at p99.
#[must_use]
pub fn certify_needed(p: Percentile) -> usize {
    let n = (0.05_f64.ln() / p.share().ln()).ceil();
    n.max(1.0) as usize
}

/// How likely `n` independent values show `misses` or fewer beyond a limit that the percentile
/// does not keep: `P(B <= misses)`, B binomial (n, 1 - p). At or below 0.05 the limit is
/// certified at 95 % confidence.
#[must_use]
pub fn chance_of_fewer(p: Percentile, n: usize, misses: usize) -> f64 {
    Binomial::new(n, 1.0 - p.share()).nth(misses).unwrap_or(1.0)
}

/// Cumulative probabilities of a binomial, for counts from 0.
struct Binomial {
    n: usize,
    count: usize,
    log_term: f64,
    log_odds: f64,
    sum: f64,
}

impl Binomial {
    fn new(n: usize, p: f64) -> Self {
        Self {
            n,
            count: 0,
            log_term: n as f64 * (1.0 - p).ln(),
            log_odds: (p / (1.0 - p)).ln(),
            sum: 0.0,
        }
    }
}

impl Iterator for Binomial {
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        if self.count > self.n {
            return None;
        }
        self.sum += self.log_term.exp();
        let left = (self.n - self.count) as f64;
        self.count += 1;
        self.log_term += (left / self.count as f64).ln() + self.log_odds;
        Some(self.sum.min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranks as tables of distribution-free intervals for the median give them.
    #[test]
    fn ranks_for_the_median_are_those_of_the_tables() {
        for (n, ranks) in [
            (6, (1, 6)),
            (8, (1, 8)),
            (10, (2, 9)),
            (15, (4, 12)),
            (20, (6, 15)),
            (25, (8, 18)),
            (30, (10, 21)),
            (100, (40, 61)),
        ] {
            assert_eq!(order_interval(Percentile::P50, n), Some(ranks), "n = {n}");
        }
    }

    #[test]
    fn an_interval_that_cannot_be_formed_is_none() {
        for (p, first) in [
            (Percentile::P50, 6),
            (Percentile::P90, 36),
            (Percentile::P95, 72),
            (Percentile::P99, 368),
        ] {
            assert_eq!(order_interval(p, first - 1), None, "{p} of {}", first - 1);
            let (lower, upper) = order_interval(p, first).unwrap();
            assert_eq!(upper, first, "{p}");
            assert!(lower < upper);
        }
        assert_eq!(order_interval(Percentile::P50, 0), None);
    }

    #[test]
    fn ranks_stay_right_where_single_terms_underflow() {
        let (lower, upper) = order_interval(Percentile::P99, 100_000).unwrap();
        // Normal approximation: 99 000 ± 1.96 · √990.
        assert!((98_938..=98_941).contains(&lower), "{lower}");
        assert!((99_060..=99_064).contains(&upper), "{upper}");
    }

    #[test]
    fn samples_that_certify_a_limit() {
        assert_eq!(certify_needed(Percentile::P50), 5);
        assert_eq!(certify_needed(Percentile::P90), 29);
        assert_eq!(certify_needed(Percentile::P95), 59);
        assert_eq!(certify_needed(Percentile::P99), 299);
    }

    #[test]
    fn a_miss_among_the_samples_asks_for_more_of_them() {
        let p95 = Percentile::P95;
        // Wilks' numbers for a one-sided 95/95 limit: 59, 93, 124, 153.
        for (misses, first) in [(0, 59), (1, 93), (2, 124), (3, 153)] {
            assert!(chance_of_fewer(p95, first, misses) <= 0.05, "{misses}");
            assert!(chance_of_fewer(p95, first - 1, misses) > 0.05, "{misses}");
        }
        assert_eq!(chance_of_fewer(p95, 0, 0), 1.0);
        assert_eq!(chance_of_fewer(p95, 3, 7), 1.0);
    }
}
