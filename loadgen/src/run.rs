//! One run from its configuration to its evidence.
//!
//! Nothing is written before preflight has passed. From then on the run always leaves a complete
//! set of raw files: an interruption, a dead engine or missing gateway records shorten what is in
//! them and are named there, and the analysis reads the files like any other run's.

pub mod outline;
mod prepare;

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sha2::{Digest, Sha256};
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::analysis::lines::Lines;
use crate::artifacts::fingerprint::Fingerprint;
use crate::artifacts::inventory;
use crate::artifacts::layout::RunDir;
use crate::artifacts::manifest::{Artifact, Manifest, StopReason};
use crate::artifacts::writer::Writer;
use crate::calibration;
use crate::client::connection::Pool;
use crate::client::target::Target;
use crate::config::{ArmKind, Resolved};
use crate::drive::health::{self, PATIENCE, Probe};
use crate::drive::{self, Arm, Gauges, Session, feed, lag, timer};
use crate::plan::Plan;
use crate::preflight::Found;
use crate::progress::Progress;
use crate::records::{CollectError, Ids};
use crate::telemetry::sampler::When;
use crate::telemetry::sources::{Engine, Sources};
use crate::token_check;

pub use prepare::{Prepared, prepare, settle};

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

/// Drives a prepared run and writes its raw files.
///
/// # Errors
/// When the run's directory or one of its files cannot be created.
pub async fn drive(prepared: Prepared) -> Result<Done, RunError> {
    let Prepared {
        config,
        plan,
        found,
        tokenizer,
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
    let engine = Engine {
        target: scrape_target.clone(),
        key: found.engine_key.clone(),
        process: found.engine_process.clone(),
    };
    let sources = Sources::start(&config, engine, &run).map_err(at_raw)?;
    let gauges = Arc::new(Gauges::default());
    let signals = Signals::listen().map_err(|e| failed("signals", e))?;
    let interrupt = &signals.asked;
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

    let mut disk_error: Option<String> = None;
    let mut note = |result: io::Result<()>, file: &Path| {
        if let Err(e) = result {
            disk_error.get_or_insert(format!("{}: {e}", file.display()));
        }
    };
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
        sources.point(&point.id, When::Before).await;
        let jobs = feed::start(
            Arc::clone(&config),
            Arc::clone(&plan),
            index,
            target.clone(),
            key.clone(),
        )
        .map_err(|e| failed("feed", e))?;
        let end = drive::run_point(&session, &arms[point.arm], &plan, index, jobs).await;
        let alive = still_alive(&arms[point.arm].probe, interrupt.clone()).await;
        sources.point(&point.id, When::After).await;
        let about = &mut manifest.points[index];
        about.stop_reason = Some(end.stop_reason);
        about.start_ns = Some(end.start);
        about.end_ns = Some(end.end);
        about.planned = Some(end.planned);
        (about.alive_after, about.alive_error) = match alive {
            health::Found::Alive => (Some(true), None),
            health::Found::Gone(why) => (Some(false), Some(why)),
            health::Found::Unclear(why) => (None, Some(why)),
        };
    }
    drop(session);
    manifest.telemetry.push(monitor.finish().await);
    timer::go_along();
    let (reports, written) = sources.finish();
    manifest.telemetry.extend(reports);
    let cards = manifest.telemetry.iter().find(|s| s.source == "gpu");
    manifest.gpu = manifest.gpu.or(cards.and_then(|s| s.subject.clone()));
    note(written, &run.raw());
    manifest.fingerprint = Some(Fingerprint::of(&manifest));

    let written = writer.finish();
    manifest.kernel_clock = Some(written.kernel_clock);
    let (target, key) = found.tokenizer();
    let counted = token_check::count(
        &config,
        tokenizer.as_ref(),
        (target, key),
        &written.kept,
        plan.points.len(),
        interrupt.clone(),
    );
    for (point, check) in manifest.points.iter_mut().zip(counted.await) {
        point.token_check = Some(check);
    }
    match written.result {
        Ok(observed) => {
            progress.point("calibration of the instrument");
            let interrupt = interrupt.clone();
            let into = &mut manifest.calibration;
            calibration::of_run(&config, &plan, &observed, interrupt, into).await;
        }
        Err(e) => {
            manifest.calibration.instrument_absent = Some("requests.jsonl failed".to_owned());
            note(Err(e), &run.requests());
        }
    }
    drop(progress);
    let mut reasons = Vec::new();
    if let Err(e) = collect_records(&config, &found, &run).await {
        reasons.push(("gateway_records.jsonl", e.to_string()));
        if let CollectError::Disk(e) = e {
            note(Err(e), &run.gateway_records());
        }
    }
    signals.over();
    let interrupted = *signals.got.borrow();
    manifest.interrupted = interrupted.is_some();
    manifest.finished = true;
    manifest.disk_error.clone_from(&disk_error);
    manifest.artifacts = inventory::take(&run, &reasons);
    // A disk that ran full must still take the file that says so.
    let _ = std::fs::remove_file(reserve(&run));
    manifest
        .write(&run.manifest())
        .map_err(|e| match &disk_error {
            Some(first) => failed(first, format!("then {}: {e}", run.manifest().display())),
            None => failed(run.manifest().display(), e),
        })?;
    Ok(Done {
        run,
        interrupted,
        disk_error,
    })
}

