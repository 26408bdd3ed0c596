//! What a file or a command line says, before defaults and rules.
//!
//! Both give [`Settings`], where nothing is required; flags are laid over the file, then
//! [`Settings::resolve`] fills in defaults and checks everything at once, so that a user sees all
//! faults of a configuration together.

use std::path::PathBuf;
use std::time::Duration;

use super::rules;
use super::{
    Arm, ArmKind, Arrival, CONFIG_VERSION, Client, Endpoint, Engine, EngineKind, Gpu, KernelStamps,
    Load, OverLimit, Prompts, Ramp, Request, Resolved, Salt, Sampling, Shard, Stage, Telemetry,
    Timeouts,
};

/// How long a calibration takes when nobody says.
const CALIBRATION: Duration = Duration::from_secs(3);

/// Which paths to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// Straight to the engine.
    Direct,
    /// Through the gateway.
    Gateway,
    /// Both, alternating per load.
    Both,
}

/// What is known of an arm.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArmSettings {
    /// Base URL.
    pub url: Option<String>,
    /// `env:NAME` or `file:/path`.
    pub api_key: Option<String>,
}

/// Everything that a file or a command line can say.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(
    missing_docs,
    reason = "each field is one of the configuration's, documented there"
)]
pub struct Settings {
    pub run_id: Option<String>,
    pub candidate_id: Option<String>,
    pub seed: Option<u64>,
    pub path: Option<Path>,
    pub direct: ArmSettings,
    pub gateway: ArmSettings,
    pub engine_kind: Option<EngineKind>,
    pub engine_url: Option<String>,
    pub engine_pid: Option<u32>,
    pub engine_process: Option<String>,
    pub telemetry_interval: Option<Duration>,
    pub telemetry_engine: Option<Sampling>,
    pub telemetry_process: Option<Sampling>,
    pub gpu: Option<Gpu>,
    pub endpoint: Option<Endpoint>,
    pub model: Option<String>,
    pub temperature: Option<f64>,
    pub body: Option<String>,
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    pub salt: Option<Salt>,
    pub workload: Option<PathBuf>,
    pub expect_prefix_hits: Option<bool>,
    pub tokenizer: Option<PathBuf>,
    pub arrival: Option<Arrival>,
    pub concurrency: Option<Vec<u32>>,
    pub rate: Option<Vec<f64>>,
    pub ramp: Option<Ramp>,
    pub stages: Option<Vec<Stage>>,
    pub burstiness: Option<f64>,
    pub shard: Option<Shard>,
    pub requests: Option<u64>,
    pub duration: Option<Duration>,
    pub warmup: Option<u64>,
    pub stagger: Option<Duration>,
    pub max_in_flight: Option<u32>,
    pub over_limit: Option<OverLimit>,
    pub reuse: Option<bool>,
    pub slo: Option<String>,
    /// Zero = off.
    pub calibration: Option<Duration>,
    pub gateway_records: Option<String>,
    pub kernel_stamps: Option<KernelStamps>,
    pub timeouts: TimeoutSettings,
    pub results_dir: Option<PathBuf>,
}

/// Time limits, as far as they are stated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "each field is one of the configuration's, documented there"
)]
pub struct TimeoutSettings {
    pub connect: Option<Duration>,
    pub first_byte: Option<Duration>,
    pub idle: Option<Duration>,
    pub total: Option<Duration>,
    pub point: Option<Duration>,
    pub drain: Option<Duration>,
    pub after_done: Option<Duration>,
    pub keep_alive: Option<Duration>,
    pub late: Option<Duration>,
    pub records: Option<Duration>,
}

macro_rules! lay_over {
    ($over:ident, $under:ident, $($field:ident).+) => {
        if $over.$($field).+.is_some() {
            $under.$($field).+ = $over.$($field).+;
        }
    };
}

