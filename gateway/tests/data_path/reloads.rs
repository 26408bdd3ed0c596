//! Another configuration while connections and streams are open.

use inferscope_shared::record::gateway::Outcome;

use crate::ASK;
use crate::engine::{Engine, chunk, event, hold, json, last_chunk, stream_head};
use crate::harness::{Client, Gateway};

/// A body of 200 bytes, which fits by default.
fn long() -> String {
    format!(r#"{{"model":"m","user":"{}"}}"#, "u".repeat(177))
}

#[tokio::test]
async fn o02_a_stream_ends_as_it_began_and_the_next_request_is_under_the_new_file() {
    let (hold, release) = hold();
    let stream = vec![
        stream_head(),
        chunk(event("a")),
        hold,
        chunk(event("b")),
        last_chunk(),
    ];
    let mut engine = Engine::start(vec![stream, vec![json("{}")]]).await;
    let gateway = Gateway::start(&engine, "").await;
    let mut client = Client::connect(&gateway).await;
    client.ask(ASK, "").await;
    engine.request().await;
    assert_eq!(client.head().await.0, 200);
    // A connection that waits for its first request when the file changes.
    let mut waiting = Client::connect(&gateway).await;

    let done = gateway
        .reload(|text| format!("{text}max_request_body: 100B\ntimeouts: {{total: 9m}}\n"))
        .unwrap();
    let changes: Vec<String> = done.changes.iter().map(ToString::to_string).collect();
    assert_eq!(
        changes,
        [
            "max_request_body: (not set) -> 100B",
            "timeouts.total: (not set) -> 9m"
        ]
    );
    assert!(done.need_restart.is_empty());

    waiting.ask(&long(), "").await;
    assert_eq!(waiting.answer().await.status, 413, "the new limit holds");
    release.notify_one();
    let answer = client.rest().await;
    assert!(answer.whole);
    assert_eq!(answer.text(), format!("{}{}", event("a"), event("b")));
    client.ask(&long(), "").await;
    assert_eq!(
        client.answer().await.status,
        413,
        "on an old connection too"
    );

    gateway.reload(|text| text.replace("100B", "1KiB")).unwrap();
    client = Client::connect(&gateway).await;
    client.ask(&long(), "").await;
    assert_eq!(client.answer().await.status, 200);
    let mut outcomes = Vec::new();
    for _ in 0..4 {
        outcomes.push(gateway.record().await.outcome);
    }
    assert_eq!(outcomes.iter().filter(|o| **o == Outcome::Ok).count(), 2);
}

#[tokio::test]
async fn o02_a_file_with_faults_changes_nothing_and_all_of_them_are_told() {
    let engine = Engine::start(vec![vec![json("{}")]]).await;
    let gateway = Gateway::start(&engine, "").await;
    let error = gateway
        .reload(|text| format!("{text}max_request_body: 10B\ntimeuts: {{}}\nusage: never\n"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("timeuts") && error.contains("usage"),
        "{error}"
    );
    let mut client = Client::connect(&gateway).await;
    client.ask(ASK, "").await;
    assert_eq!(client.answer().await.status, 200);
}

#[tokio::test]
async fn what_is_read_at_the_start_is_named_as_such() {
    let engine = Engine::start(vec![vec![json("{}")]]).await;
    let gateway = Gateway::start(&engine, "").await;
    let done = gateway
        .reload(|text| text.replace("hash: true", "hash: true, ring: {max_records: 7}"))
        .unwrap();
    assert!(done.changes.is_empty());
    assert_eq!(done.need_restart.len(), 1);
    assert_eq!(done.need_restart[0].path, "records.ring.max_records");
}
