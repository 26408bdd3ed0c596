//! The first screen: verdict, what did not pass, what failed, and the numbers side by side.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ContentArrangement, Table};

use super::numbers::{NONE, median, or_none, percent, signed};
use crate::analysis::Analysis;
use crate::artifacts::manifest::{Calibration, StopReason};
use crate::gates::{Gate, GateStatus};
use crate::measure::aggregate::Point;
use crate::stats::Summary;

const INTERVALS: &str = "[low, high] = 95 % interval of the median; – = not defined by this sample";

/// The headline table: head and rows. Goodput and SLO have columns when the run has limits, and
/// intervals are left to the caller's `with_intervals`.
pub(crate) fn cells(
    analysis: &Analysis,
    with_intervals: bool,
) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let limits = analysis.config.slo.is_some();
    let mut head = vec!["point", "ok/planned", "req/s", "tok/s"];
    if limits {
        head.push("goodput/s");
    }
    head.extend(["TTFT p50 ms", "TPOT p50 ms", "ITL p50 ms", "E2E p50 ms"]);
    if limits {
        head.push("SLO");
    }
    let rows = analysis
        .points_by_load()
        .into_iter()
        .map(|point| row(point, limits, with_intervals))
        .collect();
    (head, rows)
}

fn row(point: &Point, limits: bool, with_intervals: bool) -> Vec<String> {
    let m = &point.metrics;
    let middle = |s: &Summary| {
        if with_intervals {
            median(s)
        } else {
            or_none(s.p50)
        }
    };
    let mut cells = vec![
        point.point_id.clone(),
        format!("{}/{}", point.requests.ok, point.requests.planned),
        or_none(point.throughput.requests_per_s),
        or_none(point.throughput.output_tokens_per_s),
    ];
    if limits {
        let goodput = point.goodput.as_ref();
        cells.push(or_none(goodput.and_then(|g| g.requests_per_s)));
    }
    cells.extend([
        median(&m.ttft_ms),
        middle(&m.tpot_ms),
        middle(&m.itl_event_ms),
        middle(&m.e2e_ms),
    ]);
    if limits {
        cells.push(match point.slo.as_ref().map(|slo| slo.met) {
            None => NONE.to_owned(),
            Some(Some(true)) => "met".to_owned(),
            Some(Some(false)) => "missed".to_owned(),
            Some(None) => "too few".to_owned(),
        });
    }
    cells
}

/// The first screen as plain text.
#[must_use]
pub fn text(analysis: &Analysis) -> String {
    let mut out = String::new();
    let mut say = |line: String| {
        out.push_str(&line);
        out.push('\n');
    };
    say(format!(
        "{}  {}{}",
        analysis.validation.status.label(),
        analysis.manifest.run_id,
        if analysis.manifest.interrupted {
            "  (interrupted)"
        } else {
            ""
        }
    ));
    if let Some(notice) = analysis.notice() {
        say(format!("fake engine: {notice}"));
    }
    say(table(analysis));
    say(INTERVALS.to_owned());
    for point in analysis.points_by_load() {
        let stopped = analysis.stop_reason(&point.point_id);
        if let Some(reason) = stopped.filter(|r| *r != StopReason::Requests) {
            say(format!("ended {}: by {}", point.point_id, reason.label()));
        }
        if let Some(line) = errors(point) {
            say(line);
        }
        for reason in point.slo.iter().flat_map(|slo| &slo.reasons) {
            say(format!("slo {}: {reason}", point.point_id));
        }
    }
    for line in differences(analysis) {
        say(line);
    }
    if let Some(line) = read_lag(analysis) {
        say(line);
    }
    say(instrument(&analysis.manifest.calibration));
    if let Some(join) = &analysis.join {
        say(format!(
            "joined {} unjoined {} duplicates {} records without a request {}; bytes equal {} of {}",
            join.joined,
            join.unjoined,
            join.duplicates,
            join.records_without_row,
            join.hashes.equal,
            join.hashes.compared
        ));
    }
    say(gate_counts(&analysis.validation.gates));
    for gate in analysis.validation.gates.iter().filter(|g| speaks(g)) {
        say(gate_line(gate));
    }
    out
}

