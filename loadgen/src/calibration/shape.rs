//! Which load is repeated: the heaviest that was observed, in answers short enough for a few
//! seconds.
//!
//! What must stay is how many streams are in flight and how many events they bring each second.
//! Answers longer than the time allows become shorter and as much more frequent: a stream of
//! 100 events in 10 s is ten of 10 events in 1 s. Times are the server's, so seconds here are its
//! time to first token and its gaps.

use std::time::Duration;

use inferscope_shared::clock::MonoNs;
use inferscope_shared::record::request::{EventKind, Outcome, Phase, RequestRecord};

use crate::config::{LoadKind, LoadValue, Resolved};
use crate::plan::Plan;

/// Requests that a calibration should hold: enough for a p99, and some to spare.
const REQUESTS: f64 = 120.0;

/// Output events of an answer at most: its body must stay in memory whole.
const MAX_OUTPUTS: f64 = 1_000.0;

/// What the ok answers of one point were like; sums, so that memory stays flat.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Observed {
    /// Measured answers that ended ok and had output.
    pub answers: u64,
    /// Sum of their times to first token from sending, in seconds.
    pub ttft_seconds: f64,
    /// Sum of their times from sending to the last output, in seconds.
    pub stream_seconds: f64,
    /// Their output events.
    pub outputs: u64,
}

impl Observed {
    /// Takes one record.
    pub fn push(&mut self, record: &RequestRecord) {
        if record.phase != Phase::Measure || record.outcome != Outcome::Ok {
            return;
        }
        let (Some(sent), Some(first), Some(last)) = (
            record.sent_start_ns,
            record.first_output_ns,
            record.last_output_ns,
        ) else {
            return;
        };
        let since = |at: MonoNs| at.since(sent) as f64 / 1e9;
        self.answers += 1;
        self.ttft_seconds += since(first);
        self.stream_seconds += since(last);
        let kinds = record.events.kind.iter();
        self.outputs += kinds.filter(|k| **k == EventKind::Output).count() as u64;
    }
}

/// A load, and the answers that an exact server gives under it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// Slots, or requests per second.
    pub load: LoadValue,
    /// The server's time to first token.
    pub ttft: Duration,
    /// The server's gap between events.
    pub itl: Duration,
    /// Output events per answer.
    pub outputs: u64,
    /// How long requests are issued and measured.
    pub duration: Duration,
}

impl Shape {
    /// From a request's arrival at the server to its last event.
    #[must_use]
    pub fn answer(&self) -> Duration {
        let gaps = u32::try_from(self.outputs.saturating_sub(1)).unwrap_or(u32::MAX);
        self.ttft.saturating_add(self.itl.saturating_mul(gaps))
    }

    /// Requests before the measured ones: as many as are in flight.
    #[must_use]
    pub fn warmup(&self) -> u64 {
        let value = self.load.value.unwrap_or(1.0);
        match self.load.kind {
            LoadKind::Concurrency => value as u64,
            LoadKind::Rate | LoadKind::Ramp | LoadKind::Stages | LoadKind::Replay => {
                ((value * self.answer().as_secs_f64()).ceil() as u64).max(2)
            }
        }
    }

    /// Warm-up, measurement and drain.
    #[must_use]
    pub fn longest(&self) -> Duration {
        self.duration + self.answer() * 3
    }
}

/// The load of the point with most events per second, and the point's id.
#[must_use]
pub fn heaviest(
    config: &Resolved,
    plan: &Plan,
    observed: &[Observed],
    duration: Duration,
) -> Option<(String, Shape)> {
    plan.points
        .iter()
        .zip(observed)
        .filter(|(_, o)| o.answers > 0 && o.outputs > 0 && o.stream_seconds > 0.0)
        .map(|(point, o)| {
            let rate = match point.load.kind {
                LoadKind::Replay => {
                    let last = point.arrivals.last().and_then(|a| a.offset_ns);
                    let gaps = point.arrivals.len().saturating_sub(1) as f64;
                    Some(gaps.max(1.0) * 1e9 / last.unwrap_or(0).max(1_000_000) as f64)
                }
                _ => config.load.highest_rate(point.load),
            };
            let mean = o.stream_seconds / o.answers as f64;
            let streams = match rate {
                None => point.load.value.unwrap_or(1.0).min(o.answers as f64),
                Some(rate) => (rate * mean).min(f64::from(config.load.max_in_flight)),
            };
            let per_stream = o.outputs as f64 / o.stream_seconds;
            (streams * per_stream, point, o, streams)
        })
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, point, o, streams)| {
            let open = point.load.is_open();
            (point.id.clone(), repeat(o, streams, open, duration))
        })
}

