//! Captured answers of real engines, `tests/fixtures/captures/**/*.raw`: status line, headers and
//! body as they came over the wire.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::process::root;

/// One captured answer.
#[derive(Debug)]
pub struct Capture {
    /// Its file, relative to the folder of captures.
    pub name: String,
    /// Everything as it came.
    pub raw: Vec<u8>,
    /// Status code.
    pub status: u16,
    /// Header lines, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, chunked framing undone.
    pub body: Vec<u8>,
    /// False when the capture ends before its body does (its client left).
    pub whole: bool,
}

impl Capture {
    /// Reads one file.
    ///
    /// # Errors
    /// When it is no HTTP answer.
    pub fn read(folder: &Path, path: &Path) -> Result<Self> {
        let name = path.strip_prefix(folder)?.display().to_string();
        let raw = std::fs::read(path)?;
        Self::parse(name.clone(), raw).with_context(|| name)
    }

    fn parse(name: String, mut raw: Vec<u8>) -> Result<Self> {
        // A client that expected it was told to go on first; whoever replays need not.
        if raw.starts_with(b"HTTP/1.1 100 ")
            && let Some(end) = raw.windows(4).position(|w| w == b"\r\n\r\n")
        {
            raw.drain(..end + 4);
        }
        let mut lines = [httparse::EMPTY_HEADER; 64];
        let mut response = httparse::Response::new(&mut lines);
        let httparse::Status::Complete(head) = response.parse(&raw)? else {
            bail!("the head is not whole");
        };
        let status = response.code.context("no status")?;
        let headers: Vec<_> = response
            .headers
            .iter()
            .map(|h| {
                (
                    h.name.to_ascii_lowercase(),
                    String::from_utf8_lossy(h.value).trim().to_owned(),
                )
            })
            .collect();
        let of = |name: &str| {
            headers
                .iter()
                .find(|(n, _)| n == name)
                .map(|(_, v)| v.as_str())
        };
        let rest = raw.get(head..).unwrap_or_default();
        let (body, whole) = if of("transfer-encoding") == Some("chunked") {
            dechunk(rest)?
        } else if let Some(length) = of("content-length") {
            (rest.to_vec(), rest.len() == length.parse::<usize>()?)
        } else {
            (rest.to_vec(), true)
        };
        Ok(Self {
            name,
            status,
            headers,
            body,
            whole,
            raw,
        })
    }

    /// The first value of `name` (lower case).
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
    }
}

/// Undoes chunked framing; false when the last chunk is missing.
fn dechunk(mut rest: &[u8]) -> Result<(Vec<u8>, bool)> {
    let mut body = Vec::new();
    loop {
        let Some(line_end) = rest.windows(2).position(|w| w == b"\r\n") else {
            return Ok((body, false));
        };
        let (line, after) = rest.split_at(line_end);
        let digits = std::str::from_utf8(line)?
            .split(';')
            .next()
            .unwrap_or_default();
        let size = usize::from_str_radix(digits.trim(), 16)
            .with_context(|| format!("chunk size {digits:?}"))?;
        let after = after.get(2..).unwrap_or_default();
        if size == 0 {
            return Ok((body, true));
        }
        body.extend_from_slice(&after[..size.min(after.len())]);
        match after.get(size + 2..) {
            Some(next) => rest = next,
            None => return Ok((body, false)),
        }
    }
}

/// All captures, in order of their names.
///
/// # Errors
/// When a file can't be read.
pub fn all() -> Result<Vec<Capture>> {
    let folder = root().join("tests/fixtures/captures");
    let mut files = Vec::new();
    collect(&folder, &mut files)?;
    files.sort();
    files
        .iter()
        .map(|file| Capture::read(&folder, file))
        .collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "raw") {
            files.push(path);
        }
    }
    Ok(())
}
