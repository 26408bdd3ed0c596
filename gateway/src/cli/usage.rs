//! `usage export`: what was used, from record files: requests and tokens by day and tenant, or by
//! more.
//!
//! Rotated files are read with the present one, compressed or not. A line that is no record is
//! counted and told, never taken for nothing.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};

use inferscope_shared::record::gateway::{GatewayRecord, HeaderLine, Outcome};
use serde::Serialize;

use crate::records::file::rotated;

/// What rows are told apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum By {
    /// The day in UTC.
    Day,
    /// The month in UTC.
    Month,
    /// The tenant.
    Tenant,
    /// The key's id.
    Key,
    /// The model as clients name it.
    Model,
}

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// Comma-separated, with a header line.
    Csv,
    /// One JSON object per line.
    Json,
}

/// Sums of one row.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Sums {
    /// Requests, refused ones too.
    requests: u64,
    /// Requests that the gateway refused.
    refused: u64,
    /// Requests that did not end well for another reason.
    failed: u64,
    /// Tokens of prompts.
    prompt_tokens: u64,
    /// Those of them that came from the engine's prefix cache.
    cached_tokens: u64,
    /// Tokens of answers.
    completion_tokens: u64,
    /// Good answers whose engine reported no usage: their tokens are in no sum.
    without_usage: u64,
}

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: BTreeMap<Vec<String>, Sums>,
    /// Lines that are no records.
    pub(super) unreadable: u64,
    /// Records that the files say were dropped before they could be written.
    pub(super) dropped: u64,
}

/// Days to look at, in UTC, both included.
#[derive(Debug, Clone, Default)]
pub(super) struct Days {
    pub(super) since: Option<String>,
    pub(super) until: Option<String>,
}

impl Days {
    fn holds(&self, day: &str) -> bool {
        self.since.as_deref().is_none_or(|since| day >= since)
            && self.until.as_deref().is_none_or(|until| day <= until)
    }
}

/// Reads the record file at `path` and those rotated from it.
///
/// # Errors
/// A file cannot be read; which one.
pub(super) fn read(path: &Path, by: &[By], days: &Days) -> Result<Table, String> {
    let name = |path: &Path, error: io::Error| {
        format!(
            "cannot read {}: {error}; name the path that `records.file` has",
            path.display()
        )
    };
    let mut files: Vec<PathBuf> = rotated(path).map_err(|error| name(path, error))?;
    files.sort();
    if path.exists() || files.is_empty() {
        files.push(path.to_owned());
    }
    let mut table = Table::default();
    for file in files {
        table
            .add_file(&file, by, days)
            .map_err(|error| name(&file, error))?;
    }
    Ok(table)
}

impl Table {
    fn add_file(&mut self, path: &Path, by: &[By], days: &Days) -> io::Result<()> {
        let file = File::open(path)?;
        let reader: Box<dyn Read> = match path.extension() {
            Some(end) if end == "zst" => Box::new(zstd::stream::Decoder::new(file)?),
            _ => Box::new(file),
        };
        let mut reader = BufReader::new(reader);
        let mut line = Vec::new();
        let mut first = true;
        loop {
            line.clear();
            if reader.read_until(b'\n', &mut line)? == 0 {
                return Ok(());
            }
            // A file begins with a header.
            let header = std::mem::take(&mut first) && line.starts_with(b"{\"header\"");
            if header {
                let header = serde_json::from_slice::<HeaderLine>(&line);
                self.dropped += header.map_or(0, |line| line.header.dropped);
                continue;
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            match serde_json::from_slice::<GatewayRecord>(&line) {
                Ok(record) => self.add(&record, by, days),
                Err(_) => self.unreadable += 1,
            }
        }
    }

    fn add(&mut self, record: &GatewayRecord, by: &[By], days: &Days) {
        let day = record.t_accept_utc.get(..10).unwrap_or_default();
        if !days.holds(day) {
            return;
        }
        let none = || "-".to_owned();
        let row = by.iter().map(|by| match by {
            By::Day => day.to_owned(),
            By::Month => day.get(..7).unwrap_or_default().to_owned(),
            By::Tenant => record.tenant.clone().unwrap_or_else(none),
            By::Key => record.key_id.clone().unwrap_or_else(none),
            By::Model => record.model.clone().unwrap_or_else(none),
        });
        let sums = self.rows.entry(row.collect()).or_default();
        sums.requests += 1;
        match record.outcome {
            Outcome::Ok => {}
            Outcome::Refused => sums.refused += 1,
            _ => sums.failed += 1,
        }
        let usage = &record.usage;
        sums.prompt_tokens = sums
            .prompt_tokens
            .saturating_add(usage.prompt_tokens.unwrap_or(0));
        sums.cached_tokens = sums
            .cached_tokens
            .saturating_add(usage.cached_tokens.unwrap_or(0));
        sums.completion_tokens = sums
            .completion_tokens
            .saturating_add(usage.completion_tokens.unwrap_or(0));
        let uncounted = usage.prompt_tokens.is_none() && usage.completion_tokens.is_none();
        if record.outcome == Outcome::Ok && uncounted {
            sums.without_usage += 1;
        }
    }

    /// The rows in `format`.
    pub(super) fn write(&self, by: &[By], format: Format) -> String {
        let names: Vec<&str> = by.iter().map(|by| by.name()).collect();
        let mut text = String::new();
        if format == Format::Csv {
            text.push_str(&names.join(","));
            text.push_str(",requests,refused,failed,prompt_tokens,cached_tokens,completion_tokens,without_usage\n");
        }
        for (row, sums) in &self.rows {
            match format {
                Format::Csv => {
                    let cells: Vec<String> = row.iter().map(|cell| csv(cell)).collect();
                    let Sums {
                        requests,
                        refused,
                        failed,
                        prompt_tokens,
                        cached_tokens,
                        completion_tokens,
                        without_usage,
                    } = sums;
                    text.push_str(&format!(
                        "{},{requests},{refused},{failed},{prompt_tokens},{cached_tokens},{completion_tokens},{without_usage}\n",
                        cells.join(",")
                    ));
                }
                Format::Json => {
                    let mut object = serde_json::to_value(sums).unwrap_or_default();
                    for (name, cell) in names.iter().zip(row) {
                        object[*name] = cell.as_str().into();
                    }
                    text.push_str(&format!("{object}\n"));
                }
            }
        }
        text
    }
}

impl By {
    const fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Month => "month",
            Self::Tenant => "tenant",
            Self::Key => "key_id",
            Self::Model => "model",
        }
    }
}

