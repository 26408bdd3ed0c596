//! SVG text: a canvas, axes and their ticks. Colours are classes with a light and a dark form,
//! so a chart is readable on either background; arms differ by dash and marker too, not by
//! colour alone.

use std::fmt::Write as _;

const STYLE: &str = "\
.bg{fill:#ffffff}.ink{fill:#1f2933}.soft{fill:#5b6b7b}\
.grid{stroke:#dde3ea;stroke-width:1}.axis{stroke:#8896a5;stroke-width:1}\
.s0{stroke:#1d6fd1}.s1{stroke:#d9660a}.s2{stroke:#2a9d5c}.s3{stroke:#9b4dca}\
.f0{fill:#1d6fd1}.f1{fill:#d9660a}.f2{fill:#2a9d5c}.f3{fill:#9b4dca}\
.line{fill:none;stroke-width:2;stroke-linejoin:round}.dash{stroke-dasharray:6 4}\
.dot{stroke-dasharray:1.5 4;stroke-linecap:round}.hollow{fill:#ffffff;stroke-width:2}\
.notice{fill:#9a3412}.notice-bg{fill:#ffedd5}.faint{opacity:.35}.alarm{fill:#c2255c}\
text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;font-size:12px}\
.title{font-size:16px;font-weight:600}.panel{font-size:13px;font-weight:600}.small{font-size:11px}\
@media (prefers-color-scheme:dark){\
.bg{fill:#12181f}.ink{fill:#e6edf3}.soft{fill:#9fb0c0}\
.grid{stroke:#27313c}.axis{stroke:#5b6b7b}\
.s0{stroke:#5aa9ff}.s1{stroke:#ffa24d}.s2{stroke:#5fd08f}.s3{stroke:#c58af0}\
.f0{fill:#5aa9ff}.f1{fill:#ffa24d}.f2{fill:#5fd08f}.f3{fill:#c58af0}\
.hollow{fill:#12181f}.notice{fill:#fdba74}.notice-bg{fill:#3b1f0d}.alarm{fill:#ff7aa8}}";

/// Where text is fixed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture being drawn.
#[derive(Debug)]
pub(crate) struct Canvas {
    width: f64,
    body: String,
}

impl Canvas {
    pub fn new(width: f64) -> Self {
        Self {
            width,
            body: String::new(),
        }
    }

    pub fn text(&mut self, x: f64, y: f64, anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(text);
        let _ = writeln!(
            self.body,
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" class="{class}">{text}</text>"#
        );
    }

    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ = writeln!(
            self.body,
            r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" class="{class}"/>"#
        );
    }

    pub fn polyline(&mut self, points: &[(f64, f64)], class: &str) {
        let mut path = String::new();
        for (x, y) in points {
            let _ = write!(path, "{x:.1},{y:.1} ");
        }
        let _ = writeln!(
            self.body,
            r#"<polyline points="{}" class="{class}"/>"#,
            path.trim_end()
        );
    }

    pub fn rect(&mut self, at: (f64, f64), size: (f64, f64), round: f64, class: &str) {
        let ((x, y), (w, h)) = (at, size);
        let _ = writeln!(
            self.body,
            r#"<rect x="{x:.1}" y="{y:.1}" width="{w:.1}" height="{h:.1}" rx="{round}" class="{class}"/>"#
        );
    }

    /// A marker of an arm: a disc, a square, a diamond in turn.
    pub fn marker(&mut self, x: f64, y: f64, series: usize, hollow: bool) {
        let class = if hollow {
            format!("hollow s{}", series % 4)
        } else {
            format!("f{}", series % 4)
        };
        if series.is_multiple_of(2) {
            let _ = writeln!(
                self.body,
                r#"<circle cx="{x:.1}" cy="{y:.1}" r="4" class="{class}"/>"#
            );
        } else {
            self.rect((x - 3.8, y - 3.8), (7.6, 7.6), 1.0, &class);
        }
    }

    /// The picture, `height` high; `title` and `description` are for those who can't see it.
    pub fn finish(self, height: f64, title: &str, description: &str) -> String {
        let (w, body) = (self.width, self.body);
        let (title, description) = (escape(title), escape(description));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{height}\" \
             viewBox=\"0 0 {w} {height}\" role=\"img\">\n<title>{title}</title>\n\
             <desc>{description}</desc>\n<style>{STYLE}</style>\n\
             <rect width=\"{w}\" height=\"{height}\" class=\"bg\"/>\n{body}</svg>\n"
        )
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// One axis: values to pixels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    log: bool,
}

