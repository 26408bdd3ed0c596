//! Small raw directories for tests: a fake run with two arms, one load, and answers of five
//! tokens, from which tests take away or change what they are about.

use std::collections::BTreeMap;

use inferscope_shared::clock::MonoNs;
use inferscope_shared::record::gateway::{
    Chunks, Extraction, GatewayRecord, Outcome as GatewayOutcome, Usage, UsageSource,
};
use inferscope_shared::record::request::{
    Connect, EventKind, Events, Outcome, Phase, RequestRecord, TokensSource,
};
use tempfile::TempDir;

use super::{Analysis, analyze};
use crate::artifacts::layout::{Roots, RunDir};
use crate::artifacts::manifest::{
    Calibration, ErrorSummary, Host, Instrument, Loadgen, Manifest, ManifestArm, ManifestEngine,
    PointRun, StopReason, TokenCheck,
};
use crate::config::{ArmKind, EngineKind, LoadKind, LoadValue, file};
use crate::drive::lag::{ClientMetrics, Lag};
use crate::telemetry::client::TcpUse;
use crate::telemetry::gpu::GpuSample;

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const BOOT: &str = "boot-1";
const RUN: &str = "r1";
/// From the kernel's receipt of a read to the read.
const RX_LAG: u64 = 20_000;

/// An ok answer that was sent at `sent_ms`: first output 50 ms later, five outputs 10 ms apart,
/// five tokens, `[DONE]` with the last one.
pub(crate) fn row(point: &str, seq: u64, sent_ms: u64) -> RequestRecord {
    let arm = point.split('.').next().unwrap_or_default();
    let sent = MonoNs(sent_ms * MS);
    let at = |ms: u64| Some(sent.plus_ns(ms * MS));
    RequestRecord {
        schema_version: 1,
        run_id: RUN.to_owned(),
        point_id: point.to_owned(),
        arm: arm.to_owned(),
        phase: Phase::Measure,
        block: 0,
        seq,
        request_id: format!("{RUN}.{point}.{seq}"),
        gateway_request_id: None,
        traceparent: None,
        intended_ns: Some(sent),
        released_ns: None,
        dispatched_ns: Some(sent),
        connect: Connect {
            reused: true,
            ..Connect::default()
        },
        sent_start_ns: Some(sent),
        sent_end_ns: Some(sent),
        head_ns: at(5),
        first_event_ns: at(5),
        first_output_ns: at(50),
        last_output_ns: at(90),
        first_output_rx_ns: Some(sent.plus_ns(50 * MS - RX_LAG)),
        first_output_rx_exact: true,
        last_output_rx_ns: Some(sent.plus_ns(90 * MS - RX_LAG)),
        last_output_rx_exact: false,
        done_ns: at(90),
        end_ns: at(91),
        status: Some(200),
        outcome: Outcome::Ok,
        error_kind: None,
        error_message: None,
        late: false,
        prompt_tokens: Some(8),
        completion_tokens: Some(5),
        tokens_source: TokensSource::Usage,
        finish_reason: Some("length".to_owned()),
        done_missing: false,
        body_bytes: 700,
        body_sha256: Some("aa".to_owned()),
        text_sha256: None,
        events: Events {
            at_ns: vec![5 * MS, 45 * MS, 10 * MS, 10 * MS, 10 * MS, 10 * MS, 0],
            end_offset: vec![100; 7],
            kind: vec![
                EventKind::Empty,
                EventKind::Output,
                EventKind::Output,
                EventKind::Output,
                EventKind::Output,
                EventKind::Output,
                EventKind::Done,
            ],
            tokens: vec![None; 7],
            rx_lag_ns: vec![Some(RX_LAG); 7],
            rx_upper_bound: vec![5],
        },
    }
}

