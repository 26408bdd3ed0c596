//! What the engine is: by what it lists, what it says of itself, and how it was started.
//!
//! `/v1/models` and `/version` tell kind, version and model; llama.cpp's `/props` and the `_info`
//! lines of `/metrics` its settings; the command line its flags, when its process is on this host.
//! Secrets are taken out ([`super::secrets`]). What nobody says is null, or the reason.

use std::collections::BTreeMap;

use http::Method;
use procfs::process::Process;
use serde_json::{Value, json};

use super::{LIMIT, secrets};
use crate::artifacts::manifest::ManifestEngine;
use crate::client::simple;
use crate::client::target::Target;
use crate::config::{EngineKind, Resolved};

/// Settings kept at most, and characters of each.
const SETTINGS: usize = 100;
const SETTING_CHARS: usize = 200;

/// Words of a command line kept at most.
const FLAGS: usize = 200;

/// An engine to be found out about.
pub struct Asked<'a> {
    /// Where it, or the arm in front of it, answers.
    pub target: &'a Target,
    /// Key for that.
    pub key: Option<&'a str>,
    /// Its list of models, where an arm gave one.
    pub models: Option<&'a Value>,
    /// The root of its process tree, or why it is not known.
    pub process: &'a Result<u32, String>,
}

/// Finds out what the engine is, unless the configuration says so.
pub async fn identify(config: &Resolved, asked: &Asked<'_>) -> ManifestEngine {
    let version = asked.json("/version").await;
    let first = asked.models.map(|m| &m["data"][0]);
    let served = asked.models.and_then(|m| {
        let all = m["data"].as_array()?;
        all.iter()
            .find(|entry| entry["id"] == config.request.model.as_str())
            .or_else(|| all.first())
    });
    let owner = first
        .and_then(|m| m["owned_by"].as_str())
        .unwrap_or_default()
        .to_owned();
    let stated = version.as_ref().and_then(|v| v["engine"].as_str());
    let name = stated.map_or_else(|| owner.clone(), str::to_owned);
    let found = if name.contains("fake")
        || (owner != "vllm" && asked.is_fake_behind(&config.request.model).await)
    {
        EngineKind::Fake
    } else if owner == "vllm" {
        EngineKind::Vllm
    } else if owner == "llamacpp" {
        EngineKind::Llamacpp
    } else {
        EngineKind::Unknown
    };
    let props = match found {
        EngineKind::Llamacpp => asked.json("/props").await,
        _ => None,
    };
    let metrics = asked.text("/metrics").await;
    let mut settings = infos(metrics.as_deref().unwrap_or_default());
    settings.extend(props.as_ref().map(llamacpp_settings).unwrap_or_default());
    let (flags, flags_absent) = match flags(asked.process) {
        Ok(flags) => (flags, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    ManifestEngine {
        kind: match config.engine.kind {
            EngineKind::Auto => found,
            stated => stated,
        },
        name: (!name.is_empty()).then_some(name),
        version: text(version.as_ref().map(|v| &v["version"]))
            .or_else(|| text(props.as_ref().map(|p| &p["build_info"]))),
        model: Some(config.request.model.clone()),
        model_root: text(served.map(|m| &m["root"])).map(|root| secrets::hide_word(&root)),
        max_model_len: served.and_then(|m| m["max_model_len"].as_u64()),
        flags,
        flags_absent,
        settings,
    }
}

impl Asked<'_> {
    /// Whether what answers behind a gateway, which lists models under its own name, is the fake
    /// engine: its numbers are no performance, whoever passes them on. Its answers say so.
    async fn is_fake_behind(&self, model: &str) -> bool {
        let path = self.target.path("/tokenize");
        let body = json!({"model": model, "prompt": "x"});
        let answer = simple::ask(
            self.target,
            Method::POST,
            &path,
            self.key,
            Some(&body),
            LIMIT,
        );
        let server = answer.await.ok().and_then(|answer| answer.server);
        server.is_some_and(|server| server.contains("fake-engine"))
    }

    async fn text(&self, path: &str) -> Option<String> {
        let full = self.target.path(path);
        let answer = simple::ask(self.target, Method::GET, &full, self.key, None, LIMIT);
        let answer = answer.await.ok().filter(|a| a.status == 200)?;
        String::from_utf8(answer.body).ok()
    }

    async fn json(&self, path: &str) -> Option<Value> {
        serde_json::from_str(&self.text(path).await?).ok()
    }
}

/// The command line of a process of this host, without secrets.
fn flags(process: &Result<u32, String>) -> Result<Vec<String>, String> {
    let pid = process.clone()?;
    let words = i32::try_from(pid)
        .map_err(|e| e.to_string())
        .and_then(|pid| Process::new(pid).map_err(|e| e.to_string()))
        .and_then(|process| process.cmdline().map_err(|e| e.to_string()))
        .map_err(|e| format!("the command line of process {pid} cannot be read ({e})"))?;
    let mut words = secrets::hide(&words);
    words.truncate(FLAGS);
    Ok(words)
}

/// Labels of an exposition's `_info` lines, such as vLLM's `vllm:cache_config_info`, by metric and
/// label. Lines about the language's runtime and about what is loaded just now are none.
fn infos(exposition: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for line in exposition.lines() {
        let Some((name, rest)) = line.split_once('{') else {
            continue;
        };
        let skipped = [
            "python_info",
            "process_info",
            "target_info",
            "lora_requests_info",
        ];
        if !name.ends_with("_info") || skipped.iter().any(|s| name.ends_with(s)) {
            continue;
        }
        for (label, value) in labels(rest) {
            if found.len() < SETTINGS && value != "None" {
                found.insert(format!("{name}.{label}"), setting(&label, &value));
            }
        }
    }
    found
}

/// A setting's value, cut and without what is secret.
fn setting(name: &str, value: &str) -> String {
    let pair = secrets::hide_word(&format!("{name}={value}"));
    let value = pair.split_once('=').map_or(value, |(_, value)| value);
    secrets::hide_word(value)
        .chars()
        .take(SETTING_CHARS)
        .collect()
}

/// `a="b",c="d"} 1` as pairs; a backslash keeps the next character.
fn labels(text: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let mut rest = text;
    while let Some((name, after)) = rest.split_once("=\"") {
        let mut value = String::new();
        let mut chars = after.char_indices();
        let mut end = after.len();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    end = at + 1;
                    break;
                }
                '\\' => value.extend(chars.next().map(|(_, c)| c)),
                c => value.push(c),
            }
        }
        pairs.push((name.trim_matches([',', ' ']).to_owned(), value));
        rest = &after[end..];
        if rest.starts_with('}') {
            break;
        }
    }
    pairs
}