impl Settings {
    /// These settings where they say something, else `under`.
    #[must_use]
    pub fn over(self, mut under: Self) -> Self {
        // A load given by flags replaces the file's load whole: half of each fits nobody.
        if self.rate.is_some()
            || self.concurrency.is_some()
            || self.ramp.is_some()
            || self.stages.is_some()
        {
            under.rate = None;
            under.concurrency = None;
            under.ramp = None;
            under.stages = None;
            under.burstiness = None;
            under.arrival = None;
        }
        if self.requests.is_some() || self.duration.is_some() {
            under.requests = None;
            under.duration = None;
        }
        // So do two ways of naming one process.
        if self.engine_pid.is_some() || self.engine_process.is_some() {
            under.engine_pid = self.engine_pid;
            under.engine_process = self.engine_process;
        }
        lay_over!(self, under, run_id);
        lay_over!(self, under, candidate_id);
        lay_over!(self, under, seed);
        lay_over!(self, under, path);
        lay_over!(self, under, direct.url);
        lay_over!(self, under, direct.api_key);
        lay_over!(self, under, gateway.url);
        lay_over!(self, under, gateway.api_key);
        lay_over!(self, under, engine_kind);
        lay_over!(self, under, engine_url);
        lay_over!(self, under, telemetry_interval);
        lay_over!(self, under, telemetry_engine);
        lay_over!(self, under, telemetry_process);
        lay_over!(self, under, gpu);
        lay_over!(self, under, endpoint);
        lay_over!(self, under, model);
        lay_over!(self, under, temperature);
        lay_over!(self, under, body);
        lay_over!(self, under, input_tokens);
        lay_over!(self, under, output_tokens);
        lay_over!(self, under, salt);
        lay_over!(self, under, workload);
        lay_over!(self, under, expect_prefix_hits);
        lay_over!(self, under, tokenizer);
        lay_over!(self, under, arrival);
        lay_over!(self, under, concurrency);
        lay_over!(self, under, rate);
        lay_over!(self, under, ramp);
        lay_over!(self, under, stages);
        lay_over!(self, under, burstiness);
        lay_over!(self, under, shard);
        lay_over!(self, under, requests);
        lay_over!(self, under, duration);
        lay_over!(self, under, warmup);
        lay_over!(self, under, stagger);
        lay_over!(self, under, max_in_flight);
        lay_over!(self, under, over_limit);
        lay_over!(self, under, reuse);
        lay_over!(self, under, slo);
        lay_over!(self, under, calibration);
        lay_over!(self, under, gateway_records);
        lay_over!(self, under, kernel_stamps);
        lay_over!(self, under, results_dir);
        lay_over!(self, under, timeouts.connect);
        lay_over!(self, under, timeouts.first_byte);
        lay_over!(self, under, timeouts.idle);
        lay_over!(self, under, timeouts.total);
        lay_over!(self, under, timeouts.point);
        lay_over!(self, under, timeouts.drain);
        lay_over!(self, under, timeouts.after_done);
        lay_over!(self, under, timeouts.keep_alive);
        lay_over!(self, under, timeouts.late);
        lay_over!(self, under, timeouts.records);
        under
    }

    /// Fills in defaults and checks every rule that needs no network.
    ///
    /// # Errors
    /// All faults, one sentence each: the setting, its value, what to do.
    pub fn resolve(self, workload_has_times: bool) -> Result<Resolved, Vec<String>> {
        let mut faults = Vec::new();
        let arms = self.arms(&mut faults);
        let default_url = arms
            .iter()
            .find(|a| a.kind == ArmKind::Direct)
            .map(|a| a.url.clone());
        let model = self.model.clone().unwrap_or_else(|| {
            faults.push("request.model: missing; name the model, like --model NAME".to_owned());
            String::new()
        });
        let load = self.load(workload_has_times);
        let t = self.timeouts;
        let d = Timeouts::default();
        let resolved = Resolved {
            version: CONFIG_VERSION,
            run_id: self.run_id.unwrap_or_else(rules::new_run_id),
            candidate_id: self.candidate_id,
            seed: self.seed.unwrap_or(1),
            arms,
            engine: Engine {
                kind: self.engine_kind.unwrap_or(EngineKind::Auto),
                url: self.engine_url.or(default_url),
                pid: self.engine_pid,
                process: self.engine_process,
            },
            telemetry: Telemetry {
                interval: self.telemetry_interval.unwrap_or(Duration::from_secs(1)),
                engine: self.telemetry_engine.unwrap_or(Sampling::Auto),
                process: self.telemetry_process.unwrap_or(Sampling::Auto),
            },
            gpu: self.gpu.unwrap_or(Gpu::Auto),
            request: Request {
                endpoint: self.endpoint.unwrap_or(Endpoint::Chat),
                model,
                temperature: self.temperature,
                body: self.body,
            },
            prompts: Prompts {
                input_tokens: self.input_tokens.unwrap_or(128),
                output_tokens: self.output_tokens.unwrap_or(64),
                salt: self.salt.unwrap_or(Salt::PerArm),
                workload: self.workload,
                expect_prefix_hits: self.expect_prefix_hits.unwrap_or(false),
                tokenizer: self.tokenizer,
            },
            load,
            slo: self.slo,
            calibration: Some(self.calibration.unwrap_or(CALIBRATION)).filter(|d| !d.is_zero()),
            gateway_records: self.gateway_records,
            client: Client {
                kernel_stamps: self.kernel_stamps.unwrap_or(KernelStamps::Auto),
            },
            timeouts: Timeouts {
                connect: t.connect.unwrap_or(d.connect),
                first_byte: t.first_byte.unwrap_or(d.first_byte),
                idle: t.idle.unwrap_or(d.idle),
                total: t.total.unwrap_or(d.total),
                point: t.point.unwrap_or(d.point),
                drain: t.drain.unwrap_or(d.drain),
                after_done: t.after_done.unwrap_or(d.after_done),
                keep_alive: t.keep_alive.unwrap_or(d.keep_alive),
                late: t.late.unwrap_or(d.late),
                records: t.records.unwrap_or(d.records),
            },
            results_dir: self.results_dir.unwrap_or_else(|| PathBuf::from("results")),
        };
        rules::check(&resolved, &mut faults);
        if faults.is_empty() {
            Ok(resolved)
        } else {
            Err(faults)
        }
    }

