//! Everything that a probe found, as `probe.json` holds it.

use inferscope_shared::clock::MonoNs;
use inferscope_shared::record::SCHEMA_VERSION;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::conduct::{Measured, Watched};
use super::fit::{self, Fit};
use super::life::{self, Sample, Span};
use super::measure::{self, Comparison, Cores, Group, Memory, Stalls, Streaming};
use super::row::Row;
use super::schedule::Experiment;
use super::verdict::{self, Sentence};
use super::watch;
use crate::analysis::CHAIN_CHECK;
use crate::artifacts::host;
use crate::artifacts::manifest::{Host, Loadgen, ManifestEngine};
use crate::config::{Endpoint, EngineKind};
use crate::stats::Summary;
use crate::telemetry::Cost;

/// What a probe found. Times in milliseconds; `at_ms` and `start_ms` count from `origin_ns`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Version of this format.
    pub schema_version: u32,
    /// When, for people.
    pub created_utc: String,
    /// The instrument.
    pub loadgen: Loadgen,
    /// Where it ran.
    pub host: Host,
    /// Base URL, credentials removed.
    pub url: String,
    /// The engine.
    pub engine: ManifestEngine,
    /// Set when these are no results of an engine.
    pub notice: Option<String>,
    /// What was asked.
    pub asked: Asked,
    /// How prompt lengths were fixed.
    pub prompt_lengths: Lengths,
    /// The probe's start on CLOCK_MONOTONIC.
    pub origin_ns: MonoNs,
    /// How long it took.
    pub seconds: f64,
    /// A signal ended it early.
    pub interrupted: bool,
    /// Why it gave less than it should; null when all went well.
    pub failure: Option<String>,
    /// Requests by how they ended.
    pub requests: Requests,
    /// Plain words about where time goes, each with its figures.
    pub verdict: Vec<Sentence>,
    /// What a probe from outside cannot tell.
    pub unknown: Vec<String>,
    /// The first request of all, one observation: TTFT.
    pub opening_ttft_ms: Option<f64>,
    /// Each experiment.
    pub experiments: Vec<Group>,
    /// Experiments against each other.
    pub comparisons: Vec<Comparison>,
    /// TTFT over prompt tokens; null of too few answers.
    pub fit: Option<Fit>,
    /// How streams come.
    pub streaming: Streaming,
    /// The instrument's own delay: from the kernel's receipt to the read, of every event.
    pub read_lag_ms: Summary,
    /// Gaps that were far longer than the others.
    pub stalls: Vec<Stalls>,
    /// The engine's process.
    pub process: Process,
    /// Every request, in order of asking.
    pub rows: Vec<Row>,
}

/// How prompt lengths were fixed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lengths {
    /// `vllm_tokenize`, `llamacpp_tokenize` or `estimated`.
    pub source: String,
    /// True when each prompt's length is exact by the engine's own tokenizer.
    pub exact: bool,
    /// Tokens that the chat template adds to a prompt.
    pub template_tokens: Option<u64>,
    /// Why not exact.
    pub note: Option<String>,
}

/// What was asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Asked {
    /// Endpoint that answered: `chat` or `completions`.
    pub endpoint: String,
    /// Lengths of prompts.
    pub prompt_tokens: Vec<u64>,
    /// Tokens asked for per answer.
    pub output_tokens: u64,
    /// How often each experiment was to be made.
    pub rounds: u32,
    /// Requests at once in the experiment about batching.
    pub at_once: u32,
}

/// Requests by how they ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Requests {
    /// Sent, the opening one included.
    pub sent: u64,
    /// Whole answers.
    pub ok: u64,
    /// All others.
    pub failed: u64,
    /// The others by kind, with the first message of each.
    pub failures: Vec<Failure>,
}

/// Requests that failed alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// As in request records.
    pub kind: String,
    /// How many.
    pub n: u64,
    /// The first one's message.
    pub message: String,
}

/// The engine's process tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Process {
    /// Root of the tree; null when none was watched.
    pub pid: Option<u32>,
    /// How its command line begins.
    pub command: Option<String>,
    /// Why there are no samples, or none from some instant on.
    pub reason: Option<String>,
    /// Time between samples.
    pub interval_ms: f64,
    /// What taking one took.
    pub sample_ms: Cost,
    /// CPU time that sampling took from whatever else ran on this host.
    pub sampling_cpu_seconds: Option<f64>,
    /// Over the whole probe.
    pub memory: Option<Memory>,
    /// Cores in use.
    pub cores: Cores,
    /// Every sample.
    pub samples: Vec<Sample>,
}

