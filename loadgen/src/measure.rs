//! Request records to numbers per load point.
//!
//! One record at a time goes in and is let go; what stays is one float per measured value, on
//! disk where memory does not hold them ([`crate::stats::spill`]).
//! Definitions are the shared crate's ([`inferscope_shared::definitions`]); the window, goodput
//! and the limits are worked out here. Instants are CLOCK_MONOTONIC nanoseconds, results
//! milliseconds and seconds.
//!
//! The surprise: throughput of a closed loop counts every answer that ended inside the window,
//! whatever its phase, and that of an open loop every measured answer ([`rates`] says why).

pub mod aggregate;
mod asked;
pub mod evidence;
pub mod judge;
pub mod point;
mod rates;
mod rows;
mod series;
pub mod window;

use std::collections::HashMap;

use inferscope_shared::record::request::RequestRecord;

use crate::artifacts::manifest::PointRun;
use crate::slo::Slo;
use crate::stats::spill::Spill;
use point::{PointBuilder, PointMeasure};

pub use asked::Asked;
pub use rows::Rows;

/// All points of a run while its records go by.
#[derive(Debug)]
pub struct Measure {
    order: Vec<String>,
    points: HashMap<String, PointBuilder>,
    asked: Asked,
}

impl Measure {
    /// Points as the manifest lists them, judged by `slo` if there is one.
    #[must_use]
    pub fn new(points: &[PointRun], slo: Option<Slo>, asked: Asked, spill: &Spill) -> Self {
        Self {
            order: points.iter().map(|p| p.point_id.clone()).collect(),
            points: points
                .iter()
                .map(|p| (p.point_id.clone(), PointBuilder::new(p, slo, spill)))
                .collect(),
            asked,
        }
    }

    /// Takes the next record; false when the manifest has no such point.
    pub fn push(&mut self, record: &RequestRecord) -> bool {
        let Some(point) = self.points.get_mut(&record.point_id) else {
            return false;
        };
        let asked = self.asked.get(&record.point_id, record.seq);
        point.push(record, asked);
        true
    }

    /// The points in the order in which they ran.
    #[must_use]
    pub fn finish(mut self) -> Vec<PointMeasure> {
        self.order
            .iter()
            .filter_map(|id| self.points.remove(id))
            .map(PointBuilder::finish)
            .collect()
    }
}

#[cfg(test)]
mod tests;
