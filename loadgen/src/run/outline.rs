//! What a run would send and how long that takes, for `loadgen plan`.
//!
//! With `--offline` nobody is asked: prompts are then laid out with assumed words, which changes
//! no count. Otherwise the run's own checks are made too; what they find is said beside the plan,
//! which is told all the same. Times are seconds.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::RunError;
use super::prepare::{settle, too_few};
use crate::artifacts::layout::Roots;
use crate::config::settings::Settings;
use crate::config::{LoadKind, LoadValue, Resolved};
use crate::plan::prompts::Vocabulary;
use crate::plan::{Plan, Point, body};
use crate::preflight;

/// A run that is not made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outline {
    /// Its points in the order in which they would run.
    pub points: Vec<PointOutline>,
    /// Over all points; the time is null when one of theirs is.
    pub total: Amounts,
    /// What the calibration adds to the time, about.
    pub calibration_seconds: f64,
    /// The first request's id.
    pub first_request_id: Option<String>,
    /// What a run would be refused for now; null when nobody was asked.
    pub faults: Option<Vec<String>>,
}

/// One point of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PointOutline {
    /// The point.
    pub point_id: String,
    /// Its load.
    pub load: LoadValue,
    /// Requests of the warm-up.
    pub warmup: u64,
    /// Measured requests; null when only time limits them.
    pub measured: Option<u64>,
    /// What it sends and takes, warm-up included.
    pub amounts: Amounts,
    /// What its time depends on, where it is not known.
    pub time_depends_on: Option<String>,
}

/// Requests, tokens, time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Amounts {
    /// Requests at most.
    pub requests: u64,
    /// Prompt tokens at most; null for a workload.
    pub prompt_tokens: Option<u64>,
    /// Output tokens at most.
    pub output_tokens: u64,
    /// Time, without what the last answers take.
    pub seconds: Option<f64>,
}

/// Lays a run out. `latency` is what one request is assumed to take.
///
/// # Errors
/// [`RunError::Usage`], when the settings themselves are at fault.
pub async fn outline(
    settings: Settings,
    offline: bool,
    latency: Option<Duration>,
) -> Result<Outline, RunError> {
    let (config, workload) = settle(settings)?;
    let faults = if offline {
        None
    } else {
        let run = Roots::new(&config.results_dir).run(&config.run_id);
        let found = preflight::check(&config, &run).await;
        Some(found.err().map(|f| f.0).unwrap_or_default())
    };
    let plan = Plan::new(&config, Vocabulary::assumed(), workload).map_err(RunError::Usage)?;
    too_few(&plan)?;
    Ok(of(&config, &plan, latency, faults))
}

fn of(
    config: &Resolved,
    plan: &Plan,
    latency: Option<Duration>,
    faults: Option<Vec<String>>,
) -> Outline {
    let points: Vec<PointOutline> = plan
        .points
        .iter()
        .map(|point| one(config, point, latency))
        .collect();
    let zero = Amounts {
        prompt_tokens: Some(0),
        seconds: Some(0.0),
        ..Amounts::default()
    };
    let total = points.iter().fold(zero, |sum, p| Amounts {
        requests: sum.requests.saturating_add(p.amounts.requests),
        prompt_tokens: sum
            .prompt_tokens
            .zip(p.amounts.prompt_tokens)
            .map(|(a, b)| a.saturating_add(b)),
        output_tokens: sum.output_tokens.saturating_add(p.amounts.output_tokens),
        seconds: sum.seconds.zip(p.amounts.seconds).map(|(a, b)| a + b),
    });
    let first = plan.points.first();
    Outline {
        points,
        total,
        calibration_seconds: config.calibration.unwrap_or_default().as_secs_f64(),
        first_request_id: first.and_then(|point| {
            let seq = point.arrivals.first()?.seq;
            Some(body::request_id(&config.run_id, &point.id, seq))
        }),
        faults,
    }
}

fn one(config: &Resolved, point: &Point, latency: Option<Duration>) -> PointOutline {
    let arrivals = &point.arrivals;
    let (seconds, time_depends_on) = time(config, point, latency);
    PointOutline {
        point_id: point.id.clone(),
        load: point.load,
        warmup: point.warmup,
        measured: point.planned,
        amounts: Amounts {
            requests: arrivals.len() as u64,
            prompt_tokens: arrivals.iter().try_fold(0, |sum: u64, a| {
                a.prompt_tokens.map(|n| sum.saturating_add(n))
            }),
            output_tokens: arrivals
                .iter()
                .fold(0, |sum: u64, a| sum.saturating_add(a.output_tokens)),
            seconds,
        },
        time_depends_on,
    }
}

