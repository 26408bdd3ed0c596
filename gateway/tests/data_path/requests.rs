//! A request on its way in: bodies, models, and what is refused.

use inferscope_shared::record::gateway::Outcome;

use crate::ASK;
use crate::engine::{Engine, json};
use crate::harness::{Client, Gateway};

#[tokio::test]
async fn r07_a_body_of_any_framing_goes_up_as_it_came() {
    let mut engine = Engine::start(vec![vec![json("{}")]]).await;
    let gateway = Gateway::start(&engine, "").await;
    let mut client = Client::connect(&gateway).await;
    // Larger than pingora's retry buffer; the second one on the same connection.
    for pad in [0, 70_000, 3_000_000] {
        let body = format!(r#"{{"pad":"{}","model":"m"}}"#, "y".repeat(pad));
        client.ask_chunked(&body, 50_000).await;
        assert_eq!(client.answer().await.status, 200);
        assert!(engine.request().await.body == body.as_bytes());
        client.ask(&body, "").await;
        assert_eq!(client.answer().await.status, 200);
        assert!(engine.request().await.body == body.as_bytes());
    }
}

#[tokio::test]
async fn r07_a_body_over_the_limit_is_refused_without_being_read() {
    let engine = Engine::start(vec![vec![json("{}")]]).await;
    let gateway = Gateway::start(&engine, "max_request_body: 64KiB\n").await;
    let mut client = Client::connect(&gateway).await;
    client
        .send(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 65537\r\nexpect: 100-continue\r\n\r\n")
        .await;
    let answer = client.answer().await;
    assert_eq!(answer.status, 413);
    assert!(answer.text().contains("\"error\""), "{}", answer.text());
    assert_eq!(gateway.record().await.outcome, Outcome::Refused);

    let mut client = Client::connect(&gateway).await;
    client.ask_chunked(&"z".repeat(70_000), 30_000).await;
    assert_eq!(client.answer().await.status, 413);
}

#[tokio::test]
async fn r09_continue_is_said_after_the_checks_and_the_connection_is_kept() {
    let mut engine = Engine::start(vec![vec![json("{}")]]).await;
    let gateway = Gateway::start(&engine, "").await;
    let mut client = Client::connect(&gateway).await;
    for _ in 0..2 {
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\nexpect: 100-continue\r\n\r\n",
            ASK.len()
        );
        client.send(head.as_bytes()).await;
        assert_eq!(client.head().await.0, 100);
        client.send(ASK.as_bytes()).await;
        assert_eq!(client.answer().await.status, 200);
        assert_eq!(engine.request().await.body, ASK.as_bytes());
    }
}

#[tokio::test]
async fn r04_an_alias_changes_the_model_alone() {
    let mut engine = Engine::start(vec![vec![json("{}")]]).await;
    let models = "models: {m: {pool: p, upstream_model: served/name}}\n";
    let gateway = Gateway::start(&engine, models).await;
    let mut client = Client::connect(&gateway).await;
    let body = r#"{ "seed":12345678901234567890, "model" : "m","eps":1e-7,"neg":-0.0 }"#;
    client.ask(body, "").await;
    assert_eq!(client.answer().await.status, 200);
    let sent = engine.request().await.body;
    assert_eq!(
        String::from_utf8(sent).unwrap(),
        body.replace("\"m\"", "\"served/name\"")
    );
    let record = gateway.record().await;
    assert_eq!(record.model.as_deref(), Some("m"));
    assert_eq!(record.upstream_model.as_deref(), Some("served/name"));

    client.ask(r#"{"model":"other"}"#, "").await;
    let answer = client.answer().await;
    assert_eq!(answer.status, 404);
    assert!(
        answer.text().contains("model_not_found"),
        "{}",
        answer.text()
    );
}

#[tokio::test]
async fn a_transfer_coding_that_would_be_lost_is_refused() {
    let engine = Engine::start(vec![vec![json("{}")]]).await;
    let gateway = Gateway::start(&engine, "").await;
    let mut client = Client::connect(&gateway).await;
    client
        .send(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n")
        .await;
    assert_eq!(client.answer().await.status, 400);
}

#[tokio::test]
async fn a_record_keeps_the_start_of_a_long_text_and_the_engine_gets_all_of_it() {
    let mut engine = Engine::start(vec![vec![json("{}")]]).await;
    let gateway = Gateway::start(&engine, "").await;
    let mut client = Client::connect(&gateway).await;
    let body = format!(r#"{{"model":"{}"}}"#, "ä".repeat(100_000));
    client.ask(&body, "").await;
    assert_eq!(client.answer().await.status, 200);
    assert!(engine.request().await.body == body.as_bytes());
    let record = gateway.record().await;
    let kept = format!("{}…", "ä".repeat(256));
    assert_eq!(record.model.as_deref(), Some(kept.as_str()));
    assert_eq!(record.upstream_model.as_deref(), Some(kept.as_str()));

    let path = "/x".repeat(10_000);
    client
        .send(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes())
        .await;
    assert_eq!(client.answer().await.status, 404);
    assert_eq!(gateway.record().await.path.chars().count(), 257);
}

#[tokio::test]
async fn a_query_too_long_to_follow_a_base_path_is_refused() {
    let mut engine = Engine::start(vec![vec![json("{}")]]).await;
    let gateway = Gateway::at(&[format!("http://{}/base", engine.address)], "").await;
    let mut client = Client::connect(&gateway).await;
    // A URI has at most 65534 bytes.
    let query = "q".repeat(65_534 - "/v1/models?".len());
    client
        .send(format!("GET /v1/models?{query} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes())
        .await;
    assert_eq!(client.answer().await.status, 400);
    assert_eq!(gateway.record().await.outcome, Outcome::Refused);

    client
        .send(b"GET /v1/models?a=b HTTP/1.1\r\nhost: x\r\n\r\n")
        .await;
    assert_eq!(client.answer().await.status, 200);
    let head = engine.request().await.head;
    assert!(
        head.starts_with("GET /base/v1/models?a=b HTTP/1.1\r\n"),
        "{head}"
    );
}

#[tokio::test]
async fn a_post_that_names_no_model_reaches_no_engine_where_models_are_listed() {
    let mut engine = Engine::start(vec![vec![json("{}")]]).await;
    let gateway = Gateway::start(&engine, "models: {m: {pool: p}}").await;
    let mut client = Client::connect(&gateway).await;
    for body in ["", "{}", "{\"model\":null}"] {
        client.ask(body, "").await;
        let answer = client.answer().await;
        assert_eq!(answer.status, 400, "{body}");
        assert!(answer.text().contains("missing_model"), "{}", answer.text());
    }
    assert!(engine.events.try_recv().is_err());
}
