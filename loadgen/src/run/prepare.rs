//! From settings to a run that is ready to be driven: rules, preflight, calibration, plan.
//!
//! Nothing is written here; whatever is wrong ends in one [`RunError::Usage`] with all faults.

use inferscope_shared::record::SCHEMA_VERSION;
use jiff::Timestamp;

use super::RunError;
use crate::artifacts::fingerprint::Fingerprint;
use crate::artifacts::host;
use crate::artifacts::inventory;
use crate::artifacts::layout::{Roots, RunDir};
use crate::artifacts::manifest::{Calibration, Loadgen, Manifest, ManifestArm, PointRun};
use crate::client::target::redact;
use crate::config::settings::Settings;
use crate::config::{Arrival, EngineKind, Gpu, Resolved};
use crate::plan::prompts::Vocabulary;
use crate::plan::workload::Workload;
use crate::plan::{Plan, calibrate};
use crate::preflight::{self, Found};
use crate::token_check::local::Local;

/// A run that passed preflight and is laid out.
#[derive(Debug)]
pub struct Prepared {
    /// The configuration, with what was found out.
    pub config: Resolved,
    /// What will be sent.
    pub plan: Plan,
    pub(super) found: Found,
    pub(super) tokenizer: Option<Local>,
    pub(super) manifest: Manifest,
    pub(super) run: RunDir,
}

/// Reads the workload and resolves the settings: everything that needs nobody to be asked.
///
/// # Errors
/// [`RunError::Usage`] with every fault found.
pub fn settle(settings: Settings) -> Result<(Resolved, Option<Workload>), RunError> {
    let usage = |e: &dyn ToString| RunError::Usage(e.to_string());
    let workload = match &settings.workload {
        Some(path) => Some(Workload::read(path).map_err(|e| usage(&e))?),
        None => None,
    };
    let has_times = workload.as_ref().is_some_and(Workload::has_times);
    let mut config = settings
        .resolve(has_times)
        .map_err(|faults| RunError::Usage(faults.join("\n")))?;
    if config.load.arrival == Arrival::Replay && !has_times {
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
    Ok((config, workload))
}

/// A plan without a measured request is a fault of the settings.
///
/// # Errors
/// [`RunError::Usage`], when there is none.
pub(super) fn too_few(plan: &Plan) -> Result<(), RunError> {
    let mut points = plan.points.iter();
    if points.all(|p| p.arrivals.len() as u64 <= p.warmup) {
        return Err(RunError::Usage(
            "load: no measured request fits; raise requests or duration, or lower warmup"
                .to_owned(),
        ));
    }
    Ok(())
}

/// Checks the settings against the rules and the world, and lays out the plan. Writes nothing.
///
/// # Errors
/// [`RunError::Usage`] with every fault found.
pub async fn prepare(settings: Settings) -> Result<Prepared, RunError> {
    let usage = |e: &dyn ToString| RunError::Usage(e.to_string());
    let (mut config, workload) = settle(settings)?;
    let tokenizer = config.prompts.tokenizer.as_deref().map(Local::open);
    let tokenizer = tokenizer.transpose().map_err(RunError::Usage)?;
    let run = Roots::new(&config.results_dir).run(&config.run_id);
    let found = preflight::check(&config, &run)
        .await
        .map_err(|e| usage(&e))?;
    config.engine.kind = match found.engine.kind {
        EngineKind::Auto => EngineKind::Unknown,
        known => known,
    };
    let (vocabulary, calibration) = if workload.is_some() {
        let calibration = Calibration {
            prompt_tokens: "workload".to_owned(),
            ..Default::default()
        };
        (Vocabulary::assumed(), calibration)
    } else {
        let (target, key) = found.tokenizer();
        calibrate::calibrate(&config, target, key).await
    };
    let plan = Plan::new(&config, vocabulary, workload).map_err(RunError::Usage)?;
    too_few(&plan)?;
    let mut manifest = Manifest {
        schema_version: SCHEMA_VERSION,
        run_id: config.run_id.clone(),
        candidate_id: config.candidate_id.clone(),
        created_utc: Timestamp::now().to_string(),
        interrupted: false,
        finished: false,
        disk_error: None,
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
        fingerprint: None,
        tokenizer_sha256: config
            .prompts
            .tokenizer
            .as_deref()
            .and_then(|path| inventory::sha256_of(path).ok()),
        seed: config.seed,
        calibration,
        kernel_clock: None,
        telemetry: Vec::new(),
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
                token_check: None,
            })
            .collect(),
        artifacts: Vec::new(),
    };
    manifest.fingerprint = Some(Fingerprint::of(&manifest));
    Ok(Prepared {
        config,
        plan,
        found,
        tokenizer,
        manifest,
        run,
    })
}
