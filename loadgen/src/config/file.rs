//! The configuration file: YAML text to [`Settings`], every fault with its place.

use std::path::{Path, PathBuf};
use std::time::Duration;

use inferscope_shared::strict_yaml::{self, Map, Node, Problems};
use thiserror::Error;

use super::settings::{ArmSettings, Settings, TimeoutSettings};
use super::{CONFIG_VERSION, Ramp, Resolved, Stage};
use crate::cli::run_args::{
    ARRIVALS, ENDPOINTS, ENGINE_KINDS, GPUS, KERNEL_STAMPS, OVER_LIMIT, PATHS, SALTS, SAMPLINGS,
};

/// Why a configuration cannot be used.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("config {file}: {why}")]
    Unreadable {
        /// The file.
        file: String,
        /// Why, and what to do.
        why: String,
    },
    /// The text has faults; each with file, line and column.
    #[error("{0}")]
    Text(Problems),
    /// The settings have faults, one a line.
    #[error("{}", .0.join("\n"))]
    Rules(Vec<String>),
}

/// Reads a configuration file.
///
/// # Errors
/// When it cannot be read or has any fault; all faults at once.
pub fn read(path: &Path) -> Result<Settings, ConfigError> {
    let unreadable = |why: String| ConfigError::Unreadable {
        file: path.display().to_string(),
        why,
    };
    let bytes = std::fs::read(path)
        .map_err(|e| unreadable(format!("cannot be read ({e}); check the path after -c")))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| unreadable("is not UTF-8; save the file as UTF-8".to_owned()))?;
    parse(&path.display().to_string(), &text).map_err(ConfigError::Text)
}

/// Reads configuration text; `name` stands for it in complaints.
///
/// # Errors
/// All its faults.
pub fn parse(name: &str, text: &str) -> Result<Settings, Problems> {
    let mut problems = Problems::new(name);
    let settings = strict_yaml::parse(text, &mut problems)
        .and_then(|node| node.map(&mut problems).map(|map| top(map, &mut problems)));
    problems.into_result(settings)
}

impl Resolved {
    /// Reads `config.resolved.yaml` of a run.
    ///
    /// # Errors
    /// When it is missing or was changed into something invalid.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        read(path)?.resolve(false).map_err(ConfigError::Rules)
    }
}

fn top(mut map: Map<'_>, p: &mut Problems) -> Settings {
    if let Some(node) = map.need("version", "1", p)
        && node.u64(p).is_some_and(|v| v != CONFIG_VERSION)
    {
        node.complain(p, format!("this version reads version {CONFIG_VERSION}"));
    }
    let mut s = Settings {
        run_id: map.text("run_id", p),
        candidate_id: map.text("candidate_id", p),
        seed: map.u64("seed", p),
        path: map.one_of("path", p, &PATHS),
        gpu: map.one_of("gpu", p, &GPUS),
        slo: map.text("slo", p),
        gateway_records: map.text("gateway_records", p),
        results_dir: map.text("results_dir", p).map(PathBuf::from),
        ..Settings::default()
    };
    if let Some(mut arms) = section(&mut map, "arms", p) {
        s.direct = arm(&mut arms, "direct", p);
        s.gateway = arm(&mut arms, "gateway", p);
        arms.finish(p);
    }
    if let Some(mut engine) = section(&mut map, "engine", p) {
        s.engine_kind = engine.one_of("kind", p, &ENGINE_KINDS);
        s.engine_url = engine.text("url", p);
        s.engine_pid = engine.get("pid").and_then(|node| {
            let n = node.u64(p)?;
            u32::try_from(n)
                .map_err(|_| node.complain(p, "is no process id"))
                .ok()
        });
        s.engine_process = engine.text("process", p);
        engine.finish(p);
    }
    if let Some(mut telemetry) = section(&mut map, "telemetry", p) {
        s.telemetry_interval = telemetry.duration("interval", p);
        s.telemetry_engine = telemetry.one_of("engine", p, &SAMPLINGS);
        s.telemetry_process = telemetry.one_of("process", p, &SAMPLINGS);
        telemetry.finish(p);
    }
    if let Some(mut request) = section(&mut map, "request", p) {
        s.endpoint = request.one_of("endpoint", p, &ENDPOINTS);
        s.model = request.text("model", p);
        s.temperature = request.f64("temperature", p);
        s.body = request.text("body", p);
        request.finish(p);
    }
    if let Some(mut prompts) = section(&mut map, "prompts", p) {
        s.input_tokens = prompts.u64("input_tokens", p);
        s.output_tokens = prompts.u64("output_tokens", p);
        s.salt = prompts.one_of("salt", p, &SALTS);
        s.workload = prompts.text("workload", p).map(PathBuf::from);
        s.expect_prefix_hits = prompts.bool("expect_prefix_hits", p);
        s.tokenizer = prompts.text("tokenizer", p).map(PathBuf::from);
        prompts.finish(p);
    }
    if let Some(node) = map.get("calibration") {
        s.calibration = calibration(node, p);
    }
    if let Some(load) = section(&mut map, "load", p) {
        fill_load(&mut s, load, p);
    }
    if let Some(mut client) = section(&mut map, "client", p) {
        s.kernel_stamps = client.one_of("kernel_stamps", p, &KERNEL_STAMPS);
        client.finish(p);
    }
    if let Some(t) = section(&mut map, "timeouts", p) {
        s.timeouts = timeouts(t, p);
    }
    map.finish(p);
    s
}

