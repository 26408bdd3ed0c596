//! Getting the gateway's records of a run, from its record file or from its admin port. A file of
//! any length is copied line by line; what the ring holds is bounded by the gateway.
//!
//! A record is written when its request is settled, which is a moment after the client has read
//! the last byte; so the last ones are waited for, within a budget. Lines are copied as they are,
//! the header line included: it carries the boot id and the drop count that the join needs.

mod ids;

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Method;
use inferscope_shared::clock::MonoNs;
use inferscope_shared::record::gateway::Header;
use serde::Deserialize;
use thiserror::Error;

use crate::analysis::AnalysisError;
use crate::analysis::lines::Lines;
use crate::client::simple;
use crate::client::target::Target;

pub use ids::Ids;

const LIMIT: Duration = Duration::from_secs(10);
/// A first line that is longer than this is no header.
const FIRST_LINE_BYTES: u64 = 1 << 20;

const POLL_EVERY: Duration = Duration::from_millis(100);

/// Where records come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A record file.
    File(PathBuf),
    /// The ring behind the admin port.
    Ring {
        /// The admin port.
        target: Target,
        /// Path and query of the run's records.
        path: String,
        /// Token from `INFERSCOPE_ADMIN_TOKEN`, where set.
        token: Option<String>,
    },
}

/// What collecting gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Collected {
    /// Records of this run.
    pub records: u64,
    /// Request ids that were sent through the gateway and have no record.
    pub missing: u64,
}

/// Why there is no copy of the records.
#[derive(Debug, Error)]
pub enum CollectError {
    /// There are none to copy, or their source fails.
    #[error("{0}")]
    Source(String),
    /// The run's own files fail.
    #[error("cannot be written ({0})")]
    Disk(io::Error),
}

/// The two things that say whose line it is.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    client_request_id: Option<std::borrow::Cow<'a, str>>,
    header: Option<serde::de::IgnoredAny>,
}

impl Source {
    /// Checks that a source is within reach.
    ///
    /// # Errors
    /// One line: the source, what is wrong, what to do.
    pub async fn open(text: &str, run_id: &str) -> Result<Self, String> {
        if !text.contains("://") {
            let path = PathBuf::from(text);
            return match looks_like_records(&path) {
                Ok(()) => Ok(Self::File(path)),
                Err(why) => Err(format!(
                    "gateway_records {text}: {why}; give the gateway's records.file or http://ADMIN/records"
                )),
            };
        }
        let bare = text.split('?').next().unwrap_or(text).trim_end_matches('/');
        let base = bare.strip_suffix("/records").unwrap_or(bare);
        let target = Target::parse(base).map_err(|e| format!("gateway_records {e}"))?;
        let source = Self::Ring {
            path: target.path(&format!("/records?prefix={run_id}.")),
            target,
            token: std::env::var("INFERSCOPE_ADMIN_TOKEN").ok(),
        };
        match source.fetch().await {
            Ok(_) => Ok(source),
            Err(e) => Err(format!(
                "gateway_records {text}: {e}; give http://ADMIN/records with the gateway's admin.addr"
            )),
        }
    }

    /// The boot that the source's stamps are of, by its header line.
    pub async fn boot_id(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct First {
            header: Header,
        }
        let text = match self {
            Self::File(path) => {
                let mut first = String::new();
                let mut start = BufReader::new(File::open(path).ok()?).take(FIRST_LINE_BYTES);
                start.read_line(&mut first).ok()?;
                first
            }
            Self::Ring { .. } => self.fetch().await.ok()?,
        };
        let first: First = serde_json::from_str(text.lines().next()?).ok()?;
        Some(first.header.boot_id)
    }

    /// Copies the run's records to `to`, waiting up to `budget` until each id in `wanted` has one.
    /// A source that fails later on, or has lost records since, leaves what it gave before.
    ///
    /// # Errors
    /// When the source gives nothing or the copy fails; nothing is left at `to` then.
    pub async fn collect(
        &self,
        run_id: &str,
        wanted: &Ids,
        budget: Duration,
        to: &Path,
    ) -> Result<Collected, CollectError> {
        let give_up = MonoNs::now().plus(budget);
        let mut best: Option<Collected> = None;
        loop {
            let over = MonoNs::now() >= give_up;
            match self.copy(run_id, wanted, to, best).await {
                Ok(collected) => {
                    best = Some(collected);
                    if collected.missing == 0 {
                        return Ok(collected);
                    }
                }
                Err(CollectError::Disk(e)) => {
                    let _ = std::fs::remove_file(to);
                    return Err(CollectError::Disk(e));
                }
                Err(e) if over && best.is_none() => return Err(e),
                Err(CollectError::Source(_)) => {}
            }
            match best {
                Some(collected) if over => return Ok(collected),
                _ => tokio::time::sleep(POLL_EVERY).await,
            }
        }
    }

