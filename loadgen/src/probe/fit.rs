//! How TTFT grows with the prompt: a straight line through many answers, with its uncertainty.
//!
//! Theil and Sen's line: the slope is the median of the slopes of all pairs of answers with
//! different lengths, its 95 % interval comes from the ranks that Kendall's statistic allows (Sen
//! 1968, with the variance for ties among lengths). A few slow answers do not bend it, and no
//! distribution is assumed. Whether the line is straight at all is judged at the lengths between
//! the ends.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::Summary;

/// Quantile of the normal distribution for a two-sided 95 %.
const Z: f64 = 1.959_964;

/// Answers and lengths below which no line is drawn.
const LEAST_ANSWERS: usize = 8;
const LEAST_LENGTHS: usize = 3;

/// Share of the TTFT by which a length may be off the line before it counts as bent.
const BEND: f64 = 0.1;

/// A line through TTFT over prompt tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fit {
    /// Answers.
    pub n: u64,
    /// Growth per 100 prompt tokens.
    pub per_100_tokens_ms: f64,
    /// Its 95 % interval.
    pub ci95: Option<[f64; 2]>,
    /// TTFT that the line gives a prompt of no tokens.
    pub fixed_ms: f64,
    /// Median distance of an answer from the line.
    pub off_ms: f64,
    /// Each length beside the line.
    pub levels: Vec<Level>,
    /// Whether the lengths between the ends lie on it; null when that cannot be told.
    pub straight: Option<bool>,
}

/// One length.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Level {
    /// Prompt tokens.
    pub tokens: f64,
    /// TTFT measured.
    pub ttft_ms: Summary,
    /// TTFT by the line.
    pub line_ms: f64,
    /// Measured minus line.
    pub off_ms: Summary,
}

/// Fits a line to (prompt tokens, TTFT in ms); none of too few answers or lengths.
pub(super) fn line(points: &[(f64, f64)]) -> Option<Fit> {
    let mut lengths: Vec<f64> = points.iter().map(|p| p.0).collect();
    lengths.sort_unstable_by(f64::total_cmp);
    let mut groups: Vec<(f64, usize)> = Vec::new();
    for x in lengths {
        match groups.last_mut() {
            Some((last, count)) if *last == x => *count += 1,
            _ => groups.push((x, 1)),
        }
    }
    if points.len() < LEAST_ANSWERS || groups.len() < LEAST_LENGTHS {
        return None;
    }
    let mut slopes = Vec::new();
    for (i, a) in points.iter().enumerate() {
        let pairs = points[i + 1..].iter().filter(|b| a.0 != b.0);
        slopes.extend(pairs.map(|b| (b.1 - a.1) / (b.0 - a.0)));
    }
    slopes.sort_unstable_by(f64::total_cmp);
    let slope = middle(&slopes)?;
    let mut rests: Vec<f64> = points.iter().map(|(x, y)| y - slope * x).collect();
    rests.sort_unstable_by(f64::total_cmp);
    let fixed = middle(&rests)?;
    let off = |x: f64, y: f64| y - (fixed + slope * x);
    let mut distances: Vec<f64> = points.iter().map(|&(x, y)| off(x, y).abs()).collect();
    distances.sort_unstable_by(f64::total_cmp);
    let levels: Vec<Level> = groups
        .iter()
        .map(|&(tokens, _)| {
            let here = || points.iter().filter(move |p| p.0 == tokens);
            Level {
                tokens,
                ttft_ms: Summary::of(here().map(|p| p.1).collect()),
                line_ms: fixed + slope * tokens,
                off_ms: Summary::of(here().map(|p| off(p.0, p.1)).collect()),
            }
        })
        .collect();
    Some(Fit {
        n: points.len() as u64,
        per_100_tokens_ms: slope * 100.0,
        ci95: interval(&slopes, points.len(), &groups).map(|ci| ci.map(|s| s * 100.0)),
        fixed_ms: fixed,
        off_ms: middle(&distances)?,
        straight: straight(&levels),
        levels,
    })
}

