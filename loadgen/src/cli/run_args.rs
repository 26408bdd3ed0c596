//! Flags of `run`, and what they say as [`Settings`].

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::config::duration;
use crate::config::settings::{ArmSettings, Path, Settings, TimeoutSettings};
use crate::config::{Arrival, Endpoint, EngineKind, Gpu, Salt};

/// Flags of `run` and `plan`. Each one that is given replaces what the file says.
#[derive(Debug, Clone, Default, Args)]
pub struct RunArgs {
    /// Configuration file (YAML).
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Which paths to measure [default: those with a URL].
    #[arg(long, value_enum)]
    path: Option<Path>,
    /// Engine's base URL.
    #[arg(long, value_name = "URL", help_heading = "Where")]
    direct_url: Option<String>,
    /// Gateway's base URL.
    #[arg(long, value_name = "URL", help_heading = "Where")]
    gateway_url: Option<String>,
    /// Environment variable that holds the API key (for the gateway, if it is measured).
    #[arg(long, value_name = "NAME", help_heading = "Where")]
    api_key_env: Option<String>,
    /// Environment variable that holds the engine's own API key.
    #[arg(long, value_name = "NAME", help_heading = "Where")]
    direct_api_key_env: Option<String>,
    /// The gateway's records: its record file, or http://ADMIN/records.
    #[arg(long, value_name = "FILE|URL", help_heading = "Where")]
    gateway_records: Option<String>,
    /// What the engine is [default: found out].
    #[arg(long, value_name = "KIND", value_parser = engine_kind, help_heading = "Where")]
    engine_kind: Option<EngineKind>,
    /// Engine's base URL for /tokenize and /metrics [default: the direct URL].
    #[arg(long, value_name = "URL", help_heading = "Where")]
    engine_url: Option<String>,
    /// GPU evidence: auto, or none if there is no GPU.
    #[arg(long, value_name = "auto|none", value_parser = gpu, help_heading = "Where")]
    gpu: Option<Gpu>,

    /// Model to ask.
    #[arg(long, value_name = "NAME", help_heading = "What")]
    model: Option<String>,
    /// Endpoint to ask [default: chat].
    #[arg(long, value_name = "chat|completions", value_parser = endpoint, help_heading = "What")]
    endpoint: Option<Endpoint>,
    /// Tokens per prompt, chat template included [default: 128].
    #[arg(long, value_name = "N", help_heading = "What")]
    input_tokens: Option<u64>,
    /// Tokens to ask for per answer [default: 64].
    #[arg(long, value_name = "N", help_heading = "What")]
    output_tokens: Option<u64>,
    /// Sampling temperature [default: the engine's].
    #[arg(long, value_name = "T", help_heading = "What")]
    temperature: Option<f64>,
    /// Further body fields as a JSON object; null removes one.
    #[arg(long, value_name = "JSON", help_heading = "What")]
    body: Option<String>,
    /// Which prompts differ [default: per_arm].
    #[arg(long, value_name = "per_arm|per_run|none", value_parser = salt, help_heading = "What")]
    salt: Option<Salt>,
    /// Requests to replay, one JSON object a line.
    #[arg(long, value_name = "FILE.jsonl", help_heading = "What")]
    workload: Option<PathBuf>,

    /// Requests in flight, one point each; closed loop.
    #[arg(long, value_name = "N,N", value_delimiter = ',', help_heading = "Load")]
    concurrency: Option<Vec<u32>>,
    /// Requests per second, one point each; open loop.
    #[arg(long, value_name = "R,R", value_delimiter = ',', help_heading = "Load")]
    rate: Option<Vec<f64>>,
    /// Arrival process [default: closed, with --rate poisson].
    #[arg(long, value_name = "closed|constant|poisson|replay", value_parser = arrival, help_heading = "Load")]
    arrival: Option<Arrival>,
    /// Measured requests per point and arm [default: 100].
    #[arg(long, value_name = "N", help_heading = "Load")]
    requests: Option<u64>,
    /// Time in which measured requests are issued; the first limit reached ends a point.
    #[arg(long, value_name = "TIME", value_parser = duration::parse, help_heading = "Load")]
    duration: Option<Duration>,
    /// Warm-up requests per point and arm [default: the highest concurrency].
    #[arg(long, value_name = "N", help_heading = "Load")]
    warmup: Option<u64>,
    /// Spread the start of a closed loop's slots over this time.
    #[arg(long, value_name = "TIME", value_parser = duration::parse, help_heading = "Load")]
    stagger: Option<Duration>,
    /// Open loop: requests in flight at most [default: 1000].
    #[arg(long, value_name = "N", help_heading = "Load")]
    max_in_flight: Option<u32>,
    /// Seed of schedule and prompts [default: 1].
    #[arg(long, value_name = "S", help_heading = "Load")]
    seed: Option<u64>,
    /// Limits to judge by, such as ttft=200ms,tpot=50ms,e2e=5s,success=0.99,at=p95.
    #[arg(long, value_name = "SPEC", help_heading = "Load")]
    slo: Option<String>,

