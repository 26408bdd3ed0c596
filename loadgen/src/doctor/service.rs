//! Arms, engine and gateway: whether they answer as a run needs it.

use std::time::Duration;

use http::Method;
use inferscope_shared::openai::{self, StreamState};
use inferscope_shared::record::request::EventKind;
use inferscope_shared::sse;

use super::Findings;
use crate::artifacts::host;
use crate::artifacts::manifest::ManifestEngine;
use crate::client::simple;
use crate::client::target::Target;
use crate::config::{Gpu, Resolved};
use crate::plan::{body, calibrate};
use crate::preflight::{self, engine};
use crate::records::Source;
use crate::telemetry::engine::names_of;
use crate::telemetry::engine::scrape;
use crate::telemetry::gpu::Cards;
use crate::telemetry::sampler::Source as _;
use crate::telemetry::{SourceReport, sources};

/// Time for one tiny answer; a cold engine may take long for it.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// Counters that an engine's metrics should have, as [`names_of`] calls them.
const COUNTERS: [&str; 9] = [
    "requests_success",
    "prompt_tokens",
    "generation_tokens",
    "preemptions",
    "prefix_queries",
    "prefix_hits",
    "running",
    "waiting",
    "kv_usage",
];

pub(super) async fn look(config: &Resolved, f: &mut Findings) -> Option<ManifestEngine> {
    let mut models = None;
    let mut keys = Vec::new();
    let mut first = None;
    for arm in &config.arms {
        match preflight::check_arm(config, arm).await {
            Ok((target, key, served)) => {
                let lists = served.is_some();
                let saw = if lists {
                    format!("{target} answers and serves {}", config.request.model)
                } else {
                    format!("{target} answers and lists no models")
                };
                f.ok(&format!("arm {}", arm.name), saw);
                streams(config, &arm.name, &target, key.as_deref(), f).await;
                models = models.or(served);
                keys.push((arm.url.clone(), key.clone()));
                first = first.or(Some((target, key)));
            }
            Err(fault) => f.fail(&format!("arm {}", arm.name), fault),
        }
    }
    let target = config
        .engine
        .url
        .as_deref()
        .and_then(|u| Target::parse(u).ok());
    let own_arm = config
        .arms
        .iter()
        .any(|a| Some(&a.url) == config.engine.url.as_ref());
    if let Some(target) = target.as_ref().filter(|_| !own_arm) {
        match preflight::check_engine(target).await {
            Ok(()) => f.ok("engine", format!("{target} answers")),
            Err(fault) => f.fail("engine", fault),
        }
    }
    let key = keys
        .iter()
        .find(|(url, _)| Some(url) == config.engine.url.as_ref())
        .and_then(|(_, key)| key.clone());
    let process = sources::engine_process(config, target.as_ref()).await;
    match &process {
        Err(fault) => f.fail("engine process", fault.clone()),
        Ok(Err(why)) => f.warn(
            "engine process",
            why.clone(),
            "its memory and CPU are not sampled",
        ),
        Ok(Ok(pid)) => f.ok("engine process", format!("pid {pid}")),
    }
    let found = match target.as_ref().or(first.as_ref().map(|(t, _)| t)) {
        Some(target) if first.is_some() => {
            let asked = engine::Asked {
                target,
                key: key.as_deref(),
                models: models.as_ref(),
                process: &process.unwrap_or_else(Err),
            };
            let found = engine::identify(config, &asked).await;
            f.ok("engine", describe(&found));
            counters(target, key.as_deref(), f).await;
            tokenizer(config, target, key.as_deref(), f).await;
            Some(found)
        }
        _ => None,
    };
    records(config, f).await;
    gpu(config, f).await;
    found
}

fn describe(engine: &ManifestEngine) -> String {
    format!(
        "{} {}, {} settings, {}",
        engine.name.as_deref().unwrap_or("of unknown name"),
        engine.version.as_deref().unwrap_or("of unknown version"),
        engine.settings.len(),
        match &engine.flags_absent {
            None => format!("{} words of command line", engine.flags.len()),
            Some(why) => format!("command line unknown ({why})"),
        }
    )
}