/// What llama.cpp says of how it runs.
fn llamacpp_settings(props: &Value) -> BTreeMap<String, String> {
    let generation = &props["default_generation_settings"];
    [
        ("props.model_path", &props["model_path"]),
        ("props.total_slots", &props["total_slots"]),
        ("props.n_ctx", &generation["n_ctx"]),
    ]
    .into_iter()
    .filter_map(|(name, value)| {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => return None,
        };
        Some((name.to_owned(), setting(name, &text)))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_from_info_lines() {
        let found = infos(
            "# TYPE vllm:cache_config_info gauge\n\
             vllm:cache_config_info{block_size=\"16\",x=\"a, \\\"b\\\"\",none=\"None\"} 1.0\n\
             python_info{version=\"3.12\"} 1.0\n\
             vllm:lora_requests_info{running=\"a\"} 1.0\n\
             vllm:num_requests_running{model_name=\"m\"} 0\n",
        );
        let pairs: Vec<_> = found.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(
            pairs,
            [
                "vllm:cache_config_info.block_size=16",
                "vllm:cache_config_info.x=a, \"b\""
            ]
        );
    }

    #[test]
    fn a_secret_setting_is_hidden() {
        assert_eq!(setting("api_key", "abc"), secrets::HIDDEN);
        assert_eq!(setting("block_size", "16"), "16");
    }

    #[test]
    fn a_local_process_tells_its_command_line() {
        assert!(!flags(&Ok(std::process::id())).unwrap().is_empty());
        assert_eq!(
            flags(&Err("far away".to_owned())),
            Err("far away".to_owned())
        );
    }
}
