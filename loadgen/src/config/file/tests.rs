use super::*;
use crate::config::{Arrival, EngineKind, KernelStamps, Salt};

const FULL: &str = r#"
version: 1
run_id: r-1
candidate_id: base
seed: 7
path: both
arms:
  direct: {url: "http://127.0.0.1:8000"}
  gateway: {url: "http://127.0.0.1:8080/v1", api_key: "env:HOME"}
engine: {kind: fake, process: "fake-engine --port"}
telemetry: {interval: 250ms, engine: off, process: auto}
gpu: none
request: {endpoint: completions, model: m, temperature: 0, body: '{"cache_prompt": false}'}
prompts: {input_tokens: 32, output_tokens: 8, salt: per_run}
load: {arrival: poisson, rate: [2.5, 10], requests: 20, duration: 30s, warmup: 4, stagger: 100ms, max_in_flight: 64}
slo: ttft=200ms,success=0.99
gateway_records: http://127.0.0.1:9091/records
client: {kernel_stamps: off}
timeouts: {idle: 5s, after_done: 200ms}
results_dir: out/results
"#;

#[test]
fn a_full_file_is_read_and_its_resolved_form_reads_back_to_the_same() {
    let resolved = parse("x.yaml", FULL).unwrap().resolve(false).unwrap();
    assert_eq!(resolved.engine.kind, EngineKind::Fake);
    assert_eq!(resolved.prompts.salt, Salt::PerRun);
    assert_eq!(resolved.client.kernel_stamps, KernelStamps::Off);
    assert_eq!(resolved.load.arrival, Arrival::Poisson);
    assert_eq!(
        resolved.engine.url.as_deref(),
        Some("http://127.0.0.1:8000")
    );
    let yaml = resolved.to_yaml();
    let again = parse("y.yaml", &yaml).unwrap().resolve(false).unwrap();
    assert_eq!(again, resolved, "{yaml}");
}

#[test]
fn m23_every_shape_of_load_reads_back_to_the_same() {
    for (load, says) in [
        (
            "{rate: [40], burstiness: 0.5, shard: 2/4, over_limit: wait, reuse: false}",
            "shard: 2/4",
        ),
        ("{rate: [40], burstiness: inf}", "arrival: constant"),
        ("{rate: [40], burstiness: .inf}", "arrival: constant"),
        ("{ramp: {from: 1, to: 50.5}, duration: 30s}", "to: 50.5"),
        (
            "{arrival: constant, stages: [{rate: 5, duration: 10s}, {rate: 50, duration: 1m}]}",
            "duration: 70s",
        ),
    ] {
        let text = format!(
            "version: 1\nrun_id: r\narms: {{direct: {{url: \"http://127.0.0.1:8000\"}}}}\nrequest: {{model: m}}\nload: {load}\n"
        );
        let resolved = parse("x.yaml", &text).unwrap().resolve(false).unwrap();
        let yaml = resolved.to_yaml();
        assert!(yaml.contains(says), "{says}: {yaml}");
        let again = parse("y.yaml", &yaml).unwrap().resolve(false).unwrap();
        assert_eq!(again, resolved, "{yaml}");
    }
    let ramp = Settings {
        ramp: Some(Ramp { from: 1.0, to: 2.0 }),
        ..Settings::default()
    };
    let file = parse("x.yaml", FULL).unwrap();
    let resolved = ramp.over(file).resolve(false).unwrap();
    assert_eq!(resolved.load.values().len(), 1);
    assert!(resolved.load.rate.is_empty());
}

#[test]
fn flags_lie_over_the_file_and_a_load_is_replaced_whole() {
    let file = parse("x.yaml", FULL).unwrap();
    let flags = Settings {
        seed: Some(9),
        concurrency: Some(vec![3]),
        ..Settings::default()
    };
    let resolved = flags.over(file).resolve(false).unwrap();
    assert_eq!(resolved.seed, 9);
    assert_eq!(resolved.load.arrival, Arrival::Closed);
    assert!(resolved.load.rate.is_empty());
    assert_eq!(resolved.load.requests, Some(20));
}

#[test]
fn unknown_and_repeated_keys_and_wrong_units_are_named_with_their_place() {
    let problems = |text: &str| parse("x.yaml", text).unwrap_err().to_string();
    for (text, says) in [
        ("version: 1\nsed: 3\n", "x.yaml:2:1"),
        ("version: 1\nseed: 3\nseed: 4\n", "x.yaml:3:1"),
        ("version: 1\nload: {duration: 30}\n", "load.duration"),
        ("version: 1\nload: {duration: 30sec}\n", "load.duration"),
        ("version: 1\nload: {burstiness: much}\n", "load.burstiness"),
        ("version: 1\nload: {shard: 5/4}\n", "like 1/4"),
        ("version: 1\nload: {ramp: {from: 1}}\n", "\"to\" is missing"),
        (
            "version: 1\nload: {stages: [{rate: 1, time: 3s}]}\n",
            "load.stages[0]",
        ),
        (
            "version: 1\nload: {concurrency: [1, x]}\n",
            "load.concurrency[1]",
        ),
        ("version: 2\n", "version 1"),
        ("seed: 3\n", "version"),
        ("version: 1\nengine: {kind: vlm}\n", "vllm"),
    ] {
        let text = problems(text);
        assert!(text.contains(says), "{says}: {text}");
    }
    assert_eq!(
        problems("version: 1\nsed: 3\nseeed: 4\n").lines().count(),
        2
    );
}

#[test]
fn every_example_is_valid() {
    let configs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs");
    let mut seen = 0;
    for entry in std::fs::read_dir(configs).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with("experiment") {
            read(&path).unwrap().resolve(false).unwrap();
            seen += 1;
        }
    }
    assert!(seen >= 2);
}

#[test]
fn every_key_is_documented() {
    let page = include_str!("../../../../docs/configuration-loadgen.md");
    let resolved = parse("x.yaml", FULL).unwrap().resolve(false).unwrap();
    for key in ["ramp", "stages", "burstiness", "shard"] {
        assert!(page.contains(&format!("`load.{key}`")), "{key}");
    }
    for line in resolved.to_yaml().lines().filter(|l| l.starts_with("  ")) {
        let key = line.trim().split(':').next().unwrap();
        assert!(page.contains(key), "{key} is not in the documentation");
    }
}
