//! Flags of `run`, and what they say as [`Settings`].

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use inferscope_shared::units::parse_duration;

use crate::config::settings::{ArmSettings, Path, Settings, TimeoutSettings};
use crate::config::{
    Arrival, Endpoint, EngineKind, Gpu, KernelStamps, OverLimit, Ramp, Salt, Sampling, Shard, Stage,
};

/// Flags of `run` and `plan`. Each one that is given replaces what the file says.
#[derive(Debug, Clone, Default, Args)]
pub struct RunArgs {
    /// Configuration file (YAML).
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Which paths to measure [default: those with a URL].
    #[arg(long, value_name = "direct|gateway|both", value_parser = path)]
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
    /// The engine's process id [default: who listens at the engine's URL, on this host].
    #[arg(
        long,
        value_name = "PID",
        conflicts_with = "engine_process",
        help_heading = "Where"
    )]
    engine_pid: Option<u32>,
    /// The engine's process by a part of its command line.
    #[arg(long, value_name = "TEXT", help_heading = "Where")]
    engine_process: Option<String>,
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
    #[arg(long, allow_negative_numbers = true, value_parser = whole::<u64>, value_name = "N", help_heading = "What")]
    input_tokens: Option<u64>,
    /// Tokens to ask for per answer [default: 64].
    #[arg(long, allow_negative_numbers = true, value_parser = whole::<u64>, value_name = "N", help_heading = "What")]
    output_tokens: Option<u64>,
    /// Sampling temperature [default: the engine's].
    #[arg(
        long,
        allow_negative_numbers = true,
        value_name = "T",
        help_heading = "What"
    )]
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
    /// Hits of the engine's prefix cache are part of what is measured.
    #[arg(long, help_heading = "What")]
    expect_prefix_hits: bool,
    /// Count some answers again by this tokenizer [default: the engine's /tokenize].
    #[arg(long, value_name = "tokenizer.json", help_heading = "What")]
    tokenizer: Option<PathBuf>,

    /// Requests in flight, one point each; closed loop.
    #[arg(long, allow_negative_numbers = true, value_parser = whole::<u32>, value_name = "N,N", value_delimiter = ',', help_heading = "Load")]
    concurrency: Option<Vec<u32>>,
    /// Requests per second, one point each; open loop.
    #[arg(
        long,
        allow_negative_numbers = true,
        value_name = "R,R",
        value_delimiter = ',',
        help_heading = "Load"
    )]
    rate: Option<Vec<f64>>,
    /// A rate that goes evenly from one to another over --duration; one point.
    #[arg(long, value_name = "FROM..TO", value_parser = ramp, help_heading = "Load")]
    ramp: Option<Ramp>,
    /// Rates one after the other; one point.
    #[arg(long, value_name = "R@TIME,R@TIME", value_delimiter = ',', value_parser = stage, help_heading = "Load")]
    stages: Option<Vec<Stage>>,
    /// Arrival process [default: closed, with a rate poisson].
    #[arg(long, value_name = "closed|constant|poisson|gamma|replay", value_parser = arrival, help_heading = "Load")]
    arrival: Option<Arrival>,
    /// Gamma gaps of this shape: 1 = poisson, below it burstier, inf = constant.
    #[arg(
        long,
        value_name = "B",
        allow_negative_numbers = true,
        help_heading = "Load"
    )]
    burstiness: Option<f64>,
    /// Send only every N-th arrival of the schedule, from the I-th on.
    #[arg(long, value_name = "I/N", help_heading = "Load")]
    shard: Option<Shard>,
    /// Measured requests per point and arm [default: 100].
    #[arg(long, allow_negative_numbers = true, value_parser = whole::<u64>, value_name = "N", help_heading = "Load")]
    requests: Option<u64>,
    /// Time in which measured requests are issued; the first limit reached ends a point.
    #[arg(long, allow_negative_numbers = true, value_name = "TIME", value_parser = parse_duration, help_heading = "Load")]
    duration: Option<Duration>,
    /// Warm-up requests per point and arm [default: the highest concurrency].
    #[arg(long, allow_negative_numbers = true, value_parser = whole::<u64>, value_name = "N", help_heading = "Load")]
    warmup: Option<u64>,
    /// Spread the start of a closed loop's slots over this time.
    #[arg(long, allow_negative_numbers = true, value_name = "TIME", value_parser = parse_duration, help_heading = "Load")]
    stagger: Option<Duration>,
    /// Open loop: requests in flight at most [default: 1000].
    #[arg(long, allow_negative_numbers = true, value_parser = whole::<u32>, value_name = "N", help_heading = "Load")]
    max_in_flight: Option<u32>,
    /// Open loop: what becomes of an arrival above it [default: drop].
    #[arg(long, value_name = "drop|wait", value_parser = over_limit, help_heading = "Load")]
    over_limit: Option<OverLimit>,
    /// Open a connection for each request.
    #[arg(long, help_heading = "Load")]
    no_reuse: bool,
    /// Seed of schedule and prompts [default: 1].
    #[arg(long, allow_negative_numbers = true, value_parser = whole::<u64>, value_name = "S", help_heading = "Load")]
    seed: Option<u64>,
    /// Limits to judge by, such as ttft=200ms,tpot=50ms,e2e=5s,success=0.99,at=p95.
    #[arg(long, value_name = "SPEC", help_heading = "Load")]
    slo: Option<String>,

    /// Time to measure the instrument's own error after the points, or off [default: 3s].
    #[arg(long, allow_negative_numbers = true, value_name = "TIME|off", value_parser = calibration, help_heading = "Load")]
    calibration: Option<Duration>,
    /// Time between samples of engine, processes and GPU [default: 1s].
    #[arg(long, allow_negative_numbers = true, value_name = "TIME", value_parser = parse_duration, help_heading = "Telemetry")]
    telemetry_interval: Option<Duration>,

    /// Longest silence inside an answer [default: 60s].
    #[arg(long, allow_negative_numbers = true, value_name = "TIME", value_parser = parse_duration, help_heading = "Limits")]
    idle_timeout: Option<Duration>,
    /// Longest request [default: 900s].
    #[arg(long, allow_negative_numbers = true, value_name = "TIME", value_parser = parse_duration, help_heading = "Limits")]
    total_timeout: Option<Duration>,
    /// Longest point [default: 6h].
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Limits")]
    point_timeout: Option<Duration>,
    /// What requests in flight get when a time limit ends a point [default: 30s].
    #[arg(long, allow_negative_numbers = true, value_name = "TIME", value_parser = parse_duration, help_heading = "Limits")]
    drain: Option<Duration>,

    /// Kernel receive stamps: where the kernel gives them, or never [default: auto].
    #[arg(long, value_name = "auto|off", value_parser = kernel_stamps, help_heading = "Client")]
    kernel_stamps: Option<KernelStamps>,

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

