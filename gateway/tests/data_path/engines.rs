//! Engines that fail: what the client is told, and what is tried again.

use std::time::Duration;

use inferscope_shared::record::gateway::Outcome;

use crate::ASK;
use crate::engine::{Do, Engine, chunk, event, hold, json, stream_head};
use crate::harness::{Client, Gateway, closed_port};

#[tokio::test]
async fn u07_u09_an_engine_that_dies_mid_stream_gives_an_error_event_and_no_clean_end() {
    for (last, kind) in [(Do::Close, "truncated"), (Do::Reset, "reset")] {
        let script = vec![stream_head(), chunk(event("a")), last];
        let engine = Engine::start(vec![script]).await;
        let gateway = Gateway::start(&engine, "").await;
        let mut client = Client::connect(&gateway).await;
        client.ask(ASK, "").await;
        let answer = client.answer().await;
        let text = answer.text();
        assert!(text.starts_with(&event("a")) || kind == "reset", "{text}");
        assert!(text.contains("data: {\"error\":"), "{text}");
        assert!(text.ends_with("\n\n") && !text.contains("[DONE]"), "{text}");
        assert!(!answer.whole, "a cut answer must not look whole");
        let record = gateway.record().await;
        assert_eq!(record.outcome, Outcome::UpstreamError);
        assert_eq!(record.error_kind.as_deref(), Some(kind));
        assert_eq!(record.status, Some(200));
    }
}

#[tokio::test]
async fn u01_a_stale_connection_is_tried_again_and_an_answer_begun_is_not() {
    // The engine closes the kept connection as the second request comes in.
    let engine = Engine::start(vec![vec![json("{}")], vec![Do::Close], vec![json("{}")]]).await;
    let gateway = Gateway::start(&engine, "").await;
    let mut client = Client::connect(&gateway).await;
    client.ask(ASK, "").await;
    assert_eq!(client.answer().await.status, 200);
    assert_eq!(gateway.record().await.attempts, 1);
    client.ask(ASK, "").await;
    assert_eq!(client.answer().await.status, 200);
    let record = gateway.record().await;
    assert_eq!((record.attempts, record.conn_reused), (2, Some(false)));

    // A fresh connection that closes silently has no such excuse.
    let mut engine = Engine::start(vec![vec![Do::Close]]).await;
    let gateway = Gateway::start(&engine, "").await;
    let mut client = Client::connect(&gateway).await;
    client.ask(ASK, "").await;
    let answer = client.answer().await;
    assert_eq!(answer.status, 502);
    assert!(answer.text().contains("\"error\""));
    let record = gateway.record().await;
    assert_eq!(record.attempts, 1);
    assert_eq!(record.error_kind.as_deref(), Some("closed_before_answer"));
    engine.request().await;
    assert!(engine.events.try_recv().is_err(), "asked once");
}

#[tokio::test]
async fn an_engine_that_is_not_there_gives_502() {
    let gateway = Gateway::at(&[format!("http://{}", closed_port().await)], "").await;
    let mut client = Client::connect(&gateway).await;
    client.ask(ASK, "").await;
    assert_eq!(client.answer().await.status, 502);
    let record = gateway.record().await;
    assert_eq!(record.error_kind.as_deref(), Some("connect_refused"));
    assert_eq!(record.outcome, Outcome::UpstreamError);
}

#[tokio::test]
async fn u03_u05_silence_has_its_limits() {
    let engine = Engine::start(vec![vec![Do::AwaitClose]]).await;
    let gateway = Gateway::start(&engine, "timeouts: {first_byte: 50ms}\n").await;
    let mut client = Client::connect(&gateway).await;
    client.ask(ASK, "").await;
    assert_eq!(client.answer().await.status, 504);
    let record = gateway.record().await;
    assert_eq!(record.outcome, Outcome::Timeout);
    assert_eq!(record.error_kind.as_deref(), Some("first_byte_timeout"));

    let script = vec![
        stream_head(),
        chunk(event("a")),
        chunk(":\n\n"),
        Do::AwaitClose,
    ];
    let engine = Engine::start(vec![script]).await;
    let gateway = Gateway::start(&engine, "timeouts: {between_events: 50ms}\n").await;
    let mut client = Client::connect(&gateway).await;
    client.ask(ASK, "").await;
    let answer = client.answer().await;
    assert!(answer.text().contains("data: {\"error\":") && !answer.whole);
    let record = gateway.record().await;
    assert_eq!(record.error_kind.as_deref(), Some("between_events_timeout"));
}

