//! `/metrics` under vLLM's names, with counts of what really happened.
//!
//! Token counters move with each step, histograms when a request ends. Times are seconds.
//! Like vLLM, an aborted request appears in no `request_success_total` and in no histogram;
//! `fake_engine:client_gone_total` counts it. With the timing model gauges and token counters are
//! the model's, and there is one set of them, under the first name served. In exact mode nothing
//! waits and no KV cache fills, so those stay 0.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::api::Work;
use crate::api::intake::Ask;
use crate::clock::unix_seconds;
use crate::model::{Model, Parameters};
use crate::program::{End, Sends};

mod histogram;

use histogram::Histogram;

const TTFT_BOUNDS: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
];
const GAP_BOUNDS: &[f64] = &[
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
    40.0, 80.0,
];
const E2E_BOUNDS: &[f64] = &[
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
    480.0, 960.0, 1920.0, 7680.0,
];

/// The numbers of one served model.
#[derive(Debug)]
pub(crate) struct ModelMetrics {
    running: AtomicI64,
    waiting: AtomicU64,
    /// Bits of an f64.
    kv_usage: AtomicU64,
    preemptions: AtomicU64,
    prompt_tokens: AtomicU64,
    generation_tokens: AtomicU64,
    cache_queries: AtomicU64,
    cache_hits: AtomicU64,
    stop: AtomicU64,
    length: AtomicU64,
    gone: AtomicU64,
    ttft: Histogram,
    gap: Histogram,
    per_token: Histogram,
    e2e: Histogram,
}

impl ModelMetrics {
    fn new() -> Self {
        Self {
            running: AtomicI64::new(0),
            waiting: AtomicU64::new(0),
            kv_usage: AtomicU64::new(0),
            preemptions: AtomicU64::new(0),
            prompt_tokens: AtomicU64::new(0),
            generation_tokens: AtomicU64::new(0),
            cache_queries: AtomicU64::new(0),
            cache_hits: AtomicU64::new(0),
            stop: AtomicU64::new(0),
            length: AtomicU64::new(0),
            gone: AtomicU64::new(0),
            ttft: Histogram::new(TTFT_BOUNDS),
            gap: Histogram::new(GAP_BOUNDS),
            per_token: Histogram::new(GAP_BOUNDS),
            e2e: Histogram::new(E2E_BOUNDS),
        }
    }

    /// Exact mode: a request begins to run. A prefix seen before hits with the whole prefix.
    pub fn admitted(&self, ask: &Ask, prefix: &str, seen: bool) {
        self.running.fetch_add(1, Ordering::Relaxed);
        self.prompt_tokens
            .fetch_add(ask.prompt_tokens, Ordering::Relaxed);
        self.cache_queries
            .fetch_add(ask.prompt_tokens, Ordering::Relaxed);
        if seen {
            let hit = prefix.split_whitespace().count() as u64;
            self.cache_hits.fetch_add(hit, Ordering::Relaxed);
        }
    }

    /// The timing model's state.
    pub fn modelled(&self, model: &Model) {
        let counters = model.counters();
        for (metric, value) in [
            (&self.waiting, model.waiting() as u64),
            (&self.kv_usage, model.kv_cache_usage().to_bits()),
            (&self.preemptions, counters.preemptions),
            (&self.prompt_tokens, counters.prompt_tokens),
            (&self.generation_tokens, counters.generation_tokens),
            (&self.cache_queries, counters.prefix_cache_queries),
            (&self.cache_hits, counters.prefix_cache_hits),
        ] {
            metric.store(value, Ordering::Relaxed);
        }
        self.running
            .store(model.running() as i64, Ordering::Relaxed);
    }

    /// Exact mode: output tokens leave.
    pub fn generated(&self, tokens: u64) {
        self.generation_tokens.fetch_add(tokens, Ordering::Relaxed);
    }

    /// A request has ended.
    pub fn ended(&self, work: &Work, end: End, sends: &Sends, recv_end_ns: u64) {
        if work.pace.is_some() {
            self.running.fetch_sub(1, Ordering::Relaxed);
        }
        if end != End::Done {
            self.gone
                .fetch_add(u64::from(end == End::ClientGone), Ordering::Relaxed);
            return;
        }
        let reason = if work.finish_reason == "stop" {
            &self.stop
        } else {
            &self.length
        };
        reason.fetch_add(1, Ordering::Relaxed);
        let seconds = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e9;
        if let (Some(&first), Some(&last)) = (sends.outputs.first(), sends.outputs.last()) {
            self.ttft
                .observe(std::iter::once(seconds(recv_end_ns, first)));
            self.gap
                .observe(sends.outputs.windows(2).map(|w| seconds(w[0], w[1])));
            let gaps = sends.outputs.len() - 1;
            let mean = if gaps == 0 {
                0.0
            } else {
                seconds(first, last) / gaps as f64
            };
            self.per_token.observe(std::iter::once(mean));
            let done = sends.done.unwrap_or(last);
            self.e2e
                .observe(std::iter::once(seconds(recv_end_ns, done)));
        }
    }
}

