//! Connections and engines from start to end: keep-alive, pipelining, leaving clients, stopping.

use std::io::{ErrorKind, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use inferscope_fake_engine::{ClosedBy, Config, End, FakeEngine, Handle};

use crate::client::{Client, LIMIT, chat, post};

const PATH: &str = "/v1/chat/completions";

fn slow() -> Handle {
    FakeEngine::start(Config {
        ttft: Duration::ZERO,
        itl: LIMIT * 10,
        ..Config::default()
    })
    .unwrap()
}

#[test]
fn a_client_that_leaves_mid_stream_is_gone_however_it_leaves() {
    type Leave = fn(Client);
    let ways: [(ClosedBy, Leave); 3] = [
        (ClosedBy::ClientFin, |client| drop(client)),
        (ClosedBy::ClientFin, |client| {
            client.stream.shutdown(Shutdown::Write).unwrap();
            let (rest, end) = client.rest();
            end.unwrap();
            assert!(!rest.ends_with(b"0\r\n\r\n"), "a half-close gets no more");
        }),
        (ClosedBy::ClientReset, |client| {
            rustix::net::sockopt::set_socket_linger(&client.stream, Some(Duration::ZERO)).unwrap();
        }),
    ];
    for (by, leave) in ways {
        let engine = slow();
        let mut client = Client::new(&engine);
        client.send(post(PATH, &chat(3)));
        client.head();
        client.chunk();
        client.chunk();
        assert!(
            engine
                .metrics()
                .contains("num_requests_running{engine=\"0\",model_name=\"fake-model\"} 1.0")
        );
        leave(client);
        assert!(engine.wait(LIMIT, |c| c.connections_open == 0));
        assert_eq!(engine.requests()[0].end, Some(End::ClientGone));
        assert_eq!(engine.connections()[0].closed_by, Some(by));
        let metrics = engine.metrics();
        assert!(
            metrics.contains("num_requests_running{engine=\"0\",model_name=\"fake-model\"} 0.0")
        );
        assert!(metrics.contains("client_gone_total{engine=\"0\",model_name=\"fake-model\"} 1.0"));
    }
}

#[test]
fn the_log_names_a_client_that_left() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log.jsonl");
    let engine = FakeEngine::start(Config {
        ttft: LIMIT * 10,
        log: Some(path.clone()),
        ..Config::default()
    })
    .unwrap();
    let mut client = Client::new(&engine);
    client.send(post(PATH, &chat(3)));
    client.head();
    drop(client);
    assert!(engine.wait(LIMIT, |c| c.client_gone == 1));
    let text = std::fs::read_to_string(&path).unwrap();
    let line: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(line["end"], "client_gone");
    assert_eq!(line["events_sent_ns"], serde_json::json!([]));
    assert_eq!(line["completion_tokens"], 0);
}

#[test]
fn half_close_can_be_tolerated() {
    let engine = FakeEngine::start(Config {
        ttft: Duration::from_millis(1),
        itl: Duration::from_millis(1),
        tolerate_half_close: true,
        ..Config::default()
    })
    .unwrap();
    let mut client = Client::new(&engine);
    client.send(post(PATH, &chat(10)));
    client.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.response().events().last().unwrap(), "[DONE]");
    assert!(engine.wait(LIMIT, |c| c.connections_open == 0));
}

#[test]
fn a_stream_waits_for_a_client_that_does_not_read_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log.jsonl");
    let engine = FakeEngine::start(Config {
        ttft: Duration::ZERO,
        itl: Duration::ZERO,
        log: Some(path.clone()),
        ..Config::default()
    })
    .unwrap();
    let mut client = Client::new(&engine);
    // More than socket buffers take.
    client.send(post(PATH, &chat(60_000)));
    assert!(engine.wait(LIMIT, |c| c.in_flight == 1));
    // The stream can't end before it is read, so another one overtakes it.
    let mut other = Client::new(&engine);
    assert_eq!(other.post(PATH, &chat(3)).json_events().len(), 4);
    assert_eq!(engine.counts().in_flight_peak, 2);
    let events = client.response().json_events();
    assert_eq!(events.len(), 60_001);
    for (i, event) in events.iter().enumerate() {
        assert_eq!(event["fake"]["seq"], i as u64);
    }
    assert!(engine.wait(LIMIT, |c| c.in_flight == 0));
    let text = std::fs::read_to_string(&path).unwrap();
    let line: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert!(line["blocked"].as_u64().unwrap() > 0);
    assert_eq!(line["completion_tokens"], 60_000);
}

