//! What every panel of a chart has: a title, levels with their labels, and a base line.

use super::{Anchor, Canvas};

/// Where a panel's plot lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Panel {
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

impl Panel {
    /// The title above the plot, and what its base line counts below it.
    pub fn captions(&self, canvas: &mut Canvas, title: &str, x_label: &str) {
        let (left, middle) = (self.left, f64::midpoint(self.left, self.right));
        canvas.text(left, self.top - 12.0, Anchor::Start, "panel ink", title);
        canvas.text(middle, self.bottom + 36.0, Anchor::Middle, "soft", x_label);
    }

    /// A level of the vertical axis.
    pub fn level(&self, canvas: &mut Canvas, at: f64, label: &str) {
        canvas.line((self.left, at), (self.right, at), "grid");
        let (x, y) = (self.left - 7.0, at + 4.0);
        canvas.text(x, y, Anchor::End, "small soft", label);
    }

    /// The base line; drawn after the levels, so that it lies over the lowest.
    pub fn base(&self, canvas: &mut Canvas) {
        let bottom = self.bottom;
        canvas.line((self.left, bottom), (self.right, bottom), "axis");
    }
}
