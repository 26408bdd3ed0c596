//! `manifest.json`: what the run was, on which machine, against what, and which files it left.
//!
//! Written at the start with everything known then and once more at the end; a run that was
//! killed keeps the first version. Absolute `_ns` values are CLOCK_MONOTONIC of `host.boot_id`.

use std::collections::BTreeMap;
use std::path::Path;

use inferscope_shared::clock::MonoNs;
use inferscope_shared::record;
use serde::{Deserialize, Serialize};

use super::fingerprint::Fingerprint;
use crate::client::kernel_clock::KernelClockReport;
use crate::config::{ArmKind, EngineKind, LoadValue};
use crate::stats::Percentile;
use crate::telemetry::SourceReport;

/// The manifest of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Manifest {
    /// Version of the artifact schemas.
    pub schema_version: u32,
    /// The run.
    pub run_id: String,
    /// What is being compared, in the words of whoever runs the comparison.
    pub candidate_id: Option<String>,
    /// Start of the run, RFC 3339, for people.
    pub created_utc: String,
    /// A signal ended the run early; what was measured until then is here.
    pub interrupted: bool,
    /// False until the run's end was reached and written.
    pub finished: bool,
    /// The first write of raw files that failed; what follows it may be missing.
    #[serde(default)]
    pub disk_error: Option<String>,
    /// The load generator itself.
    pub loadgen: Loadgen,
    /// The machine that loadgen ran on.
    pub host: Host,
    /// The paths that were measured.
    pub arms: Vec<ManifestArm>,
    /// The server behind them.
    pub engine: ManifestEngine,
    /// `none` when the configuration says so, else cards and driver as far as they are known.
    pub gpu: Option<String>,
    /// Over `config.resolved.yaml`.
    pub config_sha256: Option<String>,
    /// Over the arrival times, phases and lengths of the plan: equal seeds give equal hashes.
    pub schedule_sha256: Option<String>,
    /// Over all prompts, which are salted per run.
    pub prompts_sha256: Option<String>,
    /// Hashes over what must be equal to compare two runs.
    #[serde(default)]
    pub fingerprint: Option<Fingerprint>,
    /// Over the `tokenizer.json` of `prompts.tokenizer`; null when none is configured.
    #[serde(default)]
    pub tokenizer_sha256: Option<String>,
    /// Seed of schedule and prompts.
    pub seed: u64,
    /// How prompt lengths were fixed.
    pub calibration: Calibration,
    /// What became of the kernel's receive stamps; null until the run has ended.
    #[serde(default)]
    pub kernel_clock: Option<KernelClockReport>,
    /// What was sampled beside the run, and what that cost.
    #[serde(default)]
    pub telemetry: Vec<SourceReport>,
    /// What happened at each point, in the order in which points ran.
    pub points: Vec<PointRun>,
    /// Every file that a run may have.
    pub artifacts: Vec<Artifact>,
}

/// The load generator's own identity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Loadgen {
    /// Package version.
    pub version: String,
    /// Commit it was built from, where the build knew it.
    pub git: Option<String>,
}

/// The machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Host {
    /// Boot within which monotonic values are comparable.
    pub boot_id: Option<String>,
    /// Model name of the processor.
    pub cpu: Option<String>,
    /// Cores this process may use.
    pub cores: Option<u32>,
    /// Whether cores are shared by two threads.
    #[serde(default)]
    pub smt: Option<bool>,
    /// Memory nodes.
    #[serde(default)]
    pub numa_nodes: Option<u32>,
    /// Frequency governor of the first core.
    pub governor: Option<String>,
    /// The different governors of all cores; empty where frequency is not to be seen.
    #[serde(default)]
    pub governors: Vec<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Limits of the control group.
    pub cgroup: Cgroup,
    /// Current clock source.
    pub clock_source: Option<String>,
    /// `none`, or what the firmware says of the virtual machine.
    #[serde(default)]
    pub virtualisation: Option<String>,
    /// `always`, `madvise` or `never`.
    #[serde(default)]
    pub transparent_hugepages: Option<String>,
    /// Files that this process may have open; null = no limit.
    #[serde(default)]
    pub open_files: Option<u64>,
    /// Kernel settings that can change a result, as far as they can be seen.
    #[serde(default)]
    pub sysctls: BTreeMap<String, String>,
}

