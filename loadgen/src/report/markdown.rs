//! The report of a run as Markdown: the verdict first, then numbers, then where they come from.

mod counted;
mod instrument;
mod sections;
mod telemetry;
mod time;

use std::fmt::Write as _;
use std::path::Path;

use super::headline;
use super::numbers::{or_none, percent, short};
use crate::analysis::Analysis;
use crate::artifacts::layout::RunDir;
use crate::gates::{Gate, GateStatus, Status, rules};

/// The whole report.
#[must_use]
pub fn report(run: &RunDir, analysis: &Analysis) -> String {
    let mut out = String::new();
    verdict(&mut out, analysis);
    numbers(&mut out, analysis);
    instrument::own_error(&mut out, &analysis.manifest.calibration);
    sections::charts(&mut out, run, analysis);
    sections::distributions(&mut out, analysis);
    sections::differences(&mut out, analysis);
    time::attribution(&mut out, analysis);
    time::waterfall(&mut out, analysis);
    telemetry::telemetry(&mut out, analysis);
    gates(&mut out, analysis);
    counted::counted(&mut out, analysis);
    sections::environment(&mut out, analysis);
    sections::reproduce(&mut out, analysis);
    sections::artifacts(&mut out, run, analysis);
    out
}

/// Columns that hold words; all others but the first hold numbers and are aligned right.
const TEXT_COLUMNS: [&str; 7] = [
    "evidence",
    "found",
    "unit",
    "whose",
    "value",
    "metric",
    "what it holds",
];

/// A Markdown table.
pub(super) fn table(out: &mut String, head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head: Vec<String> = head.iter().map(|&h| h.to_owned()).collect();
    out.push_str(&line(&head));
    let rule: Vec<String> = head
        .iter()
        .enumerate()
        .map(|(i, name)| {
            let is_text = i == 0 || TEXT_COLUMNS.contains(&name.as_str());
            if is_text { "---" } else { "---:" }.to_owned()
        })
        .collect();
    out.push_str(&line(&rule));
    for row in rows {
        let cells: Vec<String> = row.iter().map(|c| cell(c)).collect();
        out.push_str(&line(&cells));
    }
    out.push('\n');
}

/// Text that cannot break out of its cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace(['\n', '\r'], " ")
}

fn verdict(out: &mut String, analysis: &Analysis) {
    let status = analysis.validation.status;
    let _ = writeln!(
        out,
        "# Run {}: {}\n",
        analysis.manifest.run_id,
        status.label()
    );
    if let Some(notice) = analysis.notice() {
        let _ = writeln!(
            out,
            "> **Fake engine: {notice}.** Its times are made; they say whether the instruments \
             agree, not how fast anything is.\n"
        );
    }
    if analysis.manifest.interrupted {
        out.push_str("> **Interrupted.** What was measured until then is below.\n\n");
    }
    let meaning = match status {
        Status::Valid => "No gate failed and none is undecided: the numbers below can be used.",
        Status::Invalid => "At least one gate failed: don't use the numbers below.",
        Status::Inconclusive => "No gate failed, but at least one could not be decided.",
    };
    let counts = headline::gate_counts(&analysis.validation.gates);
    let _ = writeln!(out, "{meaning} Of the {counts}.\n");
    let open: Vec<_> = analysis
        .validation
        .gates
        .iter()
        .filter(|g| matches!(g.status, GateStatus::Fail | GateStatus::Undecided))
        .collect();
    if !open.is_empty() {
        for gate in open {
            let _ = writeln!(
                out,
                "- **{} {}** ({}): {} Points at: {}. Remedy: {}.",
                gate.status.label(),
                gate.id,
                gate.scope,
                sentence(&gate.evidence),
                gate.blame.label(),
                gate.remedy
            );
        }
        out.push('\n');
    }
}

/// Text that ends with a full stop.
fn sentence(text: &str) -> String {
    let text = text.trim_end_matches('.');
    format!("{text}.")
}

