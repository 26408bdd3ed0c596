//! A workload to replay: JSONL, one request a line.
//!
//! `{"at_ms": 120.5, "messages": […] | "prompt": "…", "output_tokens": 64, "body": {…}}`; all but
//! the prompt is optional. Either every line has `at_ms`, then the file is its own schedule, or
//! none has. Times need not begin at zero; the first arrival does.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};
use thiserror::Error;

/// The lines of a workload file.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// At least one, with rising times.
    pub lines: Vec<Line>,
}

/// One request of a workload.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// When, in milliseconds.
    pub at_ms: Option<f64>,
    /// Text of the prompt.
    pub prompt: Option<String>,
    /// Chat messages.
    pub messages: Option<Value>,
    /// Tokens to ask for.
    pub output_tokens: Option<u64>,
    /// Further body fields.
    #[serde(default)]
    pub body: Map<String, Value>,
}

/// Why a file is no workload.
#[derive(Debug, Error)]
#[error("workload {file}{place}: {why}")]
pub struct WorkloadError {
    file: String,
    place: String,
    why: String,
}

impl Line {
    /// What is hashed as this request's prompt.
    #[must_use]
    pub fn content_text(&self) -> String {
        match (&self.prompt, &self.messages) {
            (Some(prompt), _) => prompt.clone(),
            (None, Some(messages)) => messages.to_string(),
            (None, None) => String::new(),
        }
    }
}

impl Workload {
    /// Reads a workload file.
    ///
    /// # Errors
    /// With the file and the line, for anything that is not as the module head says.
    pub fn read(path: &Path) -> Result<Self, WorkloadError> {
        let fault = |line: usize, why: String| WorkloadError {
            file: path.display().to_string(),
            place: if line == 0 {
                String::new()
            } else {
                format!(":{line}")
            },
            why,
        };
        let bytes = std::fs::read(path).map_err(|e| {
            fault(
                0,
                format!("cannot be read ({e}); give the path of a JSONL file"),
            )
        })?;
        // Editors put a byte order mark at the start of UTF-8; it is no part of the first line.
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        let mut lines = Vec::new();
        for (i, raw) in bytes.split(|&b| b == b'\n').enumerate() {
            let number = i + 1;
            let text = std::str::from_utf8(raw)
                .map_err(|_| fault(number, "is not UTF-8; save the file as UTF-8".to_owned()))?;
            if text.trim().is_empty() {
                continue;
            }
            let line: Line = serde_json::from_str(text).map_err(|e| {
                fault(
                    number,
                    format!(
                        "is no workload line ({e}); write {{\"prompt\": …}} or {{\"messages\": […]}} with at_ms, output_tokens, body as options"
                    ),
                )
            })?;
            check(&line, lines.last()).map_err(|why| fault(number, why))?;
            lines.push(line);
        }
        if lines.is_empty() {
            return Err(fault(
                0,
                "has no requests; write at least one line".to_owned(),
            ));
        }
        Ok(Self { lines })
    }

    /// Whether the file is its own schedule.
    #[must_use]
    pub fn has_times(&self) -> bool {
        self.lines.first().is_some_and(|l| l.at_ms.is_some())
    }

    /// Arrival times, the first at zero.
    pub fn offsets_ns(&self) -> impl Iterator<Item = u64> {
        let first = self.lines.first().and_then(|l| l.at_ms).unwrap_or(0.0);
        self.lines
            .iter()
            .map(move |l| ((l.at_ms.unwrap_or(first) - first) * 1e6).round() as u64)
    }
}

fn check(line: &Line, before: Option<&Line>) -> Result<(), String> {
    match (&line.prompt, &line.messages) {
        (None, None) => return Err("has neither prompt nor messages; give one".to_owned()),
        (Some(_), Some(_)) => return Err("has both prompt and messages; keep one".to_owned()),
        (None, Some(m)) if m.as_array().is_none_or(|m| m.is_empty()) => {
            return Err("messages is no list of at least one message".to_owned());
        }
        _ => {}
    }
    if line.output_tokens == Some(0) {
        return Err("output_tokens is 0; ask for at least 1".to_owned());
    }
    if line.at_ms.is_some_and(|t| t < 0.0) {
        return Err("at_ms is negative; times count from the start".to_owned());
    }
    if let Some(before) = before {
        if before.at_ms.is_some() != line.at_ms.is_some() {
            return Err("at_ms is on some lines only; give it on all lines or on none".to_owned());
        }
        if line.at_ms < before.at_ms {
            return Err("at_ms goes back; sort the lines by time".to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Result<Workload, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("w.jsonl");
        std::fs::write(&path, text).unwrap();
        Workload::read(&path).map_err(|e| e.to_string())
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_request() {
        let w = read(b"\xef\xbb\xbf{\"prompt\":\"a\"}\n").unwrap();
        assert_eq!(w.lines.len(), 1);
        assert!(read(b"\xef\xbb\xbf").is_err());
    }

    #[test]
    fn a_workload_with_times_is_its_own_schedule() {
        let w = read(
            b"{\"at_ms\":100,\"prompt\":\"a\"}\n\n{\"at_ms\":100.5,\"messages\":[{\"role\":\"user\",\"content\":\"b\"}],\"output_tokens\":3,\"body\":{\"n\":1}}",
        )
        .unwrap();
        assert!(w.has_times());
        assert_eq!(w.offsets_ns().collect::<Vec<_>>(), [0, 500_000]);
        assert_eq!(w.lines[1].output_tokens, Some(3));
    }

    #[test]
    fn every_fault_names_its_line() {
        for (text, says) in [
            (
                &b"{\"prompt\":\"a\"}\nnonsense"[..],
                "w.jsonl:2: is no workload line",
            ),
            (b"\xff", ":1: is not UTF-8"),
            (b"{}", "neither prompt nor messages"),
            (b"{\"prompt\":\"a\",\"messages\":[]}", "both"),
            (b"{\"messages\":[]}", "no list"),
            (b"{\"prompt\":\"a\",\"promt\":1}", "unknown field"),
            (
                b"{\"prompt\":\"a\",\"at_ms\":2}\n{\"prompt\":\"a\"}",
                "on some lines",
            ),
            (
                b"{\"prompt\":\"a\",\"at_ms\":2}\n{\"prompt\":\"a\",\"at_ms\":1}",
                "goes back",
            ),
            (
                b"{\"prompt\":\"a\",\"output_tokens\":0}",
                "output_tokens is 0",
            ),
            (b"\n\n", "has no requests"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
