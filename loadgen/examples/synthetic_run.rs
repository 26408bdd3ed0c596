//! Writes the raw files of a run that never was, of any number of requests: what the analysis is
//! timed and weighed with (`tests/bench/scale.sh`).
//!
//! Two arms of a closed loop, each with half of the requests: slots that answer after a random
//! time, in events with random gaps, rows in the order of their ends. The gateway's arm has a
//! record per request. The same arguments give the same bytes.
//!
//! ```text
//! synthetic_run RESULTS_DIR RUN_ID REQUESTS
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use inferscope_shared::clock::MonoNs;
use inferscope_shared::record::gateway::{
    Chunks, Extraction, GatewayRecord, Outcome as GatewayOutcome, Usage, UsageSource,
};
use inferscope_shared::record::request::{
    Connect, EventKind, Events, Outcome, Phase, RequestRecord, TokensSource,
};
use loadgen::artifacts::layout::{Roots, RunDir};
use loadgen::config::file;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, LogNormal};
use serde::Serialize;
use serde_json::json;

const SLOTS: u64 = 512;
const EVENTS: usize = 16;
const START: MonoNs = MonoNs(1_000_000_000_000);
const MS: u64 = 1_000_000;
const US: u64 = 1_000;
const BOOT: &str = "synthetic-boot";

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [results, run_id, requests] = &args[..] else {
        anyhow::bail!("usage: synthetic_run RESULTS_DIR RUN_ID REQUESTS");
    };
    let requests: u64 = requests.parse().context("REQUESTS")?;
    let run = Roots::new(results.as_str()).run(run_id);
    fs::create_dir_all(run.raw())?;
    fs::write(run.config(), config(run_id)?)?;
    let mut files = Files::create(&run)?;
    let mut at = START;
    let mut points = Vec::new();
    for (block, arm) in ["direct", "gateway"].into_iter().enumerate() {
        let mut point = PointOf {
            run_id: run_id.clone(),
            arm,
            id: format!("{arm}.c{SLOTS}"),
            random: ChaCha8Rng::seed_from_u64(block as u64),
        };
        let end = point.write(at, requests / 2, &mut files)?;
        points.push(json!({
            "point_id": point.id, "arm": arm, "block": 0,
            "load": {"kind": "concurrency", "value": SLOTS},
            "warmup": SLOTS, "planned": (requests / 2).saturating_sub(SLOTS),
            "stop_reason": "requests", "start_ns": at, "end_ns": end,
            "alive_after": true, "alive_error": null,
        }));
        at = end.plus_ns(1_000 * MS);
    }
    files.finish(at)?;
    fs::write(run.manifest(), manifest(run_id, &points).to_string())?;
    Ok(())
}

struct PointOf {
    run_id: String,
    arm: &'static str,
    id: String,
    random: ChaCha8Rng,
}

impl PointOf {
    /// Writes the point's rows; returns its end.
    fn write(&mut self, start: MonoNs, requests: u64, files: &mut Files) -> anyhow::Result<MonoNs> {
        let mut busy: BinaryHeap<Reverse<(MonoNs, u64)>> = BinaryHeap::new();
        let mut waiting = std::collections::HashMap::new();
        let mut end = start;
        for seq in 0..requests {
            let free = if seq < SLOTS {
                start.plus_ns(seq * 50 * US)
            } else {
                let Some(Reverse((ended, first))) = busy.pop() else {
                    break;
                };
                files.row(waiting.remove(&first))?;
                ended
            };
            let row = self.row(seq, free);
            let ended = row.end_ns.unwrap_or(free);
            end = end.max(ended);
            busy.push(Reverse((ended, seq)));
            waiting.insert(seq, row);
            files.plan(&self.id, seq)?;
        }
        while let Some(Reverse((_, seq))) = busy.pop() {
            files.row(waiting.remove(&seq))?;
        }
        Ok(end.plus_ns(MS))
    }

