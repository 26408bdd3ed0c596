//! Events of OpenAI-compatible streams, as bytes: the short forms that the scenarios are told in.

/// One event whose delta has this text.
#[must_use]
pub fn chunk(text: &str) -> String {
    delta(&serde_json::json!({"content": text}), None)
}

/// The opening event: a role and no text.
#[must_use]
pub fn role() -> String {
    delta(
        &serde_json::json!({"role": "assistant", "content": ""}),
        None,
    )
}

/// The closing event with its finish reason.
#[must_use]
pub fn fin(reason: &str) -> String {
    delta(&serde_json::json!({}), Some(reason))
}

/// One event with one choice.
#[must_use]
pub fn delta(delta: &serde_json::Value, finish_reason: Option<&str>) -> String {
    data(&serde_json::json!({
        "id": "c1",
        "object": "chat.completion.chunk",
        "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
    }))
}

/// The usage event: no choices.
#[must_use]
pub fn usage(prompt_tokens: u64, completion_tokens: u64) -> String {
    data(&serde_json::json!({
        "id": "c1",
        "object": "chat.completion.chunk",
        "model": "m",
        "choices": [],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }))
}

/// Any JSON as one event.
#[must_use]
pub fn data(json: &serde_json::Value) -> String {
    format!("data: {json}\n\n")
}

/// The end mark.
pub const DONE: &str = "data: [DONE]\n\n";

/// A whole ordinary answer with these texts, one token each.
#[must_use]
pub fn answer(texts: &[&str]) -> Vec<String> {
    let mut events = vec![role()];
    events.extend(texts.iter().map(|text| chunk(text)));
    events.extend([fin("stop"), usage(3, texts.len() as u64), DONE.to_owned()]);
    events
}
