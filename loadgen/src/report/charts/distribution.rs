//! Distributions of TTFT and ITL: the share of values at or below each value, a panel per load.

use super::panel::Panel;
use super::{Anchor, Canvas, MARGIN, WIDTH, arms, head, legend, line_class};
use crate::analysis::Analysis;
use crate::measure::aggregate::Point;
use crate::measure::point::Curves;
use crate::report::numbers::short;
use crate::report::svg::{Axis, tick_label};
use crate::stats::Summary;

const PANELS_A_ROW: usize = 3;
const PANEL_HEIGHT: f64 = 272.0;
const PLOT_HEIGHT: f64 = 170.0;
/// Values below are drawn at the left edge: a gap of zero has no place on a logarithmic axis.
const FLOOR_MS: f64 = 0.01;

/// A point and its distribution.
type Curve<'a> = (&'a Point, &'a [(f64, f64)]);

struct Kind {
    title: &'static str,
    subtitle: &'static str,
    x_label: &'static str,
    curve: fn(&Curves) -> &[(f64, f64)],
    summary: fn(&Point) -> &Summary,
}

pub(super) fn ttft(analysis: &Analysis) -> Option<String> {
    draw(
        analysis,
        &Kind {
            title: "Time to first token",
            subtitle: "Share of ok answers at or below each value; logarithmic axis",
            x_label: "TTFT, ms",
            curve: |c| &c.ttft,
            summary: |p| &p.metrics.ttft_ms,
        },
    )
}

pub(super) fn itl(analysis: &Analysis) -> Option<String> {
    draw(
        analysis,
        &Kind {
            title: "Gap between output events",
            subtitle: "Share of gaps at or below each value; logarithmic axis, gaps below 0.01 ms \
                       at its left edge",
            x_label: "gap, ms",
            curve: |c| &c.itl,
            summary: |p| &p.metrics.itl_event_ms,
        },
    )
}

fn draw(analysis: &Analysis, kind: &Kind) -> Option<String> {
    let series: Vec<Curve<'_>> = analysis
        .aggregate
        .points
        .iter()
        .zip(&analysis.curves)
        .map(|(p, c)| (p, (kind.curve)(c)))
        .filter(|(_, curve)| !curve.is_empty())
        .collect();
    let values = || {
        series
            .iter()
            .flat_map(|(_, curve)| curve.iter().map(|(v, _)| *v))
    };
    let low = values().fold(f64::INFINITY, f64::min);
    let high = values().fold(0.0, f64::max);
    if !low.is_finite() {
        return None;
    }
    let mut loads: Vec<String> = Vec::new();
    for (point, _) in &series {
        let label = point.load.label();
        if !loads.contains(&label) {
            loads.push(label);
        }
    }

    let mut canvas = Canvas::new(WIDTH);
    let top = head(&mut canvas, analysis, kind.title, kind.subtitle);
    let mut x = MARGIN;
    for (index, arm) in arms(analysis).iter().enumerate() {
        x = legend(&mut canvas, x, top + 16.0, &line_class(index), arm);
    }
    let columns = loads.len().clamp(1, PANELS_A_ROW);
    let width = (WIDTH - 2.0 * MARGIN) / columns as f64;
    let top = top + 40.0;
    for (index, load) in loads.iter().enumerate() {
        let top = top + (index / columns) as f64 * PANEL_HEIGHT + 24.0;
        let panel = Panel {
            left: MARGIN + (index % columns) as f64 * width + 44.0,
            right: MARGIN + (index % columns + 1) as f64 * width - 14.0,
            top,
            bottom: top + PLOT_HEIGHT,
        };
        let axis = Axis::log(low.max(FLOOR_MS), high, panel.left, panel.right);
        let curves: Vec<_> = series
            .iter()
            .filter(|(p, _)| p.load.label() == *load)
            .copied()
            .collect();
        draw_panel(&panel, &mut canvas, analysis, kind, axis, (load, &curves));
    }
    let height = top + loads.len().div_ceil(columns) as f64 * PANEL_HEIGHT + 8.0;
    let description = series
        .iter()
        .map(|(p, _)| format!("{}: median {} ms", p.point_id, median(kind, p)))
        .collect::<Vec<_>>()
        .join("; ");
    Some(canvas.finish(height, kind.title, &description))
}

fn median(kind: &Kind, point: &Point) -> String {
    (kind.summary)(point)
        .p50
        .map_or_else(|| "undefined".to_owned(), short)
}

fn draw_panel(
    panel: &Panel,
    canvas: &mut Canvas,
    analysis: &Analysis,
    kind: &Kind,
    x: Axis,
    (load, curves): (&str, &[Curve<'_>]),
) {
    let Panel {
        left,
        right,
        top,
        bottom,
    } = *panel;
    let y = |share: f64| bottom - share * PLOT_HEIGHT;
    panel.captions(canvas, &panel_title(load), kind.x_label);
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        panel.level(canvas, y(share), &format!("{:.0} %", share * 100.0));
    }
    for tick in x.ticks(((right - left) / 55.0) as usize) {
        let at = x.at(tick);
        canvas.line((at, top), (at, bottom), "grid");
        canvas.text(
            at,
            bottom + 16.0,
            Anchor::Middle,
            "small soft",
            &tick_label(tick),
        );
    }
    panel.base(canvas);
    for (index, arm) in arms(analysis).iter().enumerate() {
        let Some((point, curve)) = curves.iter().find(|(p, _)| p.arm == *arm) else {
            continue;
        };
        // A step function: it rises at each value.
        let mut line = Vec::with_capacity(curve.len() * 2);
        let mut share = 0.0;
        for &(value, next) in *curve {
            line.push((x.at(value), y(share)));
            line.push((x.at(value), y(next)));
            share = next;
        }
        line.push((right, y(1.0)));
        canvas.polyline(&line, &line_class(index));
        let note = format!("{arm} p50 {} ms", median(kind, point));
        let class = format!("small f{}", index % 4);
        let (at, anchor) = if index % 2 == 0 {
            (left, Anchor::Start)
        } else {
            (right, Anchor::End)
        };
        let y = bottom + 54.0 + (index / 2) as f64 * 15.0;
        canvas.text(at, y, anchor, &class, &note);
    }
}

fn panel_title(load: &str) -> String {
    match load.split_at(1) {
        ("c", n) => format!("concurrency {n}"),
        ("r", n) if n.starts_with(|c: char| c.is_ascii_digit()) => format!("{n} requests/s"),
        _ => load.to_owned(),
    }
}
