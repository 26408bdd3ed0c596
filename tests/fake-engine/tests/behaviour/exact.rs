//! The exact mode: dues, stamps, log and counters agree with each other.

use std::time::Duration;

use inferscope_fake_engine::{Config, FakeEngine, now_ns};
use serde_json::Value;

use crate::client::{Client, LIMIT, chat, post};

const PATH: &str = "/v1/chat/completions";

fn quick() -> Config {
    Config {
        ttft: Duration::from_millis(4),
        itl: Duration::from_micros(700),
        ..Config::default()
    }
}

#[test]
fn no_event_leaves_early_and_its_stamp_lies_between_request_and_receipt() {
    let engine = FakeEngine::start(quick()).unwrap();
    let mut client = Client::new(&engine);
    let before = now_ns();
    let response = client.post(PATH, &chat(5));
    let after = now_ns();
    let recv_end = engine.requests()[0].recv_end_ns.unwrap();
    assert!(before <= recv_end);
    let events = response.json_events();
    assert_eq!(events.len(), 6, "role and five outputs");
    for (i, event) in events.iter().enumerate() {
        assert_eq!(event["fake"]["seq"], i as u64);
        let sent = event["fake"]["sent_mono_ns"].as_u64().unwrap();
        let step = (i as u64).saturating_sub(1);
        assert!(sent >= recv_end + 4_000_000 + step * 700_000);
        assert!(sent <= after);
    }
    assert_eq!(events[0]["fake"]["recv_mono_ns"], recv_end);
    assert!(
        events[1..]
            .iter()
            .all(|e| e["fake"].get("recv_mono_ns").is_none())
    );
    assert_eq!(response.events().last().unwrap(), "[DONE]");
    assert_eq!(
        events[0]["fake"]["sent_mono_ns"], events[1]["fake"]["sent_mono_ns"],
        "the role event goes with the first token"
    );
}

#[test]
fn the_head_leaves_at_once_and_by_option_with_the_first_event() {
    for (held, first) in [(false, 0), (true, 1)] {
        let engine = FakeEngine::start(Config {
            // No output within this test.
            ttft: LIMIT * 10,
            head_with_first_event: held,
            ..Config::default()
        })
        .unwrap();
        let mut client = Client::new(&engine);
        client.send(post(PATH, &chat(2)));
        if first == 0 {
            assert!(client.head().starts_with("HTTP/1.1 200 OK\r\n"));
        } else {
            assert!(engine.wait(LIMIT, |c| c.in_flight == 1));
        }
        drop(engine);
        let (rest, _) = client.rest();
        assert!(rest.is_empty());
    }
}

#[test]
fn the_role_event_can_go_at_once() {
    let engine = FakeEngine::start(Config {
        ttft: LIMIT * 10,
        role_at_once: true,
        ..Config::default()
    })
    .unwrap();
    let mut client = Client::new(&engine);
    client.send(post(PATH, &chat(2)));
    client.head();
    let role = String::from_utf8(client.chunk()).unwrap();
    assert!(role.contains(r#""role":"assistant""#));
}

#[test]
fn a_log_line_says_when_everything_was_received_and_sent() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log.jsonl");
    let engine = FakeEngine::start(Config {
        log: Some(path.clone()),
        ..quick()
    })
    .unwrap();
    let mut client = Client::new(&engine);
    let body = chat(4);
    client.send(format!(
        "POST {PATH} HTTP/1.1\r\nX-Request-ID: run.a.c1.7\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ));
    let response = client.response();
    assert!(response.head.contains("x-request-id: run.a.c1.7\r\n"));
    assert!(engine.wait(LIMIT, |c| c.requests == 1 && c.in_flight == 0));
    let text = std::fs::read_to_string(&path).unwrap();
    let line: Value = serde_json::from_str(text.trim_end()).unwrap();
    let number = |name: &str| line[name].as_u64().unwrap();
    assert_eq!(line["request_id"], "run.a.c1.7");
    assert_eq!(line["path"], PATH);
    assert_eq!(line["end"], "done");
    assert_eq!(
        (number("prompt_tokens"), number("completion_tokens")),
        (3, 4)
    );
    assert_eq!((number("ttft_ns"), number("itl_ns")), (4_000_000, 700_000));
    assert!(number("recv_first_ns") <= number("recv_head_ns"));
    assert!(number("recv_head_ns") <= number("recv_end_ns"));
    let mut at = 0;
    let sent: Vec<u64> = line["events_sent_ns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|delta| {
            at += delta.as_u64().unwrap();
            at
        })
        .collect();
    let stamped: Vec<u64> = response.json_events()[1..]
        .iter()
        .map(|e| e["fake"]["sent_mono_ns"].as_u64().unwrap())
        .collect();
    assert_eq!(sent, stamped);
    assert_eq!(number("first_output_sent_ns"), sent[0]);
    assert_eq!(number("last_output_sent_ns"), sent[3]);
    assert_eq!(number("done_sent_ns"), sent[3]);
}

#[test]
fn many_streams_at_once_all_complete_and_are_counted() {
    const STREAMS: u64 = 40;
    let engine = FakeEngine::start(quick()).unwrap();
    let mut clients: Vec<_> = (0..STREAMS).map(|_| Client::new(&engine)).collect();
    for client in &mut clients {
        client.send(post(PATH, &chat(20)));
    }
    for client in &mut clients {
        assert_eq!(client.response().json_events().len(), 21);
    }
    assert!(engine.wait(LIMIT, |c| c.in_flight == 0 && c.requests == STREAMS));
    let metrics = engine.metrics();
    let labels = r#"{engine="0",model_name="fake-model"}"#;
    for expected in [
        format!("vllm:generation_tokens_total{labels} 800.0\n"),
        format!("vllm:prompt_tokens_total{labels} 120.0\n"),
        format!("vllm:num_requests_running{labels} 0.0\n"),
        format!("vllm:time_to_first_token_seconds_count{labels} 40.0\n"),
        format!("vllm:inter_token_latency_seconds_count{labels} 760.0\n"),
        r#"vllm:request_success_total{engine="0",finished_reason="length",model_name="fake-model"} 40.0"#.into(),
        r#"vllm:time_to_first_token_seconds_bucket{engine="0",le="0.001",model_name="fake-model"} 0.0"#.into(),
    ] {
        assert!(metrics.contains(&expected), "{expected} not in {metrics}");
    }
    let e2e = metrics
        .lines()
        .find(|l| l.starts_with("vllm:e2e_request_latency_seconds_sum"));
    let e2e: f64 = e2e.unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    assert!(e2e >= 40.0 * (0.004 + 19.0 * 0.0007), "{e2e}");
}

#[test]
fn a_seen_prompt_gets_the_short_ttft() {
    let engine = FakeEngine::start(Config {
        ttft: Duration::from_millis(60),
        ttft_seen: Some(Duration::ZERO),
        ..quick()
    })
    .unwrap();
    let mut client = Client::new(&engine);
    for seen in [false, true] {
        let response = client.post(PATH, &chat(1));
        let sent = response.json_events()[0]["fake"]["sent_mono_ns"]
            .as_u64()
            .unwrap();
        let waited = sent - engine.requests().last().unwrap().recv_end_ns.unwrap();
        assert_eq!(waited < 60_000_000, seen, "{waited}");
    }
    assert!(
        engine
            .metrics()
            .contains("prefix_cache_hits_total{engine=\"0\",model_name=\"fake-model\"} 3.0")
    );
}