/// Limits of this process's control group and those above it, the tightest; null = none known.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Cgroup {
    /// The group, as the process sees it.
    #[serde(default)]
    pub path: Option<String>,
    /// CPU quota in cores.
    pub cpu_cores: Option<f64>,
    /// Memory limit.
    pub memory_bytes: Option<u64>,
    /// Processes and threads at most.
    #[serde(default)]
    pub pids: Option<u64>,
    /// Cores that it may use, such as `0-3,8`.
    #[serde(default)]
    pub cpuset: Option<String>,
}

/// One measured path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ManifestArm {
    /// Name as in point ids.
    pub name: String,
    /// Base URL, credentials removed.
    pub url: String,
    /// Whether a gateway lies in between.
    pub kind: ArmKind,
}

/// The server that answered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ManifestEngine {
    /// `fake` results are a chain check, never performance.
    pub kind: EngineKind,
    /// Product name, where it says so.
    pub name: Option<String>,
    /// Version, where it says so.
    pub version: Option<String>,
    /// Model asked for.
    pub model: Option<String>,
    /// What the served name stands for.
    #[serde(default)]
    pub model_root: Option<String>,
    /// Context length that it serves.
    #[serde(default)]
    pub max_model_len: Option<u64>,
    /// Its command line without secrets, where its process is on this host.
    pub flags: Vec<String>,
    /// Why there is none.
    #[serde(default)]
    pub flags_absent: Option<String>,
    /// Settings by its own account, from `_info` metrics and `/props`.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
}

/// How prompt lengths were fixed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Calibration {
    /// `vllm_tokenize`, `llamacpp_tokenize`, `estimated` or `workload`.
    pub prompt_tokens: String,
    /// True when each prompt's length in tokens is exact by the engine's own tokenizer.
    pub exact: bool,
    /// Tokens that the chat template adds to a prompt.
    pub template_tokens: Option<u64>,
    /// Why not exact.
    pub note: Option<String>,
    /// The instrument's own error at the load of this run; null when it was not measured.
    #[serde(default)]
    pub instrument: Option<Instrument>,
    /// Why it was not measured.
    #[serde(default)]
    pub instrument_absent: Option<String>,
}

/// How far the instrument's stamps were from those of a server with exact times on this host, at
/// the load of the run. Client and server share the host's cores, so errors are upper bounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Instrument {
    /// The point whose load was repeated; null outside of a run.
    pub point_id: Option<String>,
    /// Slots, or requests per second. Answers that were made shorter came as much more often.
    pub load: LoadValue,
    /// Mean of the streams in flight.
    pub streams: f64,
    /// Events per second that the server sent.
    pub events_per_s: f64,
    /// The server's time to first token.
    pub server_ttft_ms: f64,
    /// The server's gap between events.
    pub server_itl_ms: f64,
    /// Output events of an answer.
    pub output_events: u64,
    /// How long requests were issued and measured.
    pub seconds: f64,
    /// Requests compared.
    pub requests: u64,
    /// Time to first token by the client minus the same by the server.
    pub ttft_error_ms: ErrorSummary,
    /// Gap between events by the client minus the same by the server, without its sign.
    pub itl_error_ms: ErrorSummary,
    /// As `ttft_error_ms` on the kernel's receipt of the event, where that is exact; empty without
    /// kernel stamps.
    #[serde(default)]
    pub ttft_kernel_error_ms: ErrorSummary,
    /// As `itl_error_ms` on the kernel's receipts, where both are exact.
    #[serde(default)]
    pub itl_kernel_error_ms: ErrorSummary,
    /// First write minus planned instant (open loop) or minus slot free (closed loop).
    pub dispatch_error_ms: ErrorSummary,
}

impl Instrument {
    /// The errors that have values, with their names.
    pub fn errors(&self) -> impl Iterator<Item = (&'static str, &ErrorSummary)> {
        [
            ("TTFT error", &self.ttft_error_ms),
            ("ITL error", &self.itl_error_ms),
            ("TTFT error by kernel stamps", &self.ttft_kernel_error_ms),
            ("ITL error by kernel stamps", &self.itl_kernel_error_ms),
            ("dispatch error", &self.dispatch_error_ms),
        ]
        .into_iter()
        .filter(|(_, e)| e.n > 0)
    }
}