/// Flags of `plan`.
#[derive(Debug, Clone, Args)]
pub struct PlanArgs {
    /// Those of the run.
    #[command(flatten)]
    pub run: RunArgs,
    /// Ask nobody: neither arms nor engine need to be there.
    #[arg(long)]
    pub offline: bool,
    /// What one request takes, to estimate the time of a closed loop.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub assume_latency: Option<Duration>,
}

impl RunArgs {
    /// What the flags say, laid over a file.
    #[must_use]
    pub fn settings_over(&self, file: Settings) -> Settings {
        let mut settings = self.settings().over(file);
        // The gateway's key is not the engine's: it goes to the engine only when no gateway is
        // measured that it could be meant for.
        if !settings.measures_gateway() && self.direct_api_key_env.is_none() {
            let key = std::mem::take(&mut settings.gateway.api_key);
            if self.api_key_env.is_some() {
                settings.direct.api_key = key;
            }
        }
        settings
    }

    fn settings(&self) -> Settings {
        let this = self.clone();
        let env = |name: Option<String>| name.map(|n| format!("env:{n}"));
        Settings {
            run_id: this.run_id,
            candidate_id: this.candidate_id,
            seed: this.seed,
            path: this.path,
            direct: ArmSettings {
                url: this.direct_url,
                api_key: env(this.direct_api_key_env),
            },
            gateway: ArmSettings {
                url: this.gateway_url,
                api_key: env(this.api_key_env),
            },
            engine_kind: this.engine_kind,
            engine_url: this.engine_url,
            engine_pid: this.engine_pid,
            engine_process: this.engine_process,
            telemetry_interval: this.telemetry_interval,
            telemetry_engine: None,
            telemetry_process: None,
            gpu: this.gpu,
            endpoint: this.endpoint,
            model: this.model,
            temperature: this.temperature,
            body: this.body,
            input_tokens: this.input_tokens,
            output_tokens: this.output_tokens,
            salt: this.salt,
            workload: this.workload,
            expect_prefix_hits: this.expect_prefix_hits.then_some(true),
            tokenizer: this.tokenizer,
            arrival: this.arrival,
            concurrency: this.concurrency,
            rate: this.rate,
            ramp: this.ramp,
            stages: this.stages,
            burstiness: this.burstiness,
            shard: this.shard,
            requests: this.requests,
            duration: this.duration,
            warmup: this.warmup,
            stagger: this.stagger,
            max_in_flight: this.max_in_flight,
            over_limit: this.over_limit,
            reuse: this.no_reuse.then_some(false),
            slo: this.slo,
            calibration: this.calibration,
            gateway_records: this.gateway_records,
            timeouts: TimeoutSettings {
                idle: this.idle_timeout,
                total: this.total_timeout,
                point: this.point_timeout,
                drain: this.drain,
                ..TimeoutSettings::default()
            },
            kernel_stamps: this.kernel_stamps,
            results_dir: this.results_dir,
        }
    }
}

