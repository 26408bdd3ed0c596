//! The engine's `/metrics` as a source: `server_metrics.jsonl`.
//!
//! Around each point a whole snapshot, taken while none of the point's requests is in flight, so
//! that differences are the point's own; during it only the samples that [`super::names`] knows,
//! to keep lines small. Names stay the engine's; nothing is renamed or added up here.
//!
//! Sampling must not pass through the measuring thread, so the source's own thread has a small
//! runtime of its own. The surprise: an engine may count an answer only after its last byte has
//! left, so the snapshot after a point waits until the counters stand still, for [`SETTLE`] at most.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use http::Method;
use inferscope_shared::clock::MonoNs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::runtime::{Builder, Runtime};

use super::{Counters, names};
use crate::client::simple;
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

/// Time for one page.
const LIMIT: Duration = Duration::from_secs(5);

/// How long an engine gets to count a point's last answers; one that others use never rests.
const SETTLE: Duration = Duration::from_secs(2);

/// Between two looks at the counters.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// All samples of the engine's `/metrics`.
///
/// # Errors
/// Why there are none.
pub async fn samples(target: &Target, key: Option<&str>) -> Result<BTreeMap<String, f64>, String> {
    let path = target.path("/metrics");
    match simple::ask(target, Method::GET, &path, key, None, LIMIT).await {
        Ok(page) if page.status == 200 => Ok(super::parse(&String::from_utf8_lossy(&page.body))),
        Ok(page) => Err(format!("answers {}", page.status)),
        Err(e) => Err(e.to_string()),
    }
}

/// Takes snapshots.
#[derive(Debug)]
pub struct Scraper {
    target: Target,
    key: Option<String>,
    names: BTreeMap<String, String>,
    runtime: Runtime,
}

impl Scraper {
    /// For the engine at `target`.
    ///
    /// # Errors
    /// When no runtime can be made.
    pub fn new(target: Target, key: Option<String>) -> Result<Self, String> {
        let runtime = Builder::new_current_thread().enable_all().build();
        Ok(Self {
            target,
            key,
            names: BTreeMap::new(),
            runtime: runtime.map_err(|e| e.to_string())?,
        })
    }

    fn scrape(&self) -> Result<BTreeMap<String, f64>, String> {
        self.runtime
            .block_on(samples(&self.target, self.key.as_deref()))
            .map_err(|e| format!("{}/metrics: {e}", self.target))
    }
}

/// Whether nothing was counted between two looks, and nothing is left to be counted.
fn stands_still(before: &Counters, after: &Counters) -> bool {
    let idle = |gauge: Option<f64>| gauge.is_none_or(|n| n == 0.0);
    before == after && idle(after.running) && idle(after.waiting)
}

impl Source for Scraper {
    /// Until two looks in a row say the same of an idle engine.
    fn settle(&mut self) {
        let until = Instant::now() + SETTLE;
        let look = || self.scrape().map(|samples| super::read(&samples));
        let Ok(mut last) = look() else { return };
        while Instant::now() < until {
            thread::sleep(LOOK_AGAIN);
            match look() {
                Ok(next) if !stands_still(&last, &next) => last = next,
                _ => return,
            }
        }
    }

    fn sample(&mut self, point_id: &str, when: When, lines: &mut Lines) -> Result<(), String> {
        let mut metrics = self.scrape()?;
        let t_ns = MonoNs::now();
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
    use crate::client::simple::tests::{ok, server};

    #[test]
    fn a_page_is_sampled_and_what_is_none_is_said() {
        let scraped = |target| Scraper::new(target, None).unwrap().scrape();
        assert_eq!(scraped(server(ok("a 1\n"))).unwrap()["a"], 1.0);
        let chunked =
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\na 2\n\r\n0\r\n\r\n";
        assert_eq!(scraped(server(chunked)).unwrap()["a"], 2.0);
        for (answer, says) in [
            (
                "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
                "/metrics: answers 404",
            ),
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\na",
                "/metrics: ",
            ),
            ("SSH-2.0-x\r\n\r\n", "/metrics: "),
            ("", "/metrics: "),
        ] {
            let error = scraped(server(answer)).unwrap_err();
            assert!(error.contains(says), "{answer:?}: {error}");
        }
    }

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
