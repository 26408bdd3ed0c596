//! One run from its configuration to its evidence.
//!
//! Nothing is written before preflight has passed. From then on the run always leaves a complete
//! set of raw files: an interruption, a dead engine or missing gateway records shorten what is in
//! them and are named there, and the analysis reads the files like any other run's.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::sync::Arc;

use inferscope_shared::record::SCHEMA_VERSION;
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::artifacts::layout::{Roots, RunDir};
use crate::artifacts::manifest::{Loadgen, Manifest, ManifestArm, PointRun, StopReason};
use crate::artifacts::server_metrics::{Scraper, When};
use crate::artifacts::writer::Writer;
use crate::artifacts::{host, inventory};
use crate::client::connection::Pool;
use crate::client::target::{Target, redact};
use crate::config::settings::Settings;
use crate::config::{ArmKind, EngineKind, Gpu, Resolved};
use crate::drive::{self, Arm, Gauges, Session, feed, health::Probe, lag, timer};
use crate::plan::workload::Workload;
use crate::plan::{Plan, body, calibrate};
use crate::preflight::{self, Found};
use crate::progress::Progress;

/// Why a run gave no result.
#[derive(Debug, Error)]
pub enum RunError {
    /// What was asked for cannot be done; nothing was written.
    #[error("{0}")]
    Usage(String),
    /// The run itself failed.
    #[error("{what}: {why}")]
    Failed {
        /// The object.
        what: String,
        /// What happened to it.
        why: String,
    },
}

fn failed(what: impl ToString, why: impl ToString) -> RunError {
    RunError::Failed {
        what: what.to_string(),
        why: why.to_string(),
    }
}

/// A run that left its evidence.
#[derive(Debug)]
pub struct Done {
    /// Where.
    pub run: RunDir,
    /// The signal that ended it early.
    pub interrupted: Option<Signal>,
    /// The first write that failed, if one did.
    pub disk_error: Option<String>,
}

/// A signal that ends a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

