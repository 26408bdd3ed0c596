//! The engine's `/metrics` as a source: `server_metrics.jsonl`.
//!
//! Around each point a whole snapshot, taken while none of the point's requests is in flight, so
//! that differences are the point's own; during it only the samples that [`super::names`] knows,
//! to keep lines small. Names stay the engine's; nothing is renamed or added up here.

use std::collections::BTreeMap;

use inferscope_shared::clock::MonoNs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{fetch, names};
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
}

impl Source for Scraper {
    fn sample(&mut self, point_id: &str, when: When, lines: &mut Lines) -> Result<(), String> {
        let path = self.target.path("/metrics");
        let page = fetch::page(&self.target, &path, self.key.as_deref())
            .map_err(|e| format!("{}/metrics: {e}", self.target))?;
        let t_ns = MonoNs::now();
        let mut metrics = super::parse(&String::from_utf8_lossy(&page));
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