    /// Copies what the source has now, header lines and the run's records as they are, unless
    /// there was more of it `before`.
    async fn copy(
        &self,
        run_id: &str,
        wanted: &Ids,
        to: &Path,
        before: Option<Collected>,
    ) -> Result<Collected, CollectError> {
        let mut copy = Copy::beside(to, run_id, wanted).map_err(CollectError::Disk)?;
        match self {
            Self::File(path) => {
                let source = |e: AnalysisError| CollectError::Source(e.to_string());
                let mut lines = Lines::open(path).map_err(source)?;
                while lines.step().map_err(source)?.is_some() {
                    copy.take(lines.bytes()).map_err(CollectError::Disk)?;
                }
            }
            Self::Ring { .. } => {
                let text = self.fetch().await.map_err(CollectError::Source)?;
                for line in text.lines() {
                    copy.take(line.as_bytes()).map_err(CollectError::Disk)?;
                }
            }
        }
        copy.finish(to, before).map_err(CollectError::Disk)
    }

    async fn fetch(&self) -> Result<String, String> {
        let Self::Ring {
            target,
            path,
            token,
        } = self
        else {
            return Ok(String::new());
        };
        let answer = simple::ask(target, Method::GET, path, token.as_deref(), None, LIMIT)
            .await
            .map_err(|e| format!("unreachable ({e})"))?;
        match answer.status {
            200 => String::from_utf8(answer.body).map_err(|_| "answers no UTF-8".to_owned()),
            401 | 403 => Err("wants a token; set INFERSCOPE_ADMIN_TOKEN".to_owned()),
            status => Err(format!("answers {status}")),
        }
    }
}

/// A file that begins as the gateway's records do, or is still empty.
fn looks_like_records(path: &Path) -> Result<(), String> {
    let unreadable = |e: io::Error| format!("cannot be read ({e})");
    let file = File::open(path).map_err(unreadable)?;
    if file.metadata().map_err(unreadable)?.is_dir() {
        return Err("is a directory".to_owned());
    }
    let mut first = Vec::new();
    let mut start = BufReader::new(file).take(FIRST_LINE_BYTES);
    start.read_until(b'\n', &mut first).map_err(unreadable)?;
    if !first.ends_with(b"\n") && (first.len() as u64) < FIRST_LINE_BYTES {
        // Nothing yet, or a line that is being written.
        return Ok(());
    }
    match serde_json::from_slice::<Line<'_>>(&first) {
        Ok(line) if line.header.is_some() || line.client_request_id.is_some() => Ok(()),
        Ok(_) | Err(_) => Err("its first line is no header and no record of a gateway".to_owned()),
    }
}

/// A copy that grows beside its final name, so that no half of one is taken for all there was.
struct Copy<'a> {
    prefix: String,
    wanted: &'a Ids,
    found: Ids,
    records: u64,
    beside: PathBuf,
    out: BufWriter<File>,
}

impl<'a> Copy<'a> {
    fn beside(to: &Path, run_id: &str, wanted: &'a Ids) -> io::Result<Self> {
        let beside = to.with_extension("tmp");
        Ok(Self {
            prefix: format!("{run_id}."),
            wanted,
            found: Ids::default(),
            records: 0,
            out: BufWriter::new(File::create(&beside)?),
            beside,
        })
    }

    /// Copies a line if it is a header or one of the run's. Others are requests of somebody else,
    /// or not written to their end yet.
    fn take(&mut self, line: &[u8]) -> io::Result<()> {
        let line = line.trim_ascii_end();
        let Ok(parsed) = serde_json::from_slice::<Line<'_>>(line) else {
            return Ok(());
        };
        let id = parsed.client_request_id.as_deref();
        let of_run = id.filter(|id| id.starts_with(&self.prefix));
        if parsed.header.is_none() && of_run.is_none() {
            return Ok(());
        }
        if let Some(id) = of_run {
            self.records += 1;
            if self.wanted.contains(id) {
                self.found.add(id);
            }
        }
        self.out.write_all(line)?;
        self.out.write_all(b"\n")
    }

    fn finish(mut self, to: &Path, before: Option<Collected>) -> io::Result<Collected> {
        let collected = Collected {
            records: self.records,
            missing: self.wanted.len().saturating_sub(self.found.len()),
        };
        if let Some(before) = before.filter(|before| before.missing < collected.missing) {
            return Ok(before);
        }
        self.out.flush()?;
        std::fs::rename(&self.beside, to)?;
        Ok(collected)
    }
}

