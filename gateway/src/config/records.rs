//! Where records go: a file that rotates, and a ring in memory that the admin port serves.

use std::path::PathBuf;
use std::time::Duration;

use inferscope_shared::strict_yaml::{Node, Problems};

/// Records of requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordsConfig {
    /// A file, if any.
    pub file: Option<RecordsFile>,
    /// The ring behind `/records`.
    pub ring: RecordsRing,
    /// Hash both directions of each answer (SHA-256, some CPU per byte).
    pub hash: bool,
}

/// A file of JSON lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordsFile {
    /// The file that is written now.
    pub path: PathBuf,
    /// It is rotated, and the old one compressed, when it would grow over this.
    pub max_bytes: u64,
    /// It is rotated after this time, too.
    pub rotate_every: Option<Duration>,
    /// Rotated files that are kept.
    pub keep: usize,
    /// Rotated files older than this are removed, however few there are.
    pub keep_for: Option<Duration>,
    /// What becomes of requests while records cannot be written.
    pub on_full: OnFull,
}

/// What becomes of requests while their records cannot be written (a full disk).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnFull {
    /// They are served, their records dropped and counted.
    #[default]
    Drop,
    /// They are refused: no request without a record.
    Refuse,
}

impl RecordsFile {
    /// The file at `path`, everything else by default.
    #[must_use]
    pub const fn at(path: PathBuf) -> Self {
        Self {
            path,
            max_bytes: 256 << 20,
            rotate_every: None,
            keep: 8,
            keep_for: None,
            on_full: OnFull::Drop,
        }
    }
}

/// The newest records in memory, bounded by both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordsRing {
    /// Lines.
    pub max_records: usize,
    /// Bytes of those lines. A record with 1,000 pieces has about 20 kB.
    pub max_bytes: usize,
}

impl Default for RecordsRing {
    fn default() -> Self {
        Self {
            max_records: 100_000,
            max_bytes: 64 << 20,
        }
    }
}

pub(super) fn records(node: &Node, problems: &mut Problems) -> Option<RecordsConfig> {
    let mut map = node.map(problems)?;
    let file = map.read("file", problems, file);
    let ring = map.read("ring", problems, ring).unwrap_or_default();
    let hash = map.bool("hash", problems).unwrap_or(false);
    map.finish(problems);
    Some(RecordsConfig { file, ring, hash })
}

fn file(node: &Node, problems: &mut Problems) -> Option<RecordsFile> {
    let mut map = node.map(problems)?;
    let path = map
        .need("path", "records.jsonl", problems)
        .and_then(|node| node.text(problems));
    let mut file = RecordsFile::at(path.unwrap_or_default().into());
    if let Some(node) = map.get("max_size")
        && let Some(bytes) = node.size_bytes(problems)
    {
        if bytes < 1 << 20 {
            node.complain(problems, "a file is rotated at 1MiB or more");
        }
        file.max_bytes = bytes;
    }
    if let Some(keep) = map.u64("keep", problems) {
        file.keep = usize::try_from(keep).unwrap_or(usize::MAX);
    }
    file.rotate_every = map.read("rotate_every", problems, minutes);
    file.keep_for = map.read("keep_for", problems, minutes);
    let words = [("drop", OnFull::Drop), ("refuse", OnFull::Refuse)];
    file.on_full = map.one_of("on_full", problems, &words).unwrap_or_default();
    map.finish(problems);
    Some(file)
}

/// A time of at least a minute.
fn minutes(node: &Node, problems: &mut Problems) -> Option<Duration> {
    let time = node.duration(problems)?;
    if time < Duration::from_secs(60) {
        node.complain(problems, "expected at least 1m");
        return None;
    }
    Some(time)
}

fn ring(node: &Node, problems: &mut Problems) -> Option<RecordsRing> {
    let mut map = node.map(problems)?;
    let mut ring = RecordsRing::default();
    if let Some(records) = map.u64("max_records", problems) {
        ring.max_records = usize::try_from(records).unwrap_or(usize::MAX);
    }
    if let Some(bytes) = map.size_bytes("max_size", problems) {
        ring.max_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    }
    map.finish(problems);
    Some(ring)
}
