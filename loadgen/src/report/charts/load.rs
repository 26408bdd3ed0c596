//! Throughput and goodput over the load, arms beside each other.

use super::panel::Panel;
use super::{Anchor, Canvas, MARGIN, WIDTH, arms, head, legend, line_class};
use crate::analysis::Analysis;
use crate::config::LoadKind;
use crate::measure::aggregate::Point;
use crate::report::svg::{Axis, tick_label};

const HEIGHT: f64 = 400.0;
const PLOT_HEIGHT: f64 = 230.0;

type Value = fn(&Point) -> Option<f64>;

/// Requests per second (with goodput) and output tokens per second. None without a point.
pub(super) fn throughput(analysis: &Analysis) -> Option<String> {
    let points = &analysis.aggregate.points;
    let kind = points.first()?.load.kind;
    let x_label = match kind {
        LoadKind::Concurrency => "requests in flight (closed loop)",
        LoadKind::Rate => "planned requests per second (open loop)",
        LoadKind::Ramp => "a rate that rises or falls (open loop)",
        LoadKind::Stages => "rates one after the other (open loop)",
        LoadKind::Replay => "replayed workload",
    };
    let mut canvas = Canvas::new(WIDTH);
    let subtitle = "Answers completed inside the window, per second of the window";
    let top = head(&mut canvas, analysis, "Throughput over load", subtitle);
    let limits = points.iter().any(|p| p.goodput.is_some());
    let mut x = MARGIN;
    for (series, arm) in arms(analysis).iter().enumerate() {
        x = legend(&mut canvas, x, top + 16.0, &line_class(series), arm);
    }
    if limits {
        let label = "dotted, hollow: goodput (within the SLO)";
        canvas.text(x, top + 16.0, Anchor::Start, "soft", label);
    }
    let width = (WIDTH - 2.0 * MARGIN) / 2.0;
    let requests: Value = |p| p.throughput.requests_per_s;
    let goodput: Value = |p| p.goodput.as_ref().and_then(|g| g.requests_per_s);
    let tokens: Value = |p| p.throughput.output_tokens_per_s;
    let mut panel = |left: f64, title: &str, solid: Value, dotted: Option<Value>| {
        let panel = Panel {
            left: left + 56.0,
            right: left + width - 16.0,
            top: top + 56.0,
            bottom: top + 56.0 + PLOT_HEIGHT,
        };
        panel.captions(&mut canvas, title, x_label);
        draw_panel(&panel, &mut canvas, analysis, solid, dotted);
    };
    panel(MARGIN, "requests/s", requests, limits.then_some(goodput));
    panel(MARGIN + width, "output tokens/s", tokens, None);
    Some(canvas.finish(HEIGHT, "Throughput over load", &description(points)))
}

fn draw_panel(
    panel: &Panel,
    canvas: &mut Canvas,
    analysis: &Analysis,
    solid: Value,
    dotted: Option<Value>,
) {
    let Panel {
        left,
        right,
        top,
        bottom,
    } = *panel;
    let points = &analysis.aggregate.points;
    let values = points
        .iter()
        .flat_map(|p| [solid(p), dotted.and_then(|d| d(p))]);
    let y = Axis::linear(values.flatten().fold(0.0, f64::max), bottom, top);
    for tick in y.ticks(5) {
        panel.level(canvas, y.at(tick), &tick_label(tick));
    }
    panel.base(canvas);

    // Loads stand at equal distances: a ladder is read step by step, whatever its steps.
    let mut loads: Vec<f64> = points.iter().map(|p| p.load.value.unwrap_or(0.0)).collect();
    loads.sort_unstable_by(f64::total_cmp);
    loads.dedup();
    let slot = (right - left) / loads.len() as f64;
    let x = |load: f64| {
        let index = loads.iter().position(|&l| l == load).unwrap_or(0);
        left + slot * (index as f64 + 0.5)
    };
    for &load in &loads {
        let label = points
            .iter()
            .find(|p| p.load.value.unwrap_or(0.0) == load)
            .map_or_else(String::new, |p| {
                p.load.value.map_or_else(|| "replay".to_owned(), tick_label)
            });
        canvas.text(x(load), bottom + 18.0, Anchor::Middle, "small ink", &label);
    }
    for (series, arm) in arms(analysis).iter().enumerate() {
        let mut draw = |value: Value, class: &str, hollow: bool| {
            let mut line: Vec<(f64, f64)> = points
                .iter()
                .filter(|p| p.arm == *arm)
                .filter_map(|p| Some((x(p.load.value.unwrap_or(0.0)), y.at(value(p)?))))
                .collect();
            line.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
            canvas.polyline(&line, class);
            for (px, py) in line {
                canvas.marker(px, py, series, hollow);
            }
        };
        draw(solid, &line_class(series), false);
        if let Some(dotted) = dotted {
            draw(dotted, &format!("line dot s{}", series % 4), true);
        }
    }
}

fn description(points: &[Point]) -> String {
    points
        .iter()
        .map(|p| {
            let rate = p.throughput.requests_per_s;
            format!(
                "{}: {} requests/s",
                p.point_id,
                crate::report::numbers::or_none(rate)
            )
        })
        .collect::<Vec<_>>()
        .join("; ")
}
