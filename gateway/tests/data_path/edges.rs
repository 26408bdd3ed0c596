//! What comes to the gateway's edges: odd requests, odd answers, clients that leave.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use inferscope_shared::record::gateway::Outcome;

use crate::engine::{Do, Engine, chunk, event, hold, json, last_chunk, stream_head};
use crate::harness::{Client, Gateway, Unreachable};
use crate::{ASK, stream};

#[tokio::test]
async fn u15_a_client_that_leaves_while_its_engine_is_connected_to_is_noticed() {
    let engine = Unreachable::start();
    let urls = [format!("http://{}", engine.address)];
    for reset in [false, true] {
        let gateway = Gateway::at(&urls, "timeouts: {connect: 60s}").await;
        let mut client = Client::connect(&gateway).await;
        client.ask(ASK, "").await;
        // What is pipelined behind it is no reason to look away.
        client.ask(ASK, "").await;
        gateway.until("requests_in_flight", 1.0).await;
        if reset {
            client.reset()
        } else {
            drop(client)
        }
        let record = gateway.record().await;
        assert_eq!((record.outcome, record.status), (Outcome::ClientGone, None));
        assert_eq!(record.attempts, 1);
        gateway.until("permits_outstanding", 0.0).await;
    }
}

#[tokio::test]
async fn r13_a_half_close_that_is_tolerated_is_no_leaving_while_the_engine_is_connected_to() {
    let engine = Unreachable::start();
    let gateway = Gateway::at(
        &[format!("http://{}", engine.address)],
        "half_close: tolerate",
    )
    .await;
    gateway
        .reload(|text| format!("{text}\ntimeouts: {{connect: 300ms}}\n"))
        .unwrap();
    let mut client = Client::connect(&gateway).await;
    client.ask(ASK, "").await;
    client.shut_sending().await;
    assert_eq!(client.answer().await.status, 504);
    assert_eq!(
        gateway.record().await.error_kind.as_deref(),
        Some("connect_timeout")
    );
}

#[tokio::test]
async fn u03_an_engine_that_does_not_accept_gives_504() {
    let engine = Unreachable::start();
    let urls = [format!("http://{}", engine.address)];
    let gateway = Gateway::at(&urls, "timeouts: {connect: 100ms}").await;
    let mut client = Client::connect(&gateway).await;
    client.ask(ASK, "").await;
    let answer = client.answer().await;
    assert_eq!(answer.status, 504);
    assert!(answer.text().contains("\"error\""));
}

#[tokio::test]
async fn u03_a_head_that_trickles_is_no_first_byte() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
    let mut script: Vec<Do> = head.bytes().map(|b| Do::Write(vec![b])).collect();
    script.push(Do::AwaitClose);
    let engine = Engine::start(vec![script]).await;
    let gateway = Gateway::start(&engine, "timeouts: {first_byte: 100ms}").await;
    let mut client = Client::connect(&gateway).await;
    client.ask(ASK, "").await;
    assert_eq!(client.answer().await.status, 504);
}

