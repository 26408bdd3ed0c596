//! How many connections clients may have.

use inferscope_shared::strict_yaml::{Node, Problems};

use super::limits::positive;

/// Connections that are open at a time, on all data ports together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connections {
    /// In all.
    pub max: u64,
    /// From one IP address.
    pub per_address: Option<u64>,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            max: 16_384,
            per_address: None,
        }
    }
}

pub(super) fn connections(node: &Node, problems: &mut Problems) -> Option<Connections> {
    let mut map = node.map(problems)?;
    let defaults = Connections::default();
    let connections = Connections {
        max: map.read("max", problems, positive).unwrap_or(defaults.max),
        per_address: map.read("per_address", problems, positive),
    };
    map.finish(problems);
    Some(connections)
}
