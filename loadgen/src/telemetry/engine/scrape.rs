//! The engine's `/metrics` as a source: `server_metrics.jsonl`.
//!
//! Around each point a whole snapshot, taken while none of the point's requests is in flight, so
//! that differences are the point's own; during it only the samples that [`super::names`] knows,
//! to keep lines small. Names stay the engine's; nothing is renamed or added up here.
//!
//! The surprise: an engine may count an answer only after its last byte has left, so the snapshot
//! after a point is taken again until its counters stand still, for [`SETTLE`] at most.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use inferscope_shared::clock::MonoNs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Counters, fetch, names};
use crate::client::target::Target;
use crate::telemetry::SourceReport;
use crate::telemetry::sampler::{Lines, Source, When};

/// Line of `server_metrics.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// When the answer was in.
    pub t_ns: MonoNs,
    /// The point.
    pub point_id: String,
    /// Before, during or after it.
    pub when: When,
    /// Sample by name and labels as exposed; values that are not finite are left out, during a
    /// point also those of names that nothing here reads.
    pub metrics: BTreeMap<String, f64>,
}

/// How long an engine gets to count a point's last answers; one that others use never rests.
const SETTLE: Duration = Duration::from_secs(2);

/// Between two looks at the counters.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Takes snapshots.
#[derive(Debug)]
pub struct Scraper {
    target: Target,
    key: Option<String>,
    names: BTreeMap<String, String>,
}

impl Scraper {
    /// For the engine at `target`.
    #[must_use]
    pub fn new(target: Target, key: Option<String>) -> Self {
        Self {
            target,
            key,
            names: BTreeMap::new(),
        }
    }

    fn scrape(&self) -> Result<(MonoNs, BTreeMap<String, f64>), String> {
        let path = self.target.path("/metrics");
        let page = fetch::page(&self.target, &path, self.key.as_deref())
            .map_err(|e| format!("{}/metrics: {e}", self.target))?;
        let t_ns = MonoNs::now();
        Ok((t_ns, super::parse(&String::from_utf8_lossy(&page))))
    }

    /// Scrapes until two in a row say the same of an idle engine.
    fn settled(&self) -> Result<(MonoNs, BTreeMap<String, f64>), String> {
        let until = Instant::now() + SETTLE;
        let mut last = self.scrape()?;
        loop {
            thread::sleep(LOOK_AGAIN);
            let next = self.scrape()?;
            let rests = stands_still(&super::read(&last.1), &super::read(&next.1));
            last = next;
            if rests || Instant::now() >= until {
                return Ok(last);
            }
        }
    }
}

/// Whether nothing was counted between two looks, and nothing is left to be counted.
fn stands_still(before: &Counters, after: &Counters) -> bool {
    let idle = |gauge: Option<f64>| gauge.is_none_or(|n| n == 0.0);
    before == after && idle(after.running) && idle(after.waiting)
}

impl Source for Scraper {
    fn sample(&mut self, point_id: &str, when: When, lines: &mut Lines) -> Result<(), String> {
        let (t_ns, mut metrics) = match when {
            When::After => self.settled()?,
            When::Before | When::During => self.scrape()?,
        };
        if when == When::During {
            metrics = names::known(&metrics);
        } else {
            // Counters may first appear with the first request.
            self.names.extend(names::names_of(&metrics));
        }
        lines.push(&Snapshot {
            t_ns,
            point_id: point_id.to_owned(),
            when,
            metrics,
        });
        Ok(())
    }

    fn describe(&self, report: &mut SourceReport) {
        report.subject = Some(self.target.to_string());
        report.names.clone_from(&self.names);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_stand_still_when_nothing_changed_and_nobody_is_served() {
        let counted = |requests: f64, running: Option<f64>| Counters {
            requests_success: Some(requests),
            running,
            ..Counters::default()
        };
        let idle = counted(7.0, Some(0.0));
        assert!(stands_still(&idle, &idle));
        assert!(!stands_still(&counted(6.0, Some(0.0)), &idle));
        let busy = counted(7.0, Some(1.0));
        assert!(!stands_still(&busy, &busy));
        let silent = counted(7.0, None);
        assert!(stands_still(&silent, &silent), "no gauge: counters decide");
    }
}