impl Signal {
    /// Exit code of a process that the signal ended.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}

/// A run that passed preflight and is laid out.
#[derive(Debug)]
pub struct Prepared {
    /// The configuration, with what was found out.
    pub config: Resolved,
    /// What will be sent.
    pub plan: Plan,
    found: Found,
    manifest: Manifest,
    run: RunDir,
}

/// Checks the settings against the rules and the world, and lays out the plan. Writes nothing.
///
/// # Errors
/// [`RunError::Usage`] with every fault found.
pub async fn prepare(settings: Settings) -> Result<Prepared, RunError> {
    let usage = |e: &dyn ToString| RunError::Usage(e.to_string());
    let workload = match &settings.workload {
        Some(path) => Some(Workload::read(path).map_err(|e| usage(&e))?),
        None => None,
    };
    let has_times = workload.as_ref().is_some_and(Workload::has_times);
    let mut config = settings
        .resolve(has_times)
        .map_err(|faults| RunError::Usage(faults.join("\n")))?;
    if config.load.arrival == crate::config::Arrival::Replay && !has_times {
        return Err(RunError::Usage(
            "load.arrival replay: the workload has no at_ms; add it to each line or choose another arrival"
                .to_owned(),
        ));
    }
    if let (Some(w), None) = (&workload, config.load.requests)
        && config.load.duration.is_none()
        && !has_times
    {
        config.load.requests = Some(w.lines.len() as u64);
    }
    let run = Roots::new(&config.results_dir).run(&config.run_id);
    let found = preflight::check(&config, &run)
        .await
        .map_err(|e| usage(&e))?;
    config.engine.kind = match found.engine.kind {
        EngineKind::Auto => EngineKind::Unknown,
        known => known,
    };
    let (vocabulary, calibration) = if workload.is_some() {
        let calibration = crate::artifacts::manifest::Calibration {
            prompt_tokens: "workload".to_owned(),
            ..Default::default()
        };
        (crate::plan::prompts::Vocabulary::assumed(), calibration)
    } else {
        let (target, key) = match &found.engine_target {
            Some(target) => (target, found.engine_key.as_deref()),
            None => (&found.arms[0].0, found.arms[0].1.as_deref()),
        };
        calibrate::calibrate(&config, target, key).await
    };
    let plan = Plan::new(&config, vocabulary, workload).map_err(RunError::Usage)?;
    if plan
        .points
        .iter()
        .all(|p| p.arrivals.len() as u64 <= p.warmup)
    {
        return Err(RunError::Usage(
            "load: no measured request fits; raise requests or duration, or lower warmup"
                .to_owned(),
        ));
    }
    let manifest = Manifest {
        schema_version: SCHEMA_VERSION,
        run_id: config.run_id.clone(),
        candidate_id: config.candidate_id.clone(),
        created_utc: Timestamp::now().to_string(),
        interrupted: false,
        finished: false,
        loadgen: Loadgen {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            git: option_env!("INFERSCOPE_GIT").map(str::to_owned),
        },
        host: host::describe(),
        arms: config
            .arms
            .iter()
            .map(|a| ManifestArm {
                name: a.name.clone(),
                url: redact(&a.url),
                kind: a.kind,
            })
            .collect(),
        engine: found.engine.clone(),
        gpu: (config.gpu == Gpu::None).then(|| "none".to_owned()),
        config_sha256: None,
        schedule_sha256: None,
        prompts_sha256: None,
        seed: config.seed,
        calibration,
        points: plan
            .points
            .iter()
            .map(|p| PointRun {
                point_id: p.id.clone(),
                arm: config.arms[p.arm].name.clone(),
                block: p.block,
                load: p.load,
                warmup: p.warmup,
                planned: p.planned,
                stop_reason: None,
                start_ns: None,
                end_ns: None,
                alive_after: None,
                alive_error: None,
            })
            .collect(),
        artifacts: Vec::new(),
    };
    Ok(Prepared {
        config,
        plan,
        found,
        manifest,
        run,
    })
}

/// Drives a prepared run and writes its raw files.
///
/// # Errors
/// When the run's directory or one of its files cannot be created.
pub async fn drive(prepared: Prepared) -> Result<Done, RunError> {
    let Prepared {
        config,
        plan,
        found,
        mut manifest,
        run,
    } = prepared;
    let (config, plan) = (Arc::new(config), Arc::new(plan));
    create(&run, &config, &plan, &mut manifest)?;
    // Threads started from here on inherit it; those that do not measure say otherwise.
    timer::go_first();
    let at_raw = |e: io::Error| failed(run.raw().display(), e);

    let writer = Writer::start(&run, Arc::clone(&config), Arc::clone(&plan)).map_err(at_raw)?;
    let scrape_target = found
        .engine_target
        .clone()
        .or_else(|| direct_target(&config, &found));
    let mut scraper = Scraper::create(
        &run.server_metrics(),
        scrape_target.clone(),
        found.engine_key.clone(),
    )
    .map_err(at_raw)?;
    let gauges = Arc::new(Gauges::default());
    let (interrupt, got) = listen_for_signals().map_err(|e| failed("signals", e))?;
    let session = Arc::new(Session {
        config: Arc::clone(&config),
        sink: writer.sink(),
        gauges: Arc::clone(&gauges),
        interrupt: interrupt.clone(),
    });
    let progress = Progress::start(Arc::clone(&gauges), plan.len() as u64)
        .map_err(|e| failed("progress", e))?;
    let monitor =
        lag::start(Arc::clone(&gauges), writer.sink()).map_err(|e| failed("lag monitor", e))?;
    let arms: Vec<Arc<Arm>> = found
        .arms
        .iter()
        .map(|(target, key)| {
            Arc::new(Arm {
                pool: std::sync::Mutex::new(Pool::new(
                    target.clone(),
                    config.timeouts.connect,
                    config.timeouts.keep_alive,
                )),
                probe: Probe {
                    arm: target.clone(),
                    engine: scrape_target.clone().filter(|t| t != target),
                    api_key: key.clone(),
                    engine_key: found.engine_key.clone(),
                },
            })
        })
        .collect();

    for (index, point) in plan.points.iter().enumerate() {
        if *interrupt.borrow() {
            manifest.points[index].stop_reason = Some(StopReason::Interrupted);
            if point.planned.is_some() {
                for arrival in 0..point.arrivals.len() {
                    session.sink.dropped(index, arrival, None, "interrupted");
                }
            }
            continue;
        }
        progress.point(&point.id);
        let (target, key) = &found.arms[point.arm];
        // Scraping happens between points only: nothing else is asked while one is measured.
        let _ = scraper.snapshot(&point.id, When::Before).await;
        let jobs = feed::start(
            Arc::clone(&config),
            Arc::clone(&plan),
            index,
            target.clone(),
            key.clone(),
        )
        .map_err(|e| failed("feed", e))?;
        let end = drive::run_point(&session, &arms[point.arm], &plan, index, jobs).await;
        let alive = arms[point.arm].probe.is_alive().await;
        let _ = scraper.snapshot(&point.id, When::After).await;
        let about = &mut manifest.points[index];
        about.stop_reason = Some(end.stop_reason);
        about.start_ns = Some(end.start);
        about.end_ns = Some(end.end);
        about.alive_after = Some(alive.is_ok());
        about.alive_error = alive.err();
    }
    drop((monitor, progress, session));
    timer::go_along();

    let mut disk_error = writer.finish().err().map(|e| e.to_string());
    if let Err(e) = scraper.finish() {
        disk_error.get_or_insert(e.to_string());
    }
    let mut reasons = vec![(
        "gpu_metrics.jsonl",
        match config.gpu {
            Gpu::None => "gpu: none".to_owned(),
            Gpu::Auto => "not produced by this version".to_owned(),
        },
    )];
    if let Err(why) = collect_records(&config, &found, &run).await {
        reasons.push(("gateway_records.jsonl", why));
    }
    let interrupted = *got.borrow();
    manifest.interrupted = interrupted.is_some();
    manifest.finished = true;
    manifest.artifacts = inventory::take(&run, &reasons);
    manifest
        .write(&run.manifest())
        .map_err(|e| failed(run.manifest().display(), e))?;
    Ok(Done {
        run,
        interrupted,
        disk_error,
    })
}

/// Lists the run's files once more, after the analysis has added its own.
///
/// # Errors
/// When the manifest cannot be read or written.
pub fn refresh_inventory(run: &RunDir) -> io::Result<()> {
    let mut manifest = Manifest::read(&run.manifest())?;
    let reasons: Vec<(String, String)> = manifest
        .artifacts
        .iter()
        .filter_map(|a| {
            let name = a.path.rsplit('/').next()?.to_owned();
            Some((name, a.reason.clone()?))
        })
        .collect();
    let reasons: Vec<(&str, String)> = reasons
        .iter()
        .map(|(name, why)| (name.as_str(), why.clone()))
        .collect();
    manifest.artifacts = inventory::take(run, &reasons);
    manifest.write(&run.manifest())
}

fn direct_target(config: &Resolved, found: &Found) -> Option<Target> {
    let direct = config.arms.iter().position(|a| a.kind == ArmKind::Direct)?;
    Some(found.arms[direct].0.clone())
}

/// The run's directory with configuration, plan and a first manifest.
fn create(
    run: &RunDir,
    config: &Resolved,
    plan: &Plan,
    manifest: &mut Manifest,
) -> Result<(), RunError> {
    let raw = run.raw();
    let write = |manifest: &mut Manifest| -> io::Result<()> {
        if let Some(parent) = raw.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::create_dir(&raw)?;
        let yaml = config.to_yaml();
        std::fs::write(run.config(), &yaml)?;
        manifest.config_sha256 = Some(hex::encode(Sha256::digest(yaml.as_bytes())));
        let mut out = BufWriter::new(std::fs::File::create_new(run.plan())?);
        let hashes = plan.write(config, &mut out)?;
        out.flush()?;
        manifest.schedule_sha256 = Some(hashes.schedule);
        manifest.prompts_sha256 = Some(hashes.prompts);
        manifest.write(&run.manifest())
    };
    write(manifest).map_err(|e| failed(raw.display(), e))
}

type Signals = (watch::Receiver<bool>, watch::Receiver<Option<Signal>>);

/// The first signal asks for the end, the second one does not wait for it.
fn listen_for_signals() -> io::Result<Signals> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let (asked, asked_rx) = watch::channel(false);
    let (which, which_rx) = watch::channel(None);
    tokio::spawn(async move {
        loop {
            let got = tokio::select! {
                _ = interrupt.recv() => Signal::Interrupt,
                _ = terminate.recv() => Signal::Terminate,
            };
            if *asked.borrow() {
                std::process::exit(got.exit_code().into());
            }
            eprintln!("loadgen: stopping; once more to stop at once");
            which.send_replace(Some(got));
            asked.send_replace(true);
        }
    });
    Ok((asked_rx, which_rx))
}

