//! What a terminal shows of a probe: who was probed, the sentences, the numbers, what stays hidden.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ContentArrangement, Table};

use super::measure::Group;
use super::report::Report;
use super::schedule::Experiment;
use super::verdict::bytes;
use crate::report::numbers::{NONE, or_none, with_interval};
use crate::stats::Summary;

/// Columns of text.
const WIDTH: usize = 100;

const LEGEND: &str = "medians, [low, high] = 95 % interval of the median (from 6 values on); \
                      – = not measured or not defined by this sample";

/// The whole text.
pub(super) fn of(report: &Report) -> String {
    let mut out = head(report);
    if let Some(why) = &report.failure {
        out.push_str(&format!("ended early: {why}\n"));
    }
    if report.verdict.is_empty() {
        out.push_str("\nnothing was measured\n");
        return out;
    }
    out.push_str("\nWhere the time goes\n");
    for sentence in &report.verdict {
        wrap(&mut out, &sentence.text);
    }
    out.push_str(&format!("\n{}\n{LEGEND}\n", table(report)));
    out.push_str("\nWhat cannot be told from outside\n");
    for line in &report.unknown {
        wrap(&mut out, line);
    }
    out
}

fn head(report: &Report) -> String {
    let engine = &report.engine;
    let name = engine.name.as_deref().unwrap_or("unknown engine");
    let mut out = format!(
        "{}  {}  {name}{}{}\n",
        report.url,
        engine.model.as_deref().unwrap_or(NONE),
        engine
            .version
            .as_ref()
            .map_or_else(String::new, |v| format!(" {v}")),
        if report.interrupted {
            "  (interrupted)"
        } else {
            ""
        },
    );
    if let Some(notice) = &report.notice {
        out.push_str(&format!("fake engine: {notice}\n"));
    }
    let requests = &report.requests;
    out.push_str(&format!(
        "{} requests in {:.1} s, {} with a whole answer; {} tokens asked for each; prompt lengths {}\n",
        requests.sent,
        report.seconds,
        requests.ok,
        report.asked.output_tokens,
        if report.prompt_lengths.exact {
            format!("exact ({})", report.prompt_lengths.source)
        } else {
            "estimated".to_owned()
        }
    ));
    let lag = &report.read_lag_ms;
    if lag.n > 0 {
        out.push_str(&format!(
            "own delay from the kernel's receipt to the read: p50 {} ms, p99 {} ms of {} events\n",
            or_none(lag.p50),
            or_none(lag.p99),
            lag.n
        ));
    }
    let process = &report.process;
    out.push_str(&match (process.pid, process.samples.len()) {
        (Some(pid), n) if n > 0 => format!(
            "process {pid} ({}), {n} samples every {:.0} ms ({} ms each){}\n",
            process.command.as_deref().unwrap_or("name unknown"),
            process.interval_ms,
            or_none(process.sample_ms.p50),
            process
                .reason
                .as_ref()
                .map_or_else(String::new, |why| format!("; {why}"))
        ),
        _ => format!(
            "process not watched: {}\n",
            process.reason.as_deref().unwrap_or("no samples")
        ),
    });
    out
}

/// Adds a point of a list, wrapped.
fn wrap(out: &mut String, text: &str) {
    let mut column = 2;
    out.push_str("- ");
    for (index, word) in text.split(' ').enumerate() {
        let long = word.chars().count();
        if index > 0 && column + 1 + long > WIDTH {
            out.push_str("\n  ");
            column = 2;
        } else if index > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += long;
    }
    out.push('\n');
}

fn table(report: &Report) -> String {
    let watched = report.process.memory.is_some();
    let mut columns = vec![
        "experiment",
        "prompt",
        "ok/sent",
        "TTFT ms",
        "gap ms",
        "gap p99",
        "E2E ms",
        "tok/s",
    ];
    if watched {
        columns.extend(["CPU s", "RSS peak", "threads"]);
    }
    let mut table = Table::new();
    table
        .load_style(UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(columns.clone());
    for group in &report.experiments {
        table.add_row(row(group, report.asked.at_once, watched));
    }
    for index in 1..columns.len() {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

fn row(group: &Group, at_once: u32, watched: bool) -> Vec<String> {
    let name = match group.experiment {
        Experiment::Opening => "first of all".to_owned(),
        Experiment::Cold => "cold".to_owned(),
        Experiment::Warm => "same again".to_owned(),
        Experiment::Whole => "in one piece".to_owned(),
        Experiment::Parallel => format!("{at_once} at once"),
    };
    let mut cells = vec![
        name,
        group.asked_tokens.to_string(),
        format!("{}/{}", group.ok, group.sent),
        with_interval(only(&group.ttft_ms), group.ttft_ms.ci95.p50),
        middle(&group.gap_ms),
        or_none(group.gap_ms.p99),
        with_interval(only(&group.e2e_ms), group.e2e_ms.ci95.p50),
        middle(&group.tokens_per_s),
    ];
    if watched {
        cells.extend([
            middle(&group.cpu_seconds),
            group
                .rss_peak_bytes
                .max
                .map_or_else(|| NONE.to_owned(), |b| bytes(b as u64)),
            group
                .threads_peak
                .max
                .map_or_else(|| NONE.to_owned(), |n| format!("{n:.0}")),
        ]);
    }
    cells
}

/// A median alone, or the one value there is.
fn middle(summary: &Summary) -> String {
    or_none(only(summary))
}

fn only(summary: &Summary) -> Option<f64> {
    summary.p50.or(summary.max.filter(|_| summary.n == 1))
}