/// Reads one of the words that a setting knows.
pub(super) fn word<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, String> {
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

/// The words of `telemetry.engine` and `telemetry.process`.
pub const SAMPLINGS: [(&str, Sampling); 2] = [("auto", Sampling::Auto), ("off", Sampling::Off)];

/// The words of `gpu`.
pub const GPUS: [(&str, Gpu); 2] = [("auto", Gpu::Auto), ("none", Gpu::None)];

/// The words of `client.kernel_stamps`.
pub const KERNEL_STAMPS: [(&str, KernelStamps); 2] =
    [("auto", KernelStamps::Auto), ("off", KernelStamps::Off)];

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
pub const ARRIVALS: [(&str, Arrival); 5] = [
    ("closed", Arrival::Closed),
    ("constant", Arrival::Constant),
    ("poisson", Arrival::Poisson),
    ("gamma", Arrival::Gamma),
    ("replay", Arrival::Replay),
];

/// The words of `load.over_limit`.
pub const OVER_LIMIT: [(&str, OverLimit); 2] =
    [("drop", OverLimit::Drop), ("wait", OverLimit::Wait)];

/// The words of `path`.
pub const PATHS: [(&str, Path); 3] = [
    ("direct", Path::Direct),
    ("gateway", Path::Gateway),
    ("both", Path::Both),
];

/// A whole number, 0 or more.
pub(super) fn whole<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| "write a whole number, 0 or more and not beyond all use".to_owned())
}

/// `off` is no time at all.
fn calibration(text: &str) -> Result<Duration, String> {
    match text {
        "off" => Ok(Duration::ZERO),
        time => parse_duration(time),
    }
}

fn path(text: &str) -> Result<Path, String> {
    word(text, &PATHS)
}

fn engine_kind(text: &str) -> Result<EngineKind, String> {
    word(text, &ENGINE_KINDS)
}

fn gpu(text: &str) -> Result<Gpu, String> {
    word(text, &GPUS)
}

fn kernel_stamps(text: &str) -> Result<KernelStamps, String> {
    word(text, &KERNEL_STAMPS)
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

fn over_limit(text: &str) -> Result<OverLimit, String> {
    word(text, &OVER_LIMIT)
}

fn ramp(text: &str) -> Result<Ramp, String> {
    let read = |(from, to): (&str, &str)| {
        Some(Ramp {
            from: from.parse().ok()?,
            to: to.parse().ok()?,
        })
    };
    text.split_once("..")
        .and_then(read)
        .ok_or_else(|| "write requests per second as FROM..TO, like 1..50".to_owned())
}

fn stage(text: &str) -> Result<Stage, String> {
    let (rate, duration) = text
        .split_once('@')
        .ok_or_else(|| "write a rate and its time as R@TIME, like 10@30s".to_owned())?;
    Ok(Stage {
        rate: rate
            .parse()
            .map_err(|_| format!("{rate:?} is no rate; write it like 10@30s"))?,
        duration: parse_duration(duration)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(flags: RunArgs, gateway_url: Option<&str>) -> (Option<String>, Option<String>) {
        let mut file = Settings::default();
        file.direct.url = Some("http://127.0.0.1:1".to_owned());
        file.gateway.url = gateway_url.map(str::to_owned);
        let settings = flags.settings_over(file);
        (settings.direct.api_key, settings.gateway.api_key)
    }

    #[test]
    fn a_key_goes_to_the_gateway_if_one_is_measured_and_else_to_the_engine() {
        let flags = |path| RunArgs {
            api_key_env: Some("K".to_owned()),
            path,
            ..RunArgs::default()
        };
        let (key, url) = (Some("env:K".to_owned()), Some("http://127.0.0.1:2"));
        assert_eq!(keys(flags(None), None), (key.clone(), None));
        assert_eq!(keys(flags(None), url), (None, key.clone()));
        assert_eq!(keys(flags(Some(Path::Direct)), url), (key, None));
    }
}
