//! The end of the process as its connections see it.

use std::sync::Arc;

use inferscope_shared::record::gateway::Outcome;

use crate::ASK;
use crate::engine::{Do, Engine, chunk, event, hold, json, last_chunk, stream_head};
use crate::harness::{Client, Gateway};

#[tokio::test]
async fn o01_a_request_behind_a_stream_is_refused_once_a_drain_has_begun() {
    let (hold, release) = hold();
    let script = vec![stream_head(), hold, chunk(event("a")), last_chunk()];
    let mut engine = Engine::start(vec![script]).await;
    let gateway = Gateway::start(&engine, "").await;
    let mut client = Client::connect(&gateway).await;
    client.ask(ASK, "").await;
    engine.request().await;
    assert_eq!(client.head().await.0, 200);
    gateway.drain();
    client.ask(ASK, "").await;
    release.notify_one();
    assert!(client.rest().await.whole, "the stream finishes");
    let answer = client.answer().await;
    assert_eq!(answer.status, 503);
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(client.at_end().await);
    gateway.wait().await;
}

#[tokio::test]
async fn o01_a_drain_ends_with_the_last_stream() {
    let mut engine =
        Engine::start(vec![vec![stream_head(), chunk(event("a")), Do::AwaitClose]]).await;
    let gateway = Gateway::start(&engine, "").await;
    let mut idle = Client::connect(&gateway).await;
    let mut streaming = Client::connect(&gateway).await;
    streaming.ask(ASK, "").await;
    engine.request().await;
    assert_eq!(streaming.head().await.0, 200);

    gateway.drain();
    assert!(idle.at_end().await, "an idle connection is closed");
    assert!(!gateway.ended(), "a stream still runs");
    gateway.cut();
    let answer = streaming.rest().await;
    assert!(answer.text().contains("data: {\"error\":") && !answer.whole);
    assert_eq!(gateway.record().await.outcome, Outcome::Drained);
    gateway.wait().await;
}

#[tokio::test]
async fn a_request_that_is_half_sent_at_the_cut_is_drained() {
    let mut engine = Engine::start(vec![vec![json("{}")]]).await;
    let gateway = Gateway::start(&engine, "").await;
    let mut client = Client::connect(&gateway).await;
    client
        .send(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 100\r\n\r\n")
        .await;
    assert_eq!(client.head().await.0, 100, "the gateway reads the body");
    client.send(b"{").await;
    gateway.drain();
    gateway.cut();
    assert!(client.at_end().await);
    let record = gateway.record().await;
    assert_eq!((record.outcome, record.status), (Outcome::Drained, None));
    assert!(
        engine.events.try_recv().is_err(),
        "the engine never heard of it"
    );
    gateway.wait().await;
}

#[tokio::test]
async fn o01_a_drain_ends_although_new_requests_keep_coming() {
    let (hold, release) = hold();
    let script = vec![stream_head(), hold, chunk(event("a")), last_chunk()];
    let mut engine = Engine::start(vec![script]).await;
    let gateway = Arc::new(Gateway::start(&engine, "").await);
    let mut client = Client::connect(&gateway).await;
    client.ask(ASK, "").await;
    engine.request().await;
    gateway.drain();
    // Each of them is there before the one before it has gone.
    let late = gateway.clone();
    let coming = tokio::spawn(async move {
        let mut before = Client::try_connect(&late).await;
        while before.is_some() {
            let next = Client::try_connect(&late).await;
            if let Some(mut client) = before {
                let _ = client.try_ask(ASK).await;
            }
            before = next;
        }
    });
    release.notify_one();
    assert_eq!(client.answer().await.status, 200);
    let over = async {
        while !gateway.ended() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), over)
        .await
        .unwrap();
    coming.await.unwrap();
}
