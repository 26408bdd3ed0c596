//! The data path over real sockets: a raw client, the gateway in this process, a scripted engine.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test's helpers fail by panicking"
)]

mod engine;
mod harness;

use std::time::Duration;

use engine::{Do, Engine, chunk, event, json, last_chunk, stream_head};
use harness::{Client, Gateway};
use inferscope_shared::record::gateway::{Extraction, Outcome};

const ASK: &str = r#"{"model":"m","stream":true}"#;

fn stream(contents: &[&str]) -> Vec<Do> {
    let mut steps = vec![stream_head()];
    steps.extend(contents.iter().map(|c| chunk(event(c))));
    steps.push(chunk("data: [DONE]\n\n"));
    steps.push(last_chunk());
    steps
}

#[tokio::test]
async fn a_stream_passes_byte_by_byte_and_its_record_says_how() {
    let mut engine = Engine::start(vec![stream(&["a", "b"])]).await;
    let gateway = Gateway::start(&engine, "").await;
    let mut client = Client::connect(&gateway).await;
    client.ask(ASK, "x-request-id: run.gw.p.1\r\n").await;
    let answer = client.answer().await;
    let expected = format!("{}{}data: [DONE]\n\n", event("a"), event("b"));
    assert_eq!(answer.body, expected.as_bytes());
    assert!(answer.whole);

    let request = engine.request().await;
    assert_eq!(request.body, ASK.as_bytes());
    let record = gateway.record().await;
    assert_eq!(record.outcome, Outcome::Ok);
    assert_eq!(record.status, Some(200));
    assert_eq!(record.client_request_id.as_deref(), Some("run.gw.p.1"));
    assert_eq!(
        answer.header("x-request-id"),
        Some(record.request_id.as_str())
    );
    assert!(
        request
            .head
            .contains(&format!("x-request-id: {}\r\n", record.request_id))
    );
    assert!(request.head.contains("accept-encoding: identity\r\n"));
    assert_eq!(record.sha256_upstream, record.sha256_downstream);
    assert!(record.sha256_upstream.is_some());
    assert_eq!(record.bytes_out, expected.len() as u64);
    let chunks = &record.chunks;
    assert_eq!(chunks.end_offset.iter().sum::<u64>(), record.bytes_out);
    assert_eq!(chunks.written_ns.len(), chunks.read_ns.len());
    assert_ne!(chunks.written_ns, chunks.read_ns);
    assert_eq!(chunks.events.iter().sum::<u64>(), 3);
    assert!(record.t_first_output_ns <= record.t_last_output_ns);
    assert_eq!(record.extraction, Extraction::Complete);
}

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
async fn an_engine_that_dies_mid_stream_gives_an_error_event_and_no_clean_end() {
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
async fn d14_an_error_inside_a_good_stream_is_the_records_outcome() {
    let error = "data: {\"error\":{\"message\":\"engine died\",\"type\":\"server_error\",\"code\":500}}\n\n";
    let mut script = vec![stream_head(), chunk(event("a")), chunk(error)];
    script.extend([chunk("data: [DONE]\n\n"), last_chunk()]);
    let engine = Engine::start(vec![script]).await;
    let gateway = Gateway::start(&engine, "").await;
    let mut client = Client::connect(&gateway).await;
    client.ask(ASK, "").await;
    let answer = client.answer().await;
    assert_eq!(
        answer.text(),
        format!("{}{error}data: [DONE]\n\n", event("a"))
    );
    let record = gateway.record().await;
    assert_eq!(record.outcome, Outcome::UpstreamError);
    assert_eq!(record.error_kind.as_deref(), Some("stream_error"));
    assert_eq!(record.sha256_upstream, record.sha256_downstream);
}

#[tokio::test]
async fn a_stale_connection_is_tried_again_and_an_answer_begun_is_not() {
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
    let mut engine = Engine::start(vec![vec![]]).await;
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    engine.address = closed.local_addr().unwrap();
    drop(closed);
    let gateway = Gateway::start(&engine, "").await;
    let mut client = Client::connect(&gateway).await;
    client.ask(ASK, "").await;
    assert_eq!(client.answer().await.status, 502);
    let record = gateway.record().await;
    assert_eq!(record.error_kind.as_deref(), Some("connect_refused"));
    assert_eq!(record.outcome, Outcome::UpstreamError);
}

#[tokio::test]
async fn silence_has_its_limits() {
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
async fn a_client_that_leaves_frees_the_engine_in_every_phase() {
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
async fn half_close_is_gone_or_tolerated_as_the_port_says() {
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
async fn a_stream_with_a_length_is_not_held_back() {
    let body = event("a");
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
        body.len() + 5
    );
    let script = vec![Do::Write(head.into_bytes()), Do::AwaitClose];
    let engine = Engine::start(vec![script]).await;
    let gateway = Gateway::start(&engine, "").await;
    let mut client = Client::connect(&gateway).await;
    client.ask(ASK, "").await;
    let (status, head) = client.head().await;
    assert_eq!(status, 200);
    assert!(!head.to_lowercase().contains("content-length"));
    assert_eq!(client.chunk().await.unwrap(), body.as_bytes());
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
async fn a_client_that_stops_reading_is_not_the_engines_time() {
    // More than both sockets of the way hold.
    let piece = event(&"x".repeat(64 * 1024));
    let mut script = vec![stream_head()];
    script.extend(std::iter::repeat_n(chunk(&piece), 400));
    script.push(last_chunk());
    let engine = Engine::start(vec![script]).await;
    let gateway = Gateway::start(&engine, "").await;
    let mut client = Client::connect(&gateway).await;
    client.ask(ASK, "").await;
    client.head().await;
    // The stall is the scenario, not a way to wait for something.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let answer = client.rest().await;
    assert!(answer.whole && answer.body.len() == 400 * piece.len());

    let record = gateway.record().await;
    assert!(record.write_blocked_ns > 1_500_000_000, "{record:?}");
    assert_eq!(record.outcome, Outcome::Ok);
    let decode = |deltas: &[u64]| inferscope_shared::record::delta::decode(0, deltas);
    let read = decode(&record.chunks.read_ns);
    let written = decode(&record.chunks.written_ns);
    assert_eq!(read.len(), written.len());
    // What the engine took for a piece runs from when the one before had been taken and passed.
    let engine_ns: u64 = (1..read.len())
        .map(|i| read[i].saturating_sub(written[i - 1].max(read[i - 1])))
        .sum();
    assert!(engine_ns < 500_000_000, "{engine_ns}");
    let slowest = read.iter().zip(&written).map(|(r, w)| w - r).max();
    assert!(slowest > Some(1_000_000_000), "{slowest:?}");
}

#[tokio::test]
async fn a_request_behind_a_stream_is_refused_once_a_drain_has_begun() {
    let (hold, release) = engine::hold();
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
async fn a_drain_ends_with_the_last_stream() {
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
