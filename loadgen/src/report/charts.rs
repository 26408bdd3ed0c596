//! The charts of a run, as SVG files by name.

mod distribution;
mod load;
mod panel;
mod waterfall;

pub(super) use waterfall::chosen;

use super::svg::{Anchor, Canvas};
use crate::analysis::Analysis;

/// Width of every chart.
const WIDTH: f64 = 960.0;
/// Margin around everything.
const MARGIN: f64 = 24.0;

/// Every chart that the run has data for: file name and SVG text.
#[must_use]
pub fn all(analysis: &Analysis) -> Vec<(&'static str, String)> {
    [
        ("throughput.svg", load::throughput(analysis)),
        ("ttft.svg", distribution::ttft(analysis)),
        ("itl.svg", distribution::itl(analysis)),
        ("waterfall.svg", waterfall::median_request(analysis)),
    ]
    .into_iter()
    .filter_map(|(name, svg)| Some((name, svg?)))
    .collect()
}

/// Title, subtitle and the notice of a chart; returns where its content may begin.
fn head(canvas: &mut Canvas, analysis: &Analysis, title: &str, subtitle: &str) -> f64 {
    canvas.text(MARGIN, 34.0, Anchor::Start, "title ink", title);
    canvas.text(MARGIN, 54.0, Anchor::Start, "soft", subtitle);
    if let Some(notice) = analysis.notice() {
        let text = format!("fake engine: {notice}");
        let width = text.len() as f64 * 6.6 + 20.0;
        let x = WIDTH - MARGIN - width;
        canvas.rect((x, 18.0), (width, 24.0), 4.0, "notice-bg");
        canvas.text(x + width / 2.0, 34.0, Anchor::Middle, "notice", &text);
    }
    70.0
}

/// Class of a series' line: colour by arm, dashes for every second one.
fn line_class(series: usize) -> String {
    let dash = if series % 2 == 1 { " dash" } else { "" };
    format!("line s{}{dash}", series % 4)
}

/// The arms in the manifest's order.
fn arms(analysis: &Analysis) -> Vec<&str> {
    analysis
        .manifest
        .arms
        .iter()
        .map(|a| a.name.as_str())
        .collect()
}

/// A legend entry; returns where the next one may begin.
fn legend(canvas: &mut Canvas, x: f64, y: f64, class: &str, label: &str) -> f64 {
    canvas.line((x, y - 4.0), (x + 26.0, y - 4.0), class);
    canvas.text(x + 32.0, y, Anchor::Start, "ink", label);
    x + 32.0 + label.chars().count() as f64 * 7.0 + 22.0
}
