//! Gates about the graphics cards that the engine computes on.
//!
//! Cards without a process of the engine's are nobody's business. Where it is not known whose a
//! process is, nothing is judged by it.

use std::collections::{BTreeMap, BTreeSet};

use super::rules::{CLOCK_SPREAD, THROTTLED_SAMPLES};
use super::{Facts, Finding, GateStatus};
use crate::config::{EngineKind, Gpu};
use crate::measure::point::PointMeasure;
use crate::stats::Percentile;
use crate::telemetry::gpu::{GpuProcess, GpuSample};

/// Reasons of NVML for which a card is slower than it should be. The others are no fault: it is
/// idle, or somebody set its clocks.
const HELD_BACK: [&str; 5] = [
    "sw_power_cap",
    "hw_slowdown",
    "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
];

/// Share of time with a kernel running from which a card counts as under load.
const LOADED: f64 = 0.2;

/// Samples under load that a spread needs.
const SAMPLES: usize = 10;

/// Samples of the point on the engine's cards, or on all where nobody says which those are.
fn samples<'a>(facts: &Facts<'a>, point: &PointMeasure) -> Result<Vec<&'a GpuSample>, Finding> {
    if facts.config.gpu == Gpu::None {
        return Err(Finding::not_applicable("the configuration says gpu: none"));
    }
    if facts.manifest.engine.kind == EngineKind::Fake {
        return Err(Finding::not_applicable("the fake engine uses no GPU"));
    }
    let none = |why: &str| {
        Err(Finding::undecided(why).remedied_by(
            "make NVML reachable for loadgen on the engine's machine, or say that the engine uses \
             no GPU (gpu: none)",
        ))
    };
    let run = facts.point_run(&point.point.point_id);
    let Some((start, end)) = run.and_then(|r| Some((r.start_ns?, r.end_ns?))) else {
        return none("the point has no recorded start and end");
    };
    let of_point = |s: &&GpuSample| (start..=end).contains(&s.t_ns);
    let all: Vec<&GpuSample> = facts.readings.gpu.iter().filter(of_point).collect();
    if all.is_empty() {
        let why = facts.absent("gpu");
        return none(&format!(
            "no sample of a GPU: {}",
            why.unwrap_or("none fell within the point")
        ));
    }
    let engines: BTreeSet<u32> = all
        .iter()
        .filter(|s| processes(s).any(|p| p.engine == Some(true)))
        .map(|s| s.index)
        .collect();
    if engines.is_empty() {
        return Ok(all);
    }
    Ok(all
        .into_iter()
        .filter(|s| engines.contains(&s.index))
        .collect())
}

fn processes(sample: &GpuSample) -> impl Iterator<Item = &GpuProcess> {
    sample.processes.iter().flatten()
}

pub(super) fn gpu_isolation(facts: &Facts<'_>, point: &PointMeasure) -> Finding {
    let samples = match samples(facts, point) {
        Ok(samples) => samples,
        Err(finding) => return finding,
    };
    let foreign: BTreeMap<u32, &GpuProcess> = samples
        .iter()
        .flat_map(|s| processes(s))
        .filter(|p| p.engine == Some(false))
        .map(|p| (p.pid, p))
        .collect();
    let known = samples
        .iter()
        .any(|s| processes(s).any(|p| p.engine == Some(true)));
    if !known {
        return Finding::undecided(
            "no process on a card is known to be the engine's: whose the others are, nobody knows",
        )
        .remedied_by(
            "name the engine's process (engine.pid or engine.process), and run loadgen where \
             NVML shows processes, outside the engine's container",
        );
    }
    let cards: BTreeSet<u32> = samples.iter().map(|s| s.index).collect();
    let evidence = match foreign.values().next() {
        None => format!(
            "{} cards, {} samples: only the engine",
            cards.len(),
            samples.len()
        ),
        Some(first) => format!(
            "{} foreign processes; first pid {}{}",
            foreign.len(),
            first.pid,
            first
                .name
                .as_deref()
                .map_or_else(String::new, |n| format!(" ({n})"))
        ),
    };
    Finding::held(foreign.is_empty(), GateStatus::Fail, evidence)
        .measured(Some(foreign.len() as f64))
}

pub(super) fn gpu_throttle(facts: &Facts<'_>, point: &PointMeasure) -> Finding {
    let samples = match samples(facts, point) {
        Ok(samples) => samples,
        Err(finding) => return finding,
    };
    let said: Vec<&Vec<String>> = samples.iter().filter_map(|s| s.throttle.as_ref()).collect();
    if said.is_empty() {
        return Finding::undecided("the cards do not say why their clocks are held back")
            .remedied_by("use a card and a driver that report throttle reasons");
    }
    let is_held = |reason: &&String| HELD_BACK.contains(&reason.as_str());
    let held = said
        .iter()
        .filter(|r| r.iter().any(|r| is_held(&r)))
        .count();
    let reasons: BTreeSet<&str> = said
        .iter()
        .flat_map(|r| r.iter())
        .filter(is_held)
        .map(String::as_str)
        .collect();
    let share = held as f64 / said.len() as f64;
    let reasons: Vec<&str> = reasons.into_iter().collect();
    let evidence = match reasons.as_slice() {
        [] => format!("none of {} samples", said.len()),
        some => format!("{held} of {} samples: {}", said.len(), some.join(", ")),
    };
    Finding::held(share <= THROTTLED_SAMPLES, GateStatus::Fail, evidence).measured(Some(share))
}

pub(super) fn gpu_clocks(facts: &Facts<'_>, point: &PointMeasure) -> Finding {
    let samples = match samples(facts, point) {
        Ok(samples) => samples,
        Err(finding) => return finding,
    };
    let mut clocks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    let loaded = |s: &&&GpuSample| s.utilization.is_some_and(|u| u >= LOADED);
    for sample in samples.iter().filter(loaded) {
        let of_card = clocks.entry(sample.index).or_default();
        of_card.extend(sample.sm_clock_mhz.map(f64::from));
    }
    let most = clocks.values().map(Vec::len).max().unwrap_or(0);
    let spreads = clocks.into_iter().filter_map(|(card, mut mhz)| {
        mhz.sort_unstable_by(f64::total_cmp);
        let low = Percentile::P10
            .nearest(&mhz)
            .filter(|_| mhz.len() >= SAMPLES)?;
        let high = Percentile::P90.estimate(&mhz)?;
        Some((card, low, high, (high - low) / high))
    });
    let Some((card, low, high, spread)) = spreads.max_by(|a, b| a.3.total_cmp(&b.3)) else {
        return Finding::undecided(format!(
            "{most} samples of a clock under load; {SAMPLES} would do"
        ))
        .remedied_by(
            "measure for longer, with more load, or sample more often (telemetry.interval)",
        );
    };
    Finding::held(
        spread <= CLOCK_SPREAD,
        GateStatus::Fail,
        format!("card {card}: {low:.0} to {high:.0} MHz under load"),
    )
    .measured(Some(spread))
}
