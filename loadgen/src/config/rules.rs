//! Rules of a whole configuration, each fault one sentence: the setting, its value, the remedy.

mod load;

use std::ops::RangeInclusive;
use std::time::Duration;

use inferscope_shared::units::format_duration;
use jiff::Timestamp;

use super::Resolved;
use crate::client::target::Target;
use crate::slo::Slo;

const NOT_A_PLACE: &str = "is written out or misspelt; name where it lies, env:NAME or file:/path";

/// Closer samples disturb what they are about; further ones miss it.
const INTERVALS: RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_secs(60);

const RUN_ID_CHARS: usize = 80;

/// How long the instrument's own error may be measured.
const CALIBRATION: RangeInclusive<Duration> = Duration::from_millis(200)..=Duration::from_secs(60);

/// Tokens of a prompt or of an answer.
const MAX_TOKENS: u64 = 10_000_000;

/// A run id that no other run has: the time to the second and a random part.
#[must_use]
pub fn new_run_id() -> String {
    let random = uuid::Uuid::new_v4().simple().to_string();
    let time = Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    format!("{time}-{}", &random[..8])
}

/// Adds every fault found to `faults`.
pub fn check(config: &Resolved, faults: &mut Vec<String>) {
    let mut fault = |text: String| faults.push(text);
    if config.run_id.is_empty()
        || config.run_id.len() > RUN_ID_CHARS
        || !config
            .run_id
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    {
        fault(format!(
            "run_id {:?}: use 1 to {RUN_ID_CHARS} letters, digits, - and _",
            config.run_id
        ));
    }
    for arm in &config.arms {
        if !arm.url.is_empty()
            && let Err(e) = Target::parse(&arm.url)
        {
            fault(format!("arms.{}.url {e}", arm.name));
        }
        if let Some(key) = &arm.api_key
            && !matches!(key.split_once(':'), Some(("env" | "file", _)))
        {
            fault(format!("arms.{}.api_key: {NOT_A_PLACE}", arm.name));
        }
    }
    if let Some(url) = config
        .engine
        .url
        .as_deref()
        .filter(|u| config.arms.iter().all(|a| a.url != *u))
        && let Err(e) = Target::parse(url)
    {
        fault(format!("engine.url {e}"));
    }
    if config.engine.pid.is_some() && config.engine.process.is_some() {
        fault("engine.pid and engine.process: both name one process; leave one out".to_owned());
    }
    if config
        .engine
        .process
        .as_deref()
        .is_some_and(|text| text.trim().is_empty())
    {
        fault("engine.process: is empty; give a part of the engine's command line".to_owned());
    }
    let interval = config.telemetry.interval;
    if !INTERVALS.contains(&interval) {
        fault(format!(
            "telemetry.interval {}: give {} to {}",
            format_duration(interval),
            format_duration(*INTERVALS.start()),
            format_duration(*INTERVALS.end()),
        ));
    }
    if let Some(t) = config.request.temperature
        && !(0.0..=10.0).contains(&t)
    {
        fault(format!("request.temperature {t}: give 0 to 10"));
    }
    if let Some(body) = &config.request.body
        && let Err(e) = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(body)
    {
        fault(format!(
            "request.body {body:?}: is no JSON object ({e}); write it like '{{\"cache_prompt\": false}}'"
        ));
    }
    if config.prompts.input_tokens == 0 {
        fault("prompts.input_tokens 0: ask for at least 1".to_owned());
    }
    if config.prompts.output_tokens == 0 {
        fault("prompts.output_tokens 0: ask for at least 1".to_owned());
    }
    for (name, tokens) in [
        ("input_tokens", config.prompts.input_tokens),
        ("output_tokens", config.prompts.output_tokens),
    ] {
        if tokens > MAX_TOKENS {
            fault(format!(
                "prompts.{name} {tokens}: ask for at most {MAX_TOKENS}"
            ));
        }
    }
    if let Some(Err(e)) = config.slo.as_deref().map(str::parse::<Slo>) {
        fault(e.to_string());
    }
    if let Some(duration) = config.calibration
        && !CALIBRATION.contains(&duration)
    {
        let [low, high] = [CALIBRATION.start(), CALIBRATION.end()].map(|d| format_duration(*d));
        faults.push(format!(
            "calibration.duration {}: give {low} to {high}, or calibration: off",
            format_duration(duration)
        ));
    }
    let t = &config.timeouts;
    for (name, limit) in [
        ("connect", t.connect),
        ("first_byte", t.first_byte),
        ("idle", t.idle),
        ("total", t.total),
    ] {
        if limit.is_zero() {
            faults.push(format!(
                "timeouts.{name} 0s: no request could end well; give the longest time that is bearable"
            ));
        }
    }
    load::check(config, faults);
    load::check_size(config, faults);
    check_records(config, faults);
}

fn check_records(config: &Resolved, faults: &mut Vec<String>) {
    let Some(records) = &config.gateway_records else {
        return;
    };
    if records.contains("://") {
        let base = records.split('?').next().unwrap_or(records);
        let fits = Target::parse(base.strip_suffix("/records").unwrap_or(base));
        if let Err(e) = fits {
            faults.push(format!("gateway_records {e}"));
        }
    }
}

