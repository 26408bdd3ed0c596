use statrs::distribution::{ContinuousCDF, Exp, Gamma as GammaCdf};

use super::*;
use crate::config::Shard;

const N: usize = 10_000;

/// Kolmogorov-Smirnov: whether the largest distance between a sample and a distribution is below
/// what a sample of it exceeds with probability 0.01 (asymptotic).
fn fits(mut sample: Vec<f64>, cdf: impl Fn(f64) -> f64) -> bool {
    sample.sort_unstable_by(f64::total_cmp);
    let n = sample.len() as f64;
    let distance = (0..)
        .zip(&sample)
        .map(|(i, &x)| {
            let (below, at, f) = (f64::from(i) / n, f64::from(i + 1) / n, cdf(x));
            (f - below).abs().max((at - f).abs())
        })
        .fold(0.0, f64::max);
    distance < 1.627_62 / n.sqrt()
}

fn schedule(law: Law, rate: f64, seed: u8) -> Vec<u64> {
    offsets(law, Profile::Rate(rate), 0, [seed; 32])
        .take(N + 1)
        .collect()
}

/// Gaps in units of the mean gap at this rate.
fn gaps(offsets: &[u64], rate: f64) -> Vec<f64> {
    offsets
        .windows(2)
        .map(|w| (w[1] - w[0]) as f64 / 1e9 * rate)
        .collect()
}

fn mean_and_cv(gaps: &[f64]) -> (f64, f64) {
    let n = gaps.len() as f64;
    let mean = gaps.iter().sum::<f64>() / n;
    let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / n;
    (mean, variance.sqrt() / mean)
}

fn exponential(x: f64) -> f64 {
    Exp::new(1.0).unwrap().cdf(x)
}

#[test]
fn m02_a_constant_schedule_does_not_drift() {
    let all: Vec<u64> = offsets(Law::Constant, Profile::Rate(250.0), 0, [0; 32])
        .take(5_000)
        .collect();
    assert_eq!(all[0], 0);
    assert_eq!(all[1], 4_000_000);
    assert_eq!(all[4_999], 4_999 * 4_000_000);
    let thirds = offsets(Law::Constant, Profile::Rate(3.0), 0, [0; 32]).nth(3);
    assert_eq!(thirds, Some(1_000_000_000));
}

#[test]
fn m02_a_poisson_schedule_keeps_its_mean_and_its_law() {
    let all = schedule(Law::Poisson, 250.0, 7);
    let rate = N as f64 / (all[N] as f64 / 1e9);
    assert!((rate / 250.0 - 1.0).abs() < 0.02, "{rate}/s");
    assert!(fits(gaps(&all, 250.0), exponential));
}

#[test]
fn m23_the_seed_decides_a_schedule() {
    for law in [Law::Poisson, Law::Gamma(0.5), Law::Gamma(100.0)] {
        assert_eq!(schedule(law, 40.0, 7), schedule(law, 40.0, 7));
        assert_ne!(schedule(law, 40.0, 7), schedule(law, 40.0, 8));
    }
}

#[test]
fn m23_burstiness_sets_the_variation_and_not_the_rate() {
    for shape in [0.5, 1.0, 4.0, 100.0] {
        let (mean, cv) = mean_and_cv(&gaps(&schedule(Law::Gamma(shape), 40.0, 7), 40.0));
        assert!((mean - 1.0).abs() < 0.02, "{shape}: mean gap {mean}");
        let wanted = 1.0 / shape.sqrt();
        assert!((cv / wanted - 1.0).abs() < 0.05, "{shape}: CV {cv}");
    }
}

#[test]
fn m23_gamma_gaps_have_their_law_and_burstiness_1_is_poisson() {
    let sample = |shape| gaps(&schedule(Law::Gamma(shape), 40.0, 11), 40.0);
    for shape in [0.5, 1.0, 4.0] {
        let law = GammaCdf::new(shape, shape).unwrap();
        assert!(fits(sample(shape), |x| law.cdf(x)));
    }
    assert!(fits(sample(1.0), exponential));
    for shape in [0.5, 4.0] {
        assert!(!fits(sample(shape), exponential));
    }
}