fn numbers(out: &mut String, analysis: &Analysis) {
    out.push_str("## Numbers\n\n");
    let (head, rows) = headline::cells(analysis, true);
    table(out, &head, rows);
    out.push_str(
        "Medians with their 95 % intervals by order statistics; – where the sample does not \
         define a value. Rates refer to each point's window. Failed, incomplete and dropped \
         requests stay in every denominator.\n\n",
    );
    for point in analysis.points_by_load() {
        if !point.errors.is_empty() {
            let kinds: Vec<String> = point
                .errors
                .iter()
                .map(|(kind, n)| format!("{} {n}", cell(kind)))
                .collect();
            let _ = writeln!(
                out,
                "- `{}`: {} of {} planned requests ended ok ({}); the others: {}.",
                point.point_id,
                point.requests.ok,
                point.requests.planned,
                percent(point.success_rate),
                kinds.join(", ")
            );
        }
        if let Some(reason) = point.goodput.as_ref().and_then(|g| g.reason.as_ref()) {
            let _ = writeln!(out, "- `{}` goodput: {reason}.", point.point_id);
        }
        for reason in point.slo.iter().flat_map(|slo| &slo.reasons) {
            let _ = writeln!(out, "- `{}` SLO: {reason}.", point.point_id);
        }
    }
    if let Some(slo) = analysis.config.slo.as_deref() {
        let _ = writeln!(
            out,
            "{}SLO: `{slo}`.",
            if out.ends_with("\n\n") { "" } else { "\n" }
        );
    }
    if !out.ends_with("\n\n") {
        out.push('\n');
    }
}

/// One row per gate: what it found on how many scopes, and the evidence of its worst.
fn gates(out: &mut String, analysis: &Analysis) {
    out.push_str("## Gates\n\n");
    let rows = rules().map(|rule| {
        let all: Vec<&Gate> = analysis
            .validation
            .gates
            .iter()
            .filter(|g| g.id == rule.id)
            .collect();
        let found = [
            GateStatus::Fail,
            GateStatus::Undecided,
            GateStatus::Pass,
            GateStatus::NotApplicable,
        ];
        let counts: Vec<String> = found
            .into_iter()
            .map(|status| (status, all.iter().filter(|g| g.status == status).count()))
            .filter(|(_, n)| *n > 0)
            .map(|(status, n)| format!("{} {n}", status.label()))
            .collect();
        let worst = found
            .into_iter()
            .find_map(|status| all.iter().find(|g| g.status == status));
        let measured: Vec<f64> = all.iter().filter_map(|g| g.measured).collect();
        let low = measured.iter().copied().reduce(f64::min);
        let high = measured.iter().copied().reduce(f64::max);
        let range = match (low, high) {
            (Some(low), Some(high)) if low < high => format!("{} – {}", short(low), short(high)),
            (low, _) => or_none(low),
        };
        let scoped = |g: &&Gate| match g.scope.as_str() {
            "run" => g.evidence.clone(),
            scope => format!("{scope}: {}", g.evidence),
        };
        vec![
            rule.id.to_owned(),
            counts.join(", "),
            range,
            or_none(worst.and_then(|g| g.threshold)),
            if rule.unit == "1" { "share" } else { rule.unit }.to_owned(),
            worst.map(scoped).unwrap_or_default(),
        ]
    });
    let head = ["gate", "found", "measured", "threshold", "unit", "evidence"];
    table(out, &head, rows);
    out.push_str("Every gate on every point: `loadgen validate` or `validation.json`.\n\n");
}

/// `to` as seen from the directory of `from`; absolute when they share nothing.
pub(super) fn relative(from: &Path, to: &Path) -> String {
    let base = from.parent().unwrap_or(Path::new(""));
    let (base, target): (Vec<_>, Vec<_>) = (base.components().collect(), to.components().collect());
    let shared = base.iter().zip(&target).take_while(|(a, b)| a == b).count();
    if shared == 0 && to.is_absolute() {
        return to.display().to_string();
    }
    let up = std::iter::repeat_n("..".to_owned(), base.len() - shared);
    let down = target[shared..]
        .iter()
        .map(|c| c.as_os_str().to_string_lossy().into_owned());
    up.chain(down).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_are_found_from_the_report() {
        let seen = |from: &str, to: &str| relative(Path::new(from), Path::new(to));
        assert_eq!(
            seen("reports/generated/r.md", "results/charts/r/ttft.svg"),
            "../../results/charts/r/ttft.svg"
        );
        assert_eq!(
            seen("/x/d/reports/r.md", "/x/d/charts/r/a.svg"),
            "../charts/r/a.svg"
        );
    }

    #[test]
    fn a_message_cannot_break_a_table() {
        assert_eq!(cell("a|b\nc"), "a\\|b c");
    }
}