/// Median of sorted values, the mean of the two in the middle of an even number.
fn middle(sorted: &[f64]) -> Option<f64> {
    let n = sorted.len();
    let upper = *sorted.get(n / 2)?;
    Some(match n % 2 {
        0 => f64::midpoint(sorted[n / 2 - 1], upper),
        _ => upper,
    })
}

/// Sen's interval: the slopes at the ranks `(N ∓ z·√V)/2`.
fn interval(slopes: &[f64], n: usize, groups: &[(f64, usize)]) -> Option<[f64; 2]> {
    let spread = |n: usize| {
        let n = n as f64;
        n * (n - 1.0) * (2.0 * n + 5.0)
    };
    let ties: f64 = groups.iter().map(|&(_, count)| spread(count)).sum();
    let variance = (spread(n) - ties) / 18.0;
    let all = slopes.len() as f64;
    let reach = Z * variance.sqrt();
    let low = ((all - reach) / 2.0).floor();
    let high = ((all + reach) / 2.0).ceil();
    if low < 1.0 || high >= all {
        return None;
    }
    Some([*slopes.get(low as usize - 1)?, *slopes.get(high as usize)?])
}

/// Whether no length between the ends is surely off the line, and by much.
fn straight(levels: &[Level]) -> Option<bool> {
    let inner = levels.get(1..levels.len().checked_sub(1)?)?;
    let mut bent = false;
    for level in inner {
        let [low, high] = level.off_ms.ci95.p50?;
        let off = if low > 0.0 { low } else { (-high).max(0.0) };
        bent |= off > BEND * level.ttft_ms.p50?;
    }
    Some(!bent)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers on a line of 2 ms per token from 5 ms, with noise that is small and has no side.
    fn answers(bend: f64) -> Vec<(f64, f64)> {
        let mut all = Vec::new();
        for (i, x) in [64.0, 213.0, 362.0, 512.0].into_iter().enumerate() {
            for k in 0..6_u32 {
                let noise = f64::from((k * 5 + i as u32) % 7) - 3.0;
                let up = if i == 1 { bend } else { 0.0 };
                all.push((x, 5.0 + 2.0 * x + noise + up));
            }
        }
        all
    }

    #[test]
    fn the_slope_is_found_with_an_interval_around_it() {
        let fit = line(&answers(0.0)).unwrap();
        let [low, high] = fit.ci95.unwrap();
        assert!((fit.per_100_tokens_ms - 200.0).abs() < 1.0, "{fit:?}");
        assert!(low < 200.0 && 200.0 < high && high - low < 5.0, "{fit:?}");
        assert!((fit.fixed_ms - 5.0).abs() < 3.0, "{fit:?}");
        assert_eq!((fit.n, fit.straight), (24, Some(true)));
    }

    #[test]
    fn one_very_slow_answer_does_not_move_it() {
        let mut points = answers(0.0);
        points[3].1 += 10_000.0;
        let fit = line(&points).unwrap();
        assert!((fit.per_100_tokens_ms - 200.0).abs() < 2.0, "{fit:?}");
    }

    #[test]
    fn a_step_between_the_ends_is_no_straight_line() {
        assert_eq!(line(&answers(300.0)).unwrap().straight, Some(false));
    }

    #[test]
    fn no_line_through_two_lengths_or_few_answers() {
        assert_eq!(line(&[(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]), None);
        let two: Vec<_> = (0..20).map(|i| (f64::from(i % 2), 1.0)).collect();
        assert_eq!(line(&two), None);
    }

    /// Sen's own ranks for 24 answers of 4 lengths with 6 each: N = 216, V = 1 514.
    #[test]
    fn the_interval_has_the_ranks_of_the_formula() {
        let slopes: Vec<f64> = (1..=216).map(f64::from).collect();
        let groups = [(1.0, 6), (2.0, 6), (3.0, 6), (4.0, 6)];
        // (24·23·53 − 4·6·5·17) / 18 = 1512; 216 ∓ 1.96·38.88 = 139.8, 292.2.
        assert_eq!(interval(&slopes, 24, &groups), Some([69.0, 148.0]));
    }
}