#[tokio::test]
async fn u15_a_request_in_one_piece_is_given_up_with_its_client() {
    let mut engine = Engine::start(vec![vec![Do::AwaitClose]]).await;
    let gateway = Gateway::start(&engine, "").await;
    let mut client = Client::connect(&gateway).await;
    client.ask(r#"{"model":"m","stream":false}"#, "").await;
    engine.request().await;
    client.reset();
    engine.closed().await;
    assert_eq!(gateway.record().await.outcome, Outcome::ClientGone);
}

#[tokio::test]
async fn u12_u13_what_an_engine_says_of_its_load_passes_as_it_is() {
    for (status, headers) in [
        ("503 Service Unavailable", "retry-after: 5\r\n"),
        (
            "429 Too Many Requests",
            "retry-after: 7\r\nx-ratelimit-remaining-requests: 0\r\n",
        ),
        ("400 Bad Request", ""),
        ("529 Overloaded", "retry-after: 7\r\n"),
    ] {
        let body = r#"{"error":{"message":"loading","type":"unavailable_error","code":503}}"#;
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut engine = Engine::start(vec![vec![Do::Write(answer.into_bytes())]]).await;
        let gateway = Gateway::start(&engine, "").await;
        let mut client = Client::connect(&gateway).await;
        client.ask(ASK, "").await;
        let answer = client.answer().await;
        assert_eq!(answer.status.to_string(), status[..3]);
        assert_eq!(answer.text(), body);
        for line in headers.lines() {
            let (name, value) = line.split_once(": ").unwrap();
            assert_eq!(answer.header(name), Some(value), "{status}");
        }
        engine.request().await;
        assert!(engine.events.try_recv().is_err(), "asked once");
        let record = gateway.record().await;
        assert_ne!(
            record.outcome,
            Outcome::Refused,
            "it was not the gateway's no"
        );
    }
}

#[tokio::test]
async fn r14_a_compressed_body_is_passed_as_it_is_or_refused_never_half_of_both() {
    let mut engine = Engine::start(vec![vec![json("{}")]]).await;
    let gateway = Gateway::start(&engine, "").await;
    let mut client = Client::connect(&gateway).await;
    let packed = "\u{1f}packed";
    client.ask(packed, "content-encoding: gzip\r\n").await;
    assert_eq!(client.answer().await.status, 200);
    let request = engine.request().await;
    assert_eq!(request.body, packed.as_bytes());
    assert!(
        request
            .head
            .to_lowercase()
            .contains("content-encoding: gzip")
    );

    // Where the body has to be read, one that can't be is told so.
    gateway
        .reload(|text| format!("{text}\nmodels: {{m: {{pool: p}}}}\n"))
        .unwrap();
    for encoding in ["gzip", "zstd", "GZIP", "br"] {
        client
            .ask(ASK, &format!("content-encoding: {encoding}\r\n"))
            .await;
        let answer = client.answer().await;
        assert_eq!(answer.status, 415, "{encoding}");
        assert!(
            answer.text().contains("content-encoding"),
            "{}",
            answer.text()
        );
    }
    client.ask(ASK, "content-encoding: identity\r\n").await;
    assert_eq!(client.answer().await.status, 200);
}

#[tokio::test]
async fn r17_a_preflight_is_refused_here_and_never_forwarded() {
    let mut engine = Engine::start(vec![vec![json("{}")]]).await;
    let gateway = Gateway::start(&engine, "").await;
    let mut client = Client::connect(&gateway).await;
    client
        .send(b"OPTIONS /v1/chat/completions HTTP/1.1\r\nhost: x\r\norigin: https://a.example\r\naccess-control-request-method: POST\r\ncontent-length: 2\r\n\r\n{}")
        .await;
    let answer = client.answer().await;
    assert_eq!(answer.status, 405);
    assert_eq!(answer.header("allow"), Some("POST"));
    assert!(engine.events.try_recv().is_err());
}

#[tokio::test]
async fn a16_an_engine_never_sees_a_clients_credential() {
    let mut engine = Engine::start(vec![vec![json("{}")], vec![json("{}")]]).await;
    let gateway = Gateway::start(&engine, "").await;
    let mut client = Client::connect(&gateway).await;
    let fields =
        "authorization: Bearer GWKEY\r\nproxy-authorization: Basic GWKEY\r\ncookie: k=GWKEY\r\n";
    client.ask(ASK, fields).await;
    client.answer().await;
    let head = engine.request().await.head;
    assert!(!head.contains("GWKEY"), "{head}");
    assert!(!head.to_lowercase().contains("authorization"), "{head}");
}

#[tokio::test]
async fn o14_an_event_has_left_before_the_next_one_comes() {
    let (holds, releases): (Vec<_>, Vec<_>) = (0..9).map(|_| hold()).unzip();
    let mut script = vec![stream_head()];
    for (i, hold) in holds.into_iter().enumerate() {
        script.extend([chunk(event(&i.to_string())), hold]);
    }
    script.push(last_chunk());
    let engine = Engine::start(vec![script]).await;
    let gateway = Gateway::start(&engine, "").await;
    let mut client = Client::connect(&gateway).await;
    client.ask(ASK, "accept-encoding: gzip\r\n").await;
    let (_, head) = client.head().await;
    assert!(!head.to_lowercase().contains("content-encoding"), "{head}");
    for (i, release) in releases.iter().enumerate() {
        // The engine goes on only when the client has the event.
        assert_eq!(
            client.chunk().await.unwrap(),
            event(&i.to_string()).as_bytes()
        );
        release.notify_one();
    }
    assert!(client.rest().await.whole);
}

#[tokio::test]
async fn o05_an_engine_is_held_back_by_a_client_that_does_not_read() {
    // More than all buffers of the way take.
    let piece = event(&"x".repeat(64 * 1024));
    let written = Arc::new(AtomicU64::new(0));
    let Do::Write(chunk) = chunk(&piece) else {
        unreachable!("a chunk is written")
    };
    let script = vec![stream_head(), Do::Flood(chunk, 1_000, written.clone())];
    let mut engine = Engine::start(vec![script, stream(&["quick"])]).await;
    let gateway = Gateway::start(&engine, "").await;
    let mut slow = Client::connect(&gateway).await;
    slow.ask(ASK, "").await;
    engine.request().await;
    slow.head().await;
    // Until the engine stands.
    let mut before = u64::MAX;
    while before != written.load(Ordering::SeqCst) {
        before = written.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert!(before < 24 << 20, "{before} of 65 MB were taken in");
    let mut quick = Client::connect(&gateway).await;
    quick.ask(ASK, "").await;
    assert!(quick.answer().await.whole, "others go on");
    drop(slow);
    engine.closed().await;
}

#[tokio::test]
async fn a_body_that_comes_too_slowly_is_refused_with_408() {
    let mut engine = Engine::start(vec![vec![json("{}")]]).await;
    let gateway = Gateway::start(&engine, "timeouts: {request_body: 100ms}").await;
    let mut client = Client::connect(&gateway).await;
    client
        .send(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{")
        .await;
    let answer = client.answer().await;
    assert_eq!(answer.status, 408);
    assert!(engine.events.try_recv().is_err());
    let gateway = Gateway::start(&engine, "timeouts: {request_head: 100ms}").await;
    let mut client = Client::connect(&gateway).await;
    client
        .send(b"POST /v1/chat/completions HTTP/1.1\r\nhost")
        .await;
    assert_eq!(client.answer().await.status, 408);
}

#[tokio::test]
async fn u18_a_small_answer_that_is_an_error_leaves_the_engines_connection_usable() {
    let refusal =
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
    let mut engine = Engine::start(vec![vec![Do::Write(refusal.as_bytes().to_vec())]]).await;
    let gateway = Gateway::start(&engine, "").await;
    let mut client = Client::connect(&gateway).await;
    for i in 0..20 {
        client.ask(ASK, "").await;
        assert_eq!(client.answer().await.status, 400);
        engine.request().await;
        let record = gateway.record().await;
        assert_eq!(record.conn_reused, Some(i > 0));
    }
}

#[tokio::test]
async fn u18_a_reset_is_seen_while_an_engine_does_not_read_a_long_prompt() {
    let engine = Unreachable::start();
    // It accepts nothing, yet its queue took this connection: nobody reads what is sent on it.
    let urls = [format!("http://{}", engine.address)];
    let gateway = Gateway::at(&urls, "timeouts: {connect: 60s}").await;
    let mut client = Client::connect(&gateway).await;
    let prompt = format!(r#"{{"model":"m","prompt":"{}"}}"#, "p".repeat(8 << 20));
    client.ask(&prompt, "").await;
    gateway.until("requests_in_flight", 1.0).await;
    client.reset();
    let record = tokio::time::timeout(Duration::from_secs(5), gateway.record()).await;
    assert_eq!(record.unwrap().outcome, Outcome::ClientGone);
}

#[tokio::test]
async fn a_connection_too_many_is_told_so_and_one_that_ends_makes_room() {
    let engine = Engine::start(vec![vec![json("{}")]]).await;
    let gateway = Gateway::start(&engine, "connections: {max: 2}").await;
    let mut first = Client::connect(&gateway).await;
    first.ask(ASK, "").await;
    first.answer().await;
    let mut second = Client::connect(&gateway).await;
    second.ask(ASK, "").await;
    second.answer().await;
    let mut third = Client::connect(&gateway).await;
    let answer = third.answer().await;
    assert_eq!(answer.status, 503);
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(
        answer
            .text()
            .contains("has the 2 connections that it may have"),
        "{}",
        answer.text()
    );
    assert!(third.at_end().await);
    drop(first);
    let served = async {
        loop {
            let mut next = Client::connect(&gateway).await;
            next.ask(ASK, "").await;
            if next.answer().await.status == 200 {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(5), served)
        .await
        .unwrap();
}

#[tokio::test]
async fn o07_where_every_request_must_have_its_record_none_is_served_on_a_full_disk() {
    let mut engine = Engine::start(vec![vec![json("{}")]]).await;
    let urls = [format!("http://{}", engine.address)];
    let with = |policy: &str| {
        let records = format!("records: {{file: {{path: /dev/full, on_full: {policy}}}}}");
        let urls = urls.clone();
        async move { Gateway::with_records(&urls, &records).await }
    };
    let gateway = with("refuse").await;
    let mut client = Client::connect(&gateway).await;
    client.ask(ASK, "").await;
    assert_eq!(client.answer().await.status, 200, "nothing is known yet");
    gateway
        .until("records_dropped_total{sink=\"file\"}", 1.0)
        .await;
    client.ask(ASK, "").await;
    let answer = client.answer().await;
    assert_eq!(answer.status, 503);
    assert!(
        answer.text().contains("cannot write its records"),
        "{}",
        answer.text()
    );
    engine.request().await;
    assert!(engine.events.try_recv().is_err());

    let gateway = with("drop").await;
    let mut client = Client::connect(&gateway).await;
    for dropped in [1.0, 2.0] {
        client.ask(ASK, "").await;
        assert_eq!(client.answer().await.status, 200);
        gateway
            .until("records_dropped_total{sink=\"file\"}", dropped)
            .await;
    }
}
