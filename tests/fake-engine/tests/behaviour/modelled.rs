//! The timing model behind the server: its schedule on the wire, its numbers in the metrics.

use std::time::{Duration, Instant};

use inferscope_fake_engine::model::Parameters;
use inferscope_fake_engine::{Config, End, FakeEngine, Handle};
use serde_json::Value;

use crate::client::{Client, LIMIT, chat, post};

const PATH: &str = "/v1/chat/completions";

fn quick() -> Parameters {
    Parameters {
        step_base: Duration::from_millis(2),
        step_per_seq: Duration::from_millis(1),
        step_per_prefill_token: Duration::from_micros(100),
        ..Parameters::default()
    }
}

fn start(parameters: Parameters) -> Handle {
    FakeEngine::start(Config {
        timing: Some(parameters),
        ..Config::default()
    })
    .unwrap()
}

/// The metric of the first model.
fn metric(engine: &Handle, name: &str) -> f64 {
    let prefix = format!("{name}{{engine=\"0\",model_name=\"fake-model\"}} ");
    let text = engine.metrics();
    let value = text.lines().find_map(|line| line.strip_prefix(&prefix));
    value.unwrap().parse().unwrap()
}

fn eventually(engine: &Handle, name: &str, value: f64) {
    let until = Instant::now() + LIMIT;
    while metric(engine, name) != value {
        assert!(Instant::now() < until, "{name} never became {value}");
        std::thread::yield_now();
    }
}

fn words(n: usize, rest: &str) -> String {
    let prompt = vec!["w"; n].join(" ");
    format!(r#"{{"prompt":"{prompt}","max_tokens":4{rest}}}"#)
}

#[test]
fn no_token_leaves_before_the_models_step_ends() {
    let engine = start(quick());
    let mut client = Client::new(&engine);
    let response = client.post(PATH, &chat(5));
    let events = response.json_events();
    assert_eq!(events.len(), 6);
    let recv_end = engine.requests()[0].recv_end_ns.unwrap();
    assert_eq!(events[0]["fake"]["recv_mono_ns"], recv_end);
    for (i, event) in events[1..].iter().enumerate() {
        let sent = event["fake"]["sent_mono_ns"].as_u64().unwrap();
        // Three prompt tokens in the first step, and one sequence in each.
        assert!(sent >= recv_end + 3_300_000 + 3_000_000 * i as u64);
    }
    assert_eq!(response.events().last().unwrap(), "[DONE]");
}

#[test]
fn metrics_are_the_models() {
    let engine = start(quick());
    let mut client = Client::new(&engine);
    for _ in 0..2 {
        let answer = client
            .post("/v1/completions", &words(40, r#","n":2"#))
            .json();
        assert_eq!(answer["choices"].as_array().unwrap().len(), 2);
        assert_eq!(answer["usage"]["completion_tokens"], 8);
    }
    assert!(engine.wait(LIMIT, |c| c.in_flight == 0));
    for (name, value) in [
        ("vllm:num_requests_running", 0.0),
        ("vllm:num_requests_waiting", 0.0),
        ("vllm:kv_cache_usage_perc", 0.0),
        ("vllm:num_preemptions_total", 0.0),
        ("vllm:prompt_tokens_total", 160.0),
        ("vllm:generation_tokens_total", 16.0),
        ("vllm:prefix_cache_queries_total", 160.0),
        // Two whole blocks of the 40 tokens, for all sequences but the first.
        ("vllm:prefix_cache_hits_total", 96.0),
    ] {
        assert_eq!(metric(&engine, name), value, "{name}");
    }
    let info = r#"vllm:cache_config_info{block_size="16",enable_prefix_caching="True",engine="0",num_gpu_blocks="4096"} 1.0"#;
    assert!(engine.metrics().contains(info));
}

#[test]
fn a_streamed_request_with_choices_gets_all_tokens_of_each() {
    let engine = start(quick());
    let mut client = Client::new(&engine);
    let response = client.post("/v1/completions", &words(3, r#","n":3,"stream":true"#));
    let events = response.json_events();
    for choice in 0..3 {
        let of = |e: &&Value| e["choices"][0]["index"] == choice;
        assert_eq!(events.iter().filter(of).count(), 4, "{events:?}");
        let last = events.iter().rfind(of).unwrap();
        assert_eq!(last["choices"][0]["finish_reason"], "length");
    }
}

#[test]
fn a_request_waits_for_its_place_and_leaves_the_model_with_its_client() {
    let engine = start(Parameters {
        // No step ends within this test.
        step_base: LIMIT * 10,
        max_num_seqs: 1,
        ..quick()
    });
    let mut running = Client::new(&engine);
    running.send(post("/v1/completions", &words(40, "")));
    eventually(&engine, "vllm:num_requests_running", 1.0);
    let mut waiting = Client::new(&engine);
    waiting.send(post("/v1/completions", &words(40, "")));
    eventually(&engine, "vllm:num_requests_waiting", 1.0);
    assert_eq!(metric(&engine, "vllm:num_requests_running"), 1.0);
    let three_blocks = metric(&engine, "vllm:kv_cache_usage_perc");
    assert!((three_blocks - 3.0 / 4096.0).abs() < 1e-9, "{three_blocks}");
    drop(running);
    assert!(engine.wait(LIMIT, |c| c.client_gone == 1));
    assert_eq!(metric(&engine, "vllm:num_requests_running"), 0.0);
    assert_eq!(metric(&engine, "vllm:kv_cache_usage_perc"), 0.0);
    assert_eq!(metric(&engine, "vllm:num_requests_waiting"), 1.0);
    drop(waiting);
    assert!(engine.wait(LIMIT, |c| c.client_gone == 2));
    assert_eq!(metric(&engine, "vllm:num_requests_waiting"), 0.0);
    let ends: Vec<_> = engine.requests().iter().map(|r| r.end).collect();
    assert_eq!(ends, [Some(End::ClientGone); 2]);
}

#[test]
fn the_context_is_no_longer_than_the_kv_cache() {
    let engine = start(Parameters {
        num_kv_blocks: 4,
        ..quick()
    });
    let mut client = Client::new(&engine);
    assert_eq!(
        client.get("/v1/models").json()["data"][0]["max_model_len"],
        64
    );
    assert_eq!(client.post("/v1/completions", &words(61, "")).status, 400);
    assert_eq!(client.post("/v1/completions", &words(60, "")).status, 200);
}

#[test]
fn an_impossible_engine_does_not_start() {
    let config = Config {
        timing: Some(Parameters {
            max_num_batched_tokens: 1,
            ..quick()
        }),
        ..Config::default()
    };
    let error = FakeEngine::start(config).unwrap_err().to_string();
    assert!(
        error.contains("max_num_batched_tokens 1 is below"),
        "{error}"
    );
}
