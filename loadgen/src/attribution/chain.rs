//! The stamps of one request in the order in which things happen, and the steps between them.

use inferscope_shared::clock::MonoNs;
use inferscope_shared::definitions::arithmetic::ms;
use inferscope_shared::record::gateway::GatewayRecord;
use inferscope_shared::record::request::RequestRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::events::Pieces;

/// Whose time a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    /// The client's.
    Client,
    /// On the way between client and gateway.
    Wire,
    /// The gateway's.
    Gateway,
    /// The engine's, the way to it included.
    Engine,
}

impl Owner {
    /// As printed.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Wire => "wire",
            Self::Gateway => "gateway",
            Self::Engine => "engine",
        }
    }
}

/// One step between two neighbouring stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Its id.
    pub id: &'static str,
    /// In words.
    pub name: &'static str,
    /// Whose time it is.
    pub owner: Owner,
    /// Stamp that it starts with.
    pub from: &'static str,
    /// Stamp that it ends with.
    pub to: &'static str,
}

const fn step(
    id: &'static str,
    name: &'static str,
    owner: Owner,
    from: &'static str,
    to: &'static str,
) -> Step {
    Step {
        id,
        name,
        owner,
        from,
        to,
    }
}

/// Steps through a gateway.
const THROUGH: &[Step] = &[
    step(
        "client_send",
        "client to gateway",
        Owner::Wire,
        "client.sent_start_ns",
        "gateway.t_accept_ns",
    ),
    step(
        "gateway_head",
        "request head",
        Owner::Gateway,
        "gateway.t_accept_ns",
        "gateway.t_head_ns",
    ),
    step(
        "gateway_auth",
        "authentication",
        Owner::Gateway,
        "gateway.t_head_ns",
        "gateway.t_auth_ns",
    ),
    step(
        "gateway_body",
        "request body",
        Owner::Gateway,
        "gateway.t_auth_ns",
        "gateway.t_body_ns",
    ),
    step(
        "gateway_admit",
        "admission",
        Owner::Gateway,
        "gateway.t_body_ns",
        "gateway.t_admitted_ns",
    ),
    step(
        "gateway_route",
        "routing",
        Owner::Gateway,
        "gateway.t_admitted_ns",
        "gateway.t_routed_ns",
    ),
    step(
        "gateway_connect",
        "connection to the engine",
        Owner::Gateway,
        "gateway.t_routed_ns",
        "gateway.t_connected_ns",
    ),
    step(
        "gateway_send",
        "request to the engine",
        Owner::Gateway,
        "gateway.t_connected_ns",
        "gateway.t_request_sent_ns",
    ),
    step(
        "engine_first_byte",
        "engine to first byte",
        Owner::Engine,
        "gateway.t_request_sent_ns",
        "gateway.t_first_byte_ns",
    ),
    step(
        "engine_first_output",
        "first byte to first output",
        Owner::Engine,
        "gateway.t_first_byte_ns",
        "gateway.t_first_output_ns",
    ),
    step(
        "gateway_relay",
        "relay of the first output",
        Owner::Gateway,
        "gateway.t_first_output_ns",
        "gateway.written_ns of its piece",
    ),
    step(
        "delivery",
        "gateway to client",
        Owner::Wire,
        "gateway.written_ns of its piece",
        "client.first_output_ns",
    ),
];

/// Steps without a gateway, as far as a client can tell them apart.
const DIRECT: &[Step] = &[
    step(
        "client_send",
        "request written",
        Owner::Client,
        "client.sent_start_ns",
        "client.sent_end_ns",
    ),
    step(
        "engine_head",
        "engine to response head",
        Owner::Engine,
        "client.sent_end_ns",
        "client.head_ns",
    ),
    step(
        "engine_first_event",
        "head to first event",
        Owner::Engine,
        "client.head_ns",
        "client.first_event_ns",
    ),
    step(
        "engine_first_output",
        "first event to first output",
        Owner::Engine,
        "client.first_event_ns",
        "client.first_output_ns",
    ),
];

/// The steps of a path.
#[must_use]
pub const fn steps(through_gateway: bool) -> &'static [Step] {
    if through_gateway { THROUGH } else { DIRECT }
}

/// The stamps of one request; one more than there are steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    stamps: Vec<Option<MonoNs>>,
}

impl Chain {
    /// The stamps of a row and, through a gateway, its record.
    #[must_use]
    pub fn of(row: &RequestRecord, record: Option<&GatewayRecord>) -> Self {
        let Some(record) = record else {
            return Self {
                stamps: vec![
                    row.sent_start_ns,
                    row.sent_end_ns,
                    row.head_ns,
                    row.first_event_ns,
                    row.first_output_ns,
                ],
            };
        };
        let accept = record.t_accept_ns;
        let abs = |relative: Option<u64>| relative.map(|ns| accept.plus_ns(ns));
        Self {
            stamps: vec![
                row.sent_start_ns,
                Some(accept),
                abs(record.t_head_ns),
                abs(record.t_auth_ns),
                abs(record.t_body_ns),
                abs(record.t_admitted_ns),
                abs(record.t_routed_ns),
                abs(record.t_connected_ns),
                abs(record.t_request_sent_ns),
                abs(record.t_first_byte_ns),
                abs(record.t_first_output_ns),
                Pieces::of(record).written_of_first_output(row),
                row.first_output_ns,
            ],
        }
    }

    /// All of it, in nanoseconds: TTFT from sending.
    #[must_use]
    pub fn total_ns(&self) -> Option<i64> {
        between(*self.stamps.first()?, *self.stamps.last()?)
    }

    /// Each step in nanoseconds; `None` where one of its stamps is missing.
    pub fn steps_ns(&self) -> impl Iterator<Item = Option<i64>> {
        self.stamps.windows(2).map(|w| between(w[0], w[1]))
    }

    /// Each step as `(start, end)` in milliseconds from the first stamp.
    pub fn bars_ms(&self) -> impl Iterator<Item = Option<(f64, f64)>> {
        let origin = self.stamps.first().copied().flatten();
        self.stamps.windows(2).map(move |w| {
            Some((
                ms(between(origin, w[0])? as f64),
                ms(between(origin, w[1])? as f64),
            ))
        })
    }
}

fn between(from: Option<MonoNs>, to: Option<MonoNs>) -> Option<i64> {
    Some(to?.signed_since(from?))
}
