//! The record file: whole lines only, rotated by size, old ones compressed.
//!
//! A file begins with a header line and holds records of one process; one that is found at the
//! start is rotated first. Rotated files are `PATH.<UTC time>.zst`; the newest `keep` of them stay,
//! unless they are older than `keep_for`. It is rotated by time, too, with the first record after that.
//! A write that fails (disk full) drops its lines, cuts the file back to its last whole line and
//! counts them; the next write tries again. A file that somebody else renamed or removed is
//! noticed within a second and made anew, which is all that external rotation needs.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::Drops;
use crate::config::RecordsFile;

/// How often the path is compared with the open file.
const LOOK: Duration = Duration::from_secs(1);
/// How often files older than `keep_for` are looked for, beside each rotation.
const SWEEP: Duration = Duration::from_secs(600);
/// How often a lasting failure is logged.
const COMPLAIN: Duration = Duration::from_secs(60);
/// zstd's own default.
const LEVEL: i32 = 3;

/// See the module head.
#[derive(Debug)]
pub(super) struct RecordFile {
    settings: RecordsFile,
    boot_id: String,
    drops: Arc<Drops>,
    file: File,
    /// A pipe or a device is neither rotated nor cut back.
    regular: bool,
    /// Bytes of whole lines.
    length: u64,
    /// Since when this one is written.
    since: Instant,
    looked: Instant,
    /// When old files were last looked for.
    swept: Instant,
    complained: Option<Instant>,
}

impl RecordFile {
    /// Opens the file, an earlier one rotated away.
    pub(super) fn open(
        settings: &RecordsFile,
        boot_id: &str,
        drops: Arc<Drops>,
    ) -> io::Result<Self> {
        let path = &settings.path;
        if let Ok(found) = fs::metadata(path)
            && found.is_file()
            && found.len() > 0
        {
            // Before anything is moved, for a file that can't be written stays where it is.
            OpenOptions::new().append(true).open(path)?;
            rotate(settings)?;
        }
        let (file, regular) = open(path)?;
        Ok(Self {
            settings: settings.clone(),
            boot_id: boot_id.to_owned(),
            drops,
            file,
            regular,
            length: 0,
            since: Instant::now(),
            looked: Instant::now(),
            swept: Instant::now(),
            complained: None,
        })
    }

    /// Writes whole lines, or drops and counts all of them.
    pub(super) fn write(&mut self, lines: &[Bytes]) {
        if lines.is_empty() {
            return;
        }
        if let Err(error) = self.try_write(lines) {
            self.drops.add(lines.len() as u64);
            self.drops.failing.store(true, Ordering::Relaxed);
            if self.complained.is_none_or(|at| at.elapsed() > COMPLAIN) {
                self.complained = Some(Instant::now());
                let path = self.settings.path.display();
                tracing::error!(%error, %path, "records cannot be written and are dropped");
            }
        } else if self.drops.failing.swap(false, Ordering::Relaxed) {
            self.complained = None;
            tracing::info!("records are written again");
        }
    }

    fn try_write(&mut self, lines: &[Bytes]) -> io::Result<()> {
        self.look()?;
        self.cut_back()?;
        let size: usize = lines.iter().map(Bytes::len).sum();
        let full = self.length + size as u64 > self.settings.max_bytes;
        let old = |every| self.since.elapsed() >= every;
        if self.regular && self.length > 0 && (full || self.settings.rotate_every.is_some_and(old))
        {
            rotate(&self.settings)?;
            self.reopen()?;
        }
        let mut text = match self.length {
            0 => super::header(&self.boot_id, self.drops.get()),
            _ => Vec::new(),
        };
        text.reserve(size);
        for line in lines {
            text.extend_from_slice(line);
        }
        match self.file.write_all(&text) {
            Ok(()) => {
                self.length += text.len() as u64;
                Ok(())
            }
            Err(error) => {
                // Tried again before the next write.
                let _ = self.cut_back();
                Err(error)
            }
        }
    }

    /// Makes the file anew when it is no longer at its path.
    fn look(&mut self) -> io::Result<()> {
        if !self.regular || self.looked.elapsed() < LOOK {
            return Ok(());
        }
        self.looked = Instant::now();
        if self.settings.keep_for.is_some() && self.swept.elapsed() >= SWEEP {
            self.swept = Instant::now();
            remove_oldest(&self.settings);
        }
        let ours = self.file.metadata()?;
        match fs::metadata(&self.settings.path) {
            Ok(there) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => {
                // Somebody may have emptied it.
                self.length = self.length.min(there.len());
                Ok(())
            }
            _ => self.reopen(),
        }
    }