/// A cell; quoted where it has to be. One that a spreadsheet would take for a formula (a model's
/// name comes from clients) is made text.
fn csv(cell: &str) -> String {
    let cell = match cell.as_bytes().first() {
        Some(b'=' | b'+' | b'@' | b'-') if cell.len() > 1 => format!("'{cell}"),
        _ => cell.to_owned(),
    };
    if cell.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::sample_record;

    #[test]
    fn all_files_are_summed_and_what_is_no_record_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.jsonl");
        let record = |tenant: &str, at: &str| {
            let mut record = sample_record();
            record.tenant = Some(tenant.to_owned());
            record.t_accept_utc = format!("{at}T10:00:00Z");
            record.usage.prompt_tokens = Some(10);
            record.usage.completion_tokens = Some(5);
            serde_json::to_string(&record).unwrap()
        };
        let old = [record("a", "2026-11-30"), record("b", "2026-11-30")].join("\n");
        let packed = zstd::encode_all(old.as_bytes(), 3).unwrap();
        std::fs::write(
            folder
                .path()
                .join("records.jsonl.20261130T235959.000000000Z.zst"),
            packed,
        )
        .unwrap();
        // A process that was killed before it removed the plain one leaves both.
        let plain = folder
            .path()
            .join("records.jsonl.20261130T235959.000000000Z");
        std::fs::write(plain, &old).unwrap();
        let new = [
            record("a", "2026-12-01"),
            record("a", "2026-12-01"),
            "{broken".to_owned(),
        ]
        .join("\n");
        std::fs::write(&path, new).unwrap();

        let table = read(&path, &[By::Tenant], &Days::default()).unwrap();
        assert_eq!(table.unreadable, 1);
        let text = table.write(&[By::Tenant], Format::Csv);
        assert!(text.contains("\na,3,0,"), "{text}");
        assert!(text.contains(",30,") && text.contains("\nb,1,"), "{text}");
        let days = Days {
            since: Some("2026-12-01".to_owned()),
            until: None,
        };
        let by = [By::Day, By::Tenant];
        let table = read(&path, &by, &days).unwrap();
        let text = table.write(&by, Format::Json);
        assert_eq!(text.lines().count(), 1);
        let row: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (row["day"].as_str(), row["requests"].as_u64()),
            (Some("2026-12-01"), Some(2))
        );
    }

    #[test]
    fn a_missing_file_is_an_error_and_a_clients_text_no_formula() {
        let missing = read(
            Path::new("/nowhere/records.jsonl"),
            &[By::Day],
            &Days::default(),
        );
        assert!(missing.unwrap_err().contains("/nowhere"));
        assert_eq!(csv("=1+1"), "'=1+1");
        assert_eq!(csv("a\"b,c"), "\"a\"\"b,c\"");
    }
}