/// A row that did not end ok; `after_ms` from sending to its end.
pub(crate) fn broken(
    mut row: RequestRecord,
    outcome: Outcome,
    kind: &str,
    status: Option<u16>,
    after_ms: u64,
) -> RequestRecord {
    let sent = row.sent_start_ns.unwrap_or(MonoNs(0));
    row.outcome = outcome;
    row.error_kind = Some(kind.to_owned());
    row.status = status;
    row.end_ns = Some(sent.plus_ns(after_ms * MS));
    row.first_event_ns = None;
    row.first_output_ns = None;
    row.last_output_ns = None;
    (row.first_output_rx_ns, row.last_output_rx_ns) = (None, None);
    (row.first_output_rx_exact, row.last_output_rx_exact) = (false, false);
    row.done_ns = None;
    row.finish_reason = None;
    row.completion_tokens = None;
    row.tokens_source = TokensSource::Unknown;
    row.events = Events::default();
    if outcome == Outcome::Dropped {
        row.sent_start_ns = None;
        row.sent_end_ns = None;
        row.dispatched_ns = None;
        row.head_ns = None;
        row.end_ns = None;
        row.status = None;
    }
    row
}

/// The gateway's record of a row: accepted 200 µs after sending, each event read 300 µs and
/// written 100 µs before the client has it; the last two events in one piece.
pub(crate) fn record(row: &RequestRecord) -> GatewayRecord {
    const US: u64 = 1_000;
    let sent = row.sent_start_ns.unwrap_or(MonoNs(0));
    let accept = sent.plus_ns(200 * US);
    let read_first = 5 * MS - 300 * US - 200 * US;
    GatewayRecord {
        schema_version: 1,
        request_id: format!("g-{}", row.seq),
        client_request_id: Some(row.request_id.clone()),
        trace_id: None,
        boot_id: BOOT.to_owned(),
        tenant: None,
        key_id: None,
        model: Some("m".to_owned()),
        upstream_model: Some("m".to_owned()),
        pool: Some("default".to_owned()),
        endpoint: Some("e1".to_owned()),
        path: "/v1/chat/completions".to_owned(),
        stream: true,
        status: Some(200),
        outcome: GatewayOutcome::Ok,
        error_kind: None,
        attempts: 1,
        t_accept_ns: accept,
        t_accept_utc: "2026-01-01T00:00:00Z".to_owned(),
        t_head_ns: Some(10 * US),
        t_auth_ns: Some(20 * US),
        t_body_ns: Some(30 * US),
        t_admitted_ns: Some(40 * US),
        t_routed_ns: Some(50 * US),
        t_connected_ns: Some(60 * US),
        conn_reused: Some(true),
        t_request_sent_ns: Some(100 * US),
        t_response_head_ns: Some(4 * MS),
        t_first_byte_ns: Some(read_first),
        t_first_output_ns: Some(read_first + 45 * MS),
        t_last_output_ns: Some(read_first + 85 * MS),
        t_end_ns: 91 * MS,
        write_blocked_ns: 0,
        chunks: Chunks {
            read_ns: vec![read_first, 45 * MS, 10 * MS, 10 * MS, 10 * MS, 10 * MS],
            written_ns: vec![
                read_first + 200 * US,
                45 * MS,
                10 * MS,
                10 * MS,
                10 * MS,
                10 * MS,
            ],
            end_offset: vec![100, 100, 100, 100, 100, 200],
            events: vec![1, 1, 1, 1, 1, 2],
        },
        usage: Usage {
            prompt_tokens: Some(8),
            completion_tokens: Some(5),
            cached_tokens: None,
            source: UsageSource::Usage,
        },
        finish_reason: Some("length".to_owned()),
        extraction: Extraction::Complete,
        bytes_in: 100,
        bytes_out: 700,
        sha256_upstream: Some("aa".to_owned()),
        sha256_downstream: Some("aa".to_owned()),
    }
}

/// What a raw directory is written from.
pub(crate) struct Synthetic {
    pub dir: TempDir,
    pub slo: Option<&'static str>,
    pub manifest: Manifest,
    pub rows: Vec<RequestRecord>,
    pub records: Option<Vec<GatewayRecord>>,
    pub records_dropped: u64,
    pub client: Vec<ClientMetrics>,
    pub gpu: Vec<GpuSample>,
    /// There are snapshots of the engine's counters; they agree with the rows.
    pub server: bool,
    /// Except for these points.
    pub after: BTreeMap<&'static str, fn(&mut Exposed)>,
    pub salt: &'static str,
    pub gpu_setting: &'static str,
    pub body: Option<&'static str>,
}

