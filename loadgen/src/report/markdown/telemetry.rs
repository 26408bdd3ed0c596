//! What was sampled beside each point, and what sampling cost.

use super::table;
use crate::analysis::Analysis;
use crate::report::numbers::{NONE, or_none, percent, short};
use crate::telemetry::SourceReport;
use crate::telemetry::usage::{GpuUsage, Usage};

const MIB: f64 = 1024.0 * 1024.0;

pub(super) fn telemetry(out: &mut String, analysis: &Analysis) {
    if analysis.manifest.telemetry.is_empty() {
        return;
    }
    out.push_str("## Telemetry\n\n");
    let points: Vec<(&str, &Usage)> = analysis
        .points_by_load()
        .into_iter()
        .filter_map(|p| Some((p.point_id.as_str(), p.telemetry.as_ref()?)))
        .collect();
    client_and_engine(out, &points);
    cards(out, &points);
    for source in &analysis.manifest.telemetry {
        if !source.available {
            out.push_str(&format!("- {}: {}\n", source.source, went(source)));
        }
    }
    out.push_str(
        "\nCores, shares and means are over each point's window, peaks over the whole point; – where \
         a source does not say. Waiting for a core is summed over threads.\n\n",
    );
}

fn client_and_engine(out: &mut String, points: &[(&str, &Usage)]) {
    let rows = points.iter().map(|(id, usage)| {
        let (engine, process) = (&usage.engine, &usage.process);
        vec![
            (*id).to_owned(),
            or_none(usage.client_cpu_cores),
            percent(usage.client_loop_cpu),
            percent(usage.client_run_wait),
            percent(usage.client_throttled),
            or_none(process.cpu_cores),
            mib(process.rss_peak_bytes),
            process
                .threads_peak
                .map_or_else(|| NONE.to_owned(), |n| n.to_string()),
            or_none(engine.running_peak),
            or_none(engine.waiting_peak),
            percent(engine.kv_usage_peak),
            or_none(engine.preemptions),
            percent(engine.prefix_hits),
        ]
    });
    let head = [
        "point",
        "client cores",
        "loop on a core",
        "waiting for one",
        "throttled",
        "engine cores",
        "engine MiB",
        "threads",
        "running",
        "queued",
        "KV cache",
        "preempted",
        "prefix hits",
    ];
    table(out, &head, rows);
}

fn cards(out: &mut String, points: &[(&str, &Usage)]) {
    let all = points
        .iter()
        .flat_map(|(id, usage)| usage.gpu.iter().map(move |card| (*id, *usage, card)));
    let rows: Vec<Vec<String>> = all.map(|(id, usage, card)| row(id, usage, card)).collect();
    if rows.is_empty() {
        return;
    }
    let head = [
        "point",
        "card",
        "used",
        "MiB",
        "W",
        "clock MHz",
        "°C",
        "held back by",
        "J",
        "tokens/J",
    ];
    table(out, &head, rows);
    let notes = points.iter().filter_map(|(id, usage)| {
        let why = usage.energy_note.as_ref()?;
        Some(format!("- {id}: energy not available: {why}\n"))
    });
    out.extend(notes);
}

fn row(id: &str, usage: &Usage, card: &GpuUsage) -> Vec<String> {
    let clock = match (card.sm_clock_min_mhz, card.sm_clock_max_mhz) {
        (Some(low), Some(high)) if low == high => low.to_string(),
        (Some(low), Some(high)) => format!("{low} to {high}"),
        _ => NONE.to_owned(),
    };
    let held = match &card.throttle {
        None => NONE.to_owned(),
        Some(reasons) if reasons.is_empty() => "nothing".to_owned(),
        Some(reasons) => reasons.join(", "),
    };
    let name = card.name.as_deref().unwrap_or("unnamed");
    // Energy per token is that of all the engine's cards; it stands beside each of them.
    let tokens = usage
        .output_tokens_per_joule
        .filter(|_| card.engine != Some(false));
    vec![
        id.to_owned(),
        format!("{} {name}", card.index),
        percent(card.utilization_mean),
        mib(card.memory_used_peak_bytes),
        or_none(card.power_mean_watts),
        clock,
        or_none(card.temperature_peak_celsius),
        held,
        or_none(card.energy_joules),
        or_none(tokens),
    ]
}

fn mib(bytes: Option<u64>) -> String {
    or_none(bytes.map(|b| b as f64 / MIB))
}

/// How a source went, for the environment table.
pub(super) fn went(source: &SourceReport) -> String {
    let subject = source
        .subject
        .as_ref()
        .map_or_else(String::new, |s| format!("{s}; "));
    let reason = source.reason.as_deref().unwrap_or("no reason given");
    if !source.available {
        return format!("{subject}not available: {reason}");
    }
    let every = source
        .interval_ms
        .map_or_else(String::new, |ms| format!(" every {} s", short(ms / 1e3)));
    let failed = match source.failed {
        0 => String::new(),
        n => format!("; {n} gave nothing: {reason}"),
    };
    format!(
        "{subject}{} samples{every}, {} ms each (at most {}), {} s of CPU in all{failed}",
        source.samples,
        or_none(source.sample_ms.p50),
        or_none(source.sample_ms.max),
        or_none(source.cpu_seconds),
    )
}
