//! Client rows and gateway records of the same requests, put together.
//!
//! The join is on `client_request_id`; what does not fit is counted, never dropped silently.
//! Records stay on disk: an index ([`index`]) says where each one lies. Events of one request meet by their
//! end offset in the decoded body, which both sides count alike: an event that ends at E came
//! with the first piece that ends at E or later.

mod index;

use std::path::Path;

use inferscope_shared::record::gateway::{GatewayRecord, Header, Outcome as GatewayOutcome};
use inferscope_shared::record::request::{Outcome, RequestRecord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::analysis::AnalysisError;
use crate::analysis::lines::Lines;
use crate::stats::spill::Spill;
use index::{Index, IndexBuilder};

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

/// Gateway records of one run, while its rows go by.
#[derive(Debug)]
pub struct Join {
    lines: Lines,
    index: Index,
    report: JoinReport,
}

/// Requests named in a report.
const EXAMPLES: usize = 5;

impl Join {
    /// Indexes a file of records. `boot_id` is the client's.
    ///
    /// # Errors
    /// When the file cannot be read or holds a line that is neither header nor record.
    pub fn open(
        path: &Path,
        run_id: &str,
        boot_id: Option<&str>,
        spill: &Spill,
    ) -> Result<Self, AnalysisError> {
        let mut lines = Lines::open(path)?;
        let mut index = IndexBuilder::new(spill);
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
            index.add(&id, at.offset);
        }
        let index = index.finish(
            |offset| id_at(&mut lines, offset),
            |id| {
                report.duplicates += 1;
                example(&mut report, format!("{id}: more than one record"));
            },
        )?;
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
        let Some((place, record)) = self.find(&row.request_id)? else {
            if answered {
                self.report.unjoined += 1;
                let id = &row.request_id;
                example(&mut self.report, format!("{id}: no record"));
            } else {
                self.report.unanswered += 1;
            }
            return Ok(None);
        };
        if !self.index.meet(place) {
            self.report.duplicates += 1;
            let id = &row.request_id;
            example(&mut self.report, format!("{id}: more than one row"));
            return Ok(None);
        }
        self.report.joined += 1;
        compare(&mut self.report.hashes, row, &record);
        Ok(Some(record))
    }

    /// The record of one request, without counting it; for looking at a single request.
    ///
    /// # Errors
    /// When the record cannot be read back.
    pub fn look_up(&mut self, request_id: &str) -> Result<Option<GatewayRecord>, AnalysisError> {
        Ok(self.find(request_id)?.map(|(_, record)| record))
    }

    /// The first record of a request, and its place in the index.
    fn find(&mut self, id: &str) -> Result<Option<(usize, GatewayRecord)>, AnalysisError> {
        for (place, offset) in self.index.candidates(id) {
            let record: Option<GatewayRecord> = self.lines.at(offset)?;
            if let Some(record) = record
                && record.client_request_id.as_deref() == Some(id)
            {
                return Ok(Some((place, record)));
            }
        }
        Ok(None)
    }

    /// Whether stamps of both sides can be compared.
    #[must_use]
    pub fn same_boot(&self) -> bool {
        self.report.foreign_boot_id.is_none()
    }

    /// The report, once all rows went by.
    ///
    /// # Errors
    /// When a record without a row cannot be read back.
    pub fn report(mut self) -> Result<JoinReport, AnalysisError> {
        self.report.records_without_row = self.index.unmet();
        let room = EXAMPLES.saturating_sub(self.report.examples.len());
        for offset in self.index.first_unmet(room) {
            let id = id_at(&mut self.lines, offset)?;
            example(&mut self.report, format!("{id}: no row"));
        }
        Ok(self.report)
    }
}

/// Whose record lies at `offset`.
fn id_at(lines: &mut Lines, offset: u64) -> Result<String, AnalysisError> {
    let line = lines.at::<Line>(offset)?;
    Ok(line
        .and_then(|line| line.client_request_id)
        .unwrap_or_default())
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
