//! What the gateway adds, phase by phase, and how a client's latency splits over them.
//!
//! These are the names for people; nothing computes from them. The load generator's attribution
//! cuts a request at every stamp there is, so its segments are finer in places: each definition
//! says which of them it is the sum of.

use super::{Definition, Source, Unit};

/// Waiting for admission: the segment `gateway_admit`.
pub const GATEWAY_QUEUE: Definition = Definition {
    symbol: "gateway_queue_ms",
    name: "gateway queue",
    formula: "t_admitted_ns - t_body_ns",
    unit: Unit::Milliseconds,
    start: "t_body_ns: the caller is known and the body is read",
    end: "t_admitted_ns: limits and queue let the request pass",
    excludes: "the client's upload of the body, which comes before; refused requests",
    source: Source::Gateway,
};

/// Getting a connection to the engine: the segment `gateway_connect`.
pub const GATEWAY_CONNECT: Definition = Definition {
    symbol: "gateway_connect_ms",
    name: "gateway connect",
    formula: "t_connected_ns - t_routed_ns",
    unit: Unit::Milliseconds,
    start: "t_routed_ns: the endpoint is chosen, the first one where several were tried",
    end: "t_connected_ns: a connection to it is in hand, new or reused (conn_reused)",
    excludes: "nothing; failed attempts before the one that worked are inside",
    source: Source::Gateway,
};

/// The engine's time to its first output: the segments `engine_first_byte` and
/// `engine_first_output`.
pub const GATEWAY_PREFILL: Definition = Definition {
    symbol: "engine_prefill_ms",
    name: "engine time to first output",
    formula: "t_first_output_ns - t_request_sent_ns",
    unit: Unit::Milliseconds,
    start: "t_request_sent_ns: the last byte of the request was handed to the engine's connection",
    end: "t_first_output_ns: the piece with the first output was read from the engine",
    excludes: "nothing; what the connection still buffers, the network to the engine and the \
               engine's own queue are inside; null without output",
    source: Source::Gateway,
};

/// From reading a piece to having written it; for the piece with the first output it is the
/// segment `gateway_relay`.
pub const GATEWAY_RELAY: Definition = Definition {
    symbol: "gateway_relay_ms",
    name: "gateway added delay per event",
    formula: "written_ns - read_ns of the piece that carries the event's last byte",
    unit: Unit::Milliseconds,
    start: "read_ns: the piece enters the gateway's upstream filter",
    end: "written_ns: the completed flush towards the client that carried the piece's last byte",
    excludes: "time in the engine's socket before the read; a client that reads slowly shows here \
               and in write_blocked_ns",
    source: Source::Gateway,
};

/// From the gateway's write to the client's read; for the first output it is the segment
/// `delivery`.
pub const GATEWAY_DELIVERY: Definition = Definition {
    symbol: "delivery_ms",
    name: "delivery per event",
    formula: "client's at_ns of the event - written_ns of the piece that carries its last byte",
    unit: Unit::Milliseconds,
    start: "written_ns: the gateway's completed flush",
    end: "the client's read that brought the event's last byte",
    excludes: "null unless both records are of one boot; includes the client's own delay in reading",
    source: Source::Joined,
};

/// Writes that had to wait for the client; no segment, for it lies inside others.
pub const GATEWAY_WRITE_BLOCKED: Definition = Definition {
    symbol: "write_blocked_ms",
    name: "write blocked",
    formula: "write_blocked_ns",
    unit: Unit::Milliseconds,
    start: "a write towards the client would block",
    end: "the client's socket takes bytes again; summed over the answer",
    excludes: "writes that never had to wait",
    source: Source::Gateway,
};