#[tokio::test]
async fn a_document_that_trickles_is_no_silence() {
    let (first, go_on) = hold();
    let script = vec![
        Do::Write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{"
                .to_vec(),
        ),
        first,
        Do::Write(b"}".to_vec()),
    ];
    let engine = Engine::start(vec![script]).await;
    let limits = "timeouts: {first_byte: 300ms, between_events: 5s}\n";
    let gateway = Gateway::start(&engine, limits).await;
    let mut client = Client::connect(&gateway).await;
    client.ask(ASK, "").await;
    // Past the limit on the first byte, which had come: the wait is the scenario.
    tokio::time::sleep(Duration::from_millis(600)).await;
    go_on.notify_one();
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.text().as_str()), (200, "{}"));
    assert_eq!(gateway.record().await.outcome, Outcome::Ok);
}

#[tokio::test]
async fn a_limit_behind_a_5xx_head_is_what_the_record_says() {
    let head = "HTTP/1.1 500 No\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{";
    let script = vec![Do::Write(head.as_bytes().to_vec()), Do::AwaitClose];
    let engine = Engine::start(vec![script]).await;
    let gateway = Gateway::start(&engine, "timeouts: {between_events: 50ms}\n").await;
    let mut client = Client::connect(&gateway).await;
    client.ask(ASK, "").await;
    client.at_end().await;
    let record = gateway.record().await;
    assert_eq!(record.outcome, Outcome::Timeout);
    assert_eq!(record.error_kind.as_deref(), Some("between_events_timeout"));
}

#[tokio::test]
async fn another_endpoint_answers_where_one_is_not_to_be_had() {
    for (absent, connected) in [
        (format!("http://{}", closed_port().await), false),
        ("http://nowhere.invalid:1".to_owned(), false),
    ] {
        let engine = Engine::start(vec![vec![json("{}")]]).await;
        let urls = [absent, format!("http://{}", engine.address)];
        let gateway = Gateway::at(&urls, "timeouts: {connect: 300ms}\n").await;
        let mut client = Client::connect(&gateway).await;
        client.ask(ASK, "").await;
        assert_eq!(client.answer().await.status, 200);
        let record = gateway.record().await;
        assert_eq!((record.attempts, record.outcome), (2, Outcome::Ok));
        assert_eq!(record.conn_reused, Some(connected));
        assert!(record.t_routed_ns <= record.t_connected_ns);
        assert!(record.t_connected_ns <= record.t_request_sent_ns);
    }
}

#[tokio::test]
async fn an_engine_that_held_a_request_is_not_asked_again() {
    let (wait, go_on) = hold();
    let script = vec![vec![json("{}")], vec![wait, Do::Close], vec![json("{}")]];
    let mut engine = Engine::start(script).await;
    let gateway = Gateway::start(&engine, "").await;
    let mut client = Client::connect(&gateway).await;
    client.ask(ASK, "").await;
    assert_eq!(client.answer().await.status, 200);
    engine.request().await;
    gateway.record().await;

    client.ask(ASK, "").await;
    engine.request().await;
    // A close this late is no stale connection: the engine may have worked all the while.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    go_on.notify_one();
    assert_eq!(client.answer().await.status, 502);
    let record = gateway.record().await;
    assert_eq!((record.attempts, record.conn_reused), (1, Some(true)));
    assert_eq!(record.error_kind.as_deref(), Some("closed_before_answer"));
    assert!(engine.events.try_recv().is_err(), "asked once");
}
