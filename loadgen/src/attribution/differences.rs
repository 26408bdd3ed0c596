//! Gateway against direct at equal load, as differences of medians and no more than that.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{ArmKind, LoadValue};
use crate::measure::aggregate::Point;

/// What differences of medians do not say.
pub const NOTE: &str = "Differences of medians of two separate series. They say what was \
    observed, not that it is significant: that takes interleaved blocks, an interval of the \
    difference and an A/A control, which this version does not run.";

/// One metric at one load on both arms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// The load.
    pub load: LoadValue,
    /// Point of the direct arm.
    pub direct: String,
    /// Point of the gateway arm.
    pub gateway: String,
    /// Symbol of the metric.
    pub metric: String,
    /// Median on the direct arm.
    pub direct_p50: Option<f64>,
    /// Median on the gateway arm.
    pub gateway_p50: Option<f64>,
    /// `gateway_p50 - direct_p50`.
    pub difference: Option<f64>,
}

/// All pairs of points of one load, one direct and one through a gateway.
#[must_use]
pub fn of(points: &[Point], kind_of: impl Fn(&str) -> Option<ArmKind> + Copy) -> Vec<Difference> {
    let on = |kind: ArmKind| {
        points
            .iter()
            .filter(move |p| kind_of(&p.arm) == Some(kind))
            .collect::<Vec<_>>()
    };
    let (direct, gateway) = (on(ArmKind::Direct), on(ArmKind::Gateway));
    let mut all = Vec::new();
    for d in &direct {
        for g in gateway.iter().filter(|g| g.load == d.load) {
            for ((definition, ours), (_, theirs)) in d.metrics.all().iter().zip(g.metrics.all()) {
                if ours.n == 0 && theirs.n == 0 {
                    continue;
                }
                let (a, b) = (ours.p50, theirs.p50);
                all.push(Difference {
                    load: d.load,
                    direct: d.point_id.clone(),
                    gateway: g.point_id.clone(),
                    metric: definition.symbol.to_owned(),
                    direct_p50: a,
                    gateway_p50: b,
                    difference: a.zip(b).map(|(a, b)| b - a),
                });
            }
        }
    }
    all
}
