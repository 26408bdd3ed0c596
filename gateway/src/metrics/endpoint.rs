//! What is counted of one endpoint: handles that its requests and probes hold, so that none of
//! them looks a label up.

use prometheus::{IntCounter, IntGauge};

use super::declared::Declared;

/// Handles of one endpoint's series.
#[derive(Debug)]
pub struct EndpointMetrics {
    /// Whether it gets requests.
    pub up: IntGauge,
    /// Requests that hold a place there.
    pub requests: IntGauge,
    /// Times that it was ejected.
    pub ejections: IntCounter,
    good: IntCounter,
    bad: IntCounter,
}

const GOOD: &str = "good";
const BAD: &str = "bad";

impl EndpointMetrics {
    pub(super) fn new(all: &Declared, pool: &str, endpoint: &str) -> Self {
        let names = [pool, endpoint];
        let probes = |outcome| {
            let all = &all.endpoint_probes_total;
            all.with_label_values(&[pool, endpoint, outcome])
        };
        let up = all.endpoint_up.with_label_values(&names);
        // Until something else is known.
        up.set(1);
        Self {
            up,
            requests: all.endpoint_requests.with_label_values(&names),
            ejections: all.endpoint_ejections_total.with_label_values(&names),
            good: probes(GOOD),
            bad: probes(BAD),
        }
    }

    /// A probe ended.
    pub fn probed(&self, good: bool) {
        if good { &self.good } else { &self.bad }.inc();
    }
}

/// Shows the series of an endpoint no more. That it had some of them is not needed.
pub(super) fn forget(all: &Declared, pool: &str, endpoint: &str) {
    let names = [pool, endpoint];
    let _ = all.endpoint_up.remove_label_values(&names);
    let _ = all.endpoint_requests.remove_label_values(&names);
    let _ = all.endpoint_ejections_total.remove_label_values(&names);
    for outcome in [GOOD, BAD] {
        let names = [pool, endpoint, outcome];
        let _ = all.endpoint_probes_total.remove_label_values(&names);
    }
}
