//! Client rows and gateway records of the same requests, put together.
//!
//! The join is on `client_request_id`; what does not fit is counted, never dropped silently.
//! Records stay on disk: an index says where each one lies. Events of one request meet by their
//! end offset in the decoded body, which both sides count alike: an event that ends at E came
//! with the first piece that ends at E or later.

use std::collections::HashMap;
use std::path::Path;

use inferscope_shared::record::gateway::{GatewayRecord, Header, Outcome as GatewayOutcome};
use inferscope_shared::record::request::{Outcome, RequestRecord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::analysis::AnalysisError;
use crate::analysis::lines::Lines;

/// How rows and records met.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JoinReport {
    /// Requests of gateway arms that were sent and answered, warm-up included.
    pub answered: u64,
    /// Requests with exactly one record, answered or not.
    pub joined: u64,
    /// Answered requests without a record.
    pub unjoined: u64,
    /// Requests that were sent, got no answer and have no record either.
    pub unanswered: u64,
    /// Ids that occur again, in rows or in records; the first one counts.
    pub duplicates: u64,
    /// Records of this run whose request is in no row.
    pub records_without_row: u64,
    /// Records that the gateway says it lost; null when its header line is missing.
    pub records_dropped: Option<u64>,
    /// A boot that records are of and the client is not: stamps cannot be compared.
    pub foreign_boot_id: Option<String>,
    /// Whether bytes are the same on all sides.
    pub hashes: Hashes,
    /// The first requests that did not fit.
    pub examples: Vec<String>,
}

/// `body_sha256 = sha256_downstream = sha256_upstream`, over answers that have all three.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hashes {
    /// Answers that ended ok on both sides and have all three hashes.
    pub compared: u64,
    /// All three equal.
    pub equal: u64,
    /// Not equal.
    pub different: u64,
    /// The first request whose hashes differ.
    pub first_difference: Option<String>,
}

/// A line of the file: a header, or a record of which only the id is looked at.
#[derive(Deserialize)]
struct Line {
    header: Option<Header>,
    client_request_id: Option<String>,
    boot_id: Option<String>,
}

#[derive(Debug)]
struct Place {
    offset: u64,
    met: bool,
}

/// Gateway records of one run, while its rows go by.
#[derive(Debug)]
pub struct Join {
    lines: Lines,
    index: HashMap<String, Place>,
    report: JoinReport,
}

/// Requests named in a report.
const EXAMPLES: usize = 5;

impl Join {
    /// Indexes a file of records. `boot_id` is the client's.
    ///
    /// # Errors
    /// When the file cannot be read or holds a line that is neither header nor record.
    pub fn open(path: &Path, run_id: &str, boot_id: Option<&str>) -> Result<Self, AnalysisError> {
        let mut lines = Lines::open(path)?;
        let mut index: HashMap<String, Place> = HashMap::new();
        let mut report = JoinReport::default();
        let prefix = format!("{run_id}.");
        while let Some(at) = lines.read::<Line>()? {
            let line = at.value;
            if let Some(header) = line.header {
                report.records_dropped = report.records_dropped.max(Some(header.dropped));
                continue;
            }
            let Some(id) = line.client_request_id.filter(|id| id.starts_with(&prefix)) else {
                continue;
            };
            if line.boot_id.as_deref() != boot_id {
                report
                    .foreign_boot_id
                    .get_or_insert_with(|| line.boot_id.unwrap_or_else(|| "unknown".to_owned()));
            }
            if index.contains_key(&id) {
                report.duplicates += 1;
                example(&mut report, format!("{id}: more than one record"));
                continue;
            }
            let offset = at.offset;
            index.insert(id, Place { offset, met: false });
        }
        Ok(Self {
            lines,
            index,
            report,
        })
    }

    /// Takes the next row of a gateway arm and returns its record.
    ///
    /// # Errors
    /// When the record cannot be read back.
    pub fn meet(&mut self, row: &RequestRecord) -> Result<Option<GatewayRecord>, AnalysisError> {
        if row.outcome == Outcome::Dropped {
            return Ok(None);
        }
        let answered = row.status.is_some();
        self.report.answered += u64::from(answered);
        let Some(place) = self.index.get_mut(&row.request_id) else {
            if answered {
                self.report.unjoined += 1;
                let id = &row.request_id;
                example(&mut self.report, format!("{id}: no record"));
            } else {
                self.report.unanswered += 1;
            }
            return Ok(None);
        };
        if place.met {
            self.report.duplicates += 1;
            let id = &row.request_id;
            example(&mut self.report, format!("{id}: more than one row"));
            return Ok(None);
        }
        place.met = true;
        let offset = place.offset;
        let record: Option<GatewayRecord> = self.lines.at(offset)?;
        if let Some(record) = &record {
            self.report.joined += 1;
            compare(&mut self.report.hashes, row, record);
        }
        Ok(record)
    }

    /// The record of one request, without counting it; for looking at a single request.
    ///
    /// # Errors
    /// When the record cannot be read back.
    pub fn look_up(&mut self, request_id: &str) -> Result<Option<GatewayRecord>, AnalysisError> {
        match self.index.get(request_id).map(|place| place.offset) {
            Some(offset) => self.lines.at(offset),
            None => Ok(None),
        }
    }

    /// Whether stamps of both sides can be compared.
    #[must_use]
    pub fn same_boot(&self) -> bool {
        self.report.foreign_boot_id.is_none()
    }

    /// The report, once all rows went by.
    #[must_use]
    pub fn report(&self) -> JoinReport {
        let mut report = self.report.clone();
        let mut left: Vec<&String> = self
            .index
            .iter()
            .filter(|(_, place)| !place.met)
            .map(|(id, _)| id)
            .collect();
        left.sort_unstable();
        report.records_without_row = left.len() as u64;
        for id in left {
            example(&mut report, format!("{id}: no row"));
        }
        report
    }
}

fn example(report: &mut JoinReport, text: String) {
    if report.examples.len() < EXAMPLES {
        report.examples.push(text);
    }
}

fn compare(hashes: &mut Hashes, row: &RequestRecord, record: &GatewayRecord) {
    if row.outcome != Outcome::Ok || record.outcome != GatewayOutcome::Ok {
        return;
    }
    let (Some(client), Some(down), Some(up)) = (
        &row.body_sha256,
        &record.sha256_downstream,
        &record.sha256_upstream,
    ) else {
        return;
    };
    hashes.compared += 1;
    if client == down && down == up {
        hashes.equal += 1;
    } else {
        hashes.different += 1;
        hashes
            .first_difference
            .get_or_insert_with(|| row.request_id.clone());
    }
}

/// For each event of the client, by its end offset, the index of the gateway's piece that
/// brought its last byte; `None` past the last piece. Both rise.
#[must_use]
pub fn pieces_of_events(event_ends: &[u64], piece_ends: &[u64]) -> Vec<Option<usize>> {
    let mut piece = 0;
    event_ends
        .iter()
        .map(|&end| {
            while piece_ends.get(piece).is_some_and(|&it| it < end) {
                piece += 1;
            }
            (piece < piece_ends.len()).then_some(piece)
        })
        .collect()
}

#[cfg(test)]
mod tests;