/// The secret that `env:NAME` or `file:/path` stands for.
///
/// # Errors
/// A sentence that never holds the secret.
pub fn read_secret(source: &str) -> Result<String, String> {
    let secret = match source.split_once(':') {
        Some(("env", name)) => std::env::var(name).map_err(|_| {
            format!("{source}: the variable {name} is not set; export it before the run")
        })?,
        Some(("file", path)) => {
            std::fs::read_to_string(path).map_err(|e| format!("{source}: cannot be read ({e})"))?
        }
        _ => return Err(NOT_A_PLACE.to_owned()),
    };
    let secret = secret.trim().to_owned();
    if secret.is_empty() || !secret.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(format!(
            "{source}: is empty or holds characters that no header can carry"
        ));
    }
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::super::Arrival;
    use super::super::settings::{ArmSettings, Settings, TimeoutSettings};
    use super::*;

    fn good() -> Settings {
        Settings {
            direct: ArmSettings {
                url: Some("http://127.0.0.1:9".to_owned()),
                api_key: None,
            },
            model: Some("m".to_owned()),
            ..Settings::default()
        }
    }

    #[test]
    fn run_ids_are_unique() {
        let a = new_run_id();
        assert_ne!(a, new_run_id());
        let with = Settings {
            run_id: Some(a),
            ..good()
        };
        with.resolve(false).unwrap();
    }

    #[test]
    fn defaults_measure_a_hundred_requests_one_by_one() {
        let c = good().resolve(false).unwrap();
        assert_eq!(c.load.concurrency, [1]);
        assert_eq!(c.load.requests, Some(100));
        assert_eq!(c.load.warmup, 2);
    }

    #[test]
    fn every_fault_is_one_sentence_and_all_are_shown() {
        let faults = |s: Settings| s.resolve(false).unwrap_err().join("\n");
        let some = |text: &str| Some(text.to_owned());
        for (settings, says) in [
            (
                Settings {
                    requests: Some(0),
                    ..good()
                },
                "load.requests 0",
            ),
            (
                Settings {
                    duration: Some(Duration::ZERO),
                    ..good()
                },
                "load.duration 0s",
            ),
            (
                Settings {
                    run_id: some("a/b"),
                    ..good()
                },
                "run_id \"a/b\"",
            ),
            (
                Settings {
                    rate: Some(vec![0.0]),
                    ..good()
                },
                "load.rate 0",
            ),
            (
                Settings {
                    rate: Some(vec![f64::INFINITY]),
                    ..good()
                },
                "load.rate inf",
            ),
            (
                Settings {
                    rate: Some(vec![1e-320]),
                    ..good()
                },
                "from 0.0001 to 100000",
            ),
            (
                Settings {
                    timeouts: TimeoutSettings {
                        idle: Some(Duration::ZERO),
                        ..TimeoutSettings::default()
                    },
                    ..good()
                },
                "timeouts.idle 0s",
            ),
            (
                Settings {
                    calibration: Some(Duration::from_millis(1)),
                    ..good()
                },
                "calibration.duration 1ms: give 200ms to 60s",
            ),
            (
                Settings {
                    concurrency: Some(vec![0]),
                    ..good()
                },
                "load.concurrency 0",
            ),
            (
                Settings {
                    concurrency: Some(vec![2, 2]),
                    ..good()
                },
                "c2: listed twice",
            ),
            (
                Settings {
                    body: some("[1]"),
                    ..good()
                },
                "request.body",
            ),
            (
                Settings {
                    model: None,
                    ..good()
                },
                "request.model: missing",
            ),
            (
                Settings {
                    arrival: Some(Arrival::Poisson),
                    ..good()
                },
                "load.rate: missing",
            ),
            (
                Settings {
                    output_tokens: Some(0),
                    ..good()
                },
                "prompts.output_tokens 0",
            ),
            (
                Settings {
                    telemetry_interval: Some(Duration::from_millis(1)),
                    ..good()
                },
                "telemetry.interval 1ms: give 50ms to 60s",
            ),
            (
                Settings {
                    engine_pid: Some(1),
                    engine_process: some("vllm"),
                    ..good()
                },
                "engine.pid and engine.process",
            ),
            (
                Settings {
                    gateway_records: some("https://x/records"),
                    ..good()
                },
                "gateway_records",
            ),
        ] {
            let text = faults(settings);
            assert!(text.contains(says), "{says}: {text}");
        }
        for (settings, says) in [
            (
                Settings {
                    requests: Some(u64::MAX),
                    ..good()
                },
                "a run has at most 10000000",
            ),
            (
                Settings {
                    requests: Some(5_000_001),
                    concurrency: Some(vec![1, 2]),
                    ..good()
                },
                "about 10000006 requests",
            ),
            (
                Settings {
                    warmup: Some(u64::MAX),
                    ..good()
                },
                "a run has at most",
            ),
            (
                Settings {
                    rate: Some(vec![1_000.0]),
                    duration: Some(Duration::from_secs(10_001)),
                    ..good()
                },
                "a run has at most",
            ),
            (
                Settings {
                    input_tokens: Some(u64::MAX),
                    ..good()
                },
                "prompts.input_tokens 18446744073709551615: ask for at most 10000000",
            ),
            (
                Settings {
                    output_tokens: Some(u64::MAX),
                    ..good()
                },
                "prompts.output_tokens 18446744073709551615",
            ),
        ] {
            let text = faults(settings);
            assert!(text.contains(says), "{says}: {text}");
        }
        let two = faults(Settings {
            requests: Some(0),
            output_tokens: Some(0),
            ..good()
        });
        assert_eq!(two.lines().count(), 2);
    }

    #[test]
    fn secrets_are_named_never_written() {
        let mut s = good();
        s.direct.api_key = Some("sk-very-secret".to_owned());
        let text = s.resolve(false).unwrap_err().join("\n");
        assert!(
            text.contains("env:NAME") && !text.contains("very-secret"),
            "{text}"
        );
    }
}