/// One tiny request: does it stream, does it end, does usage come back?
async fn streams(
    config: &Resolved,
    arm: &str,
    target: &Target,
    key: Option<&str>,
    f: &mut Findings,
) {
    let check = format!("streaming {arm}");
    let endpoint = config.request.endpoint;
    let body = body::question(endpoint, &config.request.model, "time", 2).into();
    let path = target.path(body::path(endpoint));
    let answer = simple::ask(target, Method::POST, &path, key, Some(&body), ANSWER_LIMIT).await;
    let answer = match answer {
        Ok(answer) if answer.status == 200 => answer,
        Ok(answer) => {
            let said = String::from_utf8_lossy(&answer.body);
            let said = crate::client::fold::excerpt(&said);
            return f.fail(
                &check,
                format!(
                    "a tiny request is answered {} ({said}); look at the server's log",
                    answer.status
                ),
            );
        }
        Err(e) => {
            return f.fail(
                &check,
                format!("a tiny request fails ({e}); look at the server's log"),
            );
        }
    };
    let mut state = StreamState::new();
    let (mut events, mut outputs) = (0, 0);
    sse::Parser::new().push(&answer.body, &mut |event| {
        events += 1;
        let seen = state.absorb(&openai::chunk(&event));
        outputs += usize::from(seen.kind == EventKind::Output);
    });
    if let Some(error) = state.error() {
        f.fail(
            &check,
            format!("the stream holds an error ({})", error.message),
        );
    } else if events == 0 {
        f.fail(
            &check,
            "the answer is no event stream; use an endpoint that streams",
        );
    } else if outputs == 0 {
        f.fail(
            &check,
            "the stream holds no output; look at the server's log",
        );
    } else if !state.finished() {
        f.fail(
            &check,
            "the stream ends without a finish reason; nothing would count as ok",
        );
    } else if state.usage().and_then(|u| u.completion_tokens).is_none() {
        f.warn(
            &check,
            format!("{outputs} output events, and no usage"),
            "token rates and TPOT will be null; use a server that honours stream_options.include_usage",
        );
    } else {
        f.ok(&check, format!("{outputs} output events, with usage"));
    }
}

/// Which of the counters that runs look at the engine exposes.
async fn counters(target: &Target, key: Option<&str>, f: &mut Findings) {
    const CHECK: &str = "metrics";
    let samples = match scrape::samples(target, key).await {
        Ok(samples) => samples,
        Err(why) => {
            return f.warn(
                CHECK,
                format!("not available ({why})"),
                "the engine's counters cannot be reconciled; expose /metrics (llama.cpp: --metrics)",
            );
        }
    };
    let names = names_of(&samples);
    let missing: Vec<&str> = COUNTERS
        .into_iter()
        .filter(|counter| !names.contains_key(*counter))
        .collect();
    let known = COUNTERS.len() - missing.len();
    if missing.is_empty() {
        f.ok(CHECK, format!("all {known} counters known"));
    } else {
        f.warn(
            CHECK,
            format!(
                "{known} of {} counters known; missing: {}",
                COUNTERS.len(),
                missing.join(", ")
            ),
            "they will be null; an engine that names them otherwise is worth a report",
        );
    }
}

async fn tokenizer(config: &Resolved, target: &Target, key: Option<&str>, f: &mut Findings) {
    if config.prompts.workload.is_some() {
        return f.ok("prompt lengths", "those of the workload");
    }
    let (_, found) = calibrate::calibrate(config, target, key).await;
    match found.note {
        None => f.ok(
            "prompt lengths",
            format!("exact, by {}", found.prompt_tokens),
        ),
        Some(note) => f.warn(
            "prompt lengths",
            format!("estimated ({note})"),
            "give --engine-url of a server with /tokenize if lengths must be exact",
        ),
    }
}