/// Copies the gateway's records, if there are any to copy.
async fn collect_records(config: &Resolved, found: &Found, run: &RunDir) -> Result<(), String> {
    if config.arms.iter().all(|a| a.kind != ArmKind::Gateway) {
        return Err("no gateway was measured".to_owned());
    }
    let Some(source) = &found.records else {
        return Err(
            "gateway_records is not configured; name them with --gateway-records".to_owned(),
        );
    };
    let wanted = answered_through_gateway(config, run).map_err(|e| e.to_string())?;
    source
        .collect(
            &config.run_id,
            wanted,
            config.timeouts.records,
            &run.gateway_records(),
        )
        .await
        .map(|_| ())
}

/// Ids of requests that the gateway answered, by the records just written.
fn answered_through_gateway(config: &Resolved, run: &RunDir) -> io::Result<BTreeSet<String>> {
    #[derive(serde::Deserialize)]
    struct Line {
        arm: String,
        request_id: String,
        status: Option<u16>,
    }
    let gateway: Vec<&str> = config
        .arms
        .iter()
        .filter(|a| a.kind == ArmKind::Gateway)
        .map(|a| a.name.as_str())
        .collect();
    let mut ids = BTreeSet::new();
    for line in BufReader::new(std::fs::File::open(run.requests())?).lines() {
        let Ok(line) = serde_json::from_str::<Line>(&line?) else {
            continue;
        };
        if line.status.is_some() && gateway.contains(&line.arm.as_str()) {
            ids.insert(line.request_id);
        }
    }
    Ok(ids)
}

/// What a plan would send, for `loadgen plan`.
#[must_use]
pub fn describe_plan(prepared: &Prepared) -> String {
    let mut out = String::new();
    for point in &prepared.plan.points {
        let measured = point.planned.map_or_else(
            || "until its time is up".to_owned(),
            |n| format!("{n} measured"),
        );
        let last = point.arrivals.last().and_then(|a| a.offset_ns);
        let time = last.map_or_else(String::new, |ns| {
            format!(", last at {:.1} s", ns as f64 / 1e9)
        });
        let output: u64 = point.arrivals.iter().map(|a| a.output_tokens).sum();
        let input: Option<u64> = point.arrivals.iter().map(|a| a.prompt_tokens).sum();
        let input = input.map_or_else(|| "unknown".to_owned(), |n| n.to_string());
        out.push_str(&format!(
            "{}: {} warm-up, {measured}{time}; at most {input} prompt and {output} output tokens\n",
            point.id, point.warmup
        ));
    }
    if let Some(first) = prepared.plan.points.first() {
        let arrival = first.arrivals.first().map_or(0, |a| a.seq);
        let id = body::request_id(&prepared.config.run_id, &first.id, arrival);
        out.push_str(&format!("first request id: {id}\n"));
    }
    out
}