impl Drop for Copy<'_> {
    fn drop(&mut self) {
        // Not there any more once it has its final name.
        let _ = std::fs::remove_file(&self.beside);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_gives_its_header_and_the_runs_own_records() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("records.jsonl");
        std::fs::write(
            &file,
            "{\"header\":{\"boot_id\":\"b\"}}\n\
             {\"client_request_id\":\"r1.direct.c1.0\"}\n\
             {\"client_request_id\":\"r10.direct.c1.0\"}\n\
             {\"client_request_id\":null}\n\
             {\"client_request_id\":\"r1.direct.c1.1\"}\n{\"client_requ",
        )
        .unwrap();
        let source = Source::open(file.to_str().unwrap(), "r1").await.unwrap();
        let to = dir.path().join("copy.jsonl");
        let wanted = ["r1.direct.c1.0", "r1.direct.c1.1", "r1.direct.c1.2"];
        let wanted: Ids = wanted.into_iter().collect();
        let got = source
            .collect("r1", &wanted, Duration::ZERO, &to)
            .await
            .unwrap();
        assert_eq!(
            got,
            Collected {
                records: 2,
                missing: 1
            }
        );
        assert_eq!(std::fs::read_to_string(&to).unwrap().lines().count(), 3);
    }

    #[tokio::test]
    async fn records_that_the_source_has_lost_since_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (file, to) = (dir.path().join("r.jsonl"), dir.path().join("copy.jsonl"));
        let source = Source::File(file.clone());
        let wanted: Ids = ["r.d.c1.0", "r.d.c1.1"].into_iter().collect();
        let mut best = None;
        for id in ["r.d.c1.0", "r.d.other"] {
            std::fs::write(&file, format!("{{\"client_request_id\":\"{id}\"}}\n")).unwrap();
            best = Some(source.copy("r", &wanted, &to, best).await.unwrap());
        }
        assert_eq!(best.unwrap().missing, 1);
        assert!(std::fs::read_to_string(&to).unwrap().contains("c1.0"));
    }

    #[tokio::test]
    async fn a_source_out_of_reach_is_named() {
        let error = Source::open("/nonexistent/r.jsonl", "r").await.unwrap_err();
        assert!(error.contains("/nonexistent/r.jsonl") && error.contains("records.file"));
        // Somebody listens there and closes without a word.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/records", listener.local_addr().unwrap());
        let closes = std::thread::spawn(move || listener.accept().map(drop));
        let error = Source::open(&url, "r").await.unwrap_err();
        closes.join().unwrap().unwrap();
        assert!(error.contains("unreachable"), "{error}");
    }

    #[tokio::test]
    async fn what_holds_no_records_is_refused_before_the_run() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x.jsonl");
        let at = |path: &Path| path.to_str().unwrap().to_owned();
        let directory = Source::open(&at(dir.path()), "r").await.unwrap_err();
        assert!(directory.contains("is a directory"), "{directory}");
        for garbage in ["hello\n", "{\"a\": 1}\n", "\u{0}\u{1}\n", "[]\n"] {
            std::fs::write(&file, garbage).unwrap();
            let error = Source::open(&at(&file), "r").await.unwrap_err();
            assert!(error.contains("no header and no record"), "{error}");
        }
        for good in [
            "",
            "{\"header\":{}}\n{",
            "{\"client_request_id\":\"a\"}\n",
            "{\"head",
        ] {
            std::fs::write(&file, good).unwrap();
            Source::open(&at(&file), "r").await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_copy_that_fails_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("records.jsonl");
        std::fs::write(&file, "{\"client_request_id\":\"r1.a.c1.0\"}\n").unwrap();
        let source = Source::File(file);
        // A directory in the place of the copy: writing works, the last step does not.
        let to = dir.path().join("copy.jsonl");
        std::fs::create_dir(&to).unwrap();
        let error = source
            .collect("r1", &Ids::default(), Duration::ZERO, &to)
            .await
            .unwrap_err();
        assert!(matches!(error, CollectError::Disk(_)), "{error}");
        assert!(!dir.path().join("copy.tmp").exists());
    }
}
