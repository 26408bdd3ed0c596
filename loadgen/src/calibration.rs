//! How far the instrument itself is off, at the load of the run: the same client, drive and plan
//! against a server whose times are known to the nanosecond.
//!
//! Owns the load that is repeated ([`shape`]), the server in a child process ([`server`]) and the
//! comparison of both sides' stamps ([`compare`]); what an error means for a run is judged by
//! [`crate::gates`]. Nothing here touches a run's files. Errors are milliseconds.
//!
//! The surprise: it happens after the points, not before. Only then is the load known that is to
//! be repeated, and nothing that it warms up or wears out can be in a measured number. Client and
//! server share this host's cores, so what is found is an upper bound.

pub mod command;
mod compare;
pub mod server;
pub mod shape;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;

use crate::artifacts::manifest::{Calibration, Instrument, StopReason};
use crate::artifacts::writer;
use crate::client::connection::Pool;
use crate::client::target::Target;
use crate::config::settings::Settings;
use crate::config::{Arm, ArmKind, Arrival, Endpoint, EngineKind, LoadKind, Resolved, Salt};
use crate::drive::{self, Session, feed, health, timer};
use crate::plan::Plan;
use crate::plan::prompts::Vocabulary;
use server::{MODEL, Server};
use shape::{Observed, Shape};

/// Beyond the time that a calibration should take, before it is given up.
const MARGIN: Duration = Duration::from_secs(10);

/// The client takes a server as lost after this much longer than its answers should take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Measures the instrument at the heaviest load that a run's points showed, and enters the result
/// or the reason for its absence.
pub async fn of_run(
    config: &Resolved,
    plan: &Plan,
    observed: &[Observed],
    interrupt: watch::Receiver<bool>,
    into: &mut Calibration,
) {
    let result = match config.calibration {
        None => Err("calibration: off".to_owned()),
        Some(_) if *interrupt.borrow() => Err("interrupted".to_owned()),
        Some(duration) => match shape::heaviest(config, plan, observed, duration) {
            Some((point_id, shape)) => {
                measure(config, &shape, interrupt)
                    .await
                    .map(|instrument| Instrument {
                        point_id: Some(point_id),
                        ..instrument
                    })
            }
            None => Err("no point has an ok answer whose load could be repeated".to_owned()),
        },
    };
    (into.instrument, into.instrument_absent) = match result {
        Ok(instrument) => (Some(instrument), None),
        Err(why) => (None, Some(why)),
    };
}

/// Drives `shape` against an exact server on this host and compares the stamps of both sides.
///
/// # Errors
/// In words, when there is nothing to compare.
pub async fn measure(
    like: &Resolved,
    shape: &Shape,
    interrupt: watch::Receiver<bool>,
) -> Result<Instrument, String> {
    let (ttft, itl) = (shape.ttft, shape.itl);
    let server = tokio::task::spawn_blocking(move || Server::start(ttft, itl))
        .await
        .map_err(|e| e.to_string())??;
    let config = Arc::new(adapt(like, shape, server.url()));
    let target = Target::parse(server.url()).map_err(|e| e.to_string())?;
    let plan = Arc::new(Plan::new(&config, Vocabulary::assumed(), None)?);

    let (sink, messages) = writer::channel();
    let comparison =
        compare::start(messages, &config, Arc::clone(&plan)).map_err(|e| e.to_string())?;
    let session = Arc::new(Session {
        config: Arc::clone(&config),
        sink: sink.clone(),
        gauges: Arc::default(),
        interrupt,
    });
    let arm = Arc::new(drive::Arm {
        pool: Mutex::new(Pool::new(
            target.clone(),
            config.timeouts.connect,
            config.timeouts.keep_alive,
        )),
        probe: health::Probe {
            arm: target.clone(),
            engine: None,
            api_key: None,
            engine_key: None,
        },
    });
    let jobs = feed::start(Arc::clone(&config), Arc::clone(&plan), 0, target, None)
        .map_err(|e| e.to_string())?;
    let limit = shape.longest() + MARGIN;
    timer::go_first();
    let end = tokio::time::timeout(limit, drive::run_point(&session, &arm, &plan, 0, jobs)).await;
    timer::go_along();
    drop((session, arm));
    sink.end();
    let comparison = comparison
        .join()
        .unwrap_or_else(|_| Err("the comparing thread failed".to_owned()));
    drop(server);
    let end = end.map_err(|_| format!("not over after {limit:?}"))?;
    if end.stop_reason == StopReason::Interrupted {
        return Err("interrupted".to_owned());
    }
    Ok(comparison?.instrument(shape))
}

/// A configuration that sends `shape` to `url` and is as `like` in everything else.
fn adapt(like: &Resolved, shape: &Shape, url: &str) -> Resolved {
    let mut config = like.clone();
    config.run_id = "calibration".to_owned();
    config.arms = vec![Arm {
        name: "exact".to_owned(),
        kind: ArmKind::Direct,
        url: url.to_owned(),
        api_key: None,
    }];
    config.engine.kind = EngineKind::Fake;
    config.engine.url = Some(url.to_owned());
    config.request.model = MODEL.to_owned();
    config.request.temperature = None;
    config.request.body = None;
    config.prompts.output_tokens = shape.outputs;
    config.prompts.salt = Salt::None;
    config.prompts.workload = None;
    config.gateway_records = None;
    let load = &mut config.load;
    let value = shape.load.value.unwrap_or(1.0);
    (load.concurrency, load.rate) = match shape.load.kind {
        LoadKind::Concurrency => (vec![value as u32], Vec::new()),
        _ => (Vec::new(), vec![value]),
    };
    if load.arrival == Arrival::Replay {
        load.arrival = Arrival::Poisson;
    }
    (load.ramp, load.stages, load.shard) = (None, Vec::new(), None);
    load.warmup = shape.warmup();
    load.requests = None;
    load.duration = Some(shape.duration);
    load.stagger = load.stagger.min(shape.answer());
    let answer = shape.answer() + PATIENCE;
    config.timeouts.first_byte = answer;
    config.timeouts.idle = answer;
    config.timeouts.total = answer;
    config.timeouts.drain = answer;
    config.timeouts.point = shape.longest() + MARGIN;
    config
}

/// The configuration of a calibration that belongs to no run.
fn standalone(endpoint: Endpoint, input_tokens: u64, shape: &Shape) -> Result<Resolved, String> {
    let value = shape.load.value.unwrap_or(1.0);
    let mut settings = Settings {
        endpoint: Some(endpoint),
        model: Some(MODEL.to_owned()),
        input_tokens: Some(input_tokens),
        output_tokens: Some(shape.outputs),
        duration: Some(shape.duration),
        max_in_flight: Some(100_000),
        ..Settings::default()
    };
    settings.direct.url = Some("http://127.0.0.1:1".to_owned());
    match shape.load.kind {
        LoadKind::Concurrency => settings.concurrency = Some(vec![value as u32]),
        _ => settings.rate = Some(vec![value]),
    }
    settings.resolve(false).map_err(|faults| faults.join("\n"))
}
