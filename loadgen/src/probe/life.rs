//! The engine's process over one request's life: before, at the first token, at its peak, after.
//!
//! Memory and threads are those of the nearest sample on the right side; CPU time is interpolated
//! between samples, because the kernel counts it in ticks of 10 ms and a request rarely begins on
//! one. Milliseconds since the probe's start.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The process tree at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// Since the probe's start.
    pub at_ms: f64,
    /// Resident memory, shared pages counted in each process.
    pub rss_bytes: u64,
    /// Proportional memory, shared pages counted once; null where it may not be read.
    pub pss_bytes: Option<u64>,
    /// CPU time so far, of all threads, of ended children too.
    pub cpu_seconds: f64,
    /// Threads.
    pub threads: u32,
    /// Processes.
    pub processes: u32,
}

/// Memory and threads at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Use {
    /// Resident memory.
    pub rss_bytes: u64,
    /// Proportional memory.
    pub pss_bytes: Option<u64>,
    /// Threads.
    pub threads: u32,
}

/// One request's life as the process shows it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Life {
    /// The last sample before connecting began.
    pub before: Use,
    /// The first sample from the first token on; null when none fell into the answer.
    pub first_token: Option<Use>,
    /// The highest of each from before to after.
    pub peak: Use,
    /// The first sample from the end on.
    pub after: Option<Use>,
    /// CPU time from first write to first token; null where several requests shared it.
    pub cpu_to_first_token_seconds: Option<f64>,
    /// CPU time from first write to the end; null where several requests shared it.
    pub cpu_seconds: Option<f64>,
}

impl From<&Sample> for Use {
    fn from(sample: &Sample) -> Self {
        Self {
            rss_bytes: sample.rss_bytes,
            pss_bytes: sample.pss_bytes,
            threads: sample.threads,
        }
    }
}

/// Instants of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub start: f64,
    pub sent: f64,
    pub first: Option<f64>,
    pub end: f64,
    /// No other request ran meanwhile.
    pub alone: bool,
}

/// What the samples, in order of time, show of a request; none when they begin too late.
pub(super) fn of(samples: &[Sample], span: Span) -> Option<Life> {
    let begin = samples.partition_point(|s| s.at_ms <= span.start);
    let before = begin.checked_sub(1)?;
    let end = samples.partition_point(|s| s.at_ms < span.end);
    let seen = &samples[before..samples.len().min(end + 1)];
    let peak = Use {
        rss_bytes: seen.iter().map(|s| s.rss_bytes).max()?,
        pss_bytes: seen.iter().filter_map(|s| s.pss_bytes).max(),
        threads: seen.iter().map(|s| s.threads).max()?,
    };
    let first_token = span.first.and_then(|at| {
        let sample = samples.get(samples.partition_point(|s| s.at_ms < at))?;
        (sample.at_ms <= span.end).then(|| sample.into())
    });
    let spent = |to: f64| {
        let both = cpu_at(samples, to)? - cpu_at(samples, span.sent)?;
        span.alone.then_some(both)
    };
    Some(Life {
        before: (&samples[before]).into(),
        first_token,
        peak,
        after: samples.get(end).map(Use::from),
        cpu_to_first_token_seconds: span.first.and_then(spent),
        cpu_seconds: spent(span.end),
    })
}

/// CPU time up to an instant between two samples.
pub(super) fn cpu_at(samples: &[Sample], at: f64) -> Option<f64> {
    let next = samples.partition_point(|s| s.at_ms < at);
    let after = samples.get(next)?;
    let before = &samples[next.checked_sub(1)?];
    let width = after.at_ms - before.at_ms;
    if width <= 0.0 {
        return Some(after.cpu_seconds);
    }
    let share = (at - before.at_ms) / width;
    Some(before.cpu_seconds + share * (after.cpu_seconds - before.cpu_seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_ms: f64, rss_bytes: u64, cpu_seconds: f64) -> Sample {
        Sample {
            at_ms,
            rss_bytes,
            pss_bytes: None,
            cpu_seconds,
            threads: 3,
            processes: 1,
        }
    }

    #[test]
    fn a_life_is_told_by_the_samples_around_it() {
        let samples = [
            sample(0.0, 10, 1.0),
            sample(50.0, 11, 1.0),
            sample(100.0, 30, 1.1),
            sample(150.0, 20, 1.2),
            sample(200.0, 12, 1.2),
        ];
        let span = Span {
            start: 60.0,
            sent: 75.0,
            first: Some(120.0),
            end: 160.0,
            alone: true,
        };
        let life = of(&samples, span).unwrap();
        assert_eq!(life.before.rss_bytes, 11);
        assert_eq!(life.first_token.unwrap().rss_bytes, 20);
        assert_eq!(life.peak.rss_bytes, 30);
        assert_eq!(life.after.unwrap().rss_bytes, 12);
        assert!((life.cpu_seconds.unwrap() - 0.15).abs() < 1e-9);
        assert!((life.cpu_to_first_token_seconds.unwrap() - 0.09).abs() < 1e-9);
        let shared = of(
            &samples,
            Span {
                alone: false,
                ..span
            },
        )
        .unwrap();
        assert_eq!(shared.cpu_seconds, None);
    }

    #[test]
    fn what_lies_outside_the_samples_is_unknown_and_not_zero() {
        let samples = [sample(50.0, 10, 1.0), sample(100.0, 10, 1.5)];
        let span = Span {
            start: 20.0,
            sent: 20.0,
            first: None,
            end: 400.0,
            alone: true,
        };
        assert_eq!(of(&samples, span), None);
        let late = of(
            &samples,
            Span {
                start: 60.0,
                sent: 60.0,
                ..span
            },
        )
        .unwrap();
        assert_eq!((late.after, late.cpu_seconds), (None, None));
    }
}