/// All metrics of an engine.
#[derive(Debug)]
pub(crate) struct Metrics {
    started_unix_seconds: u64,
    timing: Option<Parameters>,
    models: Vec<(String, Arc<ModelMetrics>)>,
}

type Number = (
    &'static str,
    &'static str,
    &'static str,
    fn(&ModelMetrics) -> f64,
);

/// Name, kind, help and source of each metric that is one number per model.
const NUMBERS: &[Number] = &[
    (
        "vllm:num_requests_running",
        "gauge",
        "Requests being answered.",
        |m| m.running.load(Ordering::Relaxed) as f64,
    ),
    (
        "vllm:num_requests_waiting",
        "gauge",
        "Requests waiting; 0 in exact mode.",
        |m| count(&m.waiting),
    ),
    (
        "vllm:kv_cache_usage_perc",
        "gauge",
        "Share of KV-cache blocks in use, 1 is all; 0 in exact mode.",
        |m| f64::from_bits(m.kv_usage.load(Ordering::Relaxed)),
    ),
    (
        "vllm:num_preemptions_total",
        "counter",
        "Preemptions; 0 in exact mode.",
        |m| count(&m.preemptions),
    ),
    (
        "vllm:prefix_cache_queries_total",
        "counter",
        "Prompt tokens looked up.",
        |m| count(&m.cache_queries),
    ),
    (
        "vllm:prefix_cache_hits_total",
        "counter",
        "Prompt tokens found.",
        |m| count(&m.cache_hits),
    ),
    (
        "vllm:prompt_tokens_total",
        "counter",
        "Prompt tokens taken in.",
        |m| count(&m.prompt_tokens),
    ),
    (
        "vllm:generation_tokens_total",
        "counter",
        "Output tokens generated.",
        |m| count(&m.generation_tokens),
    ),
    (
        "fake_engine:client_gone_total",
        "counter",
        "Requests whose client left.",
        |m| count(&m.gone),
    ),
];

fn count(counter: &AtomicU64) -> f64 {
    counter.load(Ordering::Relaxed) as f64
}

impl Metrics {
    /// With the timing model only the first name has metrics.
    pub fn new(models: &[String], timing: Option<Parameters>) -> Self {
        let named = if timing.is_some() { 1 } else { models.len() };
        Self {
            started_unix_seconds: unix_seconds(),
            timing,
            models: models
                .iter()
                .take(named)
                .map(|name| (name.clone(), Arc::new(ModelMetrics::new())))
                .collect(),
        }
    }

    /// The model at that index of the served models.
    pub fn model(&self, index: usize) -> &Arc<ModelMetrics> {
        &self.models[index].1
    }

    /// The Prometheus text.
    pub fn render(&self) -> String {
        let mut out = String::new();
        for (name, kind, help, read) in NUMBERS {
            declare(&mut out, name, kind, help);
            for (model, metrics) in &self.models {
                let value = read(metrics);
                let _ = writeln!(
                    out,
                    "{name}{{engine=\"0\",model_name=\"{model}\"}} {value:?}"
                );
            }
        }
        let name = "process_start_time_seconds";
        declare(&mut out, name, "gauge", "Engine's start, Unix epoch.");
        let _ = writeln!(out, "{name} {}.0", self.started_unix_seconds);
        if let Some(timing) = &self.timing {
            let name = "vllm:cache_config_info";
            declare(&mut out, name, "gauge", "The KV cache.");
            let _ = writeln!(
                out,
                "{name}{{block_size=\"{}\",enable_prefix_caching=\"{}\",engine=\"0\",num_gpu_blocks=\"{}\"}} 1.0",
                timing.block_size,
                if timing.enable_prefix_caching {
                    "True"
                } else {
                    "False"
                },
                timing.num_kv_blocks,
            );
        }
        let name = "vllm:request_success_total";
        declare(&mut out, name, "counter", "Requests answered to the end.");
        for (model, m) in &self.models {
            let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            for (reason, count) in [
                ("stop", load(&m.stop)),
                ("length", load(&m.length)),
                ("abort", 0),
            ] {
                let _ = writeln!(
                    out,
                    "{name}{{engine=\"0\",finished_reason=\"{reason}\",model_name=\"{model}\"}} {count}.0"
                );
            }
        }
        type Pick = fn(&ModelMetrics) -> &Histogram;
        let histograms: [(&str, &str, Pick); 4] = [
            (
                "vllm:time_to_first_token_seconds",
                "Last request byte to first output.",
                |m| &m.ttft,
            ),
            (
                "vllm:inter_token_latency_seconds",
                "Gaps between outputs.",
                |m| &m.gap,
            ),
            (
                "vllm:request_time_per_output_token_seconds",
                "Mean gap of a request.",
                |m| &m.per_token,
            ),
            (
                "vllm:e2e_request_latency_seconds",
                "Last request byte to the end.",
                |m| &m.e2e,
            ),
        ];
        for (name, help, pick) in histograms {
            declare(&mut out, name, "histogram", help);
            for (model, metrics) in &self.models {
                pick(metrics).render(&mut out, name, model);
            }
        }
        out
    }
}

fn declare(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}
