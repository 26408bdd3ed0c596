//! One lane for each request: connecting, waiting for the head, open and empty, each output.

use super::{Frame, MARGIN, THICK};
use crate::probe::report::Report;
use crate::probe::row::Row;
use crate::probe::schedule::Experiment;
use crate::report::svg::{Anchor, Canvas};

/// What a lane's parts are called, with their classes.
const PARTS: [(&str, &str); 5] = [
    ("connecting", "f3"),
    ("sent, no answer yet", "f1"),
    ("head is there, nothing in it", "f1 faint"),
    ("output", "f0 faint"),
    ("stall", "alarm"),
];

pub(super) fn legend(canvas: &mut Canvas, y: f64) {
    let mut x = MARGIN;
    for (name, class) in PARTS {
        canvas.rect((x, y - 10.0), (14.0, 12.0), 2.0, class);
        canvas.text(x + 20.0, y, Anchor::Start, "ink", name);
        x += 20.0 + name.len() as f64 * 6.4 + 18.0;
    }
    canvas.line((x, y - 10.0), (x, y + 2.0), "s0");
    canvas.text(x + 8.0, y, Anchor::Start, "ink", "an event with output");
}

pub(super) fn draw(
    canvas: &mut Canvas,
    report: &Report,
    frame: &Frame,
    rows: &[&Row],
    top: f64,
    lane: f64,
) {
    let labelled = lane >= THICK;
    for (index, row) in rows.iter().enumerate() {
        let y = top + index as f64 * lane;
        if labelled {
            let label = label(row);
            canvas.text(
                frame.left() - 8.0,
                y + lane * 0.72,
                Anchor::End,
                "small ink",
                &label,
            );
        }
        one(canvas, report, frame, row, y, lane);
    }
    if !labelled {
        let middle = top + rows.len() as f64 * lane / 2.0;
        let label = format!("{} requests", rows.len());
        canvas.text(
            frame.left() - 8.0,
            middle,
            Anchor::End,
            "small soft",
            &label,
        );
    }
}

fn label(row: &Row) -> String {
    match row.experiment {
        Experiment::Opening => "first of all".to_owned(),
        Experiment::Cold => format!("{} tokens, cold", row.asked_tokens),
        Experiment::Warm => format!("{}, same again", row.asked_tokens),
        Experiment::Whole => format!("{}, in one piece", row.asked_tokens),
        Experiment::Parallel => format!("{}, at once", row.asked_tokens),
    }
}

fn one(canvas: &mut Canvas, report: &Report, frame: &Frame, row: &Row, y: f64, lane: f64) {
    let room = if lane >= THICK { 3.0 } else { 0.5 };
    let (top, height) = (y + room, lane - 2.0 * room);
    let mut bar = |from: f64, to: f64, class: &str| {
        let (from, to) = (frame.at(from), frame.at(to));
        canvas.rect((from, top), ((to - from).max(0.6), height), 0.0, class);
    };
    let sent = row.sent_ms.unwrap_or(row.end_ms);
    bar(row.start_ms, sent, PARTS[0].1);
    let head = row.at(row.head_ms).unwrap_or(row.end_ms);
    let first = row.at(row.ttft_ms);
    bar(sent, head.min(first.unwrap_or(head)), PARTS[1].1);
    if let Some(first) = first {
        bar(head, first, PARTS[2].1);
        bar(first, row.end_ms, PARTS[3].1);
    }
    // Ticks closer than a few pixels would only be a block of colour.
    if lane >= THICK {
        for at in row.output_ms.iter().filter_map(|&at| row.at(Some(at))) {
            let x = frame.at(at);
            canvas.line((x, top), (x, top + height), "s0");
        }
    }
    for stall in report.stalls.iter().flat_map(|s| &s.stalls) {
        if stall.seq == row.seq {
            let (from, to) = (frame.at(stall.at_ms - stall.gap_ms), frame.at(stall.at_ms));
            let thick = (height / 3.0).max(2.0);
            let middle = top + (height - thick) / 2.0;
            canvas.rect(
                (from, middle),
                ((to - from).max(2.0), thick),
                0.0,
                PARTS[4].1,
            );
        }
    }
    if !row.ok() {
        let kind = row.error_kind.as_deref().unwrap_or("failed");
        let x = frame.at(row.end_ms);
        if lane >= THICK {
            canvas.text(x + 4.0, y + lane * 0.72, Anchor::Start, "small alarm", kind);
        } else {
            canvas.rect((x, top), (3.0, height), 0.0, PARTS[4].1);
        }
    }
}
