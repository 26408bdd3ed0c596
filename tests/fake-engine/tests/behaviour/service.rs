//! The small endpoints, and refusals.

use inferscope_fake_engine::{Config, FakeEngine, Handle};
use serde_json::json;

use crate::client::{Client, post};

fn start() -> Handle {
    FakeEngine::start(Config {
        models: vec!["a".into(), "b".into()],
        max_model_len: 4_096,
        ..Config::default()
    })
    .unwrap()
}

#[test]
fn models_tokenize_health_version() {
    let engine = start();
    let mut client = Client::new(&engine);
    let models = client.get("/v1/models").json();
    assert_eq!(models["data"][1]["id"], "b");
    assert_eq!(models["data"][0]["max_model_len"], 4_096);
    let tokens = client
        .post("/tokenize", r#"{"model":"a","prompt":"x y  x"}"#)
        .json();
    assert_eq!(tokens["count"], 3);
    assert_eq!(tokens["max_model_len"], 4_096);
    assert_eq!(tokens["tokens"][0], tokens["tokens"][2]);
    assert_ne!(tokens["tokens"][0], tokens["tokens"][1]);
    let chat = client.post(
        "/tokenize",
        r#"{"messages":[{"role":"user","content":"x y"}]}"#,
    );
    assert_eq!(chat.json()["count"], 2);
    assert_eq!(client.get("/health").body(), b"");
    assert!(
        client.get("/version").json()["engine"]
            .as_str()
            .unwrap()
            .contains("fake")
    );
    assert_eq!(client.get("/load").json(), json!({"server_load": 0}));
    let metrics = client.get("/metrics");
    assert!(
        metrics
            .head
            .contains("content-type: text/plain; version=1.0.0")
    );
    let metrics = String::from_utf8(metrics.body()).unwrap();
    let started = metrics
        .lines()
        .find_map(|line| line.strip_prefix("process_start_time_seconds "))
        .unwrap();
    assert!(started.parse::<f64>().unwrap() > 1.7e9, "{started}");
}

#[test]
fn recordings_are_served_too() {
    let engine = start();
    let mut client = Client::new(&engine);
    client.get("/health?x=1");
    let seen = client.get("/fake/requests").json();
    assert_eq!(seen["requests"][0]["target"], "/health?x=1");
    assert_eq!(
        seen["requests"][0]["head"],
        "GET /health?x=1 HTTP/1.1\r\nhost: x\r\n\r\n"
    );
    assert_eq!(seen["counts"]["in_flight"], 1);
    assert_eq!(seen["connections"][0]["requests"], 2);
}

#[test]
fn refusals_keep_the_connection() {
    let engine = start();
    let mut client = Client::new(&engine);
    let chat = "/v1/chat/completions";
    assert_eq!(client.post(chat, "{").status, 400);
    assert_eq!(
        client.post(chat, r#"{"messages":[],"model":"a"}"#).status,
        400
    );
    let unknown = r#"{"messages":[{"role":"user","content":"x"}],"model":"no"}"#;
    let refused = client.post(chat, unknown);
    assert_eq!(refused.status, 404);
    assert_eq!(
        refused.json(),
        json!({"error": {"message": "The model `no` does not exist. Valid aliases: a, b.",
            "type": "NotFoundError", "param": "model", "code": 404}})
    );
    assert_eq!(
        client.get("/nowhere").json(),
        json!({"detail": "Not Found"})
    );
    client.send("DELETE /v1/chat/completions HTTP/1.1\r\n\r\n");
    let refused = client.response();
    assert_eq!(refused.status, 405);
    assert!(refused.head.contains("allow: POST\r\n"));
    client.send(post("/health", ""));
    assert_eq!(client.response().status, 405);
    assert_eq!(engine.counts().connections, 1);
}
