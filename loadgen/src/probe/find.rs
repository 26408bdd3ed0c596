//! Who is to be probed: the engine behind a URL, its model, and what it says of itself.
//!
//! Each fault is one line: the object, its value, the remedy.

use std::time::Duration;

use http::Method;
use serde_json::Value;

use super::{Options, ProbeError, WhichProcess};
use crate::artifacts::manifest::ManifestEngine;
use crate::client::simple;
use crate::client::target::Target;
use crate::config::settings::{ArmSettings, Path, Settings};
use crate::config::{Resolved, rules};
use crate::preflight::{self, engine};
use crate::telemetry::process::{Tree, find};
use crate::telemetry::sources;

const LIMIT: Duration = Duration::from_secs(10);

/// Lengths when none are asked for.
const SHORT_TOKENS: u64 = 64;
const LONG_TOKENS: u64 = 384;

/// Tokens of a context that a prompt of default length leaves free beside the answer.
const SPARE_TOKENS: u64 = 16;

/// An engine that answers.
#[derive(Debug)]
pub(super) struct Engine {
    pub target: Target,
    pub key: Option<String>,
    /// In the form that the rest of the crate asks engines by.
    pub config: Resolved,
    pub about: ManifestEngine,
    /// Shortest and longest prompt, in tokens.
    pub lengths: (u64, u64),
    /// Its processes, with the root's command, or why they cannot be watched.
    pub process: Result<(Tree, String), String>,
}

/// Finds the engine.
pub(super) async fn engine(options: &Options) -> Result<Engine, ProbeError> {
    let target = Target::parse(&options.url).map_err(|e| ProbeError::Usage(e.to_string()))?;
    let key = match &options.api_key {
        Some(place) => Some(
            rules::read_secret(place)
                .map_err(|e| ProbeError::Usage(format!("--api-key-env {e}")))?,
        ),
        None => None,
    };
    let served = models(options, &target, key.as_deref()).await?;
    let entries = served.as_ref().and_then(|v| v["data"].as_array());
    let ids: Vec<&str> = entries
        .into_iter()
        .flatten()
        .filter_map(|m| m["id"].as_str())
        .collect();
    let model = model(&options.url, options.model.as_deref(), &ids)?;
    let context = entries
        .into_iter()
        .flatten()
        .find(|m| m["id"].as_str() == Some(&model))
        .and_then(|m| m["max_model_len"].as_u64());
    let lengths = options
        .prompt
        .unwrap_or_else(|| default_lengths(context, options.output_tokens));
    let config = Settings {
        path: Some(Path::Direct),
        direct: ArmSettings {
            url: Some(target.to_string()),
            api_key: options.api_key.clone(),
        },
        model: Some(model),
        input_tokens: Some(lengths.1),
        output_tokens: Some(options.output_tokens),
        requests: Some(1),
        engine_pid: match options.process {
            WhichProcess::Id(pid) => Some(pid),
            _ => None,
        },
        engine_process: match &options.process {
            WhichProcess::Named(name) => Some(name.clone()),
            _ => None,
        },
        ..Settings::default()
    }
    .resolve(false)
    .map_err(|faults| ProbeError::Usage(faults.join("\n")))?;
    let process = process(&config, &target).await?;
    let pid = match &process {
        Ok((tree, _)) => Ok(tree.root()),
        Err(why) => Err(why.clone()),
    };
    let asked = engine::Asked {
        target: &target,
        key: key.as_deref(),
        models: served.as_ref(),
        process: &pid,
    };
    let about = engine::identify(&config, &asked).await;
    Ok(Engine {
        target,
        key,
        config,
        about,
        lengths,
        process,
    })
}

/// The engine's processes. Not finding them is only a fault where they were named.
async fn process(
    config: &Resolved,
    target: &Target,
) -> Result<Result<(Tree, String), String>, ProbeError> {
    // The words of a configuration are flags here.
    let as_flags = |text: String| {
        text.replace("engine.pid", "--pid")
            .replace("engine.process", "--process")
    };
    let found = sources::engine_process(config, Some(target))
        .await
        .map_err(|fault| ProbeError::Usage(as_flags(fault)))?;
    Ok(found
        .and_then(|pid| Ok((Tree::of(pid)?, find::command_of(pid))))
        .map_err(as_flags))
}