/// Space that is kept for the last manifest while the run goes on.
fn reserve(run: &RunDir) -> PathBuf {
    run.raw().join(".reserve")
}

/// Larger than any manifest but those of very many points.
const RESERVE_BYTES: usize = 128 * 1024;

/// What a point left of arm and engine; whoever interrupts is not made to wait for slow ones.
async fn still_alive(probe: &Probe, mut interrupt: watch::Receiver<bool>) -> health::Found {
    tokio::select! {
        biased;
        _ = interrupt.wait_for(|i| *i) => {}
        found = probe.insist(PATIENCE) => return found,
    }
    probe.ask().await
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
    let evidence: Vec<Artifact> = std::mem::take(&mut manifest.artifacts)
        .into_iter()
        .filter(inventory::is_evidence)
        .collect();
    manifest.artifacts = inventory::take(run, &reasons);
    // The hashes are the run's own: a raw file that was changed later must not become the original.
    for artifact in &mut manifest.artifacts {
        if let Some(first) = evidence.iter().find(|e| e.path == artifact.path) {
            artifact.sha256.clone_from(&first.sha256);
        }
    }
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
        std::fs::write(reserve(run), vec![0; RESERVE_BYTES])?;
        let mut out = BufWriter::new(std::fs::File::create_new(run.plan())?);
        let hashes = plan.write(config, &mut out)?;
        out.flush()?;
        manifest.schedule_sha256 = Some(hashes.schedule);
        manifest.prompts_sha256 = Some(hashes.prompts);
        manifest.write(&run.manifest())
    };
    write(manifest).map_err(|e| failed(raw.display(), e))
}

/// What signals have asked for. They are heard whenever the runtime is polled.
pub(crate) struct Signals {
    /// An end, while measuring.
    pub asked: watch::Receiver<bool>,
    /// By which one.
    pub got: watch::Receiver<Option<Signal>>,
    /// There is something left to write; later a signal just ends the process.
    measuring: Arc<AtomicBool>,
}

impl Signals {
    /// The first signal asks for the end, the second one does not wait for it.
    pub fn listen() -> io::Result<Self> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let (ask, asked) = watch::channel(false);
        let (which, got) = watch::channel(None);
        let measuring = Arc::new(AtomicBool::new(true));
        let still = Arc::clone(&measuring);
        tokio::spawn(async move {
            loop {
                let got = tokio::select! {
                    _ = interrupt.recv() => Signal::Interrupt,
                    _ = terminate.recv() => Signal::Terminate,
                };
                if *ask.borrow() || !still.load(Ordering::Relaxed) {
                    std::process::exit(got.exit_code().into());
                }
                eprintln!("loadgen: stopping; once more to stop at once");
                which.send_replace(Some(got));
                ask.send_replace(true);
            }
        });
        Ok(Self {
            asked,
            got,
            measuring,
        })
    }

    /// Nothing is left that a signal would cut short.
    pub fn over(&self) {
        self.measuring.store(false, Ordering::Relaxed);
    }
}

/// Copies the gateway's records, if there are any to copy.
async fn collect_records(
    config: &Resolved,
    found: &Found,
    run: &RunDir,
) -> Result<(), CollectError> {
    let absent = |why: &str| Err(CollectError::Source(why.to_owned()));
    if config.arms.iter().all(|a| a.kind != ArmKind::Gateway) {
        return absent("no gateway was measured");
    }
    let Some(source) = &found.records else {
        return absent("gateway_records is not configured; name them with --gateway-records");
    };
    let wanted = answered_through_gateway(config, run).map_err(CollectError::Disk)?;
    source
        .collect(
            &config.run_id,
            &wanted,
            config.timeouts.records,
            &run.gateway_records(),
        )
        .await
        .map(|_| ())
}

/// Ids of requests that the gateway answered, by the records just written.
fn answered_through_gateway(config: &Resolved, run: &RunDir) -> io::Result<Ids> {
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
    let mut ids = Ids::default();
    let mut lines = Lines::open(&run.requests()).map_err(io::Error::other)?;
    while let Some(at) = lines.read::<Line>().map_err(io::Error::other)? {
        let line = at.value;
        if line.status.is_some() && gateway.contains(&line.arm.as_str()) {
            ids.add(&line.request_id);
        }
    }
    Ok(ids)
}
