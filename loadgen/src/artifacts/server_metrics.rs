//! The engine's own counters around each point: `server_metrics.jsonl`.
//!
//! Two snapshots per point, taken while none of the point's requests is in flight, so that
//! differences are the point's own. Names are the engine's; nothing is renamed or added up here.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use http::Method;
use inferscope_shared::clock::MonoNs;
use serde::{Deserialize, Serialize};

use crate::client::simple;
use crate::client::target::Target;

const LIMIT: Duration = Duration::from_secs(5);

/// When a snapshot was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// Before the point's first request.
    Before,
    /// After its last one.
    After,
}

/// Line of `server_metrics.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// When the answer was in.
    pub t_ns: MonoNs,
    /// The point.
    pub point_id: String,
    /// Before or after it.
    pub when: When,
    /// Sample by name and labels as exposed; values that are not finite are left out.
    pub metrics: BTreeMap<String, f64>,
}

/// A source without data.
#[derive(Serialize)]
struct Unavailable<'a> {
    available: bool,
    reason: &'a str,
}

/// Takes snapshots and writes them.
#[derive(Debug)]
pub struct Scraper {
    target: Option<Target>,
    key: Option<String>,
    file: File,
    lines: u64,
    reason: String,
}

impl Scraper {
    /// Creates the file.
    ///
    /// # Errors
    /// When it exists or cannot be created.
    pub fn create(path: &Path, target: Option<Target>, key: Option<String>) -> io::Result<Self> {
        Ok(Self {
            reason: match &target {
                Some(_) => "never scraped".to_owned(),
                None => "engine.url is not known: only the gateway is measured".to_owned(),
            },
            target,
            key,
            file: File::create_new(path)?,
            lines: 0,
        })
    }

    /// Takes one snapshot; an engine that has none leaves only a reason behind.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub async fn snapshot(&mut self, point_id: &str, when: When) -> io::Result<()> {
        let Some(target) = &self.target else {
            return Ok(());
        };
        let path = target.path("/metrics");
        let key = self.key.as_deref();
        match simple::ask(target, Method::GET, &path, key, None, LIMIT).await {
            Ok(answer) if answer.status == 200 => {
                let snapshot = Snapshot {
                    t_ns: MonoNs::now(),
                    point_id: point_id.to_owned(),
                    when,
                    metrics: parse(&String::from_utf8_lossy(&answer.body)),
                };
                self.lines += 1;
                self.write(&snapshot)
            }
            Ok(answer) => {
                self.reason = format!("{target}/metrics answers {}", answer.status);
                Ok(())
            }
            Err(e) => {
                self.reason = format!("{target}/metrics: {e}");
                Ok(())
            }
        }
    }

    /// Says why, if there was nothing at all.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        if self.lines > 0 {
            return Ok(());
        }
        let reason = std::mem::take(&mut self.reason);
        self.write(&Unavailable {
            available: false,
            reason: &reason,
        })
    }

    fn write(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.file.write_all(&text)
    }
}

/// Samples of a Prometheus exposition.
fn parse(text: &str) -> BTreeMap<String, f64> {
    text.lines()
        .filter(|l| !l.starts_with('#'))
        .filter_map(|line| {
            // The name ends behind its labels, which may hold blanks.
            let name_end = match line.rfind('}') {
                Some(brace) => brace + 1,
                None => line.find(char::is_whitespace)?,
            };
            let (name, rest) = line.split_at(name_end);
            let value: f64 = rest.split_whitespace().next()?.parse().ok()?;
            value.is_finite().then(|| (name.to_owned(), value))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_keep_names_and_labels() {
        let m = parse(
            "# HELP a b\n# TYPE a counter\na 3\nb{x=\"1 2\",y=\"}\"} 4.5 1700000000\nc NaN\n\nd{} +Inf\n",
        );
        assert_eq!(m.len(), 2);
        assert_eq!(m["a"], 3.0);
        assert_eq!(m["b{x=\"1 2\",y=\"}\"}"], 4.5);
    }
}
