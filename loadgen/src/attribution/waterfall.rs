//! One request laid out in time, from its first written byte to its end.

use inferscope_shared::clock::MonoNs;
use inferscope_shared::definitions::arithmetic::ms;
use inferscope_shared::record::delta;
use inferscope_shared::record::gateway::GatewayRecord;
use inferscope_shared::record::request::RequestRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::chain::{Chain, Owner, steps};
use super::events::Pieces;

/// Ticks per row that a waterfall keeps.
const MOST_TICKS: usize = 500;

/// One request; milliseconds from `sent_start_ns`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Waterfall {
    /// The client's id of the request.
    pub request_id: String,
    /// The gateway's.
    pub gateway_request_id: Option<String>,
    /// From the first write to the end of the answer.
    pub total_ms: f64,
    /// Parts of the way, in order.
    pub bars: Vec<Bar>,
    /// Pieces read from the engine by the gateway.
    pub read_ms: Vec<f64>,
    /// Flushes to the client by the gateway.
    pub written_ms: Vec<f64>,
    /// Events read by the client.
    pub client_ms: Vec<f64>,
}

/// One part of the way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bar {
    /// Id of the segment.
    pub id: String,
    /// In words.
    pub name: String,
    /// Whose time it is.
    pub owner: Owner,
    /// Start.
    pub start_ms: f64,
    /// End; before the start if the stamps are in the other order.
    pub end_ms: f64,
}

/// From the first write to the end of the answer.
#[must_use]
pub fn whole_ms(row: &RequestRecord) -> Option<f64> {
    let end = row.done_ns.or(row.end_ns)?;
    Some(ms(end.signed_since(row.sent_start_ns?) as f64))
}

impl Waterfall {
    /// Lays out a row, with its record if it went through a gateway.
    #[must_use]
    pub fn of(row: &RequestRecord, record: Option<&GatewayRecord>) -> Option<Self> {
        let origin = row.sent_start_ns?;
        let total_ms = whole_ms(row)?;
        let from_origin = |at: MonoNs| ms(at.signed_since(origin) as f64);
        let mut bars: Vec<Bar> = steps(record.is_some())
            .iter()
            .zip(Chain::of(row, record).bars_ms())
            .filter_map(|(step, bar)| {
                let (start_ms, end_ms) = bar?;
                Some(Bar {
                    id: step.id.to_owned(),
                    name: step.name.to_owned(),
                    owner: step.owner,
                    start_ms,
                    end_ms,
                })
            })
            .collect();
        let mut further =
            |id: &str, name: &str, owner, from: Option<MonoNs>, to: Option<MonoNs>| {
                if let (Some(from), Some(to)) = (from, to) {
                    bars.push(Bar {
                        id: id.to_owned(),
                        name: name.to_owned(),
                        owner,
                        start_ms: from_origin(from),
                        end_ms: from_origin(to),
                    });
                }
            };
        let (first, last) = (row.first_output_ns, row.last_output_ns);
        further("stream", "first to last output", Owner::Engine, first, last);
        further(
            "end",
            "last output to end",
            Owner::Engine,
            last,
            row.done_ns.or(row.end_ns),
        );

        let at = delta::decode(origin.0, &row.events.at_ns);
        let pieces = record.map(Pieces::of);
        let ticks = |stamps: &[u64]| -> Vec<f64> {
            let mut stamps = stamps.to_vec();
            stamps.dedup();
            let step = stamps.len().div_ceil(MOST_TICKS).max(1);
            stamps
                .iter()
                .step_by(step)
                .map(|&t| from_origin(MonoNs(t)))
                .collect()
        };
        Some(Self {
            request_id: row.request_id.clone(),
            gateway_request_id: record.map(|r| r.request_id.clone()),
            total_ms,
            read_ms: pieces.as_ref().map_or_else(Vec::new, |p| ticks(&p.read)),
            written_ms: pieces.as_ref().map_or_else(Vec::new, |p| ticks(&p.written)),
            client_ms: ticks(&at),
            bars,
        })
    }
}
