//! Everything that can be known to be wrong before the first file is written.
//!
//! Each fault is one line: the object, its value, the remedy. What passes is also what the run
//! needs later: keys read, the engine's kind found out, the gateway's records within reach.

pub(crate) mod engine;
mod secrets;

use std::path::Path;
use std::time::Duration;

use http::Method;
use serde_json::Value;
use thiserror::Error;

use crate::artifacts::layout::RunDir;
use crate::artifacts::manifest::ManifestEngine;
use crate::client::open_files;
use crate::client::simple;
use crate::client::target::Target;
use crate::config::{Arm, Arrival, Load, Resolved, rules};
use crate::records::Source;
use crate::telemetry::sources;

const LIMIT: Duration = Duration::from_secs(10);

/// Models named in a complaint at most.
const MODELS_SHOWN: usize = 5;

/// Faults found, one line each.
#[derive(Debug, Error)]
#[error("{}", .0.join("\n"))]
pub struct Faults(pub Vec<String>);

/// What preflight found out.
#[derive(Debug)]
pub struct Found {
    /// Each arm's target and key, in the configuration's order.
    pub arms: Vec<(Target, Option<String>)>,
    /// The engine's own target, where known.
    pub engine_target: Option<Target>,
    /// Key for the engine's own endpoints.
    pub engine_key: Option<String>,
    /// What the engine is.
    pub engine: ManifestEngine,
    /// The root of the engine's process tree, or why it is not known.
    pub engine_process: Result<u32, String>,
    /// Where the gateway's records come from.
    pub records: Option<Source>,
}

impl Found {
    /// Who is asked to count tokens: the engine, or the first arm where only that is known.
    #[must_use]
    pub fn tokenizer(&self) -> (&Target, Option<&str>) {
        match &self.engine_target {
            Some(target) => (target, self.engine_key.as_deref()),
            None => (&self.arms[0].0, self.arms[0].1.as_deref()),
        }
    }
}

/// Checks a configuration against the world.
///
/// # Errors
/// All faults found.
pub async fn check(config: &Resolved, run: &RunDir) -> Result<Found, Faults> {
    let mut faults = Vec::new();
    check_output(run, &mut faults);
    check_open_files(config, &mut faults);
    let mut arms = Vec::new();
    let mut models = None;
    for arm in &config.arms {
        match check_arm(config, arm).await {
            Ok((target, key, served)) => {
                // The engine's own list says what it is; a gateway may list aliases.
                models = models.or(served);
                arms.push((target, key));
            }
            Err(fault) => faults.push(fault),
        }
    }
    let records = match &config.gateway_records {
        Some(text) => match Source::open(text, &config.run_id).await {
            Ok(source) => Some(source),
            Err(fault) => {
                faults.push(fault);
                None
            }
        },
        None => None,
    };
    let engine_target = config
        .engine
        .url
        .as_deref()
        .and_then(|url| Target::parse(url).ok());
    if let Some(target) = &engine_target
        && config
            .arms
            .iter()
            .all(|a| Some(&a.url) != config.engine.url.as_ref())
        && let Err(fault) = check_engine(target).await
    {
        faults.push(fault);
    }
    let engine_process = sources::engine_process(config, engine_target.as_ref())
        .await
        .unwrap_or_else(|fault| {
            faults.push(fault.clone());
            Err(fault)
        });
    if !faults.is_empty() {
        return Err(Faults(faults));
    }
    let engine_key = config
        .arms
        .iter()
        .position(|a| Some(&a.url) == config.engine.url.as_ref())
        .and_then(|i| arms[i].1.clone());
    let asked = engine_target
        .as_ref()
        .or_else(|| arms.first().map(|a| &a.0));
    let engine = match asked {
        Some(target) => {
            let asked = engine::Asked {
                target,
                key: engine_key.as_deref(),
                models: models.as_ref(),
                process: &engine_process,
            };
            engine::identify(config, &asked).await
        }
        None => return Err(Faults(vec!["arms: none; name at least one".to_owned()])),
    };
    Ok(Found {
        arms,
        engine_target,
        engine_key,
        engine,
        engine_process,
        records,
    })
}

/// An engine that no arm leads to must be there all the same: whatever it answers will do.
///
/// # Errors
/// A sentence, when nobody answers.
pub(crate) async fn check_engine(target: &Target) -> Result<(), String> {
    let path = target.path("/v1/models");
    match simple::ask(target, Method::GET, &path, None, None, LIMIT).await {
        Ok(_) => Ok(()),
        Err(e) => Err(format!(
            "engine.url {target}: unreachable ({e}); correct it, or leave it out where the direct URL is the engine's"
        )),
    }
}

