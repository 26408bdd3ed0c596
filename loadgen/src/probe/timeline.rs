//! The picture of a probe: every request as a lane over the engine's CPU, memory and threads, all
//! on one axis of time; below it one round large enough to see each token.

mod lanes;
mod strip;

use super::report::Report;
use super::row::Row;
use super::schedule::Experiment;
use crate::report::svg::{Anchor, Axis, Canvas, tick_label};

const WIDTH: f64 = 960.0;
const MARGIN: f64 = 24.0;
/// Room for labels left of the axis.
const LABELS: f64 = 130.0;

/// Heights of a lane where all requests are drawn, and where one round is.
const THIN: f64 = 6.0;
const THICK: f64 = 18.0;

/// A stretch of time with its axis in seconds from its start.
struct Frame {
    from_ms: f64,
    to_ms: f64,
    x: Axis,
}

impl Frame {
    fn new(from_ms: f64, to_ms: f64) -> Self {
        let seconds = ((to_ms - from_ms) / 1e3).max(0.001);
        Self {
            from_ms,
            to_ms,
            x: Axis::exact(seconds, MARGIN + LABELS, WIDTH - MARGIN),
        }
    }

    fn at(&self, ms: f64) -> f64 {
        self.x.at((ms - self.from_ms) / 1e3)
    }

    fn left(&self) -> f64 {
        MARGIN + LABELS
    }

    fn right(&self) -> f64 {
        WIDTH - MARGIN
    }

    fn grid(&self, canvas: &mut Canvas, top: f64, bottom: f64) {
        for tick in self.x.ticks(10) {
            let at = self.x.at(tick);
            canvas.line((at, top), (at, bottom), "grid");
        }
    }

    /// Labels of the axis; returns where the next thing may begin.
    fn labels(&self, canvas: &mut Canvas, y: f64, what: &str) -> f64 {
        canvas.line((self.left(), y), (self.right(), y), "axis");
        for tick in self.x.ticks(10) {
            let at = self.x.at(tick);
            canvas.text(
                at,
                y + 16.0,
                Anchor::Middle,
                "small soft",
                &tick_label(tick),
            );
        }
        let middle = f64::midpoint(self.left(), self.right());
        canvas.text(middle, y + 34.0, Anchor::Middle, "soft", what);
        y + 52.0
    }
}

/// The picture as SVG.
pub(super) fn svg(report: &Report) -> String {
    let mut canvas = Canvas::new(WIDTH);
    let title = format!(
        "Probe of {}",
        report.engine.model.as_deref().unwrap_or(&report.url)
    );
    let subtitle = format!(
        "{} – {} requests in {:.1} s",
        report.url, report.requests.sent, report.seconds
    );
    canvas.text(MARGIN, 34.0, Anchor::Start, "title ink", &title);
    canvas.text(MARGIN, 54.0, Anchor::Start, "soft", &subtitle);
    if let Some(notice) = &report.notice {
        let text = format!("fake engine: {notice}");
        let width = text.len() as f64 * 6.6 + 20.0;
        let x = WIDTH - MARGIN - width;
        canvas.rect((x, 18.0), (width, 24.0), 4.0, "notice-bg");
        canvas.text(x + width / 2.0, 34.0, Anchor::Middle, "notice", &text);
    }
    lanes::legend(&mut canvas, 78.0);
    let all: Vec<&Row> = report.rows.iter().collect();
    let mut y = 112.0;
    if !all.is_empty() {
        let whole = Frame::new(0.0, report.seconds * 1e3);
        canvas.text(MARGIN, y, Anchor::Start, "panel ink", "The whole probe");
        y = panel(&mut canvas, report, &whole, &all, y + 10.0, THIN);
        y = whole.labels(&mut canvas, y, "s since the probe's start");
    }
    if let Some((number, rows)) = typical_round(report) {
        let from = rows
            .iter()
            .map(|r| r.start_ms)
            .fold(f64::INFINITY, f64::min);
        let to = rows.iter().map(|r| r.end_ms).fold(0.0, f64::max);
        let frame = Frame::new(from, to);
        let name = format!("Round {} of {}", number + 1, report.asked.rounds);
        canvas.text(MARGIN, y + 14.0, Anchor::Start, "panel ink", &name);
        y = panel(&mut canvas, report, &frame, &rows, y + 24.0, THICK);
        let what = format!("s since {:.2} s of the probe", from / 1e3);
        y = frame.labels(&mut canvas, y, &what);
    }
    let description = report
        .verdict
        .iter()
        .map(|s| s.text.as_str())
        .collect::<Vec<_>>()
        .join(" ");
    canvas.finish(y + 8.0, &title, &description)
}

/// Lanes over strips; returns the bottom.
fn panel(
    canvas: &mut Canvas,
    report: &Report,
    frame: &Frame,
    rows: &[&Row],
    top: f64,
    lane: f64,
) -> f64 {
    let middle = top + rows.len() as f64 * lane + 8.0;
    let bottom = middle + strip::height(report);
    frame.grid(canvas, top, bottom);
    lanes::draw(canvas, report, frame, rows, top, lane);
    strip::draw(canvas, report, frame, middle);
    bottom
}

/// The complete round whose length is the median one.
fn typical_round(report: &Report) -> Option<(u32, Vec<&Row>)> {
    let of = |number: u32| -> Vec<&Row> {
        report
            .rows
            .iter()
            .filter(|r| r.experiment != Experiment::Opening && r.round == number)
            .collect()
    };
    let full = (0..report.asked.rounds).map(|n| of(n).len()).max()?;
    let mut rounds: Vec<(f64, u32)> = (0..report.asked.rounds)
        .filter(|&n| full > 0 && of(n).len() == full)
        .filter_map(|n| {
            let rows = of(n);
            Some((rows.last()?.end_ms - rows.first()?.start_ms, n))
        })
        .collect();
    rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (_, number) = *rounds.get(rounds.len().checked_sub(1)? / 2)?;
    Some((number, of(number)))
}