/// What the engine exposes under vLLM's names.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Exposed {
    pub requests: u64,
    pub prompt_tokens: u64,
    pub generation_tokens: u64,
    pub preemptions: u64,
    pub prefix_hits: u64,
    pub start: u64,
}

impl Exposed {
    fn line(&self, point: &str, when: &str) -> String {
        let metrics = serde_json::json!({
            "vllm:request_success_total{finished_reason=\"length\"}": self.requests,
            "vllm:prompt_tokens_total": self.prompt_tokens,
            "vllm:generation_tokens_total": self.generation_tokens,
            "vllm:num_preemptions_total": self.preemptions,
            "vllm:prefix_cache_queries_total": self.prompt_tokens,
            "vllm:prefix_cache_hits_total": self.prefix_hits,
            "process_start_time_seconds": self.start,
        });
        let line = serde_json::json!({
            "t_ns": 1, "point_id": point, "when": when, "metrics": metrics,
        });
        line.to_string()
    }
}

impl Synthetic {
    /// Points `direct.c1` and `gateway.c1`, each with one warm-up request and `n` measured ones
    /// one after the other, all ok, joined and equal.
    pub fn new(n: u64) -> Self {
        let mut rows = Vec::new();
        let mut points = Vec::new();
        for (index, point) in ["direct.c1", "gateway.c1"].into_iter().enumerate() {
            let start = 1_000 + index as u64 * 1_000_000;
            for seq in 0..=n {
                let mut row = row(point, seq, start + seq * 100);
                if seq == 0 {
                    row.phase = Phase::Warmup;
                }
                rows.push(row);
            }
            points.push(PointRun {
                point_id: point.to_owned(),
                arm: point.split('.').next().unwrap_or_default().to_owned(),
                block: 0,
                load: LoadValue {
                    kind: LoadKind::Concurrency,
                    value: Some(1.0),
                },
                warmup: 1,
                planned: Some(n),
                stop_reason: Some(StopReason::Requests),
                start_ns: Some(MonoNs(start * MS)),
                end_ns: Some(MonoNs((start + (n + 1) * 100) * MS)),
                alive_after: Some(true),
                alive_error: None,
                token_check: Some(TokenCheck {
                    tokenizer: "vllm_tokenize".to_owned(),
                    answers: n.min(20),
                    texts: n.min(20),
                    usage_tokens: 5 * n.min(20),
                    counted_tokens: 5 * n.min(20),
                    worst: None,
                    reason: None,
                }),
            });
        }
        let records = rows
            .iter()
            .filter(|r| r.arm == "gateway")
            .map(record)
            .collect();
        let client = client(&points);
        Self {
            dir: tempfile::tempdir().unwrap(),
            slo: None,
            manifest: manifest(points),
            rows,
            records: Some(records),
            records_dropped: 0,
            client,
            gpu: Vec::new(),
            server: true,
            after: BTreeMap::new(),
            salt: "per_arm",
            gpu_setting: "auto",
            body: None,
        }
    }

    /// Only the direct arm, with these rows.
    pub fn direct(rows: Vec<RequestRecord>) -> Self {
        let mut it = Self::new(0);
        it.rows.retain(|r| r.arm == "direct");
        it.rows.extend(rows);
        it.manifest.arms.truncate(1);
        it.manifest.points.truncate(1);
        it.as_planned();
        it.records = None;
        it
    }

    /// The lines of `server_metrics.jsonl`.
    fn snapshots(&self) -> Vec<String> {
        let mut all = Vec::new();
        for point in &self.manifest.points {
            let id = point.point_id.as_str();
            let before = Exposed {
                requests: 7,
                prompt_tokens: 70,
                generation_tokens: 700,
                start: 1_000,
                ..Exposed::default()
            };
            let mut after = before;
            let add = |sum: u64, n: Option<u64>| sum.saturating_add(n.unwrap_or(0));
            let of_point = self.rows.iter().filter(|r| r.point_id == id);
            for row in of_point.filter(|r| r.outcome == Outcome::Ok) {
                after.requests += 1;
                after.prompt_tokens = add(after.prompt_tokens, row.prompt_tokens);
                after.generation_tokens = add(after.generation_tokens, row.completion_tokens);
            }
            if let Some(how) = self.after.get(id) {
                how(&mut after);
            }
            all.push(before.line(id, "before"));
            all.push(after.line(id, "after"));
        }
        all
    }