async fn records(config: &Resolved, f: &mut Findings) {
    const CHECK: &str = "gateway records";
    let gateway = config
        .arms
        .iter()
        .any(|a| a.kind == crate::config::ArmKind::Gateway);
    let Some(text) = &config.gateway_records else {
        if gateway {
            f.warn(
                CHECK,
                "not configured",
                "name them with --gateway-records, or nothing is attributed",
            );
        }
        return;
    };
    let source = match Source::open(text, &config.run_id).await {
        Ok(source) => source,
        Err(fault) => return f.fail(CHECK, fault),
    };
    match (source.boot_id().await, host::boot_id()) {
        (Some(theirs), Some(ours)) if theirs == ours => f.ok(CHECK, "within reach, of this boot"),
        (Some(theirs), _) => f.warn(
            CHECK,
            format!("within reach, of boot {theirs}, which is not this host's"),
            "stamps of gateway and client cannot be compared; run both on one host for attribution",
        ),
        (None, _) => f.ok(CHECK, "within reach, no boot id yet"),
    }
}

async fn gpu(config: &Resolved, f: &mut Findings) {
    if config.gpu == Gpu::None {
        return f.ok("GPU", "none, by the configuration");
    }
    let found = tokio::task::spawn_blocking(|| {
        let cards = Cards::open(Cards::named_library().as_deref(), None)?;
        let mut report = SourceReport::default();
        cards.describe(&mut report);
        Ok::<_, String>(report.subject.unwrap_or_default())
    });
    let remedy = "GPU gates stay undecided; write gpu: none if there is none";
    match found.await {
        Ok(Ok(cards)) => f.ok("GPU", cards),
        Ok(Err(why)) => f.warn("GPU", why, remedy),
        Err(e) => f.warn("GPU", e.to_string(), remedy),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::simple::tests::{ok, server};
    use crate::doctor::Level;

    async fn looked_at(answer: impl Into<String>) -> (Level, String) {
        let mut f = Findings::default();
        counters(&server(answer), None, &mut f).await;
        let [only] = f.0.as_slice() else {
            panic!("{f:?}");
        };
        (only.level, only.saw.clone())
    }

    const OTHERS: &str = "vllm:request_success_total 1\nvllm:prompt_tokens_total 1\n\
        vllm:generation_tokens_total 1\nvllm:num_preemptions_total 0\n\
        vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n";
    const OLD: &str = "vllm:gpu_cache_usage_perc 0.1\nvllm:gpu_prefix_cache_queries_total 1\n\
        vllm:gpu_prefix_cache_hits_total 1\n";
    const NEW: &str = "vllm:kv_cache_usage_perc 0.1\nvllm:prefix_cache_queries_total 1\n\
        vllm:prefix_cache_hits_total 1\n";

    #[tokio::test]
    async fn m33_doctor_knows_counters_by_old_and_new_names_and_names_those_that_are_missing() {
        let (old, new) = (format!("{OTHERS}{OLD}"), format!("{OTHERS}{NEW}"));
        for page in [format!("{new}{OLD}"), old, new] {
            let saw = looked_at(ok(&page)).await;
            assert_eq!(
                saw,
                (Level::Ok, "all 9 counters known".to_owned()),
                "{page}"
            );
        }
        let (level, saw) = looked_at(ok(OTHERS)).await;
        assert_eq!(level, Level::Warn);
        assert_eq!(
            saw,
            "6 of 9 counters known; missing: prefix_queries, prefix_hits, kv_usage"
        );
        let (level, saw) = looked_at(ok("something_else 1\n")).await;
        assert!(level == Level::Warn && saw.starts_with("0 of 9"), "{saw}");
        let (level, saw) = looked_at("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").await;
        assert_eq!(level, Level::Warn);
        assert_eq!(saw, "not available (answers 404)");
    }
}