    /// Cuts off what a failed write left of its lines.
    fn cut_back(&self) -> io::Result<()> {
        if self.regular && self.file.metadata()?.len() > self.length {
            self.file.set_len(self.length)?;
        }
        Ok(())
    }

    fn reopen(&mut self) -> io::Result<()> {
        (self.file, self.regular) = open(&self.settings.path)?;
        self.length = self.file.metadata()?.len();
        self.since = Instant::now();
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<(File, bool)> {
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    let regular = file.metadata()?.is_file();
    Ok((file, regular))
}

/// Moves the file away, compresses it and removes the oldest ones.
fn rotate(settings: &RecordsFile) -> io::Result<()> {
    let path = &settings.path;
    let at = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%S%.9fZ");
    let moved = with_suffix(path, &format!(".{at}"));
    fs::rename(path, &moved)?;
    // From here on the new file can be made; what fails below leaves old ones as they are.
    if let Err(error) = compress(&moved) {
        tracing::warn!(%error, file = %moved.display(), "a rotated record file stays uncompressed");
    }
    remove_oldest(settings);
    Ok(())
}

fn compress(path: &Path) -> io::Result<()> {
    let target = with_suffix(path, ".zst");
    // Not under its name until it is whole: a process may be killed in the middle.
    let half = with_suffix(path, ".half");
    let mut from = File::open(path)?;
    let to = File::create(&half)?;
    let compressed = zstd::stream::copy_encode(&mut from, &to, LEVEL)
        .and_then(|()| to.sync_all())
        .and_then(|()| fs::rename(&half, &target));
    match compressed {
        Ok(()) => fs::remove_file(path),
        Err(error) => {
            let _ = fs::remove_file(&half);
            Err(error)
        }
    }
}

fn remove_oldest(settings: &RecordsFile) {
    let mut rotated = rotated(&settings.path).unwrap_or_else(|error| {
        tracing::warn!(%error, path = %settings.path.display(), "old record files are not found");
        Vec::new()
    });
    rotated.sort();
    let surplus = rotated.len().saturating_sub(settings.keep);
    let expired = |path: &Path| {
        let age = || fs::metadata(path).ok()?.modified().ok()?.elapsed().ok();
        settings
            .keep_for
            .is_some_and(|most| age().is_some_and(|age| age > most))
    };
    let gone = rotated
        .iter()
        .enumerate()
        .filter(|(i, path)| *i < surplus || expired(path));
    for (_, old) in gone {
        if let Err(error) = fs::remove_file(old) {
            tracing::warn!(%error, file = %old.display(), "an old record file stays beyond its time");
        }
    }
}

/// Rotated files beside `path`; their names sort by time.
///
/// # Errors
/// The folder cannot be read.
pub fn rotated(path: &Path) -> io::Result<Vec<PathBuf>> {
    let (Some(name), parent) = (path.file_name(), path.parent()) else {
        return Ok(Vec::new());
    };
    let directory = match parent {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let begin = format!("{}.", name.to_string_lossy());
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let other = entry.file_name();
        let other = other.to_string_lossy();
        let ours = other.strip_prefix(&begin).is_some_and(|rest| {
            let stamp = rest.strip_suffix(".zst").unwrap_or(rest);
            stamp.ends_with('Z') && stamp.starts_with(|c: char| c.is_ascii_digit())
        });
        if ours {
            found.push(entry.path());
        }
    }
    // Where a process was killed between the two, a file is there plain and packed: once is enough.
    let packed: Vec<PathBuf> = found
        .iter()
        .filter(|path| path.extension().is_some_and(|end| end == "zst"))
        .map(|path| path.with_extension(""))
        .collect();
    found.retain(|path| !packed.contains(path));
    Ok(found)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
impl RecordFile {
    /// Every write fails as on a full disk, or no longer.
    pub(super) fn break_writes(&mut self, broken: bool) {
        let path = if broken {
            Path::new("/dev/full")
        } else {
            &self.settings.path
        };
        (self.file, self.regular) = open(path).unwrap();
    }

    /// The next write compares path and file.
    pub(super) fn look_now(&mut self) {
        self.looked = Instant::now().checked_sub(LOOK).unwrap();
    }
}
