//! Limits as callers meet them.

use std::sync::Arc;

use inferscope_shared::record::gateway::Outcome;
use tokio::sync::Barrier;

use crate::ASK;
use crate::engine::{Do, Engine, chunk, event, hold, json, last_chunk, stream_head};
use crate::harness::{Answer, Client, Gateway};

/// `n` requests released together, each on its own connection.
pub async fn together(gateway: &Gateway, n: usize, body: &'static str) -> Vec<Answer> {
    let barrier = Arc::new(Barrier::new(n));
    let mut asking = Vec::new();
    for _ in 0..n {
        let mut client = Client::connect(gateway).await;
        let barrier = barrier.clone();
        asking.push(tokio::spawn(async move {
            barrier.wait().await;
            client.ask(body, "").await;
            client.answer().await
        }));
    }
    let mut answers = Vec::new();
    for asked in asking {
        answers.push(asked.await.unwrap());
    }
    answers
}

pub fn count(answers: &[Answer], status: u16) -> usize {
    answers.iter().filter(|a| a.status == status).count()
}

/// What nobody is asked for a key may use: everybody's tenant then is `anonymous`.
fn anonymous(limits: &str) -> String {
    format!("tenants: {{anonymous: {{limits: {{{limits}}}}}}}")
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_at_once_get_exactly_the_burst() {
    for _ in 0..20 {
        let engine = Engine::start(vec![vec![json("{}")]]).await;
        // One an hour.
        let limits = anonymous("requests_per_s: 0.000278, burst: 50");
        let gateway = Gateway::start(&engine, &limits).await;
        let answers = together(&gateway, 200, ASK).await;
        assert_eq!((count(&answers, 200), count(&answers, 429)), (50, 150));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn l06_two_hundred_at_once_get_exactly_the_tokens() {
    for _ in 0..20 {
        // It holds every answer, so nothing is settled while the others ask.
        let engine = Engine::start(vec![vec![Do::AwaitClose]]).await;
        let gateway = Gateway::start(&engine, &anonymous("tokens_per_min: 10000")).await;
        // 11 of prompt and 2,489 of answer: 2,500, of which 167 are earned back in a second.
        let body = r#"{"model":"m","max_tokens":2489,"messages":[{"role":"user","content":"0123456789"}]}"#;
        let (sender, mut refused) = tokio::sync::mpsc::unbounded_channel();
        let barrier = Arc::new(Barrier::new(200));
        let mut asking = Vec::new();
        for _ in 0..200 {
            let mut client = Client::connect(&gateway).await;
            let (sender, barrier) = (sender.clone(), barrier.clone());
            asking.push(tokio::spawn(async move {
                barrier.wait().await;
                client.ask(body, "").await;
                let answer = client.answer().await;
                sender.send(answer.status).unwrap();
            }));
        }
        for _ in 0..196 {
            assert_eq!(refused.recv().await, Some(429));
        }
        assert_eq!(gateway.metric("permits_outstanding"), 4.0);
        for asked in asking {
            asked.abort();
        }
    }
}

#[tokio::test]
async fn l01_a_place_comes_back_with_every_stream_that_a_client_breaks_off() {
    let stream = vec![
        stream_head(),
        chunk(format!("{}{}", event("a"), event("b"))),
        Do::AwaitClose,
    ];
    let mut scripts = vec![stream; 200];
    scripts.push(vec![json("{}")]);
    let mut engine = Engine::start(scripts).await;
    let gateway = Gateway::start(&engine, &anonymous("concurrency: 1")).await;
    for _ in 0..200 {
        let mut client = Client::connect(&gateway).await;
        client.ask(ASK, "").await;
        assert_eq!(client.head().await.0, 200);
        client.chunk().await.unwrap();
        client.reset();
        engine.closed().await;
        assert_eq!(gateway.record().await.outcome, Outcome::ClientGone);
        assert_eq!(gateway.metric("permits_outstanding"), 0.0);
    }
    let mut client = Client::connect(&gateway).await;
    client.ask(ASK, "").await;
    assert_eq!(client.answer().await.status, 200);
}

#[tokio::test]
async fn l03_requests_that_reach_no_engine_cost_nothing() {
    let nobody = crate::harness::closed_port().await;
    let limits = anonymous("requests_per_s: 0.000278, burst: 2");
    let gateway = Gateway::at(&[format!("http://{nobody}")], &limits).await;
    let mut client = Client::connect(&gateway).await;
    for _ in 0..5 {
        client.ask(ASK, "").await;
        assert_eq!(client.answer().await.status, 502);
        client = Client::connect(&gateway).await;
    }
    let engine = Engine::start(vec![vec![json("{}")]]).await;
    gateway
        .reload(|text| text.replace(&nobody.to_string(), &engine.address.to_string()))
        .unwrap();
    for expected in [200, 200, 429] {
        client.ask(ASK, "").await;
        assert_eq!(client.answer().await.status, expected);
    }
}

#[tokio::test]
async fn l09_a_stream_is_charged_as_the_same_answer_in_one_piece_is() {
    let usage = r#"{"id":"c","object":"chat.completion","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hi"}}],"usage":{"prompt_tokens":30,"completion_tokens":70,"total_tokens":100}}"#;
    let stream = vec![
        stream_head(),
        chunk(event("hi")),
        chunk(
            "data: {\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":30,\"completion_tokens\":70,\"total_tokens\":100}}\n\ndata: [DONE]\n\n",
        ),
        last_chunk(),
    ];
    let scripts = (0..20)
        .map(|i| {
            if i % 2 == 0 {
                stream.clone()
            } else {
                vec![json(usage)]
            }
        })
        .collect();
    let engine = Engine::start(scripts).await;
    // Twelve of a hundred; the reservation of 12 for the prompt and 80 fits beside eleven of them.
    let gateway = Gateway::start(&engine, &anonymous("budget: {daily: 1200}")).await;
    let mut client = Client::connect(&gateway).await;
    let mut statuses = Vec::new();
    for i in 0..20 {
        let stream = i % 2 == 0;
        let body = format!(
            r#"{{"model":"m","stream":{stream},"max_tokens":80,"messages":[{{"role":"user","content":"012345"}}]}}"#
        );
        client.ask(&body, "").await;
        statuses.push(client.answer().await.status);
        gateway.record().await;
    }
    assert_eq!(
        statuses.iter().filter(|s| **s == 200).count(),
        12,
        "{statuses:?}"
    );
    assert!(statuses[..12].iter().all(|s| *s == 200));
}

#[tokio::test]
async fn what_is_left_stands_on_every_answer() {
    let engine = Engine::start(vec![vec![json("{}")]]).await;
    let limits = anonymous("requests_per_s: 0.001, burst: 2, tokens_per_min: 6000");
    let gateway = Gateway::start(&engine, &limits).await;
    let mut client = Client::connect(&gateway).await;
    let body = r#"{"model":"m","max_tokens":1}"#;
    client.ask(body, "").await;
    let answer = client.answer().await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("x-ratelimit-limit-requests"), Some("2"));
    assert_eq!(answer.header("x-ratelimit-remaining-requests"), Some("1"));
    assert_eq!(answer.header("x-ratelimit-limit-tokens"), Some("6000"));
    client.ask(body, "").await;
    client.answer().await;
    client.ask(body, "").await;
    let answer = client.answer().await;
    assert_eq!(answer.status, 429);
    assert_eq!(answer.header("x-ratelimit-remaining-requests"), Some("0"));
    assert_eq!(
        answer.header("retry-after"),
        Some("60"),
        "at most a minute is told"
    );
    assert!(
        answer
            .text()
            .contains("tenant `anonymous` may send 0.001 requests per second")
    );
    assert_eq!(answer.header("x-should-retry"), Some("true"));
}

#[tokio::test]
async fn a13_a_running_answer_is_finished_when_its_limits_are_reloaded_away() {
    let (hold, release) = hold();
    let stream = vec![stream_head(), hold, chunk(event("a")), last_chunk()];
    let mut engine = Engine::start(vec![stream, vec![json("{}")]]).await;
    let limits = anonymous("concurrency: 1");
    let gateway = Gateway::start(&engine, &limits).await;
    let mut client = Client::connect(&gateway).await;
    client.ask(ASK, "").await;
    engine.request().await;
    assert_eq!(client.head().await.0, 200);
    gateway.reload(|text| text.replace(&limits, "")).unwrap();
    release.notify_one();
    assert!(client.rest().await.whole);
    gateway.record().await;
    assert_eq!(gateway.metric("permits_outstanding"), 0.0);
}

#[tokio::test]
async fn r22_a_clamped_request_is_sent_and_charged_as_it_was_clamped() {
    let mut engine = Engine::start(vec![vec![json("{}")]; 2]).await;
    // Unclamped, neither would ever fit.
    let limits = "tokens_per_min: 900, max_output_tokens: {tokens: 64, over: clamp}";
    let gateway = Gateway::start(&engine, &anonymous(limits)).await;
    let mut client = Client::connect(&gateway).await;
    for (body, sent) in [
        (
            r#"{"model":"m","max_tokens":1000000000}"#,
            r#"{"model":"m","max_tokens":64}"#,
        ),
        (
            r#"{"model":"m","max_tokens":null}"#,
            r#"{"model":"m","max_tokens":64}"#,
        ),
    ] {
        client.ask(body, "").await;
        assert_eq!(engine.request().await.body, sent.as_bytes());
        assert_eq!(client.answer().await.status, 200);
    }
}