    fn row(&mut self, seq: u64, free: MonoNs) -> RequestRecord {
        let random = &mut self.random;
        let draw = |random: &mut ChaCha8Rng, mean_ms: f64| -> u64 {
            let law = LogNormal::new(mean_ms.ln(), 0.5).map(|law| law.sample(random));
            (law.unwrap_or(mean_ms) * 1e6) as u64
        };
        let dispatched = free.plus_ns(random.random_range(5..60) * US);
        let sent = dispatched.plus_ns(random.random_range(5..60) * US);
        let head = draw(random, 5.0);
        let mut at_ns = vec![head, draw(random, 35.0)];
        at_ns.extend((3..EVENTS).map(|_| draw(random, 8.0)));
        at_ns.push(0);
        let mut kind = vec![EventKind::Output; EVENTS];
        kind[0] = EventKind::Empty;
        kind[EVENTS - 1] = EventKind::Done;
        let first = sent.plus_ns(at_ns[0] + at_ns[1]);
        let last = sent.plus_ns(at_ns.iter().sum());
        let outputs = EVENTS as u64 - 2;
        RequestRecord {
            schema_version: 1,
            run_id: self.run_id.clone(),
            point_id: self.id.clone(),
            arm: self.arm.to_owned(),
            phase: if seq < SLOTS {
                Phase::Warmup
            } else {
                Phase::Measure
            },
            block: 0,
            seq,
            request_id: format!("{}.{}.{seq}", self.run_id, self.id),
            gateway_request_id: (self.arm == "gateway")
                .then(|| format!("01980000-0000-7000-8000-{seq:012}")),
            traceparent: Some(format!("00-{seq:032x}-{seq:016x}-01")),
            intended_ns: Some(free),
            released_ns: None,
            dispatched_ns: Some(dispatched),
            connect: Connect {
                reused: seq >= SLOTS,
                start_ns: (seq < SLOTS).then_some(dispatched),
                tcp_ns: (seq < SLOTS).then_some(sent),
                tls_ns: None,
            },
            sent_start_ns: Some(sent),
            sent_end_ns: Some(sent.plus_ns(8 * US)),
            head_ns: Some(sent.plus_ns(head)),
            first_event_ns: Some(sent.plus_ns(head)),
            first_output_ns: Some(first),
            first_output_rx_ns: Some(MonoNs(first.0 - 30 * US)),
            first_output_rx_exact: true,
            last_output_ns: Some(last),
            last_output_rx_ns: Some(MonoNs(last.0 - 30 * US)),
            last_output_rx_exact: true,
            done_ns: Some(last),
            end_ns: Some(last.plus_ns(20 * US)),
            status: Some(200),
            outcome: Outcome::Ok,
            error_kind: None,
            error_message: None,
            late: false,
            prompt_tokens: Some(128),
            completion_tokens: Some(outputs),
            tokens_source: TokensSource::Usage,
            finish_reason: Some("length".to_owned()),
            done_missing: false,
            body_bytes: 4_000,
            body_sha256: Some(format!("{seq:064x}")),
            text_sha256: Some(format!("{seq:064x}")),
            events: Events {
                end_offset: vec![250; EVENTS],
                kind,
                tokens: vec![None; EVENTS],
                rx_lag_ns: (0..EVENTS)
                    .map(|_| Some(random.random_range(10..90) * US))
                    .collect(),
                rx_upper_bound: Vec::new(),
                at_ns,
            },
        }
    }
}

/// The gateway's record of a row: each event in a piece of its own, written 100 µs before the
/// client has it and read some time before that.
fn record(row: &RequestRecord) -> GatewayRecord {
    let sent = row.sent_start_ns.unwrap_or(START);
    let accept = sent.plus_ns(150 * US);
    let mut written = row.events.at_ns.clone();
    written[0] = written[0].saturating_sub(250 * US);
    let mut read = written.clone();
    read[0] = read[0].saturating_sub(20 * US + row.seq % 50 * US);
    GatewayRecord {
        schema_version: 1,
        request_id: row.gateway_request_id.clone().unwrap_or_default(),
        client_request_id: Some(row.request_id.clone()),
        trace_id: Some(format!("{:032x}", row.seq)),
        boot_id: BOOT.to_owned(),
        tenant: Some("default".to_owned()),
        key_id: Some("key".to_owned()),
        model: Some("m".to_owned()),
        upstream_model: Some("m".to_owned()),
        pool: Some("default".to_owned()),
        endpoint: Some("engine-1".to_owned()),
        path: "/v1/chat/completions".to_owned(),
        stream: true,
        status: Some(200),
        outcome: GatewayOutcome::Ok,
        error_kind: None,
        attempts: 1,
        t_accept_ns: accept,
        t_accept_utc: "2026-01-01T00:00:00Z".to_owned(),
        t_head_ns: Some(10 * US),
        t_body_ns: Some(30 * US),
        t_auth_ns: Some(20 * US),
        t_admitted_ns: Some(40 * US),
        t_routed_ns: Some(50 * US),
        t_connected_ns: Some(60 * US),
        conn_reused: Some(true),
        t_request_sent_ns: Some(90 * US),
        t_response_head_ns: Some(read[0]),
        t_first_byte_ns: Some(read[0]),
        t_first_output_ns: Some(read[0] + read[1]),
        t_last_output_ns: Some(read.iter().sum()),
        t_end_ns: written.iter().sum::<u64>() + 50 * US,
        write_blocked_ns: row.seq % 7 * US,
        chunks: Chunks {
            read_ns: read,
            written_ns: written,
            end_offset: row.events.end_offset.clone(),
            events: vec![1; EVENTS],
        },
        usage: Usage {
            prompt_tokens: row.prompt_tokens,
            completion_tokens: row.completion_tokens,
            cached_tokens: Some(0),
            source: UsageSource::Usage,
        },
        finish_reason: row.finish_reason.clone(),
        extraction: Extraction::Complete,
        bytes_in: 900,
        bytes_out: row.body_bytes,
        sha256_upstream: row.body_sha256.clone(),
        sha256_downstream: row.body_sha256.clone(),
    }
}