    /// Makes the manifest say that just these rows were planned.
    pub fn as_planned(&mut self) {
        for point in &mut self.manifest.points {
            let of = |phase| {
                let rows = self.rows.iter();
                rows.filter(|r| r.point_id == point.point_id && r.phase == phase)
                    .count() as u64
            };
            (point.warmup, point.planned) = (of(Phase::Warmup), Some(of(Phase::Measure)));
            let rows = self.rows.iter().filter(|r| r.point_id == point.point_id);
            point.end_ns = point.end_ns.max(rows.filter_map(|r| r.end_ns).max());
        }
    }

    pub fn run(&self) -> RunDir {
        Roots::new(self.dir.path().join("results")).run(RUN)
    }

    /// Changes the row of a measured request.
    pub fn change(&mut self, point: &str, seq: u64, how: impl FnOnce(&mut RequestRecord)) {
        let id = format!("{RUN}.{point}.{seq}");
        how(self.rows.iter_mut().find(|r| r.request_id == id).unwrap());
    }

    /// Writes the raw directory.
    pub fn write(&self) -> RunDir {
        let run = self.run();
        std::fs::create_dir_all(run.raw()).unwrap();
        self.manifest.write(&run.manifest()).unwrap();
        std::fs::write(run.config(), self.config()).unwrap();
        let plan: Vec<String> = {
            let mut rows: Vec<&RequestRecord> = self.rows.iter().collect();
            rows.sort_by(|a, b| (&a.point_id, a.seq).cmp(&(&b.point_id, b.seq)));
            rows.dedup_by_key(|r| &r.request_id);
            rows.iter()
                .map(|r| {
                    serde_json::json!({
                        "point_id": r.point_id, "seq": r.seq, "prompt_tokens": 8,
                        "output_tokens": 5,
                    })
                    .to_string()
                })
                .collect()
        };
        std::fs::write(run.plan(), lines(&plan)).unwrap();
        std::fs::write(run.requests(), lines(&json(&self.rows))).unwrap();
        std::fs::write(run.client_metrics(), lines(&json(&self.client))).unwrap();
        std::fs::write(run.gpu_metrics(), lines(&json(&self.gpu))).unwrap();
        if self.server {
            std::fs::write(run.server_metrics(), lines(&self.snapshots())).unwrap();
        }
        if let Some(records) = &self.records {
            let header = serde_json::json!({"header": {
                "schema_version": 1, "boot_id": BOOT, "gateway_version": "0",
                "dropped": self.records_dropped,
            }});
            let mut all = vec![header.to_string()];
            all.extend(json(records));
            std::fs::write(run.gateway_records(), lines(&all)).unwrap();
        }
        run
    }

    pub fn analyze(&self) -> Analysis {
        analyze(&self.write()).unwrap()
    }

    fn config(&self) -> String {
        let path = match self.manifest.arms.len() {
            1 => "direct",
            _ => "both",
        };
        let mut text = format!(
            "version: 1\nrun_id: {RUN}\nseed: 7\npath: {path}\narms:\n  \
             direct: {{url: \"http://127.0.0.1:1\"}}\n"
        );
        if path == "both" {
            text.push_str("  gateway: {url: \"http://127.0.0.1:2\"}\n");
            text.push_str("gateway_records: http://127.0.0.1:3/records\n");
        }
        let (salt, gpu) = (self.salt, self.gpu_setting);
        text.push_str(&format!("prompts: {{salt: {salt}}}\ngpu: {gpu}\n"));
        let body = self
            .body
            .map_or_else(String::new, |b| format!(", body: '{b}'"));
        text.push_str(&format!("request: {{model: m{body}}}\n"));
        text.push_str("load: {arrival: closed, concurrency: [1], requests: 1, warmup: 1}\n");
        if let Some(slo) = self.slo {
            text.push_str(&format!("slo: \"{slo}\"\n"));
        }
        file::parse("synthetic", &text)
            .unwrap()
            .resolve(false)
            .unwrap()
            .to_yaml()
    }
}

