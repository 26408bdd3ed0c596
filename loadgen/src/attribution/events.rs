//! What the gateway adds to each event, and how events travel together.

use inferscope_shared::clock::MonoNs;
use inferscope_shared::definitions::arithmetic::ms;
use inferscope_shared::record::delta;
use inferscope_shared::record::gateway::GatewayRecord;
use inferscope_shared::record::request::{EventKind, RequestRecord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::join::pieces_of_events;
use crate::stats::spill::Spill;
use crate::stats::{Ordered, Summary, Values};

/// Per event of all joined answers of a point.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PerEvent {
    /// `written - read` of the piece that brought the event's last byte.
    pub added_delay_ms: Summary,
    /// Client's read of the event minus `written` of that piece.
    pub delivery_ms: Summary,
    /// Events whose added delay is negative.
    pub negative_added_delay: u64,
    /// Events whose delivery is negative.
    pub negative_delivery: u64,
    /// Events of the client that no piece holds, or whose piece has no write.
    pub unmatched: u64,
    /// How events travelled together.
    pub coalescing: Coalescing,
    /// Time per request that writes to the client were pending.
    pub write_blocked_ms: Summary,
}

/// How events travelled together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Coalescing {
    /// Events the gateway saw.
    pub events: u64,
    /// Pieces read from the engine.
    pub pieces: u64,
    /// Distinct completed flushes to the client.
    pub flushes: u64,
    /// `events / pieces`.
    pub events_per_piece: Option<f64>,
    /// `events / flushes`.
    pub events_per_flush: Option<f64>,
}

/// A record's pieces with absolute stamps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pieces {
    /// When each entered the gateway's filter.
    pub read: Vec<u64>,
    /// When each had been written; may be shorter.
    pub written: Vec<u64>,
    /// Where each ends in the body.
    pub ends: Vec<u64>,
}

impl Pieces {
    /// The pieces of a record.
    #[must_use]
    pub fn of(record: &GatewayRecord) -> Self {
        let accept = record.t_accept_ns.0;
        Self {
            read: delta::decode(accept, &record.chunks.read_ns),
            written: delta::decode(accept, &record.chunks.written_ns),
            ends: delta::decode(0, &record.chunks.end_offset),
        }
    }

    /// For each event of the row, the piece that brought its last byte.
    #[must_use]
    pub fn of_events(&self, row: &RequestRecord) -> Vec<Option<usize>> {
        pieces_of_events(&delta::decode(0, &row.events.end_offset), &self.ends)
    }

    /// When the piece with the row's first output had been written.
    #[must_use]
    pub fn written_of_first_output(&self, row: &RequestRecord) -> Option<MonoNs> {
        let first = row
            .events
            .kind
            .iter()
            .position(|&kind| kind == EventKind::Output)?;
        let piece = (*self.of_events(row).get(first)?)?;
        self.written.get(piece).copied().map(MonoNs)
    }
}

/// Per-event values of one point while its requests go by.
#[derive(Debug)]
pub(super) struct EventTimes {
    added: Values,
    delivery: Values,
    negative_added: u64,
    negative_delivery: u64,
    blocked: Ordered,
    unmatched: u64,
    coalescing: Coalescing,
}

impl EventTimes {
    /// None yet.
    pub fn new(spill: &Spill) -> Self {
        Self {
            added: Values::new(spill),
            delivery: Values::new(spill),
            negative_added: 0,
            negative_delivery: 0,
            blocked: Ordered::new(spill),
            unmatched: 0,
            coalescing: Coalescing::default(),
        }
    }

    /// Takes a joined answer.
    pub fn push(&mut self, row: &RequestRecord, record: &GatewayRecord) {
        self.blocked
            .extend(row.dispatched_ns, Some(ms(record.write_blocked_ns as f64)));
        let pieces = Pieces::of(record);
        let events = &record.chunks.events;
        self.coalescing.events = events
            .iter()
            .fold(self.coalescing.events, |sum, n| sum.saturating_add(*n));
        self.coalescing.pieces += pieces.read.len() as u64;
        let mut flushes = pieces.written.clone();
        flushes.dedup();
        self.coalescing.flushes += flushes.len() as u64;

        let at = delta::decode(row.sent_start_ns.map_or(0, |t| t.0), &row.events.at_ns);
        for (piece, at) in pieces.of_events(row).into_iter().zip(at) {
            let stamps = piece.and_then(|i| Some((pieces.read.get(i)?, pieces.written.get(i)?)));
            let Some((&read, &written)) = stamps else {
                self.unmatched += 1;
                continue;
            };
            let (read, written) = (MonoNs(read), MonoNs(written));
            let added = written.signed_since(read);
            let delivery = MonoNs(at).signed_since(written);
            self.negative_added += u64::from(added < 0);
            self.negative_delivery += u64::from(delivery < 0);
            self.added.extend([ms(added as f64)]);
            self.delivery.extend([ms(delivery as f64)]);
        }
    }

    /// The distributions. Events of one answer depend on each other, so intervals count each
    /// answer once.
    pub fn finish(self) -> PerEvent {
        let answers = self.blocked.len();
        let c = self.coalescing;
        let per = |whole: u64| (whole > 0).then(|| c.events as f64 / whole as f64);
        PerEvent {
            negative_added_delay: self.negative_added,
            negative_delivery: self.negative_delivery,
            added_delay_ms: self.added.sorted().summary(answers),
            delivery_ms: self.delivery.sorted().summary(answers),
            unmatched: self.unmatched,
            coalescing: Coalescing {
                events_per_piece: per(c.pieces),
                events_per_flush: per(c.flushes),
                ..c
            },
            write_blocked_ms: self.blocked.summary(),
        }
    }
}
