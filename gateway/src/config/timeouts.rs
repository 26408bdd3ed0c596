//! Time limits, each for one kind of waiting.

use std::time::Duration;

use inferscope_shared::strict_yaml::{Map, Node, Problems};

/// See each field. None may be zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    /// One connection attempt to an engine.
    pub connect: Duration,
    /// From the request being sent to the first byte of the answer's body.
    pub first_byte: Duration,
    /// Between two events of a stream (comments don't count).
    pub between_events: Duration,
    /// The whole request, from its head's first byte.
    pub total: Duration,
    /// The request's head, from its first byte.
    pub request_head: Duration,
    /// The request's body, from its head's end.
    pub request_body: Duration,
    /// Running streams after SIGTERM, before they are cut.
    pub drain: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            first_byte: Duration::from_secs(120),
            between_events: Duration::from_secs(60),
            total: Duration::from_secs(1_800),
            request_head: Duration::from_secs(10),
            request_body: Duration::from_secs(60),
            drain: Duration::from_secs(300),
        }
    }
}

pub(super) fn timeouts(node: &Node, problems: &mut Problems) -> Option<Timeouts> {
    let mut map = node.map(problems)?;
    let mut timeouts = Timeouts::default();
    for (key, slot) in [
        ("connect", &mut timeouts.connect),
        ("first_byte", &mut timeouts.first_byte),
        ("between_events", &mut timeouts.between_events),
        ("total", &mut timeouts.total),
        ("request_head", &mut timeouts.request_head),
        ("request_body", &mut timeouts.request_body),
        ("drain", &mut timeouts.drain),
    ] {
        if let Some(limit) = limit(&mut map, key, problems) {
            *slot = limit;
        }
    }
    map.finish(problems);
    Some(timeouts)
}

fn limit(map: &mut Map<'_>, key: &'static str, problems: &mut Problems) -> Option<Duration> {
    let node = map.get(key)?;
    let limit = node.duration(problems)?;
    if limit < Duration::from_millis(1) {
        node.complain(
            problems,
            "a limit is at least 1ms; leave the key out for its default",
        );
        return None;
    }
    Some(limit)
}
