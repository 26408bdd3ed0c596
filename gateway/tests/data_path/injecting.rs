//! `usage: inject`: what the engine is asked, and what the client gets.

use inferscope_shared::record::gateway::UsageSource;

use crate::engine::{Do, Engine, chunk, event, last_chunk, stream_head};
use crate::harness::{Client, Gateway};

const USAGE: &str = "data: {\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,\"total_tokens\":5}}\n\n";
const DONE: &str = "data: [DONE]\n\n";

fn streams(n: usize) -> Vec<Vec<Do>> {
    let stream = vec![
        stream_head(),
        chunk(event("a")),
        chunk(format!("{}{}", event("b"), &USAGE[..20])),
        chunk(&USAGE[20..]),
        chunk(DONE),
        last_chunk(),
    ];
    vec![stream; n]
}

#[tokio::test]
async fn r01_only_who_asked_for_usage_gets_it() {
    let mut engine = Engine::start(streams(3)).await;
    let gateway = Gateway::start(&engine, "usage: inject").await;
    let mut client = Client::connect(&gateway).await;
    for (options, asked) in [
        ("", false),
        (r#","stream_options":{"include_usage":false}"#, false),
        (r#","stream_options":{"include_usage":true}"#, true),
    ] {
        let body = format!(r#"{{"model":"m","stream":true{options}}}"#);
        client.ask(&body, "").await;
        let sent = engine.request().await.body;
        let sent: serde_json::Value = serde_json::from_slice(&sent).unwrap();
        assert_eq!(sent["stream_options"]["include_usage"], true);
        assert_eq!(sent["model"], "m");
        let answer = client.answer().await;
        assert!(answer.whole);
        let usage = if asked { USAGE } else { "" };
        let expected = format!("{}{}{usage}{DONE}", event("a"), event("b"));
        assert_eq!(answer.text(), expected);

        let record = gateway.record().await;
        assert_eq!(record.usage.source, UsageSource::Usage);
        assert_eq!(record.usage.prompt_tokens, Some(3));
        assert_eq!(record.usage.completion_tokens, Some(2));
        assert_eq!(record.sha256_upstream == record.sha256_downstream, asked);
        let ends: u64 = record.chunks.end_offset.iter().sum();
        assert_eq!(ends, expected.len() as u64, "offsets are the client's");
        assert_eq!(record.bytes_out, expected.len() as u64);
        assert_eq!(
            record.chunks.written_ns.len(),
            record.chunks.end_offset.len()
        );
        let events: u64 = record.chunks.events.iter().sum();
        assert_eq!(events, if asked { 4 } else { 3 });
    }
}

#[tokio::test]
async fn r01_r03_by_default_nothing_is_asked_for_and_nothing_cut() {
    let mut engine = Engine::start(streams(1)).await;
    let gateway = Gateway::start(&engine, "").await;
    let mut client = Client::connect(&gateway).await;
    let body =
        r#"{"model":"m","stream":true,"x_vendor":{"deep":[1,null]}, "seed":12345678901234567890}"#;
    client.ask(body, "").await;
    assert_eq!(engine.request().await.body, body.as_bytes());
    let answer = client.answer().await;
    assert_eq!(
        answer.text(),
        format!("{}{}{USAGE}{DONE}", event("a"), event("b"))
    );
    let record = gateway.record().await;
    assert_eq!(record.sha256_upstream, record.sha256_downstream);
}

#[tokio::test]
async fn d09_running_totals_are_charged_once() {
    let mut stream = vec![stream_head()];
    for total in 1..=40 {
        stream.push(chunk(format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"x\"}}}}],\"usage\":{{\"prompt_tokens\":10,\"completion_tokens\":{total}}}}}\n\n"
        )));
    }
    stream.extend([chunk(DONE), last_chunk()]);
    let engine = Engine::start(vec![stream]).await;
    let limits = "usage: inject\ntenants: {anonymous: {limits: {budget: {daily: 100000}}}}";
    let gateway = Gateway::start(&engine, limits).await;
    let mut client = Client::connect(&gateway).await;
    client
        .ask(r#"{"model":"m","stream":true,"max_tokens":40}"#, "")
        .await;
    let answer = client.answer().await;
    assert_eq!(answer.text().matches("\"content\":\"x\"").count(), 40);
    assert_eq!(gateway.record().await.usage.completion_tokens, Some(40));
    gateway
        .until("tokens_charged_total{source=\"usage\"}", 50.0)
        .await;
}
