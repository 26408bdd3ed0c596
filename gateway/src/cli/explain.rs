//! `explain`: what becomes of a request of one key, for one model, on one path; from the
//! configuration alone, without a port or an engine.

use std::fmt::Write as _;

use http::Method;
use serde_json::{Value, json};

use crate::auth::Principal;
use crate::config::{ApiKey, Config, LimitsConfig, Over, Policy, Pool, Timeouts};
use crate::routes::Routes;
use crate::routing::way;

/// Whose request it is.
#[derive(Debug)]
pub(super) struct Case<'a> {
    pub(super) key_id: Option<&'a str>,
    pub(super) model: Option<&'a str>,
    pub(super) path: &'a str,
}

/// The answer as JSON.
///
/// # Errors
/// The key is not in the configuration; those that are.
pub(super) fn explain(config: &Config, case: &Case<'_>) -> Result<Value, String> {
    let key = key(config, case.key_id)?;
    let tenant_name = key.map_or("anonymous", |key| key.tenant.as_str());
    let tenant = config.tenants.get(tenant_name);
    let principal = Principal {
        tenant: tenant_name.to_owned(),
        key_id: key.map_or("anonymous", |key| key.id.as_str()).to_owned(),
        models: tenant
            .and_then(|tenant| tenant.models.as_deref())
            .map(Into::into),
    };
    let routes = Routes::new(&config.routes);
    let method = match case.path {
        "/v1/models" => Method::GET,
        _ => Method::POST,
    };
    let route = routes.resolve(&method, case.path.as_bytes());
    let mut refusals: Vec<String> = Vec::new();
    let mut refuse = |refusal: crate::errors::Refusal| {
        refusals.push(format!(
            "{}: {}",
            refusal.status().as_u16(),
            refusal.message()
        ));
    };
    if let Err(refusal) = route {
        refuse(refusal);
    }
    if let Some(model) = case.model
        && let Err(refusal) = principal.may_use(model)
    {
        refuse(refusal);
    }
    let way = match way(&config.models, &config.pools, case.model) {
        Ok(way) => Some(way),
        Err(refusal) => {
            refuse(refusal);
            None
        }
    };
    let pool = way.map(|(name, pool, _)| (name, pool));
    let upstream_model = way.and_then(|(_, _, model)| model).or(case.model);
    Ok(json!({
        "request": {"key_id": principal.key_id, "model": case.model, "path": case.path},
        "refused": refusals,
        "tenant": {
            "name": tenant_name,
            "models": tenant.and_then(|t| t.models.clone()),
            "priority": tenant.map_or("normal", |t| t.priority.label()),
            "weight": tenant.map_or(1, |t| t.weight),
        },
        "limits": {
            "key": key.and_then(|k| k.limits.as_ref()).map(limits),
            "tenant": tenant.and_then(|t| t.limits.as_ref()).map(limits),
            "pool": pool.and_then(|(_, p)| p.limits.as_ref()).map(limits),
        },
        "upstream_model": upstream_model,
        "pool": pool.map(|(name, pool)| pool_json(name, pool)),
        "queue": {
            "max_requests": config.queue.max_requests,
            "max_tokens": config.queue.max_tokens,
            "max_wait_seconds": config.queue.max_wait.as_secs_f64(),
        },
        "timeouts_seconds": timeouts(&config.timeouts),
        "max_request_body_bytes": config.max_body_bytes,
        "usage": match config.usage {
            crate::config::Usage::Observe => "observe",
            crate::config::Usage::Inject => "inject",
        },
    }))
}

fn key<'a>(config: &'a Config, id: Option<&str>) -> Result<Option<&'a ApiKey>, String> {
    let keys = config.auth.keys();
    let known = || -> String {
        let ids: Vec<&str> = keys.iter().map(|key| key.id.as_str()).collect();
        ids.join(", ")
    };
    match id {
        None if keys.is_empty() => Ok(None),
        None => Err(format!("name a key with --key-id; there are: {}", known())),
        Some(id) if keys.is_empty() => Err(format!(
            "--key-id {id}: this configuration has no keys (auth.mode: none); leave it out"
        )),
        Some(id) => keys
            .iter()
            .find(|key| key.id == id)
            .map(Some)
            .ok_or_else(|| format!("--key-id {id}: no such key; there are: {}", known())),
    }
}

fn limits(limits: &LimitsConfig) -> Value {
    json!({
        "requests_per_s": limits.requests_per_s,
        "burst": limits.burst,
        "tokens_per_min": limits.tokens_per_min,
        "concurrency": limits.concurrency,
        "daily_tokens": limits.daily_tokens,
        "monthly_tokens": limits.monthly_tokens,
        "max_prompt_tokens": limits.max_prompt_tokens,
        "max_output_tokens": limits.max_output_tokens.map(|cap| json!({
            "tokens": cap.tokens,
            "over": match cap.over { Over::Clamp => "clamp", Over::Refuse => "refuse" },
        })),
        "max_n": limits.max_n,
        "enforce": limits.enforce,
    })
}

