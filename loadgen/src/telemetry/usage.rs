//! What a point took of client, engine and cards, from the samples around it.
//!
//! Shares and means are over the point's window, the time that its rates refer to; peaks are over
//! the whole point; counts are differences of the engine's counters between the snapshots around
//! it. Cumulative readings are held between samples by straight lines. Whatever the samples do not
//! reach around is null.

use std::collections::{BTreeMap, BTreeSet};

use inferscope_shared::clock::MonoNs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::gpu::energy::{at, joules};
use super::gpu::{GpuProcess, GpuSample};
use super::readings::Readings;
use crate::artifacts::manifest::PointRun;
use crate::drive::lag::ClientMetrics;
use crate::measure::aggregate::Point;

/// What a point took; null = not sampled, or not said.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Cores that the load generator used.
    pub client_cpu_cores: Option<f64>,
    /// Share of the window that its measuring thread was on a core.
    pub client_loop_cpu: Option<f64>,
    /// Share of the window that its threads were ready and had no core, summed over threads.
    pub client_run_wait: Option<f64>,
    /// Share of the window that its control group was held back.
    pub client_throttled: Option<f64>,
    /// TCP segments sent again, of those sent in this network namespace.
    pub tcp_retransmitted: Option<f64>,
    /// The engine's counters.
    pub engine: EngineUsage,
    /// The engine's processes.
    pub process: ProcessUsage,
    /// Each card.
    pub gpu: Vec<GpuUsage>,
    /// Energy of the cards that the engine uses, in the window.
    pub energy_joules: Option<f64>,
    /// Output tokens of the throughput per joule of them.
    pub output_tokens_per_joule: Option<f64>,
    /// Why there is no energy.
    pub energy_note: Option<String>,
}

/// What the engine's counters say of a point.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EngineUsage {
    /// Most requests being computed at once, among the samples.
    pub running_peak: Option<f64>,
    /// Most requests waiting at once.
    pub waiting_peak: Option<f64>,
    /// Highest share of the KV cache in use.
    pub kv_usage_peak: Option<f64>,
    /// Preemptions.
    pub preemptions: Option<f64>,
    /// Prompt tokens found in the prefix cache, of those looked up.
    pub prefix_hits: Option<f64>,
}

/// What the engine's processes took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessUsage {
    /// Cores used.
    pub cpu_cores: Option<f64>,
    /// Most resident memory.
    pub rss_peak_bytes: Option<u64>,
    /// Most proportional memory.
    pub pss_peak_bytes: Option<u64>,
    /// Most threads.
    pub threads_peak: Option<u32>,
    /// Fewest processes; fewer than the most = some ended.
    pub processes_min: Option<u32>,
    /// Most processes.
    pub processes_max: Option<u32>,
}

/// What one card did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GpuUsage {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: Option<String>,
    /// Mean utilisation of the samples, 0 to 1.
    pub utilization_mean: Option<f64>,
    /// Most memory in use.
    pub memory_used_peak_bytes: Option<u64>,
    /// Mean power of the samples.
    pub power_mean_watts: Option<f64>,
    /// Lowest clock of the multiprocessors.
    pub sm_clock_min_mhz: Option<u32>,
    /// Highest.
    pub sm_clock_max_mhz: Option<u32>,
    /// Highest temperature.
    pub temperature_peak_celsius: Option<f64>,
    /// Reasons for which clocks were held back in any sample; null = not said.
    pub throttle: Option<Vec<String>>,
    /// Whether a process of the engine was on it; null = not known.
    pub engine: Option<bool>,
    /// Energy in the window.
    pub energy_joules: Option<f64>,
}

/// What a point took, by its samples.
#[must_use]
pub fn of(readings: &Readings, run: &PointRun, point: &Point) -> Usage {
    let window = point.window.start_ns.zip(point.window.end_ns);
    let whole = run.start_ns.zip(run.end_ns);
    let mut usage = Usage {
        engine: engine(readings, &run.point_id),
        process: process(readings, window, whole),
        ..Usage::default()
    };
    client(&mut usage, &readings.client, window);
    usage.gpu = cards(&readings.gpu, window, whole);
    energy(&mut usage, point);
    usage
}

