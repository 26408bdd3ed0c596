//! Clients and their connections: leaving, pipelining, old versions.

use std::time::Duration;

use inferscope_shared::record::gateway::Outcome;

use crate::engine::{Do, Engine, chunk, event, json, stream_head};
use crate::harness::{Client, Gateway};
use crate::{ASK, stream};

#[tokio::test]
async fn u15_a_client_that_leaves_frees_the_engine_before_and_in_its_answer() {
    for script in [
        vec![Do::AwaitClose],
        vec![stream_head(), chunk(event("a")), Do::AwaitClose],
    ] {
        let streaming = script.len() > 1;
        let mut engine = Engine::start(vec![script]).await;
        let gateway = Gateway::start(&engine, "").await;
        let mut client = Client::connect(&gateway).await;
        client.ask(ASK, "").await;
        engine.request().await;
        if streaming {
            client.head().await;
        }
        drop(client);
        let closed = tokio::time::timeout(Duration::from_secs(2), engine.closed()).await;
        assert!(closed.is_ok(), "the engine was never told");
        let record = gateway.record().await;
        assert_eq!(record.outcome, Outcome::ClientGone);
        assert_eq!(record.status, streaming.then_some(200));
    }
}

#[tokio::test]
async fn r13_half_close_is_gone_or_tolerated_as_the_port_says() {
    let engine = Engine::start(vec![stream(&["a"])]).await;
    let gateway = Gateway::start(&engine, "half_close: tolerate\n").await;
    let mut client = Client::connect(&gateway).await;
    client.ask(ASK, "").await;
    client.shut_sending().await;
    assert!(client.answer().await.whole);
    assert_eq!(gateway.record().await.outcome, Outcome::Ok);

    let mut engine = Engine::start(vec![vec![Do::AwaitClose]]).await;
    let gateway = Gateway::start(&engine, "").await;
    let mut client = Client::connect(&gateway).await;
    client.ask(ASK, "").await;
    engine.request().await;
    client.shut_sending().await;
    engine.closed().await;
    assert_eq!(gateway.record().await.outcome, Outcome::ClientGone);
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_turn() {
    let mut engine = Engine::start(vec![stream(&["a"]), vec![json("{}")]]).await;
    let gateway = Gateway::start(&engine, "").await;
    let mut client = Client::connect(&gateway).await;
    client.ask(ASK, "").await;
    client.ask(r#"{"model":"m"}"#, "").await;
    assert!(client.answer().await.text().contains("[DONE]"));
    assert_eq!(client.answer().await.text(), "{}");
    assert_eq!(engine.request().await.body, ASK.as_bytes());
    assert_eq!(engine.request().await.body, br#"{"model":"m"}"#);
}

#[tokio::test]
async fn a_client_of_http_1_0_gets_no_chunks_and_the_close_ends_its_stream() {
    let engine = Engine::start(vec![stream(&["a", "b"])]).await;
    let gateway = Gateway::start(&engine, "").await;
    let mut client = Client::connect(&gateway).await;
    let request = format!(
        "POST /v1/chat/completions HTTP/1.0\r\nconnection: keep-alive\r\ncontent-length: {}\r\n\r\n{ASK}",
        ASK.len()
    );
    client.send(request.as_bytes()).await;
    let (status, head) = client.head().await;
    assert_eq!(status, 200);
    assert!(!head.to_lowercase().contains("transfer-encoding"), "{head}");
    let expected = format!("{}{}data: [DONE]\n\n", event("a"), event("b"));
    assert_eq!(client.remainder().await, expected.as_bytes());
    let record = gateway.record().await;
    assert_eq!(record.outcome, Outcome::Ok);
    assert_eq!(record.bytes_out, expected.len() as u64);
    assert_eq!(record.sha256_upstream, record.sha256_downstream);
}

#[tokio::test]
async fn r24_a_head_request_has_no_body_and_the_connection_goes_on() {
    let list = r#"{"object":"list","data":[]}"#;
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        list.len()
    );
    let scripts = vec![vec![Do::Write(head.into_bytes())], vec![json(list)]];
    let mut engine = Engine::start(scripts).await;
    let gateway = Gateway::start(&engine, "").await;
    let mut client = Client::connect(&gateway).await;
    client
        .send(b"HEAD /v1/models HTTP/1.1\r\nhost: x\r\n\r\n")
        .await;
    let (status, head) = client.head().await;
    assert_eq!(status, 200);
    assert!(
        head.to_lowercase().contains("content-length: 27\r\n"),
        "{head}"
    );
    client
        .send(b"GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n")
        .await;
    assert_eq!(client.answer().await.text(), list);

    for (method, bytes) in [("HEAD", 0), ("GET", list.len() as u64)] {
        let request = engine.request().await;
        assert!(request.head.starts_with(method), "{}", request.head);
        let record = gateway.record().await;
        assert_eq!((record.outcome, record.bytes_out), (Outcome::Ok, bytes));
    }
}
