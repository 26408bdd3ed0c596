//! CPU, memory and threads of the engine's process below the lanes, on the same axis.

use super::{Frame, MARGIN};
use crate::probe::life::Sample;
use crate::probe::report::Report;
use crate::probe::verdict::bytes;
use crate::report::svg::{Anchor, Axis, Canvas, tick_label};

/// Height of one strip, and of the line that stands in for them.
const STRIP: f64 = 50.0;
const LINE: f64 = 24.0;
/// Room inside a strip above and below its curve.
const ROOM: f64 = 6.0;

/// One curve.
struct Strip<'a> {
    name: &'a str,
    /// Milliseconds since the probe's start, and values.
    points: Vec<(f64, f64)>,
    /// How a value is written.
    label: &'a dyn Fn(f64) -> String,
    colour: usize,
}

pub(super) fn height(report: &Report) -> f64 {
    if report.process.samples.len() < 2 {
        LINE
    } else {
        3.0 * STRIP
    }
}

pub(super) fn draw(canvas: &mut Canvas, report: &Report, frame: &Frame, top: f64) {
    let samples = &report.process.samples;
    if samples.len() < 2 {
        let why = report.process.reason.as_deref().unwrap_or("no samples");
        let text = format!("process not watched: {why}");
        canvas.text(frame.left(), top + 14.0, Anchor::Start, "small soft", &text);
        return;
    }
    let cores: Vec<(f64, f64)> = samples
        .windows(2)
        .filter(|w| w[1].at_ms > w[0].at_ms)
        .flat_map(|w| {
            let used = (w[1].cpu_seconds - w[0].cpu_seconds) / ((w[1].at_ms - w[0].at_ms) / 1e3);
            [(w[0].at_ms, used), (w[1].at_ms, used)]
        })
        .collect();
    let series = |value: &dyn Fn(&Sample) -> f64| -> Vec<(f64, f64)> {
        samples.iter().map(|s| (s.at_ms, value(s))).collect()
    };
    let memory = |b: f64| bytes(b as u64);
    let used = |c: f64| format!("{c:.2}");
    let strips = [
        Strip {
            name: "cores",
            points: cores,
            label: &used,
            colour: 2,
        },
        Strip {
            name: "memory",
            points: series(&|s| s.rss_bytes as f64),
            label: &memory,
            colour: 0,
        },
        Strip {
            name: "threads",
            points: series(&|s| f64::from(s.threads)),
            label: &tick_label,
            colour: 3,
        },
    ];
    for (index, strip) in strips.iter().enumerate() {
        one(canvas, frame, top + index as f64 * STRIP, strip);
    }
}

fn one(canvas: &mut Canvas, frame: &Frame, top: f64, strip: &Strip<'_>) {
    let Strip {
        name,
        points,
        label,
        colour,
    } = strip;
    let bottom = top + STRIP;
    canvas.line((frame.left(), bottom), (frame.right(), bottom), "grid");
    canvas.text(
        MARGIN,
        top + STRIP / 2.0 + 4.0,
        Anchor::Start,
        "small ink",
        name,
    );
    let inside: Vec<(f64, f64)> = points
        .iter()
        .copied()
        .filter(|(at, _)| (frame.from_ms..=frame.to_ms).contains(at))
        .collect();
    let Some(high) = inside.iter().map(|p| p.1).reduce(f64::max) else {
        return;
    };
    let low = inside.iter().map(|p| p.1).reduce(f64::min).unwrap_or(high);
    // Cores from zero; memory and threads hardly change, so their own range is drawn.
    let base = if *name == "cores" { 0.0 } else { low };
    let y = Axis::exact(
        (high - base).max(f64::MIN_POSITIVE),
        bottom - ROOM,
        top + ROOM,
    );
    let flat = high <= base;
    let place = |v: f64| {
        if flat {
            top + STRIP / 2.0
        } else {
            y.at(v - base)
        }
    };
    canvas.text(
        frame.left() - 8.0,
        top + ROOM + 6.0,
        Anchor::End,
        "small soft",
        &label(high),
    );
    if !flat {
        canvas.text(
            frame.left() - 8.0,
            bottom - ROOM + 2.0,
            Anchor::End,
            "small soft",
            &label(base),
        );
    }
    let line: Vec<(f64, f64)> = inside
        .iter()
        .map(|&(at, v)| (frame.at(at), place(v)))
        .collect();
    canvas.polyline(&line, &format!("line s{colour}"));
}
