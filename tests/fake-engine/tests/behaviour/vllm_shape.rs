//! Our answers against bytes that a real vLLM sent: event by event the same keys, ours
//! only has `fake` besides, one event per HTTP chunk.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use inferscope_fake_engine::{Config, FakeEngine};
use serde_json::Value;

use crate::client::Client;

/// The events' data of a captured stream, one per HTTP chunk, or the JSON body.
fn captured(case: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fixtures/captures/vllm")
        .join(case);
    let raw = String::from_utf8(std::fs::read(path).unwrap()).unwrap();
    let (head, mut body) = raw.split_once("\r\n\r\n").unwrap();
    if !head.contains("transfer-encoding: chunked") {
        return vec![body.to_owned()];
    }
    let mut events = Vec::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            break;
        }
        let event = rest[..size].strip_suffix("\n\n").unwrap();
        let data = event.lines().find_map(|l| l.strip_prefix("data: "));
        events.push(data.unwrap().to_owned());
        body = &rest[size + 2..];
    }
    events
}

/// Paths of all keys, array members taken together.
fn keys(value: &Value, at: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                // The stamp is ours alone.
                if key != "fake" {
                    let path = format!("{at}.{key}");
                    keys(value, &path, into);
                    into.insert(path);
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|v| keys(v, &format!("{at}[]"), into)),
        _ => {}
    }
}

fn shape(data: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    if data != "[DONE]" {
        keys(&serde_json::from_str(data).unwrap(), "", &mut all);
    } else {
        all.insert(data.to_owned());
    }
    all
}

fn compare(case: &str, path: &str, body: &str) {
    let engine = FakeEngine::start(Config {
        ttft: Duration::from_millis(1),
        itl: Duration::ZERO,
        ..Config::default()
    })
    .unwrap();
    let response = Client::new(&engine).post(path, body);
    let theirs = captured(case);
    let ours = if body.contains(r#""stream":true"#) {
        response.events()
    } else {
        vec![String::from_utf8(response.body()).unwrap()]
    };
    assert_eq!(ours.len(), theirs.len(), "{case}: events");
    let mut ours: Vec<_> = ours.iter().map(|data| shape(data)).collect();
    let mut theirs: Vec<_> = theirs.iter().map(|data| shape(data)).collect();
    if body.contains(r#""n":2"#) {
        // How choices mix is a matter of scheduling.
        ours.sort();
        theirs.sort();
    }
    for (i, (our, their)) in ours.iter().zip(&theirs).enumerate() {
        let differing: Vec<_> = our.symmetric_difference(their).collect();
        assert!(differing.is_empty(), "{case}, event {i}: {differing:?}");
    }
}

const MESSAGES: &str = r#""messages":[{"role":"user","content":"x"}]"#;

#[test]
fn chat_streams_have_vllms_events_and_keys() {
    let path = "/v1/chat/completions";
    for (case, rest) in [
        ("chat_stream.raw", r#""max_tokens":24"#),
        (
            "chat_stream_usage.raw",
            r#""max_tokens":24,"stream_options":{"include_usage":true}"#,
        ),
        (
            "chat_stream_continuous_usage.raw",
            r#""max_tokens":24,"stream_options":{"include_usage":true,"continuous_usage_stats":true}"#,
        ),
        (
            "chat_max_tokens_1_stream.raw",
            r#""max_completion_tokens":1,"stream_options":{"include_usage":true}"#,
        ),
        (
            "chat_n2_stream.raw",
            r#""max_tokens":8,"n":2,"stream_options":{"include_usage":true}"#,
        ),
    ] {
        compare(
            case,
            path,
            &format!(r#"{{{MESSAGES},"stream":true,{rest}}}"#),
        );
    }
}

#[test]
fn whole_answers_have_vllms_keys() {
    let chat = "/v1/chat/completions";
    compare("chat_nonstream.raw", chat, &format!("{{{MESSAGES}}}"));
    compare(
        "chat_n2_nonstream.raw",
        chat,
        &format!(r#"{{{MESSAGES},"n":2}}"#),
    );
    compare(
        "completions_nonstream.raw",
        "/v1/completions",
        r#"{"prompt":"x"}"#,
    );
}

#[test]
fn completions_and_responses_streams_too() {
    let prompt = r#""prompt":"x","max_tokens":24,"stream":true"#;
    compare(
        "completions_stream.raw",
        "/v1/completions",
        &format!("{{{prompt}}}"),
    );
    compare(
        "completions_stream_usage.raw",
        "/v1/completions",
        &format!(r#"{{{prompt},"stream_options":{{"include_usage":true}}}}"#),
    );
    compare(
        "responses_stream.raw",
        "/v1/responses",
        r#"{"input":"x","max_output_tokens":8,"stream":true}"#,
    );
}

#[test]
fn errors_are_vllms() {
    let chat = "/v1/chat/completions";
    for (case, body) in [
        (
            "chat_max_tokens_0.raw",
            format!(r#"{{{MESSAGES},"max_tokens":0}}"#),
        ),
        ("chat_empty_body.raw", String::new()),
        ("chat_empty_messages.raw", r#"{"messages":[]}"#.to_owned()),
        (
            "chat_missing_messages.raw",
            r#"{"max_tokens":1}"#.to_owned(),
        ),
    ] {
        let engine = FakeEngine::start(Config::default()).unwrap();
        let ours = Client::new(&engine).post(chat, &body).json();
        let theirs: Value = serde_json::from_str(&captured(case)[0]).unwrap();
        assert_eq!(ours, theirs, "{case}");
    }
}
