//! Where records go: a file that rotates, and a ring in memory that the admin port serves.

use std::path::PathBuf;

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
    /// Rotated files that are kept.
    pub keep: usize,
}

impl RecordsFile {
    /// The file at `path`, everything else by default.
    #[must_use]
    pub const fn at(path: PathBuf) -> Self {
        Self {
            path,
            max_bytes: 256 << 20,
            keep: 8,
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
    map.finish(problems);
    Some(file)
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