/// How long a point takes, or what that depends on.
fn time(
    config: &Resolved,
    point: &Point,
    latency: Option<Duration>,
) -> (Option<f64>, Option<String>) {
    if point.load.kind != LoadKind::Concurrency {
        let last = point.arrivals.last().and_then(|a| a.offset_ns);
        return (last.map(|ns| ns as f64 / 1e9), None);
    }
    let slots = point.load.value.unwrap_or(1.0);
    let rounds = |requests: u64| (requests as f64 / slots).ceil();
    let each = latency.map(|l| l.as_secs_f64());
    let limit = config.load.duration.map(|d| d.as_secs_f64());
    let (warmup, all) = (rounds(point.warmup), rounds(point.arrivals.len() as u64));
    let takes = |rounds: f64| format!("{rounds:.0} times what one request takes");
    match (point.planned, limit, each) {
        // Only time limits it.
        (None, Some(limit), Some(each)) => (Some(warmup * each + limit), None),
        (None, Some(limit), None) => (None, Some(format!("{} and {limit} s", takes(warmup)))),
        (_, limit, Some(each)) => {
            let whole = all * each;
            let seconds = limit.map_or(whole, |limit| whole.min(warmup * each + limit));
            (Some(seconds), None)
        }
        (_, Some(limit), None) => (
            None,
            Some(format!(
                "{}, at most {} and {limit} s",
                takes(all),
                takes(warmup)
            )),
        ),
        (_, None, None) => (None, Some(takes(all))),
    }
}

impl Outline {
    /// The outline in words, a line per point.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        for p in &self.points {
            let measured = p.measured.map_or_else(
                || "until its time is up".to_owned(),
                |n| format!("{n} measured"),
            );
            let _ = writeln!(
                out,
                "{}: {} warm-up, {measured}; {}",
                p.point_id,
                p.warmup,
                amounts(&p.amounts, p.time_depends_on.as_deref())
            );
        }
        let unknown = "what its points' times depend on; state one request's with --assume-latency";
        let _ = writeln!(
            out,
            "in all: at most {} requests; {}",
            self.total.requests,
            amounts(&self.total, Some(unknown))
        );
        if self.calibration_seconds > 0.0 {
            let _ = writeln!(
                out,
                "calibration: about {} s more",
                self.calibration_seconds
            );
        }
        if let Some(id) = &self.first_request_id {
            let _ = writeln!(out, "first request id: {id}");
        }
        out
    }
}

fn amounts(a: &Amounts, depends_on: Option<&str>) -> String {
    let prompt = a
        .prompt_tokens
        .map_or_else(|| "unknown".to_owned(), |n| n.to_string());
    let time = match a.seconds {
        Some(seconds) => format!("{seconds:.1} s and its last answers"),
        None => depends_on.unwrap_or("unknown").to_owned(),
    };
    format!(
        "at most {prompt} prompt and {} output tokens; time: {time}",
        a.output_tokens
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::settings::ArmSettings;

    fn outlined(settings: Settings, latency: Option<Duration>) -> Outline {
        let settings = Settings {
            direct: ArmSettings {
                url: Some("http://127.0.0.1:1".to_owned()),
                api_key: None,
            },
            model: Some("m".to_owned()),
            run_id: Some("r".to_owned()),
            input_tokens: Some(10),
            output_tokens: Some(4),
            warmup: Some(2),
            ..settings
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(outline(settings, true, latency)).unwrap()
    }

    #[test]
    fn an_open_loop_knows_its_time_and_a_closed_one_what_it_depends_on() {
        let open = outlined(
            Settings {
                rate: Some(vec![2.0]),
                arrival: Some(crate::config::Arrival::Constant),
                requests: Some(19),
                ..Settings::default()
            },
            None,
        );
        let amounts = open.points[0].amounts;
        assert_eq!((amounts.requests, amounts.seconds), (21, Some(10.0)));
        assert_eq!(amounts.prompt_tokens, Some(210));
        assert_eq!(amounts.output_tokens, 84);

        let closed = Settings {
            concurrency: Some(vec![2, 4]),
            requests: Some(8),
            ..Settings::default()
        };
        let unknown = outlined(closed.clone(), None);
        assert_eq!(unknown.total.seconds, None);
        assert_eq!(unknown.total.requests, 20);
        assert!(
            unknown.text().contains("5 times what one request takes"),
            "{}",
            unknown.text()
        );
        let assumed = outlined(closed, Some(Duration::from_secs(2)));
        // 10 requests on 2 slots, then on 4.
        assert_eq!(assumed.total.seconds, Some(10.0 + 6.0));
    }

    #[test]
    fn time_bounds_a_closed_loop_that_is_too_slow_for_its_requests() {
        let limited = outlined(
            Settings {
                concurrency: Some(vec![1]),
                requests: Some(100),
                duration: Some(Duration::from_secs(5)),
                ..Settings::default()
            },
            Some(Duration::from_secs(1)),
        );
        assert_eq!(limited.total.seconds, Some(7.0));
    }
}