    /// Longest silence inside an answer [default: 60s].
    #[arg(long, value_name = "TIME", value_parser = duration::parse, help_heading = "Limits")]
    idle_timeout: Option<Duration>,
    /// Longest request [default: 900s].
    #[arg(long, value_name = "TIME", value_parser = duration::parse, help_heading = "Limits")]
    total_timeout: Option<Duration>,
    /// What requests in flight get when a time limit ends a point [default: 30s].
    #[arg(long, value_name = "TIME", value_parser = duration::parse, help_heading = "Limits")]
    drain: Option<Duration>,

    /// Where results go [default: results].
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    results_dir: Option<PathBuf>,
    /// Id of the run [default: time and random].
    #[arg(long, value_name = "ID", help_heading = "Output")]
    run_id: Option<String>,
    /// What is being compared, in your words.
    #[arg(long, value_name = "ID", help_heading = "Output")]
    candidate_id: Option<String>,
    /// Print the result as JSON.
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

impl RunArgs {
    /// What the flags say.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let this = self.clone();
        let env = |name: Option<String>| name.map(|n| format!("env:{n}"));
        let shared_key = env(this.api_key_env);
        Settings {
            run_id: this.run_id,
            candidate_id: this.candidate_id,
            seed: this.seed,
            path: this.path,
            direct: ArmSettings {
                // The gateway's key is not the engine's: it goes to the engine only when there is
                // no gateway that it could be meant for.
                api_key: env(this.direct_api_key_env).or_else(|| {
                    let only_direct = this.gateway_url.is_none() && this.config.is_none();
                    shared_key.clone().filter(|_| only_direct)
                }),
                url: this.direct_url,
            },
            gateway: ArmSettings {
                url: this.gateway_url,
                api_key: shared_key,
            },
            engine_kind: this.engine_kind,
            engine_url: this.engine_url,
            gpu: this.gpu,
            endpoint: this.endpoint,
            model: this.model,
            temperature: this.temperature,
            body: this.body,
            input_tokens: this.input_tokens,
            output_tokens: this.output_tokens,
            salt: this.salt,
            workload: this.workload,
            arrival: this.arrival,
            concurrency: this.concurrency,
            rate: this.rate,
            requests: this.requests,
            duration: this.duration,
            warmup: this.warmup,
            stagger: this.stagger,
            max_in_flight: this.max_in_flight,
            slo: this.slo,
            gateway_records: this.gateway_records,
            timeouts: TimeoutSettings {
                idle: this.idle_timeout,
                total: this.total_timeout,
                drain: this.drain,
                ..TimeoutSettings::default()
            },
            results_dir: this.results_dir,
        }
    }
}

/// Reads one of the words that a setting knows.
fn word<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, String> {
    words
        .iter()
        .find(|(word, _)| *word == text)
        .map(|&(_, value)| value)
        .ok_or_else(|| {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            format!("use one of {}", known.join(", "))
        })
}

/// The words of `engine.kind`.
pub const ENGINE_KINDS: [(&str, EngineKind); 5] = [
    ("auto", EngineKind::Auto),
    ("fake", EngineKind::Fake),
    ("vllm", EngineKind::Vllm),
    ("llamacpp", EngineKind::Llamacpp),
    ("unknown", EngineKind::Unknown),
];

/// The words of `gpu`.
pub const GPUS: [(&str, Gpu); 2] = [("auto", Gpu::Auto), ("none", Gpu::None)];

/// The words of `request.endpoint`.
pub const ENDPOINTS: [(&str, Endpoint); 2] = [
    ("chat", Endpoint::Chat),
    ("completions", Endpoint::Completions),
];

/// The words of `prompts.salt`.
pub const SALTS: [(&str, Salt); 3] = [
    ("per_arm", Salt::PerArm),
    ("per_run", Salt::PerRun),
    ("none", Salt::None),
];

/// The words of `load.arrival`.
pub const ARRIVALS: [(&str, Arrival); 4] = [
    ("closed", Arrival::Closed),
    ("constant", Arrival::Constant),
    ("poisson", Arrival::Poisson),
    ("replay", Arrival::Replay),
];

/// The words of `path`.
#[must_use]
pub fn paths() -> Vec<(&'static str, Path)> {
    vec![
        ("direct", Path::Direct),
        ("gateway", Path::Gateway),
        ("both", Path::Both),
    ]
}

fn engine_kind(text: &str) -> Result<EngineKind, String> {
    word(text, &ENGINE_KINDS)
}

fn gpu(text: &str) -> Result<Gpu, String> {
    word(text, &GPUS)
}

fn endpoint(text: &str) -> Result<Endpoint, String> {
    word(text, &ENDPOINTS)
}

fn salt(text: &str) -> Result<Salt, String> {
    word(text, &SALTS)
}

fn arrival(text: &str) -> Result<Arrival, String> {
    word(text, &ARRIVALS)
}

/// Kept in step with clap's own view of the path names.
#[must_use]
pub fn path_name(path: Path) -> String {
    path.to_possible_value()
        .map(|v| v.get_name().to_owned())
        .unwrap_or_default()
}