fn pool_json(name: &str, pool: &Pool) -> Value {
    let endpoints: Vec<Value> = pool
        .endpoints
        .iter()
        .map(|e| json!({"name": e.name, "host": e.host, "port": e.port, "base_path": e.base_path, "weight": e.weight}))
        .collect();
    let choosing = &pool.choosing;
    json!({
        "name": name,
        "endpoints": endpoints,
        "concurrency_per_endpoint": pool.concurrency,
        "affinity_header": choosing.affinity.as_ref().map(http::HeaderName::as_str),
        "policy": match choosing.policy {
            Policy::LeastRequests => "least_requests",
            Policy::LeastTokens => "least_tokens",
        },
        "health": choosing.health.as_ref().map(|health| json!({
            "path": health.path,
            "interval_seconds": health.interval.as_secs_f64(),
        })),
        "ejection": {
            "consecutive_failures": choosing.ejection.consecutive_failures,
            "base_time_seconds": choosing.ejection.base_time.as_secs_f64(),
            "max_share_percent": choosing.ejection.max_share_percent,
        },
        "credential": pool.credential.is_some(),
    })
}

fn timeouts(limits: &Timeouts) -> Value {
    json!({
        "connect": limits.connect.as_secs_f64(),
        "first_byte": limits.first_byte.as_secs_f64(),
        "between_events": limits.between_events.as_secs_f64(),
        "total": limits.total.as_secs_f64(),
        "request_head": limits.request_head.as_secs_f64(),
        "request_body": limits.request_body.as_secs_f64(),
    })
}

/// The same for people: a line per value that is set.
pub(super) fn text(explained: &Value) -> String {
    let mut text = String::new();
    match explained["refused"].as_array().filter(|r| !r.is_empty()) {
        Some(refusals) => {
            for refusal in refusals {
                let _ = writeln!(text, "refused: {}", refusal.as_str().unwrap_or_default());
            }
        }
        None => text.push_str("goes through, limits and queue permitting\n"),
    }
    lines(&mut text, "", explained);
    text
}

fn lines(text: &mut String, path: &str, value: &Value) {
    match value {
        Value::Null => {}
        Value::Object(members) => {
            for (name, value) in members.iter().filter(|(name, _)| *name != "refused") {
                let dot = if path.is_empty() { "" } else { "." };
                lines(text, &format!("{path}{dot}{name}"), value);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            for (i, item) in items.iter().enumerate() {
                lines(text, &format!("{path}[{i}]"), item);
            }
        }
        Value::String(word) => {
            let _ = writeln!(text, "  {path}: {word}");
        }
        other => {
            let _ = writeln!(text, "  {path}: {other}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(key_id: Option<&str>, model: &str, path: &str) -> Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("s");
        std::fs::write(&secret, "a secret of the tests").unwrap();
        let hash = "0".repeat(64);
        let config = Config::parse(
            "t",
            &format!(
                "version: 1\nlisten: [{{addr: \"127.0.0.1:0\"}}]\n\
                 auth: {{secret: \"file:{}\", keys: [{{id: k, tenant: t, hash: \"hmac-sha256:{hash}\"}}]}}\n\
                 tenants: {{t: {{models: [m], priority: high, limits: {{requests_per_s: 2}}}}}}\n\
                 models: {{m: {{pool: p, upstream_model: up}}, x: {{pool: p}}}}\n\
                 pools: {{p: {{endpoints: [{{url: \"http://10.0.0.1:8000\"}}], concurrency: 8}}}}\n",
                secret.display()
            ),
        )
        .unwrap();
        let case = Case {
            key_id,
            model: Some(model),
            path,
        };
        explain(&config, &case).map(|value| text(&value))
    }

    #[test]
    fn a_request_that_goes_through_shows_its_way() {
        let text = explained(Some("k"), "m", "/v1/chat/completions").unwrap();
        assert!(text.starts_with("goes through"), "{text}");
        for line in [
            "tenant.name: t",
            "tenant.priority: high",
            "limits.tenant.requests_per_s: 2.0",
            "upstream_model: up",
            "pool.concurrency_per_endpoint: 8",
            "pool.endpoints[0].host: 10.0.0.1",
            "timeouts_seconds.connect: 5.0",
        ] {
            assert!(text.contains(&format!("  {line}\n")), "{line} in {text}");
        }
        assert!(!text.contains("hash") && !text.contains("secret"));
    }

    #[test]
    fn one_that_does_not_shows_every_reason() {
        let text = explained(Some("k"), "x", "/metrics").unwrap();
        assert!(
            text.contains("refused: 404: the path /metrics is not served here"),
            "{text}"
        );
        assert!(
            text.contains("refused: 403: this API key may not use the model `x`"),
            "{text}"
        );
        let error = explained(Some("no"), "m", "/v1/completions").unwrap_err();
        assert_eq!(error, "--key-id no: no such key; there are: k");
    }
}