fn table(analysis: &Analysis) -> String {
    let (head, rows) = cells(analysis, false);
    let columns = head.len();
    let mut table = Table::new();
    table
        .load_style(UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(head);
    for row in rows {
        table.add_row(row);
    }
    for index in 1..columns {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

fn errors(point: &Point) -> Option<String> {
    let all = point.requests.planned - point.requests.ok;
    let kinds: Vec<String> = point
        .errors
        .iter()
        .map(|(k, n)| format!("{k} {n}"))
        .collect();
    (all > 0).then(|| {
        format!(
            "not ok {}: {all} of {} ({} ok): {}",
            point.point_id,
            point.requests.planned,
            percent(point.success_rate),
            kinds.join(", ")
        )
    })
}

/// The instrument's own error in one line.
fn instrument(calibration: &Calibration) -> String {
    let Some(it) = &calibration.instrument else {
        let why = calibration.instrument_absent.as_deref();
        return format!(
            "instrument's own error: not known ({})",
            why.unwrap_or("not measured")
        );
    };
    let errors: Vec<String> = it
        .errors()
        .map(|(name, e)| format!("{name} p99 {} max {} ms", or_none(e.p99), or_none(e.max)))
        .collect();
    format!(
        "instrument's own error (upper bound, like {}): {}",
        it.point_id.as_deref().unwrap_or("no point"),
        errors.join(", ")
    )
}

/// Gateway minus direct, a line per load.
fn differences(analysis: &Analysis) -> Vec<String> {
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for it in &analysis.attribution.differences {
        let name = match it.metric.as_str() {
            "ttft_ms" => "TTFT",
            "tpot_ms" => "TPOT",
            "e2e_ms" => "E2E",
            _ => continue,
        };
        let part = format!("{name} {} ms", signed(it.difference));
        let key = format!("{} - {}", it.gateway, it.direct);
        match lines.last_mut().filter(|(last, _)| *last == key) {
            Some((_, parts)) => parts.push(part),
            None => lines.push((key, vec![part])),
        }
    }
    lines
        .into_iter()
        .map(|(key, parts)| format!("medians {key}: {}", parts.join(", ")))
        .collect()
}

/// How long bytes lay in the kernel before the client read them, where the kernel said.
fn read_lag(analysis: &Analysis) -> Option<String> {
    let parts: Vec<String> = analysis
        .points_by_load()
        .into_iter()
        .filter(|point| point.metrics.read_lag_ms.n > 0)
        .map(|point| {
            let lag = &point.metrics.read_lag_ms;
            let (p50, p99) = (or_none(lag.p50), or_none(lag.p99));
            format!("{} {p50}, {p99} ms", point.point_id)
        })
        .collect();
    (!parts.is_empty()).then(|| format!("read lag p50, p99: {}", parts.join("; ")))
}

/// How many gates found what.
#[must_use]
pub fn gate_counts(gates: &[Gate]) -> String {
    let count = |status| gates.iter().filter(|g| g.status == status).count();
    format!(
        "gates: {} passed, {} failed, {} undecided, {} not applicable",
        count(GateStatus::Pass),
        count(GateStatus::Fail),
        count(GateStatus::Undecided),
        count(GateStatus::NotApplicable)
    )
}

fn speaks(gate: &Gate) -> bool {
    matches!(gate.status, GateStatus::Fail | GateStatus::Undecided)
}

/// One gate in one line.
#[must_use]
pub fn gate_line(gate: &Gate) -> String {
    let mut line = format!("{} {} [{}]", gate.status.label(), gate.id, gate.scope);
    if let Some(measured) = gate.measured {
        line.push_str(&format!(": {}", super::numbers::short(measured)));
        if let Some(threshold) = gate.threshold {
            line.push_str(&format!(" against {}", super::numbers::short(threshold)));
        }
        if gate.unit != "1" {
            line.push_str(&format!(" {}", gate.unit));
        }
    }
    line.push_str(&format!(" – {}", gate.evidence));
    if speaks(gate) {
        line.push_str(&format!(
            "\n  points at: {}; remedy: {}",
            gate.blame.label(),
            gate.remedy
        ));
    }
    line
}