#[test]
fn m23_shards_together_are_the_schedule() {
    for law in [Law::Poisson, Law::Gamma(4.0)] {
        let whole = schedule(law, 40.0, 3);
        let mut union = Vec::new();
        for index in 1..=4 {
            let shard = Shard { index, of: 4 };
            let part = (0_u64..).zip(&whole).filter(|(seq, _)| shard.holds(*seq));
            let part: Vec<u64> = part.map(|(_, at)| *at).collect();
            // A quarter of the rate, and no shard starts with a burst of its own.
            assert!(part.len().abs_diff(N / 4) <= 1);
            union.extend(part);
        }
        union.sort_unstable();
        assert_eq!(union, whole);
        let (_, cv) = mean_and_cv(&gaps(&union, 40.0));
        let (_, wanted) = mean_and_cv(&gaps(&whole, 40.0));
        assert!((cv - wanted).abs() < 1e-12);
    }
    assert!(fits(
        gaps(&schedule(Law::Poisson, 40.0, 3), 40.0),
        exponential
    ));
}

/// Gaps of a process, counted in arrivals expected between them, are the law's own.
fn time_transformed(profile: &Profile, expected_at: impl Fn(f64) -> f64) -> Vec<f64> {
    let at: Vec<f64> = offsets(Law::Poisson, profile.clone(), 0, [5; 32])
        .map(|ns| expected_at(ns as f64 / 1e9))
        .collect();
    at.windows(2).map(|w| w[1] - w[0]).collect()
}

#[test]
fn m23_a_ramp_is_a_poisson_process_of_its_rate() {
    for (from, to) in [(1.0, 99.0), (99.0, 1.0), (50.0, 50.0)] {
        let seconds = 200.0;
        let profile = Profile::Ramp { from, to, seconds };
        let expected_at = |t: f64| from * t + (to - from) / seconds * t * t / 2.0;
        let sample = time_transformed(&profile, expected_at);
        let n = sample.len() as f64;
        assert!((n / N as f64 - 1.0).abs() < 0.04, "{n} arrivals");
        assert!(fits(sample, exponential));
        let last = offsets(Law::Poisson, profile.clone(), 0, [5; 32]).last();
        assert!(last.unwrap() < 200_000_000_000);
        if from != to {
            let plain: Vec<u64> = offsets(Law::Poisson, profile, 0, [5; 32]).collect();
            assert!(!fits(gaps(&plain, 50.0), exponential));
        }
    }
}

#[test]
fn m23_stages_are_each_at_their_rate_and_end() {
    let stages = vec![(10.0, 100.0), (80.0, 100.0), (20.0, 50.0)];
    let profile = Profile::Stages(stages);
    let expected_at = |t: f64| {
        10.0 * t.min(100.0)
            + 80.0 * (t - 100.0).clamp(0.0, 100.0)
            + 20.0 * (t - 200.0).clamp(0.0, 50.0)
    };
    let sample = time_transformed(&profile, expected_at);
    assert!((sample.len() as f64 / 10_000.0 - 1.0).abs() < 0.04);
    assert!(fits(sample, exponential));
    let steps: Vec<u64> = offsets(
        Law::Constant,
        Profile::Stages(vec![(1.0, 2.0), (2.0, 1.0)]),
        0,
        [0; 32],
    )
    .collect();
    assert_eq!(steps, [0, 1_000_000_000, 2_000_000_000, 2_500_000_000]);
}

#[test]
fn warm_up_comes_at_the_first_rate_before_the_profile_begins() {
    let profile = Profile::Stages(vec![(2.0, 1.0), (4.0, 1.0)]);
    let all: Vec<u64> = offsets(Law::Constant, profile, 3, [0; 32]).collect();
    let ms: Vec<u64> = all.iter().map(|ns| ns / 1_000_000).collect();
    assert_eq!(
        ms,
        [0, 500, 1_000, 1_500, 2_000, 2_500, 2_750, 3_000, 3_250]
    );
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