/// A calm client: a line before the first point, one in each, and one behind the last.
fn client(points: &[PointRun]) -> Vec<ClientMetrics> {
    let within = points
        .iter()
        .filter_map(|p| Some(p.start_ns?.plus_ns(500 * MS)));
    let end = points.iter().filter_map(|p| p.end_ns).max();
    let at = std::iter::once(MonoNs(0)).chain(within).chain(end);
    at.enumerate()
        .map(|(i, t_ns)| ClientMetrics {
            t_ns,
            loop_lag_ms: Lag {
                n: 100,
                p50: Some(0.1),
                p99: Some(0.5),
                max: Some(0.8),
            },
            cpu_seconds: 0.1 * i as f64,
            loop_cpu_seconds: 0.1 * i as f64,
            loop_run_wait_seconds: Some(0.0),
            in_flight: 1,
            writer_backlog_bytes: 0,
            threads: Vec::new(),
            cgroup: None,
            tcp: Some(TcpUse {
                segments_out: 5_000 * i as u64,
                retransmitted: 0,
            }),
        })
        .collect()
}

fn json<T: serde::Serialize>(values: &[T]) -> Vec<String> {
    values
        .iter()
        .map(|v| serde_json::to_string(v).unwrap())
        .collect()
}

fn lines(all: &[String]) -> String {
    all.iter().map(|line| format!("{line}\n")).collect()
}

/// A sound instrument: a tenth of a millisecond off, a millisecond at most.
fn instrument() -> Instrument {
    let error = |n| ErrorSummary {
        n,
        p50: Some(0.1),
        p99: Some(0.4),
        max: Some(1.0),
    };
    Instrument {
        point_id: Some("direct.c1".to_owned()),
        load: LoadValue {
            kind: LoadKind::Concurrency,
            value: Some(1.0),
        },
        streams: 1.0,
        events_per_s: 55.6,
        server_ttft_ms: 50.0,
        server_itl_ms: 10.0,
        output_events: 5,
        seconds: 3.0,
        requests: 120,
        ttft_error_ms: error(120),
        itl_error_ms: error(480),
        ttft_kernel_error_ms: ErrorSummary::default(),
        itl_kernel_error_ms: ErrorSummary::default(),
        dispatch_error_ms: error(120),
    }
}

fn manifest(points: Vec<PointRun>) -> Manifest {
    let arm = |name: &str, kind| ManifestArm {
        name: name.to_owned(),
        url: "http://127.0.0.1:1".to_owned(),
        kind,
    };
    Manifest {
        schema_version: 1,
        run_id: RUN.to_owned(),
        candidate_id: None,
        created_utc: "2026-01-01T00:00:00Z".to_owned(),
        interrupted: false,
        finished: true,
        disk_error: None,
        loadgen: Loadgen {
            version: "0.1.0".to_owned(),
            git: None,
        },
        host: Host {
            boot_id: Some(BOOT.to_owned()),
            cpu: Some("processor".to_owned()),
            cores: Some(2),
            ..Host::default()
        },
        arms: vec![
            arm("direct", ArmKind::Direct),
            arm("gateway", ArmKind::Gateway),
        ],
        engine: ManifestEngine {
            kind: EngineKind::Fake,
            name: Some("fake-engine".to_owned()),
            version: Some("0.1.0".to_owned()),
            model: Some("m".to_owned()),
            ..ManifestEngine::default()
        },
        gpu: None,
        config_sha256: None,
        schedule_sha256: None,
        prompts_sha256: None,
        fingerprint: None,
        tokenizer_sha256: None,
        seed: 7,
        calibration: Calibration {
            prompt_tokens: "vllm_tokenize".to_owned(),
            exact: true,
            template_tokens: Some(0),
            note: None,
            instrument: Some(instrument()),
            instrument_absent: None,
        },
        kernel_clock: None,
        telemetry: Vec::new(),
        points,
        artifacts: Vec::new(),
    }
}
