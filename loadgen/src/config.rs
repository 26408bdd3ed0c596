//! What a run needs to know, after file and flags have become one validated object.
//!
//! [`Resolved`] is the only form that the rest of the crate sees. It is written to
//! `config.resolved.yaml`, which is itself a valid `-c` file, and read back from there when a run
//! is analysed offline. Secrets never enter it: an API key is named by the place it lies in.

pub mod duration;
pub mod file;
pub mod load;
pub mod rules;
pub mod settings;
mod yaml;

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use load::{Arrival, Load, LoadKind, LoadValue, OverLimit, Ramp, Shard, Stage};

/// Version of the configuration file's format.
pub const CONFIG_VERSION: u64 = 1;

/// A whole, validated run configuration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Resolved {
    /// Format version, [`CONFIG_VERSION`].
    pub version: u64,
    /// Unique id of the run.
    pub run_id: String,
    /// What is being compared, in the user's words.
    pub candidate_id: Option<String>,
    /// Seed of schedule and prompts.
    pub seed: u64,
    /// Paths to measure, in order.
    pub arms: Vec<Arm>,
    /// The server behind the arms.
    pub engine: Engine,
    /// What is sampled beside the run.
    pub telemetry: Telemetry,
    /// Whether GPU evidence is expected.
    pub gpu: Gpu,
    /// What each request asks.
    pub request: Request,
    /// Lengths and content of prompts.
    pub prompts: Prompts,
    /// How requests arrive.
    pub load: Load,
    /// Limits that goodput and `slo.met` are judged by, as written
    /// (`ttft=200ms,tpot=50ms,e2e=5s,success=0.99,at=p95`).
    pub slo: Option<String>,
    /// How long the instrument's own error is measured after the points; none = off.
    #[serde(with = "duration::optional")]
    pub calibration: Option<Duration>,
    /// Where the gateway's records come from: a file, or `http://ADMIN/records`.
    pub gateway_records: Option<String>,
    /// How the client itself works.
    pub client: Client,
    /// Bounds of everything that can wait.
    pub timeouts: Timeouts,
    /// Results directory.
    pub results_dir: PathBuf,
}

/// One measured path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Arm {
    /// Name as in point ids: `direct` or `gateway`.
    pub name: String,
    /// Whether a gateway lies in between.
    pub kind: ArmKind,
    /// Base URL, without `/v1`.
    pub url: String,
    /// Where its API key lies: `env:NAME` or `file:/path`.
    pub api_key: Option<String>,
}

/// What kind of path an arm is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArmKind {
    /// Straight to the engine.
    Direct,
    /// Through the gateway.
    Gateway,
}

/// What server answers in the end.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// Not stated; found out before the run, `unknown` when that fails.
    Auto,
    /// The fake engine: never performance.
    Fake,
    /// vLLM.
    Vllm,
    /// llama.cpp's server.
    Llamacpp,
    /// Some other OpenAI-compatible server.
    #[default]
    Unknown,
}

/// The server behind the arms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Engine {
    /// Its kind; in a resolved configuration what was found, not `auto`.
    pub kind: EngineKind,
    /// Base URL for `/tokenize`, `/metrics` and `/version`; the direct arm's by default.
    pub url: Option<String>,
    /// Its process; else found by `process` or by who listens at `url`.
    pub pid: Option<u32>,
    /// A part of its command line that no other process has.
    pub process: Option<String>,
}

/// What is sampled beside a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Telemetry {
    /// Time between samples of engine, processes and GPU.
    #[serde(with = "duration")]
    pub interval: Duration,
    /// The engine's `/metrics`.
    pub engine: Sampling,
    /// The engine's processes.
    pub process: Sampling,
}

/// Whether a source is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sampling {
    /// Whatever can be seen of it.
    Auto,
    /// Not at all.
    Off,
}

/// Whether GPU evidence is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Gpu {
    /// Use what is there.
    Auto,
    /// There is none, so its gates do not apply.
    None,
}

/// The endpoint that requests go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Endpoint {
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/completions`.
    Completions,
}

/// What each request asks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Request {
    /// Endpoint.
    pub endpoint: Endpoint,
    /// Model name.
    pub model: String,
    /// Sampling temperature; null leaves it to the engine.
    pub temperature: Option<f64>,
    /// Further body fields as a JSON object in text; a null value removes a field.
    pub body: Option<String>,
}

/// How prompts of different arms and runs relate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Salt {
    /// Other prompts in each run and arm, so that no prefix cache carries over. The default.
    PerArm,
    /// Other prompts in each run, the same ones in its arms.
    PerRun,
    /// The same prompts always; only the seed decides.
    None,
}

/// Lengths and content of prompts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Prompts {
    /// Tokens per prompt, chat template included.
    pub input_tokens: u64,
    /// Tokens asked for per answer.
    pub output_tokens: u64,
    /// How prompts of different arms and runs relate.
    pub salt: Salt,
    /// JSONL file with the requests to replay instead of synthetic ones.
    pub workload: Option<PathBuf>,
    /// Hits of the engine's prefix cache are part of what is measured.
    pub expect_prefix_hits: bool,
    /// `tokenizer.json` that some answers are counted by again; else the engine's `/tokenize` is
    /// asked.
    pub tokenizer: Option<PathBuf>,
}

/// How the client itself works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Client {
    /// Whether the kernel is asked to stamp what comes.
    pub kernel_stamps: KernelStamps,
}

/// Whether the kernel is asked to stamp what comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KernelStamps {
    /// Where it can.
    Auto,
    /// No.
    Off,
}

/// Bounds of everything that can wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Timeouts {
    /// TCP connect.
    #[serde(with = "duration")]
    pub connect: Duration,
    /// From the request's first write to the first byte of the answer.
    #[serde(with = "duration")]
    pub first_byte: Duration,
    /// Longest silence inside an answer.
    #[serde(with = "duration")]
    pub idle: Duration,
    /// One request, from its first write to its end.
    #[serde(with = "duration")]
    pub total: Duration,
    /// One point, from its start to its last request's end, whatever its requests do.
    #[serde(with = "duration")]
    pub point: Duration,
    /// What requests in flight get after a time limit stopped a point.
    #[serde(with = "duration")]
    pub drain: Duration,
    /// What a body gets to end after `[DONE]`, before its connection is closed.
    #[serde(with = "duration")]
    pub after_done: Duration,
    /// How long an idle connection is kept for reuse (vLLM and llama.cpp close at 5 s).
    #[serde(with = "duration")]
    pub keep_alive: Duration,
    /// An open-loop request dispatched later than this after its time is late.
    #[serde(with = "duration")]
    pub late: Duration,
    /// How long to wait for the gateway's last records.
    #[serde(with = "duration")]
    pub records: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            first_byte: Duration::from_secs(300),
            idle: Duration::from_secs(60),
            total: Duration::from_secs(900),
            point: Duration::from_secs(6 * 3_600),
            drain: Duration::from_secs(30),
            after_done: Duration::from_millis(500),
            keep_alive: Duration::from_secs(4),
            late: Duration::from_millis(10),
            records: Duration::from_secs(5),
        }
    }
}
