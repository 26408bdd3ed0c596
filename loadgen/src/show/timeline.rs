//! One request from both sides, in one order of time.

use std::fmt::Write as _;

use inferscope_shared::clock::MonoNs;
use inferscope_shared::definitions::arithmetic::ms;
use inferscope_shared::record::delta;
use inferscope_shared::record::gateway::GatewayRecord;
use inferscope_shared::record::request::RequestRecord;
use serde::Serialize;

use crate::analysis::lines::Lines;
use crate::analysis::{AnalysisError, Raw, scratch_dirs};
use crate::artifacts::layout::RunDir;
use crate::attribution::events::Pieces;
use crate::stats::spill::Spill;

/// One request's story.
#[derive(Debug, Serialize)]
pub struct Timeline {
    /// The client's record.
    pub client: RequestRecord,
    /// The gateway's, where joined.
    pub gateway: Option<GatewayRecord>,
    /// Every stamp, in order of time; milliseconds from the first one.
    pub entries: Vec<Entry>,
}

/// One stamp.
#[derive(Debug, Serialize)]
pub struct Entry {
    /// Milliseconds since the first stamp.
    pub at_ms: f64,
    /// `client` or `gateway`.
    pub side: &'static str,
    /// What happened.
    pub what: String,
}

/// Ids that a refusal names.
const CANDIDATES: usize = 6;

/// Finds a request by its id, the gateway's id, or the end of the client's (`c4.17`) where only
/// one ends like that.
pub(crate) fn of(run: &RunDir, id: &str) -> Result<Timeline, AnalysisError> {
    let raw = Raw::open(run)?;
    let row = find(run, id)?;
    let spill = Spill::new(scratch_dirs(run));
    let gateway = match raw.join(run, &spill)? {
        Some(mut join) if join.same_boot() => join.look_up(&row.request_id)?,
        _ => None,
    };
    spill.check()?;
    Ok(Timeline {
        entries: entries(&row, gateway.as_ref()),
        client: row,
        gateway,
    })
}

fn find(run: &RunDir, id: &str) -> Result<RequestRecord, AnalysisError> {
    let mut rows = Lines::open(&run.requests())?;
    let suffix = format!(".{id}");
    let mut found: Option<RequestRecord> = None;
    let mut others = Vec::new();
    while let Some(at) = rows.read::<RequestRecord>()? {
        let row = at.value;
        if row.request_id == id || row.gateway_request_id.as_deref() == Some(id) {
            return Ok(row);
        }
        if row.request_id.ends_with(&suffix) {
            if found.is_some() {
                others.push(row.request_id);
            } else {
                found = Some(row);
            }
        }
    }
    match found {
        Some(row) if others.is_empty() => Ok(row),
        Some(row) => Err(AnalysisError::Ambiguous {
            run: run.run_id().to_owned(),
            id: id.to_owned(),
            candidates: std::iter::once(row.request_id)
                .chain(others)
                .take(CANDIDATES)
                .collect(),
        }),
        None => Err(AnalysisError::NoSuchRequest {
            run: run.run_id().to_owned(),
            id: id.to_owned(),
            path: run.requests(),
        }),
    }
}