type Span = Option<(MonoNs, MonoNs)>;

/// Growth of a cumulative reading over a span.
fn growth(series: &[(MonoNs, f64)], span: Span) -> Option<f64> {
    let (start, end) = span?;
    Some(at(series, end)? - at(series, start)?)
}

/// Growth per second of a span.
fn rate(series: &[(MonoNs, f64)], span: Span) -> Option<f64> {
    let (start, end) = span.filter(|(start, end)| end > start)?;
    Some(growth(series, span)? / (end.since(start) as f64 / 1e9))
}

fn client(usage: &mut Usage, lines: &[ClientMetrics], window: Span) {
    let series = |of: &dyn Fn(&ClientMetrics) -> Option<f64>| -> Vec<(MonoNs, f64)> {
        lines
            .iter()
            .filter_map(|line| Some((line.t_ns, of(line)?)))
            .collect()
    };
    usage.client_cpu_cores = rate(&series(&|l| Some(l.cpu_seconds)), window);
    usage.client_loop_cpu = rate(&series(&|l| Some(l.loop_cpu_seconds)), window);
    let wait = |l: &ClientMetrics| {
        let waits = l.threads.iter().filter_map(|t| t.run_wait_seconds);
        waits.reduce(|a, b| a + b)
    };
    usage.client_run_wait = rate(&series(&wait), window);
    usage.client_throttled = rate(&series(&|l| Some(l.cgroup?.throttled_seconds)), window);
    let sent = growth(&series(&|l| Some(l.tcp?.segments_out as f64)), window);
    let again = growth(&series(&|l| Some(l.tcp?.retransmitted as f64)), window);
    usage.tcp_retransmitted = sent.filter(|&n| n > 0.0).zip(again).map(|(n, r)| r / n);
}

fn engine(readings: &Readings, point_id: &str) -> EngineUsage {
    let of_point = || readings.engine.iter().filter(|r| r.point_id == point_id);
    let peak = |of: fn(&super::engine::Counters) -> Option<f64>| {
        of_point().filter_map(|r| of(&r.counters)).reduce(f64::max)
    };
    let (before, after) = readings.around(point_id);
    let difference = |of: fn(&super::engine::Counters) -> Option<f64>| {
        // A counter that fell was set back with the engine.
        Some(of(after?)? - of(before?)?).filter(|&d| d >= 0.0)
    };
    let queries = difference(|c| c.prefix_queries).filter(|&n| n > 0.0);
    EngineUsage {
        running_peak: peak(|c| c.running),
        waiting_peak: peak(|c| c.waiting),
        kv_usage_peak: peak(|c| c.kv_usage),
        preemptions: difference(|c| c.preemptions),
        prefix_hits: queries
            .zip(difference(|c| c.prefix_hits))
            .map(|(queries, hits)| hits / queries),
    }
}

/// The samples of a whole point, those right before and after it included.
fn within<T>(samples: &[T], t: impl Fn(&T) -> MonoNs, whole: Span) -> &[T] {
    let Some((start, end)) = whole.filter(|(start, end)| start <= end) else {
        return &[];
    };
    let from = samples.partition_point(|s| t(s) < start);
    let to = samples.partition_point(|s| t(s) <= end);
    &samples[from.saturating_sub(1)..(to + 1).min(samples.len())]
}

fn process(readings: &Readings, window: Span, whole: Span) -> ProcessUsage {
    let cpu: Vec<(MonoNs, f64)> = readings
        .process
        .iter()
        .map(|s| (s.t_ns, s.cpu_seconds))
        .collect();
    let samples = within(&readings.process, |s| s.t_ns, whole);
    ProcessUsage {
        cpu_cores: rate(&cpu, window),
        rss_peak_bytes: samples.iter().map(|s| s.rss_bytes).max(),
        pss_peak_bytes: samples.iter().filter_map(|s| s.pss_bytes).max(),
        threads_peak: samples.iter().map(|s| s.threads).max(),
        processes_min: samples.iter().map(|s| s.processes).min(),
        processes_max: samples.iter().map(|s| s.processes).max(),
    }
}