/// The load of `streams` answers like those in `o`, within `duration`.
fn repeat(o: &Observed, streams: f64, open: bool, duration: Duration) -> Shape {
    let answers = o.answers as f64;
    let (mean, outputs) = (o.stream_seconds / answers, o.outputs as f64 / answers);
    let per_second = outputs / mean;
    let time = duration.as_secs_f64();
    // At least two events each where there were two, or nothing is left of the gaps.
    let seconds = (streams * time / REQUESTS)
        .max(outputs.min(2.0) / per_second)
        .min(time / 3.0)
        .min(MAX_OUTPUTS / per_second)
        .min(mean);
    let count = (per_second * seconds).round().max(outputs.min(2.0).round());
    let ttft = o.ttft_seconds / answers * seconds / mean;
    let itl = if count > 1.0 {
        (seconds - ttft) / (count - 1.0)
    } else {
        0.0
    };
    let (kind, value) = if open {
        (LoadKind::Rate, streams / seconds)
    } else {
        (LoadKind::Concurrency, streams)
    };
    Shape {
        load: LoadValue {
            kind,
            value: Some(value),
        },
        ttft: Duration::from_secs_f64(ttft.max(0.0)),
        itl: Duration::from_secs_f64(itl.max(0.0)),
        outputs: count as u64,
        duration,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: Duration = Duration::from_secs(3);

    fn answers(n: u64, ttft: f64, itl: f64, outputs: u64) -> Observed {
        Observed {
            answers: n,
            ttft_seconds: ttft * n as f64,
            stream_seconds: (ttft + itl * (outputs - 1) as f64) * n as f64,
            outputs: outputs * n,
        }
    }

    fn events_per_second(shape: &Shape) -> f64 {
        let value = shape.load.value.unwrap();
        match shape.load.kind {
            LoadKind::Concurrency => value * shape.outputs as f64 / shape.answer().as_secs_f64(),
            _ => value * shape.outputs as f64,
        }
    }

    #[test]
    fn short_answers_are_repeated_as_they_are() {
        let shape = repeat(&answers(500, 0.05, 0.01, 16), 100.0, false, THREE);
        assert_eq!(shape.outputs, 16);
        assert!((shape.ttft.as_secs_f64() - 0.05).abs() < 1e-6, "{shape:?}");
        assert!((shape.itl.as_secs_f64() - 0.01).abs() < 1e-6, "{shape:?}");
        let open = repeat(&answers(500, 0.05, 0.01, 16), 100.0 * 0.2, true, THREE);
        assert!((open.load.value.unwrap() - 100.0).abs() < 1e-6, "{open:?}");
    }

    #[test]
    fn long_answers_become_shorter_with_as_many_streams_and_events_per_second() {
        // 40 s and 400 events each: 10 events per second and stream.
        let long = answers(64, 2.0, 38.0 / 399.0, 400);
        for (streams, open) in [(64.0, false), (64.0, true), (1.0, false)] {
            let shape = repeat(&long, streams, open, THREE);
            let is = events_per_second(&shape);
            assert!((is / (streams * 10.0) - 1.0).abs() < 0.02, "{is} {shape:?}");
            assert!(shape.answer().as_secs_f64() < 1.001, "{shape:?}");
            let in_flight = match shape.load.kind {
                LoadKind::Rate => shape.load.value.unwrap() * shape.answer().as_secs_f64(),
                _ => shape.load.value.unwrap(),
            };
            assert!((in_flight / streams - 1.0).abs() < 0.02, "{in_flight}");
        }
    }

    #[test]
    fn few_streams_get_enough_requests_for_a_p99() {
        let shape = repeat(&answers(60, 0.05, 0.01, 16), 4.0, false, THREE);
        let requests = 4.0 * 3.0 / shape.answer().as_secs_f64();
        assert!(requests >= 100.0, "{requests} {shape:?}");
        assert!(
            (events_per_second(&shape) / 320.0 - 1.0).abs() < 0.1,
            "{shape:?}"
        );
    }

    #[test]
    fn an_answer_of_one_event_has_no_gap() {
        let shape = repeat(&answers(10, 0.5, 0.0, 1), 10.0, false, THREE);
        assert_eq!((shape.outputs, shape.itl), (1, Duration::ZERO));
        assert_eq!(shape.answer(), shape.ttft);
    }
}
