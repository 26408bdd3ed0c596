//! Everything beside inference: models, tokenize, health, version, metrics, recordings.

use serde_json::{Value, json};

use super::intake;
use crate::clock::unix_seconds;
use crate::engine::Engine;
use crate::http::Reply;
use crate::http::request::Head;

/// Answers a request that needs no pacing.
pub(crate) fn answer(engine: &Engine, head: &Head, body: &[u8]) -> Reply {
    let get: fn(&Engine) -> Reply = match head.path() {
        "/tokenize" | "/detokenize" if head.method != "POST" => return method_not_allowed("POST"),
        "/tokenize" => return tokenize(engine, body).unwrap_or_else(|refusal| refusal),
        "/detokenize" => return detokenize(body).unwrap_or_else(|refusal| refusal),
        "/health" | "/ping" => |_| Reply::empty(200),
        "/version" => |_| Reply::json(200, version().to_string()),
        "/load" => |e| {
            let load = json!({"server_load": e.recorder.counts().in_flight.saturating_sub(1)});
            Reply::json(200, load.to_string())
        },
        "/metrics" => |e| Reply {
            content_type: Some("text/plain; version=1.0.0; charset=utf-8"),
            ..Reply::json(200, e.metrics.render())
        },
        "/v1/models" => |e| Reply::json(200, models(e).to_string()),
        "/fake/requests" => |e| Reply::json(200, recordings(e).to_string()),
        _ => return Reply::json(404, r#"{"detail":"Not Found"}"#),
    };
    if matches!(head.method.as_str(), "GET" | "HEAD") {
        get(engine)
    } else {
        method_not_allowed("GET")
    }
}

pub(crate) fn method_not_allowed(allow: &'static str) -> Reply {
    Reply {
        allow: Some(allow),
        ..Reply::json(405, r#"{"detail":"Method Not Allowed"}"#)
    }
}

fn version() -> Value {
    json!({"version": env!("CARGO_PKG_VERSION"), "engine": "inferscope-fake-engine"})
}

fn models(engine: &Engine) -> Value {
    let created = unix_seconds();
    let data: Vec<_> = engine
        .config
        .models
        .iter()
        .map(|id| {
            json!({
                "id": id, "object": "model", "created": created,
                "owned_by": "inferscope-fake-engine", "root": id, "parent": null,
                "max_model_len": engine.config.max_model_len, "permission": []
            })
        })
        .collect();
    json!({"object": "list", "data": data})
}

fn recordings(engine: &Engine) -> Value {
    json!({
        "counts": engine.recorder.counts(),
        "connections": engine.recorder.connections(),
        "requests": engine.recorder.requests()
    })
}

/// One token per word; equal words are equal tokens.
fn tokenize(engine: &Engine, body: &[u8]) -> Result<Reply, Reply> {
    let body = intake::json(body)?;
    let text = match (body.get("prompt"), body.get("messages")) {
        (Some(Value::String(text)), _) => text.clone(),
        (_, Some(Value::Array(items))) => intake::text_of(items),
        _ => {
            return Err(Reply::error(
                400,
                "BadRequestError",
                Some("prompt"),
                "tokenize needs `prompt` (text) or `messages` (a list).",
            ));
        }
    };
    let tokens: Vec<u32> = text.split_whitespace().map(token_id).collect();
    let answer = json!({
        "count": tokens.len(), "max_model_len": engine.config.max_model_len,
        "tokens": tokens, "token_strs": null
    });
    Ok(Reply::json(200, answer.to_string()))
}

/// FNV-1a, folded into the size of a usual vocabulary.
fn token_id(word: &str) -> u32 {
    let hash = word.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    hash % 128_000
}

/// Words can't be had back from their numbers: every token becomes `t<number>`.
fn detokenize(body: &[u8]) -> Result<Reply, Reply> {
    let body = intake::json(body)?;
    let Some(Value::Array(tokens)) = body.get("tokens") else {
        return Err(Reply::error(
            400,
            "BadRequestError",
            Some("tokens"),
            "detokenize needs `tokens` (a list of numbers).",
        ));
    };
    let words: Vec<String> = tokens.iter().map(|t| format!("t{t}")).collect();
    Ok(Reply::json(
        200,
        json!({"prompt": words.join(" ")}).to_string(),
    ))
}
