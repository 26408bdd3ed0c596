//! The responses API: typed events and whole bodies.

use inferscope_shared::openai::{self, Chunk, OutputKind, StreamState};
use inferscope_shared::record::request::EventKind;

use crate::support::{event, read};

fn typed(kind: &str, rest: &str) -> String {
    let json = format!(r#"{{"type":"{kind}"{rest}}}"#);
    format!("event: {kind}\n{}", event(&json))
}

#[test]
fn deltas_of_every_kind_are_output() {
    let body = [
        typed(
            "response.created",
            r#","response":{"id":"r1","model":"m","error":null,"usage":null}"#,
        ),
        typed(
            "response.output_item.added",
            r#","output_index":0,"item":{"type":"reasoning"}"#,
        ),
        typed("response.reasoning_text.delta", r#","delta":"th""#),
        typed("response.reasoning_summary_text.delta", r#","delta":"ink""#),
        typed(
            "response.content_part.added",
            r#","part":{"type":"output_text","text":""}"#,
        ),
        typed(
            "response.output_text.delta",
            r#","output_index":1,"delta":"hi""#,
        ),
        typed(
            "response.output_text.delta",
            r#","output_index":1,"delta":"""#,
        ),
        typed("response.output_text.done", r#","text":"hi""#),
        typed("response.refusal.delta", r#","delta":"no""#),
        typed(
            "response.output_item.added",
            r#","output_index":2,"item":{"type":"function_call","name":"find","arguments":""}"#,
        ),
        typed(
            "response.function_call_arguments.delta",
            r#","output_index":2,"delta":"{}""#,
        ),
        typed(
            "response.function_call_arguments.done",
            r#","output_index":2,"arguments":"{}""#,
        ),
        typed(
            "response.completed",
            r#","response":{"status":"completed","output":[{"type":"message","content":[
               {"type":"output_text","text":"hi"}]}],"usage":{"input_tokens":9,"output_tokens":4,
               "input_tokens_details":{"cached_tokens":2}}}"#,
        ),
    ];
    let read = read([body.concat()]);
    assert_eq!(read.state.unreadable_events(), 0);
    assert_eq!(read.first_output(), Some(2));
    assert_eq!(read.state.output_events(), 6);
    assert_eq!(read.output(0, OutputKind::Reasoning), "think");
    assert_eq!(read.text(), "hi");
    assert_eq!(read.output(0, OutputKind::Refusal), "no");
    assert_eq!(read.output(0, OutputKind::ToolCall(2)), "find{}");
    assert_eq!(read.seen.last().map(|it| it.kind), Some(EventKind::Finish));
    assert!(read.state.finished() && read.state.done());
    assert_eq!(read.state.finish_reason(), Some("completed"));
    assert_eq!(read.state.model(), Some("m"));
    let usage = read.state.usage().expect("the closing event has it");
    assert_eq!(usage.prompt_tokens, Some(9));
    assert_eq!(usage.completion_tokens, Some(4));
    assert_eq!(usage.cached_tokens, Some(2));
}

#[test]
fn an_incomplete_answer_says_why() {
    let end = typed(
        "response.incomplete",
        r#","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}"#,
    );
    let read = read([[typed("response.output_text.delta", r#","delta":"a""#), end].concat()]);
    assert_eq!(read.state.finish_reason(), Some("max_output_tokens"));
    assert!(read.state.finished() && read.state.done());
}

#[test]
fn d14_failures_inside_a_responses_stream() {
    for failure in [
        typed(
            "response.failed",
            r#","response":{"status":"failed","error":{"message":"died"}}"#,
        ),
        typed(
            "error",
            r#","code":"server_error","message":"died","param":null"#,
        ),
    ] {
        let read = read([failure]);
        assert_eq!(read.state.error().map(|it| &*it.message), Some("died"));
        assert!(!read.state.finished());
    }
}

#[test]
fn a_whole_response_says_the_same() {
    let body = br#"{"id":"r1","object":"response","model":"m","status":"completed","error":null,
        "incomplete_details":null,"output":[
          {"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"th"}]},
          {"type":"message","content":[{"type":"output_text","text":"hi"}]},
          {"type":"function_call","name":"find","arguments":"{}"}],
        "usage":{"input_tokens":9,"output_tokens":4}}"#;
    let mut state = StreamState::with_texts();
    assert_eq!(state.absorb(&openai::body(body)).kind, EventKind::Output);
    assert!(state.finished() && state.done());
    let texts = state.texts().expect("texts were asked for");
    assert_eq!(texts.pieces().collect::<Vec<_>>(), ["th", "hi", "find{}"]);
}

#[test]
fn a_failed_response_is_an_error() {
    let body = br#"{"object":"response","status":"failed","error":{"message":"died"},"output":[]}"#;
    assert!(matches!(openai::body(body), Chunk::Error(error) if error.message == "died"));
}