#[test]
fn pipelined_and_chunked_requests_are_answered_in_turn() {
    let engine = FakeEngine::start(Config {
        ttft: Duration::from_millis(1),
        itl: Duration::ZERO,
        ..Config::default()
    })
    .unwrap();
    let mut client = Client::new(&engine);
    let body = chat(2);
    let (a, b) = body.split_at(7);
    let mut wire = post(PATH, &chat(1));
    wire += &format!(
        "POST {PATH} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{a}\r\n{:X}\r\n{b}\r\n0\r\n\r\n",
        a.len(),
        b.len()
    );
    wire += "HEAD /v1/models HTTP/1.1\r\n\r\nGET /health HTTP/1.1\r\nconnection: close\r\n\r\n";
    client.send(wire);
    assert_eq!(client.response().json_events().len(), 2);
    assert_eq!(client.response().json_events().len(), 3);
    let head = client.head();
    assert!(!head.contains("content-length: 0\r\n"), "{head}");
    let last = client.response();
    assert!(last.head.contains("connection: close\r\n"));
    client.rest().1.unwrap();
    let requests = engine.requests();
    assert!(requests.iter().all(|r| r.connection == 0));
    assert_eq!(requests[1].body, body.as_bytes());
    assert!(requests[1].head.ends_with(b"chunked\r\n\r\n"));
    assert_eq!(requests[1].header("transfer-encoding"), Some("chunked"));
}

#[test]
fn expect_continue_is_answered_before_the_body() {
    let engine = FakeEngine::start(Config::default()).unwrap();
    let mut client = Client::new(&engine);
    client.send("POST /tokenize HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 16\r\n\r\n");
    assert_eq!(client.head(), "HTTP/1.1 100 Continue\r\n\r\n");
    client.send(r#"{"prompt":"a b"}"#);
    assert_eq!(client.response().json()["count"], 2);
}

#[test]
fn bodies_of_megabytes_are_read_whole() {
    let engine = FakeEngine::start(Config::default()).unwrap();
    let mut client = Client::new(&engine);
    let words = "word ".repeat(600_000);
    let response = client.post("/tokenize", &format!(r#"{{"prompt":"{words}"}}"#));
    assert_eq!(response.json()["count"], 600_000);
    let refused = {
        client.send("POST /tokenize HTTP/1.1\r\ncontent-length: 67108865\r\n\r\n");
        client.response()
    };
    assert_eq!(refused.status, 413);
    client.stream.shutdown(Shutdown::Write).unwrap();
    client.rest().1.unwrap();
}

#[test]
fn idle_connections_are_closed_by_the_engine() {
    let engine = FakeEngine::start(Config {
        keep_alive: Duration::from_millis(20),
        ..Config::default()
    })
    .unwrap();
    let mut client = Client::new(&engine);
    client.get("/health");
    let (rest, end) = client.rest();
    end.unwrap();
    assert!(rest.is_empty());
    assert!(engine.wait(LIMIT, |c| c.connections_open == 0));
    let connection = engine.connections().remove(0);
    assert_eq!(
        (connection.closed_by, connection.requests),
        (Some(ClosedBy::Engine), 1)
    );
    assert!(connection.closed_ns.unwrap() - connection.opened_ns >= 20_000_000);
}

#[test]
fn no_http_is_a_400() {
    let engine = FakeEngine::start(Config::default()).unwrap();
    let mut client = Client::new(&engine);
    client.send("\x16\x03\x01 no http\r\n\r\n");
    let response = client.response();
    assert_eq!(response.status, 400);
    assert!(response.head.contains("connection: close\r\n"));
}

/// Whether nobody listens at that port any more.
fn deserted(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused)
}

#[test]
fn stopping_cuts_what_runs_and_leaves_nothing_behind() {
    for _ in 0..60 {
        let engine = slow();
        let addr = engine.addr();
        let mut idle = Client::new(&engine);
        idle.get("/health");
        let mut half = Client::new(&engine);
        half.stream.write_all(b"POST /v1/").unwrap();
        let mut streaming = Client::new(&engine);
        streaming.send(post(PATH, &chat(3)));
        streaming.head();
        assert!(engine.wait(LIMIT, |c| c.connections == 3));
        engine.stop();
        assert!(deserted(addr.port()));
        let (rest, _) = streaming.rest();
        assert!(!rest.ends_with(b"0\r\n\r\n"));
    }
}
