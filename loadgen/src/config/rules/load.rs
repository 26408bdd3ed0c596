//! Rules of the load: which settings go together, and how much a run may ask for.

use inferscope_shared::units::format_duration as time;

use super::super::{Arrival, Load, LoadKind, LoadValue, OverLimit, Resolved};
use crate::plan::MAX_POOL;

/// Requests of a run, over all its points.
const MAX_REQUESTS: u64 = 10_000_000;

/// Below it nearly all arrivals come at once, and the mean says nothing about any of them.
const MIN_BURSTINESS: f64 = 0.01;

const MAX_RATE: f64 = 100_000.0;

/// A slower rate than one request in three hours is a slip of the keyboard.
const MIN_RATE: f64 = 0.000_1;

/// Adds every fault of the load to `faults`.
pub(super) fn check(config: &Resolved, faults: &mut Vec<String>) {
    let load = &config.load;
    let mut fault = |text: String| faults.push(text);
    if load.requests == Some(0) {
        fault("load.requests 0: nothing would be measured; ask for at least 1".to_owned());
    }
    if load.duration.is_some_and(|d| d.is_zero()) {
        fault("load.duration 0s: nothing would be measured; give some seconds".to_owned());
    }
    let shapes = [
        ("rate", !load.rate.is_empty()),
        ("ramp", load.ramp.is_some()),
        ("stages", !load.stages.is_empty()),
    ];
    let given: Vec<&str> = shapes
        .iter()
        .filter(|(_, is)| *is)
        .map(|(name, _)| *name)
        .collect();
    match load.arrival {
        Arrival::Closed => {
            for name in &given {
                fault(format!(
                    "load.{name}: does not go with closed arrivals; set load.arrival to constant, poisson or gamma, or leave it out"
                ));
            }
            if load.shard.is_some() {
                fault("load.shard: does not go with closed arrivals, which have no schedule to share; divide load.concurrency".to_owned());
            }
            if load.over_limit == OverLimit::Wait {
                fault("load.over_limit wait: does not go with closed arrivals, which never exceed their concurrency; leave it out".to_owned());
            }
            if load.concurrency.is_empty() {
                fault("load.concurrency: empty; name at least one level".to_owned());
            }
        }
        Arrival::Constant | Arrival::Poisson | Arrival::Gamma => {
            if !load.concurrency.is_empty() {
                fault("load.concurrency: does not go with an open loop; set load.arrival to closed, or bound it by load.max_in_flight".to_owned());
            }
            match given.as_slice() {
                [] => {
                    fault("load.rate: missing; name requests per second, like --rate 10".to_owned())
                }
                [_] => {}
                more => fault(format!(
                    "load.{}: only one of rate, ramp and stages is a load; keep one",
                    more.join(", load.")
                )),
            }
        }
        Arrival::Replay => {
            if !given.is_empty() || !load.concurrency.is_empty() {
                fault("load.arrival replay: the workload's own times are the load; leave rate, ramp, stages and concurrency out".to_owned());
            }
            if config.prompts.workload.is_none() {
                fault(
                    "load.arrival replay: needs prompts.workload with at_ms on each line"
                        .to_owned(),
                );
            }
        }
    }
    for c in &load.concurrency {
        if !(1..=100_000).contains(c) {
            fault(format!("load.concurrency {c}: give 1 to 100000"));
        }
    }
    for r in &load.rate {
        if !is_rate(*r) {
            fault(format!("load.rate {r}: {A_RATE}"));
        }
    }
    check_shape(load, &mut fault);
    let labels: Vec<String> = load.values().iter().map(LoadValue::label).collect();
    for (i, label) in labels.iter().enumerate() {
        if labels[..i].contains(label) {
            fault(format!(
                "load {label}: listed twice; each load is one point"
            ));
        }
    }
    let point = config.timeouts.point;
    if let Some(longer) = load.duration.filter(|d| *d >= point) {
        fault(format!(
            "load.duration {}: a point ends after timeouts.point, {}; raise that or measure for a shorter time",
            time(longer),
            time(point)
        ));
    }
    if load.max_in_flight == 0 {
        fault("load.max_in_flight 0: nothing could be sent; give at least 1".to_owned());
    }
}

const A_RATE: &str = "give requests per second from 0.0001 to 100000";

fn is_rate(rate: f64) -> bool {
    (MIN_RATE..=MAX_RATE).contains(&rate)
}

fn check_shape(load: &Load, fault: &mut impl FnMut(String)) {
    if let Some(ramp) = load.ramp {
        for (name, rate) in [("from", ramp.from), ("to", ramp.to)] {
            if !is_rate(rate) {
                fault(format!("load.ramp.{name} {rate}: {A_RATE}"));
            }
        }
        if load.duration.is_none() {
            fault("load.ramp: has no end; give load.duration, like --duration 60s".to_owned());
        }
    }
    for (i, stage) in load.stages.iter().enumerate() {
        if !is_rate(stage.rate) {
            fault(format!("load.stages[{i}].rate {}: {A_RATE}", stage.rate));
        }
        if stage.duration.is_zero() {
            fault(format!("load.stages[{i}].duration 0s: give some seconds"));
        }
    }
    let all = load.stages.iter().map(|s| s.duration).sum();
    if let Some(other) = load
        .duration
        .filter(|d| !load.stages.is_empty() && *d != all)
    {
        fault(format!(
            "load.duration {}: the stages take {} together; leave it out",
            time(other),
            time(all)
        ));
    }
    match load.burstiness {
        Some(_) if load.arrival != Arrival::Gamma => fault(
            "load.burstiness: goes with gamma arrivals only; set load.arrival to gamma, or leave it out"
                .to_owned(),
        ),
        Some(b) if !(b >= MIN_BURSTINESS && b.is_finite()) => fault(format!(
            "load.burstiness {b}: give {MIN_BURSTINESS} or more; 1 is poisson, below 1 burstier, inf is constant"
        )),
        None if load.arrival == Arrival::Gamma => fault(
            "load.burstiness: missing; gamma arrivals need it, like --burstiness 0.5".to_owned(),
        ),
        _ => {}
    }
}