    /// Whether a gateway is measured.
    #[must_use]
    pub fn measures_gateway(&self) -> bool {
        self.paths() != Path::Direct
    }

    fn paths(&self) -> Path {
        self.path.unwrap_or({
            match (self.direct.url.is_some(), self.gateway.url.is_some()) {
                (true, true) => Path::Both,
                (false, true) => Path::Gateway,
                _ => Path::Direct,
            }
        })
    }

    fn arms(&self, faults: &mut Vec<String>) -> Vec<Arm> {
        let path = self.paths();
        let all = [
            (
                "direct",
                ArmKind::Direct,
                &self.direct,
                path != Path::Gateway,
            ),
            (
                "gateway",
                ArmKind::Gateway,
                &self.gateway,
                path != Path::Direct,
            ),
        ];
        all.into_iter()
            .filter(|(.., wanted)| *wanted)
            .map(|(name, kind, arm, _)| Arm {
                name: name.to_owned(),
                kind,
                url: arm.url.clone().unwrap_or_else(|| {
                    faults.push(format!(
                        "arms.{name}.url: missing; give --{name}-url http://HOST:PORT or leave this path out with --path"
                    ));
                    String::new()
                }),
                api_key: arm.api_key.clone(),
            })
            .collect()
    }

    fn load(&self, workload_has_times: bool) -> Load {
        let has_rate = self.rate.is_some() || self.ramp.is_some() || self.stages.is_some();
        let arrival = self.arrival.unwrap_or({
            if self.burstiness.is_some() {
                Arrival::Gamma
            } else if has_rate {
                Arrival::Poisson
            } else if workload_has_times && self.concurrency.is_none() {
                Arrival::Replay
            } else {
                Arrival::Closed
            }
        });
        // Gaps whose variation vanishes are equal gaps.
        let (arrival, burstiness) = match (arrival, self.burstiness) {
            (Arrival::Gamma, Some(f64::INFINITY)) => (Arrival::Constant, None),
            given => given,
        };
        let concurrency = self.concurrency.clone().unwrap_or_else(|| {
            if arrival == Arrival::Closed && !has_rate {
                vec![1]
            } else {
                Vec::new()
            }
        });
        let requests = match (self.requests, self.duration, arrival) {
            (requests, _, Arrival::Replay) => requests,
            (None, None, _) if self.ramp.is_none() && self.stages.is_none() => Some(100),
            (requests, _, _) => requests,
        };
        let stages = self.stages.clone().unwrap_or_default();
        let duration = self
            .duration
            .or_else(|| (!stages.is_empty()).then(|| stages.iter().map(|s| s.duration).sum()));
        Load {
            arrival,
            warmup: self.warmup.unwrap_or({
                if arrival == Arrival::Replay {
                    0
                } else {
                    concurrency.iter().copied().max().unwrap_or(2).max(2).into()
                }
            }),
            concurrency,
            rate: self.rate.clone().unwrap_or_default(),
            ramp: self.ramp,
            stages,
            burstiness,
            shard: self.shard,
            requests,
            duration,
            stagger: self.stagger.unwrap_or(Duration::ZERO),
            max_in_flight: self.max_in_flight.unwrap_or(1_000),
            over_limit: self.over_limit.unwrap_or_default(),
            reuse: self.reuse.unwrap_or(true),
        }
    }
}
