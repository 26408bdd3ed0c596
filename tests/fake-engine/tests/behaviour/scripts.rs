//! Scripts: exactly the written bytes, and each way for a connection to end.

use std::io::ErrorKind;
use std::time::Duration;

use inferscope_fake_engine::{ClosedBy, Config, End, FakeEngine, Handle, Script, Scripts, now_ns};

use crate::client::{Client, LIMIT, post};

const PATH: &str = "/v1/chat/completions";
const MS: Duration = Duration::from_millis(1);

fn start(scripts: Scripts) -> Handle {
    FakeEngine::start(Config {
        scripts,
        ..Config::default()
    })
    .unwrap()
}

fn ask(engine: &Handle, script: &str) -> Client {
    let mut client = Client::new(engine);
    client.send(post(PATH, &format!(r#"{{"model":"script:{script}"}}"#)));
    client
}

#[test]
fn every_byte_arrives_as_written_and_no_other() {
    let script = Script::new()
        .head_sse()
        .event("{\"x\":1}")
        .cut("5\r\nab\u{e9}c\r\n", 5, MS)
        .raw([0, 255, 13, 10])
        .done()
        .end()
        .close();
    let engine = start(Scripts::new().add("all", script.clone()));
    let (bytes, end) = ask(&engine, "all").rest();
    end.unwrap();
    assert_eq!(bytes, script.bytes());
    assert!(engine.wait(LIMIT, |c| c.connections_open == 0));
    assert_eq!(engine.requests()[0].end, Some(End::Script));
    assert_eq!(engine.connections()[0].closed_by, Some(ClosedBy::Engine));
}

#[test]
fn megabytes_pass_a_client_that_reads_late() {
    let big: Vec<u8> = (0..8_000_000_u32).map(|i| (i % 251) as u8).collect();
    let script = Script::new().raw(&big).raw("end").close();
    let engine = start(Scripts::new().add("big", script));
    let client = ask(&engine, "big");
    assert!(engine.wait(LIMIT, |c| c.in_flight == 1));
    let (bytes, end) = client.rest();
    end.unwrap();
    assert_eq!(bytes.len(), big.len() + 3);
    assert!(bytes.starts_with(&big) && bytes.ends_with(b"end"));
}

#[test]
fn a_reset_is_a_reset_and_what_was_sent_before_arrives() {
    let script = Script::new().head_sse().event("1").rst();
    let sent = script.bytes();
    let engine = start(Scripts::new().add("rst", script));
    let mut client = ask(&engine, "rst");
    assert_eq!(client.take(sent.len()), sent);
    let (rest, end) = client.rest();
    assert_eq!(end.unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert!(rest.is_empty());
}

#[test]
fn after_shutdown_write_the_engine_still_reads() {
    let script = Script::new()
        .raw("HTTP/1.1 200 OK\r\n\r\nx")
        .shutdown_write()
        .hold();
    let engine = start(Scripts::new().add("half", script));
    let client = ask(&engine, "half");
    let mut again = client.stream.try_clone().unwrap();
    let (bytes, end) = client.rest();
    end.unwrap();
    assert_eq!(bytes, b"HTTP/1.1 200 OK\r\n\r\nx");
    assert_eq!(engine.counts().connections_open, 1);
    std::io::Write::write_all(&mut again, b"still heard").unwrap();
    drop(again);
    assert!(engine.wait(LIMIT, |c| c.connections_open == 0));
    assert_eq!(engine.requests()[0].end, Some(End::ClientGone));
}

#[test]
fn delays_hold_and_silence_ends_with_the_client() {
    let script = Script::new().raw("a").delay(30 * MS).raw("b").hold();
    let engine = start(Scripts::new().add("slow", script));
    let mut client = ask(&engine, "slow");
    client.take(1);
    client.take(1);
    let recv_end = engine.requests()[0].recv_end_ns.unwrap();
    assert!(now_ns() - recv_end >= 30_000_000);
    assert_eq!(engine.counts().in_flight, 1);
    drop(client);
    assert!(engine.wait(LIMIT, |c| c.in_flight == 0 && c.client_gone == 1));
}

#[test]
fn a_connection_outlives_its_script_and_scripts_take_turns() {
    let engine = start(
        Scripts::new()
            .add("turns", Script::new().json("503 Service Unavailable", "{}"))
            .add(
                "turns",
                Script::new().json("200 OK", "[1]").delay(MS).raw("stray"),
            ),
    );
    let mut client = ask(&engine, "turns");
    assert_eq!(client.response().status, 503);
    let again = client.post(PATH, r#"{"model":"script:turns"}"#);
    assert_eq!((again.status, again.body()), (200, b"[1]".to_vec()));
    assert_eq!(client.take(5), b"stray");
    engine.add_script("turns", Script::new().json("200 OK", "[2]"));
    client.post(PATH, r#"{"model":"script:turns"}"#);
    assert_eq!(client.take(5), b"stray");
    assert_eq!(
        client.post(PATH, r#"{"model":"script:turns"}"#).body(),
        b"[2]"
    );
    assert_eq!(engine.counts().connections, 1);
}

#[test]
fn paths_can_be_scripted_before_the_body_comes() {
    let early = Script::new().json("200 OK", "{}");
    let engine = start(
        Scripts::new()
            .add("early", early)
            .add(
                "models",
                Script::new().json("500 Internal Server Error", "{}"),
            )
            .route_before_body("/v1/completions", "early")
            .route("/v1/models", "models"),
    );
    let mut client = Client::new(&engine);
    client.send("POST /v1/completions HTTP/1.1\r\ncontent-length: 4\r\n\r\n");
    assert_eq!(client.response().status, 200);
    client.send("body");
    assert_eq!(client.get("/v1/models").status, 500);
    assert_eq!(client.get("/health").status, 200);
    let requests = engine.requests();
    assert_eq!(requests[0].recv_end_ns, None);
    assert_eq!(requests.len(), 3);
}

#[test]
fn an_unknown_script_is_a_404_that_names_it() {
    let engine = start(Scripts::new());
    let response = ask(&engine, "nope").response();
    assert_eq!(response.status, 404);
    assert!(
        response.json()["error"]["message"]
            .as_str()
            .unwrap()
            .contains("`nope`")
    );
}
