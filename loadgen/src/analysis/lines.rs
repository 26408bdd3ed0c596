//! JSON lines off a disk, one at a time, each with its place.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use inferscope_shared::record;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::AnalysisError;

/// A file of JSON lines.
#[derive(Debug)]
pub struct Lines {
    path: PathBuf,
    reader: BufReader<File>,
    buffer: Vec<u8>,
    offset: u64,
    number: u64,
}

/// A value and the byte offset of its line.
#[derive(Debug)]
pub struct At<T> {
    /// Offset of the line's first byte.
    pub offset: u64,
    /// The line's value.
    pub value: T,
}

impl Lines {
    /// Opens a file.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(path: &Path) -> Result<Self, AnalysisError> {
        let file = File::open(path).map_err(|e| AnalysisError::file(path, e))?;
        Ok(Self {
            path: path.to_path_buf(),
            reader: BufReader::with_capacity(128 * 1024, file),
            buffer: Vec::new(),
            offset: 0,
            number: 0,
        })
    }

    /// Goes to the next line that is not blank and returns its offset; `None` at the end. The line
    /// itself is [`Lines::bytes`].
    ///
    /// # Errors
    /// When the file cannot be read, or is of another schema version.
    pub fn step(&mut self) -> Result<Option<u64>, AnalysisError> {
        loop {
            self.buffer.clear();
            let offset = self.offset;
            let length = self
                .reader
                .read_until(b'\n', &mut self.buffer)
                .map_err(|e| AnalysisError::file(&self.path, e))?;
            if length == 0 {
                return Ok(None);
            }
            self.offset += length as u64;
            self.number += 1;
            if self.number == 1 {
                self.check_version()?;
            }
            if !self.buffer.trim_ascii().is_empty() {
                return Ok(Some(offset));
            }
        }
    }

    /// The next value; `None` at the end. A last line without a line end that is no JSON was
    /// being written when its writer was killed, and is left out.
    ///
    /// # Errors
    /// When the file cannot be read, or a whole line is not a `T`.
    pub fn read<T: DeserializeOwned>(&mut self) -> Result<Option<At<T>>, AnalysisError> {
        let Some(offset) = self.step()? else {
            return Ok(None);
        };
        match serde_json::from_slice(&self.buffer) {
            Ok(value) => Ok(Some(At { offset, value })),
            Err(_) if !self.buffer.ends_with(b"\n") => Ok(None),
            Err(e) => Err(AnalysisError::Line {
                path: self.path.clone(),
                line: self.number,
                why: e.to_string(),
            }),
        }
    }

    /// A file is written by one program, so its first line tells for all.
    fn check_version(&self) -> Result<(), AnalysisError> {
        #[derive(Deserialize)]
        struct Versioned {
            schema_version: Option<u32>,
            header: Option<Header>,
        }
        #[derive(Deserialize)]
        struct Header {
            schema_version: u32,
        }
        let line: Option<Versioned> = serde_json::from_slice(&self.buffer).ok();
        let found = line.and_then(|l| l.schema_version.or(l.header.map(|h| h.schema_version)));
        found
            .map_or(Ok(()), record::check_version)
            .map_err(|why| AnalysisError::Line {
                path: self.path.clone(),
                line: self.number,
                why,
            })
    }

    /// The value whose line starts at `offset`.
    ///
    /// # Errors
    /// When the file cannot be read there, or the line is not a `T`.
    pub fn at<T: DeserializeOwned>(&mut self, offset: u64) -> Result<Option<T>, AnalysisError> {
        // Relative, so that a place inside the buffer costs no read: rows and records lie in
        // nearly the same order.
        self.reader
            .seek_relative(offset.cast_signed() - self.offset.cast_signed())
            .map_err(|e| AnalysisError::file(&self.path, e))?;
        self.offset = offset;
        Ok(self.read()?.map(|it| it.value))
    }

    /// The bytes of the line last read, its end included. A line that is still being written may
    /// end within a character.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m29_a_line_cut_by_a_kill_is_left_out_and_others_are_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.jsonl");
        // The second cut goes through a character.
        for cut in [&b"{\"half"[..], b"{\"caf\xc3"] {
            std::fs::write(&path, [b"1\n\n22\n", cut].concat()).unwrap();
            let mut lines = Lines::open(&path).unwrap();
            let first = lines.read::<u32>().unwrap().unwrap();
            let second = lines.read::<u32>().unwrap().unwrap();
            assert_eq!((first.offset, first.value), (0, 1));
            assert_eq!((second.offset, second.value), (3, 22));
            assert!(lines.read::<u32>().unwrap().is_none());
            assert_eq!(lines.at::<u32>(3).unwrap(), Some(22));
        }
    }

    #[test]
    fn a_whole_line_that_is_wrong_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.jsonl");
        std::fs::write(&path, "1\n{\"half\n3\n").unwrap();
        let mut lines = Lines::open(&path).unwrap();
        lines.read::<u32>().unwrap();
        let error = lines.read::<u32>().unwrap_err().to_string();
        assert!(error.contains("x.jsonl:2:"), "{error}");
    }

    #[test]
    fn the_first_line_tells_the_schema_version_of_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.jsonl");
        let first = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let read = Lines::open(&path).unwrap().read::<serde_json::Value>();
            read.map(|_| ()).map_err(|e| e.to_string())
        };
        for other in [
            "{\"schema_version\":2,\"a\":1}\n",
            "{\"header\":{\"schema_version\":2}}\n",
        ] {
            let error = first(other).unwrap_err();
            assert!(
                error.contains("x.jsonl:1: is of schema version 2"),
                "{error}"
            );
        }
        for good in ["{\"schema_version\":1}\n", "{\"a\":1}\n", ""] {
            assert_eq!(first(good), Ok(()), "{good}");
        }
    }
}