struct Files {
    plan: BufWriter<File>,
    requests: BufWriter<File>,
    records: BufWriter<File>,
    client: BufWriter<File>,
}

impl Files {
    fn create(run: &RunDir) -> anyhow::Result<Self> {
        let create = |path: &Path| -> anyhow::Result<BufWriter<File>> {
            let file = File::create(path).with_context(|| path.display().to_string())?;
            Ok(BufWriter::with_capacity(1 << 20, file))
        };
        let mut files = Self {
            plan: create(&run.plan())?,
            requests: create(&run.requests())?,
            records: create(&run.gateway_records())?,
            client: create(&run.client_metrics())?,
        };
        let header = json!({"header": {
            "schema_version": 1, "boot_id": BOOT, "gateway_version": "0.1.0", "dropped": 0,
        }});
        line(&mut files.records, &header)?;
        Ok(files)
    }

    fn plan(&mut self, point_id: &str, seq: u64) -> anyhow::Result<()> {
        let arrival = json!({
            "point_id": point_id, "seq": seq, "output_tokens": EVENTS - 2, "prompt_tokens": 128,
        });
        line(&mut self.plan, &arrival)
    }

    fn row(&mut self, row: Option<RequestRecord>) -> anyhow::Result<()> {
        let Some(row) = row else { return Ok(()) };
        line(&mut self.requests, &row)?;
        if row.arm == "gateway" {
            line(&mut self.records, &record(&row))?;
        }
        Ok(())
    }

    /// Writes a line of the client's own state for each second, and ends.
    fn finish(mut self, end: MonoNs) -> anyhow::Result<()> {
        for second in 1..=end.since(START).div_ceil(1_000 * MS) {
            let used = second as f64 * 0.1;
            let thread = |name: &str| json!({"name": name, "cpu_seconds": used, "run_wait_seconds": used / 1e3});
            let threads = ["loadgen", "writer", "lag", "feed", "telemetry"].map(thread);
            let state = json!({
                "t_ns": START.plus_ns(second * 1_000 * MS),
                "loop_lag_ms": {"n": 200, "p50": 0.02, "p99": 0.2, "max": 0.4},
                "cpu_seconds": used * 2.0, "loop_cpu_seconds": used, "in_flight": SLOTS,
                "threads": threads,
                "cgroup": {"throttled_periods": 0, "throttled_seconds": 0.0},
                "tcp": {"segments_out": second * 1_000, "retransmitted": 0},
            });
            line(&mut self.client, &state)?;
        }
        for file in [self.plan, self.requests, self.records, self.client] {
            file.into_inner()?;
        }
        Ok(())
    }
}

fn line(file: &mut BufWriter<File>, value: &impl Serialize) -> anyhow::Result<()> {
    serde_json::to_writer(&mut *file, value)?;
    Ok(file.write_all(b"\n")?)
}

fn config(run_id: &str) -> anyhow::Result<String> {
    let text = format!(
        "version: 1\nrun_id: {run_id}\nseed: 7\npath: both\narms:\n  \
         direct: {{url: \"http://127.0.0.1:1\"}}\n  gateway: {{url: \"http://127.0.0.1:2\"}}\n\
         gateway_records: http://127.0.0.1:3/records\nrequest: {{model: m}}\n\
         load: {{arrival: closed, concurrency: [{SLOTS}], requests: 1, warmup: {SLOTS}}}\n\
         slo: \"ttft=200ms,tpot=50ms,e2e=2s,success=0.99,at=p99\"\n"
    );
    let resolved = file::parse("synthetic", &text)?.resolve(false);
    let resolved = resolved.map_err(|faults| anyhow::anyhow!(faults.join("; ")))?;
    Ok(resolved.to_yaml())
}

fn manifest(run_id: &str, points: &[serde_json::Value]) -> serde_json::Value {
    json!({
        "schema_version": 1, "run_id": run_id, "candidate_id": null,
        "created_utc": "2026-01-01T00:00:00Z", "interrupted": false, "finished": true,
        "loadgen": {"version": "0.1.0", "git": null},
        "host": {
            "boot_id": BOOT, "cpu": null, "cores": null, "governor": null, "kernel": null,
            "cgroup": {"cpu_cores": null, "memory_bytes": null}, "clock_source": null,
        },
        "arms": [
            {"name": "direct", "url": "http://127.0.0.1:1", "kind": "direct"},
            {"name": "gateway", "url": "http://127.0.0.1:2", "kind": "gateway"},
        ],
        "engine": {"kind": "fake", "name": null, "version": null, "model": "m", "flags": []},
        "gpu": null, "config_sha256": null, "schedule_sha256": null, "prompts_sha256": null,
        "seed": 7,
        "calibration": {
            "prompt_tokens": "vllm_tokenize", "exact": true, "template_tokens": 0, "note": null,
        },
        "points": points, "artifacts": [],
    })
}