/// The run must be new, and its place writable.
fn check_output(run: &RunDir, faults: &mut Vec<String>) {
    let raw = run.raw();
    if raw.exists() {
        faults.push(format!(
            "run_id {}: exists already in {}; choose another with --run-id, or leave it out",
            run.run_id(),
            raw.display()
        ));
        return;
    }
    let results = run.roots().results();
    if let Err(e) = writable(results) {
        faults.push(format!(
            "results_dir {}: cannot be written ({e}); choose another with --results-dir",
            results.display()
        ));
    }
}

/// Every connection of a point must find a file, and so must the idle ones of the other arms.
pub(crate) fn check_open_files(config: &Resolved, faults: &mut Vec<String>) {
    let (name, highest) = most_in_flight(&config.load);
    let connections = u64::from(highest).saturating_mul(config.arms.len() as u64);
    if let Err(e) = open_files::check(connections) {
        faults.push(format!("{name} {highest}: {e}"));
    }
}

/// Requests in flight at most, over all points, and the setting that says so.
pub(crate) fn most_in_flight(load: &Load) -> (&'static str, u32) {
    match load.arrival {
        Arrival::Closed => (
            "load.concurrency",
            load.concurrency.iter().copied().max().unwrap_or(1),
        ),
        Arrival::Constant | Arrival::Poisson | Arrival::Gamma | Arrival::Replay => {
            ("load.max_in_flight", load.max_in_flight)
        }
    }
}

/// Tries to write where a directory is or would be, and leaves nothing behind.
pub(crate) fn writable(dir: &Path) -> std::io::Result<()> {
    let existing = dir
        .ancestors()
        .find(|d| d.exists())
        .filter(|d| !d.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    if !existing.is_dir() {
        return Err(std::io::Error::other(format!(
            "{} is no directory",
            existing.display()
        )));
    }
    let probe = existing.join(format!(".loadgen-{}", uuid::Uuid::new_v4().simple()));
    std::fs::File::create_new(&probe)?;
    std::fs::remove_file(&probe)
}

pub(crate) type ArmFound = (Target, Option<String>, Option<Value>);

/// The arm must answer, take the key and serve the model.
pub(crate) async fn check_arm(config: &Resolved, arm: &Arm) -> Result<ArmFound, String> {
    let name = &arm.name;
    let target = Target::parse(&arm.url).map_err(|e| format!("arms.{name}.url {e}"))?;
    let key = match &arm.api_key {
        Some(place) => {
            Some(rules::read_secret(place).map_err(|e| format!("arms.{name}.api_key {e}"))?)
        }
        None => None,
    };
    let path = target.path("/v1/models");
    let answer = simple::ask(&target, Method::GET, &path, key.as_deref(), None, LIMIT)
        .await
        .map_err(|e| {
            format!(
                "arms.{name}.url {}: unreachable ({e}); start the server or correct the URL",
                arm.url
            )
        })?;
    let served = match answer.status {
        200 => {
            let list = serde_json::from_slice::<Value>(&answer.body).ok();
            let list = list.filter(|v| v["data"].is_array()).ok_or_else(|| {
                format!(
                    "arms.{name}.url {}: /v1/models answers no list of models; correct the URL",
                    arm.url
                )
            })?;
            Some(list)
        }
        401 | 403 => {
            let remedy = match &arm.api_key {
                Some(place) => format!("the key in {place} is not accepted; correct it"),
                None => "it wants an API key; name one with --api-key-env".to_owned(),
            };
            return Err(format!(
                "arms.{name}.url {}: answers {}: {remedy}",
                arm.url, answer.status
            ));
        }
        404 | 405 | 501 => None,
        status => {
            return Err(format!(
                "arms.{name}.url {}: /v1/models answers {status}; wait until the server is ready",
                arm.url
            ));
        }
    };
    if let Some(served) = &served {
        check_model(config, arm, served)?;
    }
    Ok((target, key, served))
}

fn check_model(config: &Resolved, arm: &Arm, served: &Value) -> Result<(), String> {
    let model = &config.request.model;
    let Some(list) = served["data"].as_array() else {
        return Ok(());
    };
    let ids: Vec<&str> = list.iter().filter_map(|m| m["id"].as_str()).collect();
    if may_be_served(model, &ids) {
        return Ok(());
    }
    Err(format!(
        "request.model {model}: not served at {}; it serves {}",
        arm.url,
        shown(&ids)
    ))
}

/// Whether a server that lists these models may serve this one.
pub(crate) fn may_be_served(model: &str, listed: &[&str]) -> bool {
    // Scripted answers of the fake engine are models that it does not list.
    listed.is_empty() || listed.contains(&model) || model.starts_with("script:")
}

/// The first few of the models that a server lists.
pub(crate) fn shown(models: &[&str]) -> String {
    let more = models.len().saturating_sub(MODELS_SHOWN);
    let mut text = models[..models.len().min(MODELS_SHOWN)].join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}