impl Axis {
    /// From zero to a round number above `high`.
    pub fn linear(high: f64, from: f64, to: f64) -> Self {
        let high = if high > 0.0 { high } else { 1.0 };
        let step = nice_step(high / 5.0);
        Self {
            low: 0.0,
            high: (high * 1.02 / step).ceil() * step,
            from,
            to,
            log: false,
        }
    }

    /// From zero to `high` itself.
    pub fn exact(high: f64, from: f64, to: f64) -> Self {
        Self {
            low: 0.0,
            high,
            from,
            to,
            log: false,
        }
    }

    /// Logarithmic over `low..high`, both above zero, with a little room.
    pub fn log(low: f64, high: f64, from: f64, to: f64) -> Self {
        let low = low.max(1e-4);
        let high = high.max(low * 1.02);
        let room = (high / low).powf(0.04).max(1.002);
        Self {
            low: low / room,
            high: high * room,
            from,
            to,
            log: true,
        }
    }

    /// Where a value lies; values off the axis lie at its ends.
    pub fn at(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        let share = if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share * (self.to - self.from)
    }

    /// Values that get a grid line and a label, at most about `most`.
    pub fn ticks(&self, most: usize) -> Vec<f64> {
        let most = most.max(2) as f64;
        if self.log && self.high / self.low >= 8.0 {
            let decades = (self.high / self.low).log10();
            let steps: &[f64] = if decades * 3.0 <= most {
                &[1.0, 2.0, 5.0]
            } else {
                &[1.0]
            };
            let (first, last) = (self.low.log10().floor(), self.high.log10().ceil());
            let every = (decades / most).ceil().max(1.0) as usize;
            return (first as i32..=last as i32)
                .step_by(every)
                .flat_map(|decade| steps.iter().map(move |s| s * 10_f64.powi(decade)))
                .filter(|v| (self.low..=self.high).contains(v))
                .collect();
        }
        let step = nice_step((self.high - self.low) / most);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last).map(|i| i as f64 * step).collect()
    }
}

/// The next of 1, 2, 5, 10, … at or above `rough`.
fn nice_step(rough: f64) -> f64 {
    let power = 10_f64.powf(rough.max(1e-9).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0];
    let nice = steps.iter().find(|&&s| s * power >= rough * 0.999_999);
    nice.unwrap_or(&10.0) * power
}

/// A tick's label: no more digits than it has.
pub(crate) fn tick_label(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text.is_empty() || text == "-0" {
        "0".to_owned()
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let labels = |axis: Axis, most| -> Vec<String> {
            axis.ticks(most).into_iter().map(tick_label).collect()
        };
        assert_eq!(
            labels(Axis::linear(37.0, 0.0, 1.0), 5),
            ["0", "10", "20", "30", "40"]
        );
        assert_eq!(
            labels(Axis::log(1.0, 1000.0, 0.0, 1.0), 5),
            ["1", "10", "100", "1000"]
        );
        assert_eq!(
            labels(Axis::log(50.0, 52.0, 0.0, 1.0), 5),
            ["50", "50.5", "51", "51.5", "52"]
        );
    }

    #[test]
    fn an_axis_puts_its_ends_at_its_ends() {
        let axis = Axis::linear(10.0, 100.0, 0.0);
        assert_eq!(axis.at(0.0), 100.0);
        assert_eq!(axis.at(1e9), 0.0);
        assert_eq!(Axis::log(1.0, 100.0, 0.0, 1.0).at(10.0), 0.5);
        assert!(Axis::log(0.0, 0.0, 0.0, 1.0).at(0.0).is_finite());
    }

    #[test]
    fn names_cannot_break_the_markup() {
        let mut canvas = Canvas::new(10.0);
        canvas.text(0.0, 0.0, Anchor::Start, "ink", "a<b&\"c\"");
        assert!(
            canvas
                .finish(10.0, "<t>", "d")
                .contains("a&lt;b&amp;&quot;c&quot;")
        );
    }
}
