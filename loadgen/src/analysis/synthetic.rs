//! Small raw directories for tests: a fake run with two arms, one load, and answers of five
//! tokens, from which tests take away or change what they are about.

pub(crate) mod rows;

use std::collections::BTreeMap;

use inferscope_shared::clock::MonoNs;
use inferscope_shared::record::gateway::GatewayRecord;
use inferscope_shared::record::request::{Outcome, Phase, RequestRecord};
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
pub(crate) use rows::{broken, record, row};

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const BOOT: &str = "boot-1";
const RUN: &str = "r1";
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