fn cards(samples: &[GpuSample], window: Span, whole: Span) -> Vec<GpuUsage> {
    let mut by_card: BTreeMap<u32, Vec<&GpuSample>> = BTreeMap::new();
    for sample in samples {
        by_card.entry(sample.index).or_default().push(sample);
    }
    let mut all = Vec::new();
    for (index, samples) in by_card {
        let energy_joules = window.and_then(|(start, end)| joules(&samples, start, end));
        let near = within(&samples, |s| s.t_ns, whole);
        let mean = |of: fn(&GpuSample) -> Option<f64>| {
            let values: Vec<f64> = near.iter().filter_map(|s| of(s)).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let said: Vec<&Vec<String>> = near.iter().filter_map(|s| s.throttle.as_ref()).collect();
        let reasons: BTreeSet<&String> = said.iter().copied().flatten().collect();
        all.push(GpuUsage {
            index,
            name: near.iter().find_map(|s| s.name.clone()),
            utilization_mean: mean(|s| s.utilization),
            memory_used_peak_bytes: near.iter().filter_map(|s| s.memory_used_bytes).max(),
            power_mean_watts: mean(|s| s.power_watts),
            sm_clock_min_mhz: near.iter().filter_map(|s| s.sm_clock_mhz).min(),
            sm_clock_max_mhz: near.iter().filter_map(|s| s.sm_clock_mhz).max(),
            temperature_peak_celsius: near
                .iter()
                .filter_map(|s| s.temperature_celsius)
                .reduce(f64::max),
            throttle: (!said.is_empty()).then(|| reasons.into_iter().cloned().collect()),
            engine: whose(near),
            energy_joules,
        });
    }
    all
}

/// Whether the engine was on a card: surely if one process is its own, surely not if all are seen
/// and none is.
fn whose(samples: &[&GpuSample]) -> Option<bool> {
    let lists: Option<Vec<&Vec<GpuProcess>>> =
        samples.iter().map(|s| s.processes.as_ref()).collect();
    let all: Vec<Option<bool>> = lists?.into_iter().flatten().map(|p| p.engine).collect();
    if all.contains(&Some(true)) {
        return Some(true);
    }
    // An empty card is nobody's; one whose processes cannot be told may be the engine's.
    (!samples.is_empty() && !all.contains(&None)).then_some(false)
}

/// Of the cards that are the engine's; a single card is, if nothing says otherwise.
fn energy(usage: &mut Usage, point: &Point) {
    if usage.gpu.is_empty() {
        return;
    }
    let own: Vec<&GpuUsage> = usage
        .gpu
        .iter()
        .filter(|card| card.engine == Some(true))
        .collect();
    let own = match (own.as_slice(), usage.gpu.as_slice()) {
        ([], [one]) if one.engine.is_none() => vec![one],
        ([], _) => {
            usage.energy_note = Some("no card is known to be the engine's".to_owned());
            return;
        }
        _ => own,
    };
    let sum: Option<f64> = own.iter().map(|card| card.energy_joules).sum();
    let Some(joules) = sum else {
        usage.energy_note = Some(
            "a card says neither energy nor power, or was not sampled around the window".to_owned(),
        );
        return;
    };
    usage.energy_joules = Some(joules);
    let tokens = point
        .throughput
        .output_tokens_per_s
        .zip(point.window.seconds)
        .map(|(rate, seconds)| rate * seconds);
    usage.output_tokens_per_joule = tokens.filter(|_| joules > 0.0).map(|n| n / joules);
}

#[cfg(test)]
mod tests;