fn section<'a>(map: &mut Map<'a>, key: &'static str, p: &mut Problems) -> Option<Map<'a>> {
    map.get(key)?.map(p)
}

fn arm(arms: &mut Map<'_>, name: &'static str, p: &mut Problems) -> ArmSettings {
    let Some(mut map) = section(arms, name, p) else {
        return ArmSettings::default();
    };
    let arm = ArmSettings {
        url: map.text("url", p),
        api_key: map.text("api_key", p),
    };
    map.finish(p);
    arm
}

fn fill_load(s: &mut Settings, mut load: Map<'_>, p: &mut Problems) {
    s.arrival = load.one_of("arrival", p, &ARRIVALS);
    s.concurrency = load.get("concurrency").map(|node| {
        node.list(p, |item, p| {
            let n = item.u64(p)?;
            u32::try_from(n)
                .map_err(|_| item.complain(p, "is far too many requests in flight"))
                .ok()
        })
    });
    s.rate = load
        .get("rate")
        .map(|node| node.list(p, |item, p| item.f64(p)));
    s.ramp = section(&mut load, "ramp", p).and_then(|ramp| ends(ramp, p));
    s.stages = load
        .get("stages")
        .map(|node| node.list(p, |item, p| stage(item.map(p)?, p)));
    // `inf` is a value here, and what is no number at all is named by the rules.
    s.burstiness = load.read("burstiness", p, |node, p| {
        let text = node.text(p)?;
        let number = text.trim_start_matches('.').parse::<f64>();
        number.or_else(|_| text.parse()).map_or_else(
            |_| {
                node.complain(p, "expected a number above 0, or inf");
                None
            },
            Some,
        )
    });
    s.shard = load.read("shard", p, |node, p| {
        let read = node.text(p)?.parse();
        read.map_err(|why: String| node.complain(p, why)).ok()
    });
    s.requests = load.u64("requests", p);
    s.duration = load.duration("duration", p);
    s.warmup = load.u64("warmup", p);
    s.stagger = load.duration("stagger", p);
    s.max_in_flight = load.get("max_in_flight").and_then(|node| {
        let n = node.u64(p)?;
        u32::try_from(n)
            .map_err(|_| node.complain(p, "is far too many requests in flight"))
            .ok()
    });
    s.over_limit = load.one_of("over_limit", p, &OVER_LIMIT);
    s.reuse = load.bool("reuse", p);
    load.finish(p);
}

/// `off`, or a map with the duration.
fn calibration(node: &Node, p: &mut Problems) -> Option<Duration> {
    if node.text(&mut Problems::new("")).is_some() {
        return node.one_of(p, &[("off", Duration::ZERO)]);
    }
    let mut map = node.map(p)?;
    let duration = map.duration("duration", p);
    map.finish(p);
    duration
}

fn ends(mut ramp: Map<'_>, p: &mut Problems) -> Option<Ramp> {
    let from = ramp.need("from", "1", p).and_then(|node| node.f64(p));
    let to = ramp.need("to", "50", p).and_then(|node| node.f64(p));
    ramp.finish(p);
    Some(Ramp {
        from: from?,
        to: to?,
    })
}

fn stage(mut stage: Map<'_>, p: &mut Problems) -> Option<Stage> {
    let rate = stage.need("rate", "10", p).and_then(|node| node.f64(p));
    let duration = stage
        .need("duration", "30s", p)
        .and_then(|node| node.duration(p));
    stage.finish(p);
    Some(Stage {
        rate: rate?,
        duration: duration?,
    })
}

fn timeouts(mut t: Map<'_>, p: &mut Problems) -> TimeoutSettings {
    let timeouts = TimeoutSettings {
        connect: t.duration("connect", p),
        first_byte: t.duration("first_byte", p),
        idle: t.duration("idle", p),
        total: t.duration("total", p),
        point: t.duration("point", p),
        drain: t.duration("drain", p),
        after_done: t.duration("after_done", p),
        keep_alive: t.duration("keep_alive", p),
        late: t.duration("late", p),
        records: t.duration("records", p),
    };
    t.finish(p);
    timeouts
}

#[cfg(test)]
mod tests;