/// A plan is laid out in memory before the run.
pub(super) fn check_size(config: &Resolved, faults: &mut Vec<String>) {
    let load = &config.load;
    let seconds = load.duration.map(|d| d.as_secs_f64());
    let measured = |value: &LoadValue| {
        let in_time = match (value.kind, seconds) {
            (LoadKind::Ramp | LoadKind::Stages, _) => load.expected().unwrap_or(0.0),
            (LoadKind::Concurrency, Some(_)) if load.requests.is_none() => MAX_POOL as f64,
            (LoadKind::Rate, Some(seconds)) => value.value.unwrap_or(0.0) * seconds,
            _ => f64::INFINITY,
        };
        let counted = load.requests.map_or(f64::INFINITY, |n| n as f64);
        // A replay without either limit is as long as its file.
        Some(in_time.min(counted)).filter(|n| n.is_finite())
    };
    let values = load.values();
    let all: f64 = values
        .iter()
        .map(|value| measured(value).unwrap_or(0.0) + load.warmup as f64)
        .sum::<f64>()
        * config.arms.len() as f64;
    if all > MAX_REQUESTS as f64 {
        faults.push(format!(
            "load: about {all:.0} requests over all loads and arms; a run has at most {MAX_REQUESTS}, so lower requests, warmup, or rate and duration"
        ));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::super::settings::{ArmSettings, Settings};
    use super::super::super::{Ramp, Stage};
    use super::*;

    fn resolve(change: impl FnOnce(&mut Settings)) -> Result<Resolved, String> {
        let mut settings = Settings {
            direct: ArmSettings {
                url: Some("http://127.0.0.1:9".to_owned()),
                api_key: None,
            },
            model: Some("m".to_owned()),
            ..Settings::default()
        };
        change(&mut settings);
        settings.resolve(false).map_err(|faults| faults.join("\n"))
    }

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn m23_a_burstiness_that_is_none_is_refused_with_its_value_and_a_remedy() {
        for bad in [0.0, -1.0, f64::NAN, f64::NEG_INFINITY, 0.001] {
            let text = resolve(|s| {
                s.rate = Some(vec![40.0]);
                s.burstiness = Some(bad);
            })
            .unwrap_err();
            let named = format!("load.burstiness {bad}: give 0.01 or more");
            assert!(text.contains(&named), "{text}");
        }
        for (good, arrival) in [
            (0.5, Arrival::Gamma),
            (1.0, Arrival::Gamma),
            (100.0, Arrival::Gamma),
            (f64::INFINITY, Arrival::Constant),
        ] {
            let config = resolve(|s| {
                s.rate = Some(vec![40.0]);
                s.burstiness = Some(good);
            })
            .unwrap();
            assert_eq!(config.load.arrival, arrival, "{good}");
        }
    }

    type Change = fn(&mut Settings);

    #[test]
    fn settings_that_do_not_go_together_are_named() {
        let cases: [(Change, &str); 12] = [
            (|s| s.burstiness = Some(2.0), "load.rate: missing"),
            (
                |s| {
                    s.rate = Some(vec![1.0]);
                    s.arrival = Some(Arrival::Gamma);
                },
                "load.burstiness: missing",
            ),
            (
                |s| {
                    s.rate = Some(vec![1.0]);
                    s.arrival = Some(Arrival::Poisson);
                    s.burstiness = Some(2.0);
                },
                "goes with gamma arrivals only",
            ),
            (
                |s| s.ramp = Some(Ramp { from: 1.0, to: 9.0 }),
                "give load.duration",
            ),
            (
                |s| {
                    s.ramp = Some(Ramp { from: 0.0, to: 9.0 });
                    s.duration = Some(seconds(9));
                },
                "load.ramp.from 0: give requests",
            ),
            (
                |s| {
                    s.ramp = Some(Ramp { from: 1.0, to: 9.0 });
                    s.rate = Some(vec![1.0]);
                    s.duration = Some(seconds(9));
                },
                "only one of rate, ramp and stages",
            ),
            (
                |s| {
                    s.stages = Some(vec![Stage {
                        rate: -1.0,
                        duration: seconds(1),
                    }]);
                },
                "load.stages[0].rate -1: give requests",
            ),
            (
                |s| {
                    s.stages = Some(vec![Stage {
                        rate: 1.0,
                        duration: seconds(60),
                    }]);
                    s.duration = Some(seconds(5));
                },
                "load.duration 5s: the stages take 60s together",
            ),
            (
                |s| s.shard = "1/2".parse().ok(),
                "load.shard: does not go with closed",
            ),
            (
                |s| s.over_limit = Some(OverLimit::Wait),
                "load.over_limit wait: does not go with closed",
            ),
            (
                |s| {
                    s.duration = Some(seconds(60));
                    s.timeouts.point = Some(seconds(60));
                },
                "load.duration 60s: a point ends after timeouts.point, 60s",
            ),
            (
                |s| {
                    s.stages = Some(vec![Stage {
                        rate: 1_000.0,
                        duration: seconds(10_001),
                    }]);
                },
                "a run has at most 10000000",
            ),
        ];
        for (change, says) in cases {
            let text = resolve(change).unwrap_err();
            assert!(text.contains(says), "{says}: {text}");
        }
    }
}