/// Default lengths, shortened to what the engine's context takes.
fn default_lengths(context: Option<u64>, output_tokens: u64) -> (u64, u64) {
    let room = context.map_or(LONG_TOKENS, |all| {
        all.saturating_sub(output_tokens.saturating_add(SPARE_TOKENS))
    });
    let long = LONG_TOKENS.min(room).max(SHORT_TOKENS / 2 + 3);
    (SHORT_TOKENS.min(long / 2), long)
}

/// The engine's list of models; none where it has no such list.
async fn models(
    options: &Options,
    target: &Target,
    key: Option<&str>,
) -> Result<Option<Value>, ProbeError> {
    let url = &options.url;
    let path = target.path("/v1/models");
    let answer = simple::ask(target, Method::GET, &path, key, None, LIMIT)
        .await
        .map_err(|e| {
            ProbeError::Failed(format!(
                "{url}: unreachable ({e}); start the engine or correct the URL"
            ))
        })?;
    match answer.status {
        200 => serde_json::from_slice::<Value>(&answer.body)
            .ok()
            .filter(|v| v["data"].is_array())
            .map(Some)
            .ok_or_else(|| {
                ProbeError::Failed(format!(
                    "{url}: /v1/models answers no list of models; correct the URL"
                ))
            }),
        401 | 403 => Err(ProbeError::Usage(refused(options, answer.status))),
        404 | 405 | 501 => Ok(None),
        status => Err(ProbeError::Failed(format!(
            "{url}: /v1/models answers {status}; wait until the engine is ready"
        ))),
    }
}

/// What to do about a key that is missing or wrong.
pub(super) fn refused(options: &Options, status: u16) -> String {
    let url = &options.url;
    match &options.api_key {
        Some(place) => {
            format!("{url}: answers {status}: the key in {place} is not accepted; correct it")
        }
        None => format!(
            "{url}: answers {status}: it wants an API key; name its variable with --api-key-env NAME"
        ),
    }
}

/// The model to ask.
fn model(url: &str, wanted: Option<&str>, served: &[&str]) -> Result<String, ProbeError> {
    match (wanted, served) {
        (Some(wanted), _) if preflight::may_be_served(wanted, served) => Ok(wanted.to_owned()),
        (Some(wanted), _) => Err(ProbeError::Usage(format!(
            "--model {wanted}: not served at {url}; it serves {}",
            preflight::shown(served)
        ))),
        (None, [only]) => Ok((*only).to_owned()),
        (None, []) => Err(ProbeError::Usage(format!(
            "--model: {url} does not say what it serves; name the model"
        ))),
        (None, _) => Err(ProbeError::Usage(format!(
            "--model: {url} serves {}; name one",
            preflight::shown(served)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_model_needs_no_name_and_one_of_several_does() {
        let says = |wanted, served: &[&str]| match model("U", wanted, served) {
            Ok(model) => model,
            Err(e) => e.to_string(),
        };
        assert_eq!(says(None, &["a"]), "a");
        assert_eq!(says(Some("b"), &["a", "b"]), "b");
        assert_eq!(says(Some("b"), &[]), "b");
        assert_eq!(says(None, &["a", "b"]), "--model: U serves a, b; name one");
        assert!(says(None, &[]).contains("does not say"));
        assert!(says(Some("c"), &["a"]).contains("not served at U; it serves a"));
    }

    #[test]
    fn default_lengths_fit_a_small_context() {
        assert_eq!(default_lengths(None, 24), (64, 384));
        assert_eq!(default_lengths(Some(2048), 24), (64, 384));
        assert_eq!(default_lengths(Some(256), 24), (64, 216));
        let (short, long) = default_lengths(Some(10), 24);
        assert!(short > 0 && long >= short + 3);
    }
}