fn entries(row: &RequestRecord, record: Option<&GatewayRecord>) -> Vec<Entry> {
    let mut stamps: Vec<(u64, &'static str, String)> = Vec::new();
    let mut client = |at: Option<MonoNs>, what: &str| {
        stamps.extend(at.map(|at| (at.0, "client", what.to_owned())));
    };
    client(row.intended_ns, "intended");
    client(row.dispatched_ns, "dispatched");
    client(row.connect.start_ns, "connecting");
    client(row.connect.tcp_ns, "connected");
    client(row.sent_start_ns, "first write");
    client(row.sent_end_ns, "last write");
    client(row.head_ns, "response head read");
    let done_is_event = row.events.at_ns.len() == row.events.kind.len();
    client(row.done_ns.filter(|_| !done_is_event), "end mark");
    client(row.end_ns, "end");
    let origin = row.sent_start_ns.map_or(0, |t| t.0);
    let ends = delta::decode(0, &row.events.end_offset);
    for (index, at) in delta::decode(origin, &row.events.at_ns)
        .into_iter()
        .enumerate()
    {
        let kind = row
            .events
            .kind
            .get(index)
            .and_then(|k| serde_json::to_value(k).ok())
            .and_then(|k| k.as_str().map(str::to_owned))
            .unwrap_or_default();
        let end = ends.get(index).copied().unwrap_or_default();
        stamps.push((
            at,
            "client",
            format!("event {index} read: {kind}, ends at byte {end}"),
        ));
    }
    if let Some(record) = record {
        gateway(&mut stamps, record);
    }
    stamps.sort_by_key(|(at, ..)| *at);
    let first = stamps.first().map_or(0, |(at, ..)| *at);
    stamps
        .into_iter()
        .map(|(at, side, what)| Entry {
            at_ms: ms((at - first) as f64),
            side,
            what,
        })
        .collect()
}

fn gateway(stamps: &mut Vec<(u64, &'static str, String)>, record: &GatewayRecord) {
    let accept = record.t_accept_ns;
    for (relative, what) in [
        (Some(0), "first byte of the head"),
        (record.t_head_ns, "head read"),
        (record.t_auth_ns, "authenticated"),
        (record.t_body_ns, "body read"),
        (record.t_admitted_ns, "admitted"),
        (record.t_routed_ns, "routed"),
        (record.t_connected_ns, "connected to the engine"),
        (record.t_request_sent_ns, "request sent to the engine"),
        (record.t_response_head_ns, "response head from the engine"),
        (Some(record.t_end_ns), "settled"),
    ] {
        if let Some(ns) = relative {
            stamps.push((accept.plus_ns(ns).0, "gateway", what.to_owned()));
        }
    }
    let pieces = Pieces::of(record);
    for (index, &at) in pieces.read.iter().enumerate() {
        let end = pieces.ends.get(index).copied().unwrap_or_default();
        stamps.push((
            at,
            "gateway",
            format!("piece {index} read, ends at byte {end}"),
        ));
    }
    for (index, &at) in pieces.written.iter().enumerate() {
        stamps.push((at, "gateway", format!("piece {index} written")));
    }
}

impl Timeline {
    /// The story as text, one stamp a line.
    #[must_use]
    pub fn text(&self) -> String {
        let row = &self.client;
        let mut out = format!("{}\n", row.request_id);
        let outcome = serde_json::to_value(row.outcome).unwrap_or_default();
        let _ = writeln!(
            out,
            "client: {} status {} finish {} tokens {} body {} bytes sha256 {}",
            outcome.as_str().unwrap_or_default(),
            row.status.map_or_else(|| "–".to_owned(), |s| s.to_string()),
            row.finish_reason.as_deref().unwrap_or("–"),
            row.completion_tokens
                .map_or_else(|| "–".to_owned(), |n| n.to_string()),
            row.body_bytes,
            row.body_sha256.as_deref().unwrap_or("–"),
        );
        if let Some(kind) = &row.error_kind {
            let message = row.error_message.as_deref().unwrap_or("");
            let _ = writeln!(out, "error: {kind} {message}");
        }
        match &self.gateway {
            Some(g) => {
                let _ = writeln!(
                    out,
                    "gateway: {} endpoint {} attempts {} write blocked {:.3} ms sha256 {}",
                    g.request_id,
                    g.endpoint.as_deref().unwrap_or("–"),
                    g.attempts,
                    ms(g.write_blocked_ns as f64),
                    g.sha256_downstream.as_deref().unwrap_or("–"),
                );
            }
            None => out.push_str("gateway: no record\n"),
        }
        out.push_str("\n        ms  side     what\n");
        for entry in &self.entries {
            let _ = writeln!(
                out,
                "{:>10.3}  {:<7}  {}",
                entry.at_ms, entry.side, entry.what
            );
        }
        out
    }
}
