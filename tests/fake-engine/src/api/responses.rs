//! The responses API in its basic form: one message, named events, no `[DONE]`.

use serde_json::{Value, json};

use crate::generate::{Events, Facts, Output, Wire};

pub(crate) struct Responses;

impl Wire for Responses {
    fn open(&self, facts: &Facts, events: &mut Events<'_>) {
        let response = response(facts, None);
        for kind in ["response.created", "response.in_progress"] {
            send(events, kind, json!({"response": response}));
        }
        send(
            events,
            "response.output_item.added",
            json!({"item": item(facts, &[], "in_progress"), "output_index": 0}),
        );
        send(
            events,
            "response.content_part.added",
            json!({"content_index": 0, "item_id": item_id(facts), "output_index": 0, "part": part("")}),
        );
    }

    fn output(&self, facts: &Facts, output: Output, events: &mut Events<'_>) {
        send(
            events,
            "response.output_text.delta",
            json!({
                "content_index": 0, "delta": output.token, "item_id": item_id(facts),
                "logprobs": [], "output_index": 0
            }),
        );
    }

    fn close(&self, facts: &Facts, events: &mut Events<'_>) {
        let text = facts.text();
        let place = json!({"content_index": 0, "item_id": item_id(facts), "output_index": 0});
        let with = |key: &str, value: Value| {
            let mut event = place.clone();
            event[key] = value;
            event
        };
        let mut done = with("text", json!(text));
        done["logprobs"] = json!([]);
        send(events, "response.output_text.done", done);
        send(
            events,
            "response.content_part.done",
            with("part", part(&text)),
        );
        send(
            events,
            "response.output_item.done",
            json!({"item": item(facts, &[part(&text)], "completed"), "output_index": 0}),
        );
        send(
            events,
            "response.completed",
            json!({"response": response(facts, Some(&text))}),
        );
    }

    fn whole(&self, facts: &Facts) -> String {
        response(facts, Some(&facts.text())).to_string()
    }
}

fn send(events: &mut Events<'_>, kind: &str, mut event: Value) {
    event["sequence_number"] = json!(events.seq());
    event["type"] = json!(kind);
    let text = event.to_string();
    events.json(Some(kind), text.strip_suffix('}').unwrap_or(&text));
}

fn item_id(facts: &Facts) -> String {
    format!("msg_{}", facts.id)
}

fn part(text: &str) -> Value {
    json!({"annotations": [], "text": text, "type": "output_text", "logprobs": []})
}

fn item(facts: &Facts, content: &[Value], status: &str) -> Value {
    json!({
        "id": item_id(facts), "content": content, "role": "assistant", "status": status,
        "type": "message", "phase": null
    })
}

/// The response object; `text` once it is complete.
fn response(facts: &Facts, text: Option<&str>) -> Value {
    let ask = &facts.ask;
    let (status, reason) = match text {
        None => ("in_progress", Value::Null),
        Some(_) if ask.limited => ("incomplete", json!({"reason": "max_output_tokens"})),
        Some(_) => ("completed", Value::Null),
    };
    let usage = text.map(|_| {
        json!({
            "input_tokens": ask.prompt_tokens,
            "input_tokens_details": {
                "cached_tokens": 0, "cache_write_tokens": 0, "input_tokens_per_turn": [],
                "cached_tokens_per_turn": []
            },
            "output_tokens": ask.tokens,
            "output_tokens_details": {
                "reasoning_tokens": 0, "tool_output_tokens": 0, "output_tokens_per_turn": [],
                "tool_output_tokens_per_turn": []
            },
            "total_tokens": ask.prompt_tokens + ask.tokens
        })
    });
    let output: Vec<_> = text
        .map(|text| item(facts, &[part(text)], "completed"))
        .into_iter()
        .collect();
    json!({
        "id": format!("resp_{}", facts.id),
        "created_at": facts.created,
        "incomplete_details": reason,
        "instructions": null,
        "metadata": null,
        "model": serde_json::from_str::<Value>(&facts.model).unwrap_or_default(),
        "object": "response",
        "output": output,
        "parallel_tool_calls": true,
        "temperature": 1.0,
        "tool_choice": "none",
        "tools": [],
        "top_p": 1.0,
        "background": false,
        "max_output_tokens": ask.tokens,
        "previous_response_id": null,
        "reasoning": null,
        "service_tier": "auto",
        "status": status,
        "truncation": "disabled",
        "usage": usage,
        "user": null,
        "max_tool_calls": null,
        "prompt": null,
        "text": null,
        "top_logprobs": null,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "kv_transfer_params": null,
        "ec_transfer_params": null,
        "input_messages": null,
        "output_messages": null
    })
}
