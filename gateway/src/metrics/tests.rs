use super::*;
use inferscope_shared::clock::MonoNs;
use inferscope_shared::record::gateway::{Chunks, Usage, UsageSource};

const MS: u64 = 1_000_000;

/// A stream of three outputs, the last two flushed together.
pub(crate) fn record() -> GatewayRecord {
    GatewayRecord {
        schema_version: 1,
        request_id: "r".to_owned(),
        client_request_id: Some("run.gateway.c1.0".to_owned()),
        trace_id: None,
        boot_id: "b".to_owned(),
        tenant: Some("t".to_owned()),
        key_id: Some("k".to_owned()),
        model: Some("small".to_owned()),
        upstream_model: None,
        pool: None,
        endpoint: None,
        path: "/v1/completions".to_owned(),
        stream: true,
        status: Some(200),
        outcome: Outcome::Ok,
        error_kind: None,
        attempts: 2,
        t_accept_ns: MonoNs(1),
        t_accept_utc: "2026-12-01T00:00:00Z".to_owned(),
        t_head_ns: Some(1),
        t_body_ns: Some(3),
        t_auth_ns: Some(2),
        t_admitted_ns: Some(4),
        t_routed_ns: Some(5),
        t_connected_ns: Some(6),
        conn_reused: Some(true),
        t_request_sent_ns: Some(7),
        t_response_head_ns: Some(40 * MS),
        t_first_byte_ns: Some(50 * MS),
        t_first_output_ns: Some(50 * MS),
        t_last_output_ns: Some(90 * MS),
        t_end_ns: 100 * MS,
        write_blocked_ns: 5 * MS,
        chunks: Chunks {
            read_ns: vec![50 * MS, 20 * MS, 20 * MS, 5 * MS],
            written_ns: vec![51 * MS, 40 * MS, 0, 5 * MS],
            end_offset: vec![10, 10, 10, 10],
            events: vec![1, 1, 1, 2],
        },
        usage: Usage {
            prompt_tokens: Some(11),
            completion_tokens: Some(3),
            cached_tokens: None,
            source: UsageSource::Usage,
        },
        finish_reason: None,
        extraction: Extraction::Complete,
        bytes_in: 7,
        bytes_out: 40,
        sha256_upstream: None,
        sha256_downstream: None,
    }
}

fn metrics() -> Metrics {
    Metrics::new(["small".to_owned()], ["/v1/completions".to_owned()]).unwrap()
}

fn lines(metrics: &Metrics, begin: &str) -> Vec<String> {
    let text = metrics.render().unwrap();
    text.lines()
        .filter(|line| line.starts_with(&format!("inferscope_gateway_{begin}")))
        .filter(|line| !line.contains("_bucket"))
        .map(|line| line.trim_start_matches("inferscope_gateway_").to_owned())
        .collect()
}

#[test]
fn one_record_feeds_every_metric_once() {
    let metrics = metrics();
    metrics.request_started();
    metrics.settled(&record());
    insta::assert_snapshot!(lines(&metrics, "").join("\n"));
}

#[test]
fn absurd_token_counts_are_left_out() {
    let metrics = metrics();
    let mut absurd = record();
    absurd.usage.prompt_tokens = Some(u64::MAX);
    absurd.usage.completion_tokens = Some(MAX_TOKENS + 1);
    metrics.settled(&absurd);
    metrics.settled(&absurd);
    assert!(lines(&metrics, "tokens_total").is_empty());
    assert!(lines(&metrics, "tpot_seconds").is_empty());
}

#[test]
fn a_gauge_comes_back_to_zero() {
    let metrics = metrics();
    let stream = metrics.open_stream();
    assert_eq!(lines(&metrics, "open_streams"), ["open_streams 1"]);
    drop(stream);
    assert_eq!(lines(&metrics, "open_streams"), ["open_streams 0"]);
}

#[test]
fn o09_names_from_requests_never_become_labels() {
    let metrics = metrics();
    metrics.request_started();
    metrics.settled(&record());
    let mut stranger = record();
    stranger.error_kind = Some("whatever".to_owned());
    stranger.model = Some("zz".to_owned());
    stranger.path = "/zz".to_owned();
    metrics.request_started();
    metrics.settled(&stranger);
    let series = metrics.render().unwrap().lines().count();
    for i in 0..20_000 {
        stranger.model = Some(match i % 4 {
            0 => format!("model-{i}"),
            1 => format!("quote\"newline\n{i}"),
            2 => format!("nul\0{i}"),
            _ => "m".repeat(10_000),
        });
        stranger.path = format!("/path/{i}");
        stranger.error_kind = Some(format!("kind-{i}"));
        metrics.request_started();
        metrics.settled(&stranger);
    }
    assert_eq!(metrics.render().unwrap().lines().count(), series);
    assert_eq!(metrics.requests_in_flight(), 0);
    assert!(
        metrics
            .render()
            .unwrap()
            .lines()
            .all(|line| line.len() < 400)
    );
}

#[test]
fn o11_labels_hold_no_tenant_no_key_and_no_request_id() {
    let metrics = metrics();
    let mut secretive = record();
    secretive.tenant = Some("tenant-x".to_owned());
    secretive.key_id = Some("key-x".to_owned());
    secretive.client_request_id = Some("client-x".to_owned());
    metrics.settled(&secretive);
    let text = metrics.render().unwrap();
    for private in ["tenant-x", "key-x", "client-x"] {
        assert!(!text.contains(private), "{private}");
    }
}

#[test]
fn o12_long_answers_and_fast_tokens_stay_inside_the_buckets() {
    let metrics = metrics();
    let mut slow = record();
    slow.t_first_output_ns = Some(45_000 * MS);
    slow.t_last_output_ns = Some(400_000 * MS);
    slow.t_end_ns = 400_000 * MS;
    slow.chunks.read_ns = vec![45_000 * MS, 3 * MS, 3 * MS, 354_994 * MS];
    metrics.settled(&slow);
    let text = metrics.render().unwrap();
    let count = |metric: &str, edge: &str| -> u64 {
        let begin = format!("inferscope_gateway_{metric}_bucket{{model=\"small\",le=\"{edge}\"}} ");
        let line = text
            .lines()
            .find(|l| l.starts_with(&begin))
            .unwrap_or_else(|| panic!("{begin}"));
        line[begin.len()..].parse().unwrap()
    };
    assert_eq!(
        (count("ttft_seconds", "30"), count("ttft_seconds", "45")),
        (0, 1)
    );
    assert_eq!(
        (count("e2e_seconds", "300"), count("e2e_seconds", "450")),
        (0, 1)
    );
    assert_eq!(
        (count("itl_seconds", "0.002"), count("itl_seconds", "0.003")),
        (0, 2)
    );
    assert_eq!(count("ttft_seconds", "600"), count("ttft_seconds", "+Inf"));
}
