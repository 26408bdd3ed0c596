//! One median request: each part of its way as a bar, each event as a tick.

use super::{Anchor, Canvas, MARGIN, WIDTH, head};
use crate::analysis::Analysis;
use crate::attribution::PointAttribution;
use crate::attribution::chain::Owner;
use crate::attribution::waterfall::{Bar, Waterfall};
use crate::config::ArmKind;
use crate::report::numbers::short;
use crate::report::svg::{Axis, tick_label};

const ROW: f64 = 24.0;
const LABELS: f64 = 190.0;
const VALUES: f64 = 110.0;

/// The point whose median request is drawn: the highest load through a gateway, else the last.
pub(crate) fn chosen(analysis: &Analysis) -> Option<(&PointAttribution, &Waterfall)> {
    let with = |p: &&PointAttribution| p.waterfall.is_some();
    let points = &analysis.attribution.points;
    let gateway = points
        .iter()
        .rfind(|p| with(p) && analysis.arm_kind(&p.arm) == Some(ArmKind::Gateway));
    let point = gateway.or_else(|| points.iter().rfind(with))?;
    Some((point, point.waterfall.as_ref()?))
}

pub(super) fn median_request(analysis: &Analysis) -> Option<String> {
    let (point, it) = chosen(analysis)?;
    let mut canvas = Canvas::new(WIDTH);
    let subtitle = format!(
        "{} — {} ms from first write to end",
        it.request_id,
        short(it.total_ms)
    );
    let title = format!("The median request of {}", point.point_id);
    let top = head(&mut canvas, analysis, &title, &subtitle);
    owners(&mut canvas, top + 14.0);

    let lanes: Vec<(&str, &[f64], usize)> = [
        ("gateway reads pieces", it.read_ms.as_slice(), 1),
        ("gateway has written", it.written_ms.as_slice(), 1),
        ("client reads events", it.client_ms.as_slice(), 0),
    ]
    .into_iter()
    .filter(|(_, ticks, _)| !ticks.is_empty())
    .collect();
    let first = top + 36.0;
    let rows = it.bars.len() + lanes.len();
    let bottom = first + rows as f64 * ROW;
    let (left, right) = (MARGIN + LABELS, WIDTH - MARGIN - VALUES);
    let x = Axis::linear(it.total_ms, left, right);
    for tick in x.ticks(8) {
        let at = x.at(tick);
        canvas.line((at, first - 4.0), (at, bottom), "grid");
        canvas.text(
            at,
            bottom + 16.0,
            Anchor::Middle,
            "small soft",
            &tick_label(tick),
        );
    }
    canvas.line((left, bottom), (right, bottom), "axis");
    canvas.text(
        f64::midpoint(left, right),
        bottom + 36.0,
        Anchor::Middle,
        "soft",
        "ms since the request's first write",
    );
    for (index, bar) in it.bars.iter().enumerate() {
        draw_bar(&mut canvas, x, first + index as f64 * ROW, bar);
    }
    for (index, (label, ticks, class)) in lanes.iter().enumerate() {
        let y = first + (it.bars.len() + index) as f64 * ROW;
        canvas.text(left - 10.0, y + 16.0, Anchor::End, "ink", label);
        for &tick in *ticks {
            let at = x.at(tick);
            canvas.line((at, y + 4.0), (at, y + ROW - 4.0), &format!("s{class}"));
        }
        let count = format!("{} times", ticks.len());
        canvas.text(WIDTH - MARGIN, y + 16.0, Anchor::End, "small soft", &count);
    }
    let description = it
        .bars
        .iter()
        .map(|b| format!("{}: {} ms", b.name, short(b.end_ms - b.start_ms)))
        .collect::<Vec<_>>()
        .join("; ");
    Some(canvas.finish(bottom + 52.0, &title, &description))
}

fn draw_bar(canvas: &mut Canvas, x: Axis, y: f64, bar: &Bar) {
    canvas.text(
        MARGIN + LABELS - 10.0,
        y + 16.0,
        Anchor::End,
        "ink",
        &bar.name,
    );
    let (from, to) = (
        x.at(bar.start_ms.min(bar.end_ms)),
        x.at(bar.end_ms.max(bar.start_ms)),
    );
    let class = format!("f{}", colour(bar.owner));
    canvas.rect(
        (from, y + 5.0),
        ((to - from).max(1.5), ROW - 10.0),
        2.0,
        &class,
    );
    let value = format!("{} ms", short(bar.end_ms - bar.start_ms));
    canvas.text(WIDTH - MARGIN, y + 16.0, Anchor::End, "small ink", &value);
}

fn colour(owner: Owner) -> usize {
    match owner {
        Owner::Client => 0,
        Owner::Gateway => 1,
        Owner::Engine => 2,
        Owner::Wire => 3,
    }
}

fn owners(canvas: &mut Canvas, y: f64) {
    let mut x = MARGIN;
    for owner in [Owner::Client, Owner::Wire, Owner::Gateway, Owner::Engine] {
        canvas.rect(
            (x, y - 9.0),
            (12.0, 12.0),
            2.0,
            &format!("f{}", colour(owner)),
        );
        canvas.text(x + 18.0, y + 1.0, Anchor::Start, "ink", owner.label());
        x += 90.0;
    }
}