/// Distribution of an error, in milliseconds, by nearest rank.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ErrorSummary {
    /// Values.
    pub n: u64,
    /// Median.
    pub p50: Option<f64>,
    /// Null below 100 values.
    pub p99: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
}

impl ErrorSummary {
    /// The distribution of `values`, which it sorts.
    #[must_use]
    pub fn of(values: &mut [f64]) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        Self {
            n: values.len() as u64,
            p50: Percentile::P50.estimate(values),
            p99: Percentile::P99.estimate(values),
            max: values.last().copied(),
        }
    }
}

/// Answers of a point whose text was counted again by a tokenizer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TokenCheck {
    /// `tokenizer.json`, `vllm_tokenize` or `llamacpp_tokenize`.
    pub tokenizer: String,
    /// Answers counted.
    pub answers: u64,
    /// Their texts: an answer that reasons first has two.
    #[serde(default)]
    pub texts: u64,
    /// Their tokens by usage.
    pub usage_tokens: u64,
    /// Their tokens by the tokenizer.
    pub counted_tokens: u64,
    /// The largest difference of one answer, with its request id.
    pub worst: Option<String>,
    /// Why nothing was counted.
    pub reason: Option<String>,
}

/// Why a point stopped issuing requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// All planned requests were issued.
    Requests,
    /// The time limit was reached first.
    Duration,
    /// A signal.
    Interrupted,
    /// The engine no longer accepts connections.
    EngineGone,
    /// A closed loop that only time limits had more time than prepared requests.
    PoolExhausted,
    /// `timeouts.point` ended it before its requests or its time did.
    PointTimeout,
}

impl StopReason {
    /// What ended a point, in words that follow "ended by".
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Requests => "its requests",
            Self::Duration => "its duration",
            Self::Interrupted => "a signal",
            Self::EngineGone => "the engine's end",
            Self::PoolExhausted => "the end of its prepared requests",
            Self::PointTimeout => "timeouts.point",
        }
    }
}

/// What happened at one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PointRun {
    /// `<arm>.c4`, `<arm>.r10` or `<arm>.replay`.
    pub point_id: String,
    /// The arm.
    pub arm: String,
    /// Position of its load in the sequence of loads; arms of one block share a schedule.
    pub block: u32,
    /// The load.
    pub load: LoadValue,
    /// Warm-up arrivals planned.
    pub warmup: u64,
    /// Measured arrivals planned: the lines of `requests.jsonl` in that phase. Before the point
    /// has run null when only time limits a closed loop; in a closed loop that its time limit
    /// ended, those issued until then.
    pub planned: Option<u64>,
    /// Why it stopped issuing; null when the point never ran.
    pub stop_reason: Option<StopReason>,
    /// First instant of the point.
    pub start_ns: Option<MonoNs>,
    /// Last instant of the point, drain included.
    pub end_ns: Option<MonoNs>,
    /// Whether arm and engine still answered when the point was over; null when nobody asked or
    /// the answer was not clear.
    pub alive_after: Option<bool>,
    /// What the probe behind `alive_after` saw, unless all was well.
    pub alive_error: Option<String>,
    /// Tokens of its answers, counted again; null when nobody did.
    #[serde(default)]
    pub token_check: Option<TokenCheck>,
}

/// One file that a run may have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Artifact {
    /// Path relative to the results directory; reports as the run named their directory.
    pub path: String,
    /// Whether it was written.
    pub present: bool,
    /// Why it was not.
    pub reason: Option<String>,
    /// Over its bytes; null for the manifest itself.
    pub sha256: Option<String>,
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// When the file cannot be read or is no manifest of this version.
    pub fn read(path: &Path) -> std::io::Result<Self> {
        #[derive(Deserialize)]
        struct Version {
            schema_version: u32,
        }
        let invalid = |e: String| std::io::Error::new(std::io::ErrorKind::InvalidData, e);
        let text = std::fs::read(path)?;
        let found: Version = serde_json::from_slice(&text).map_err(|e| invalid(e.to_string()))?;
        record::check_version(found.schema_version).map_err(invalid)?;
        serde_json::from_slice(&text).map_err(|e| invalid(e.to_string()))
    }

    /// Writes it beside its final name and renames, so that no reader sees half of one.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        let beside = path.with_extension("json.tmp");
        let written = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path));
        written.inspect_err(|_| {
            let _ = std::fs::remove_file(&beside);
        })
    }
}