/// Says what was measured.
pub(super) fn of(measured: Measured) -> Report {
    let Measured {
        options,
        url,
        model,
        endpoint,
        mut about,
        lengths,
        levels,
        origin,
        seconds,
        mut rows,
        watched,
        stopped,
        interrupted,
    } = measured;
    let Watched { pid, command, seen } = watched;
    let samples: Vec<Sample> = seen
        .samples
        .iter()
        .map(|s| watch::placed(s, origin))
        .collect();
    for row in &mut rows {
        row.life = life_of(row, &samples);
    }
    about.model = Some(model);
    let requests = requests(&rows);
    let nothing = requests
        .failures
        .first()
        .filter(|_| {
            rows.iter()
                .all(|r| r.experiment == Experiment::Opening || !r.ok())
        })
        .map(|f| format!("no request was answered well: {}: {}", f.kind, f.message));
    let mut report = Report {
        schema_version: SCHEMA_VERSION,
        created_utc: Timestamp::now().to_string(),
        loadgen: Loadgen {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            git: option_env!("INFERSCOPE_GIT").map(str::to_owned),
        },
        host: host::describe(),
        url,
        notice: (about.kind == EngineKind::Fake).then(|| CHAIN_CHECK.to_owned()),
        engine: about,
        asked: Asked {
            endpoint: match endpoint {
                Endpoint::Chat => "chat",
                Endpoint::Completions => "completions",
            }
            .to_owned(),
            prompt_tokens: levels,
            output_tokens: options.output_tokens,
            rounds: options.rounds,
            at_once: options.at_once,
        },
        prompt_lengths: Lengths {
            source: lengths.prompt_tokens,
            exact: lengths.exact,
            template_tokens: lengths.template_tokens,
            note: lengths.note,
        },
        origin_ns: origin,
        seconds,
        interrupted,
        failure: stopped.or(nothing),
        requests,
        verdict: Vec::new(),
        unknown: Vec::new(),
        opening_ttft_ms: rows
            .iter()
            .find(|r| r.experiment == Experiment::Opening)
            .and_then(|r| r.ttft_ms),
        experiments: measure::groups(&rows),
        comparisons: measure::comparisons(&rows),
        fit: fit::line(&points(&rows)),
        streaming: measure::streaming(&rows),
        read_lag_ms: Summary::of(rows.iter().flat_map(|r| r.read_lag_ms.clone()).collect()),
        stalls: measure::stalls(&rows),
        process: Process {
            pid,
            command,
            reason: seen.reason,
            interval_ms: watch::INTERVAL.as_secs_f64() * 1e3,
            sample_ms: seen.cost.sample_ms,
            sampling_cpu_seconds: seen.cost.cpu_seconds,
            memory: measure::memory(&samples),
            cores: measure::cores(&rows, &samples),
            samples,
        },
        rows,
    };
    report.verdict = verdict::sentences(&report);
    report.unknown = verdict::unknown(&report);
    report
}

fn life_of(row: &Row, samples: &[Sample]) -> Option<life::Life> {
    let span = Span {
        start: row.start_ms,
        sent: row.sent_ms?,
        first: row.at(row.ttft_ms),
        end: row.end_ms,
        alone: row.experiment != Experiment::Parallel,
    };
    life::of(samples, span)
}

/// Prompt tokens, by usage where it says, and TTFT of every cold answer.
fn points(rows: &[Row]) -> Vec<(f64, f64)> {
    rows.iter()
        .filter(|r| r.ok() && r.experiment == Experiment::Cold)
        .filter_map(|r| Some((r.prompt_tokens.unwrap_or(r.asked_tokens) as f64, r.ttft_ms?)))
        .collect()
}

fn requests(rows: &[Row]) -> Requests {
    let mut failures: Vec<Failure> = Vec::new();
    for row in rows.iter().filter(|r| !r.ok()) {
        let kind = row.error_kind.as_deref().unwrap_or("unknown");
        match failures.iter_mut().find(|f| f.kind == kind) {
            Some(failure) => failure.n += 1,
            None => failures.push(Failure {
                kind: kind.to_owned(),
                n: 1,
                message: row.error_message.clone().unwrap_or_default(),
            }),
        }
    }
    let failed = failures.iter().map(|f| f.n).sum();
    let sent = rows.len() as u64;
    Requests {
        sent,
        ok: sent - failed,
        failed,
        failures,
    }
}
