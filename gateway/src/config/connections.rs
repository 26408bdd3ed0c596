//! How many connections clients may have.

use inferscope_shared::strict_yaml::{Node, Problems};

use rustix::process::{Resource, getrlimit};

use super::limits::positive;

/// Connections that are open at a time, on all data ports together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connections {
    /// In all.
    pub max: u64,
    /// From one IP address.
    pub per_address: Option<u64>,
}

/// Unless said otherwise, where there are descriptors for so many.
const MOST: u64 = 16_384;
/// Descriptors of one client that is being served: its socket, that once more, and its engine's.
const DESCRIPTORS_EACH: u64 = 3;
/// Descriptors that the process needs beside those.
const DESCRIPTORS_BESIDE: u64 = 256;

impl Default for Connections {
    fn default() -> Self {
        // The process raises its own limit to the hard one when it starts.
        let descriptors = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        let affordable = descriptors.saturating_sub(DESCRIPTORS_BESIDE) / DESCRIPTORS_EACH;
        Self {
            max: MOST.min(affordable).max(1),
            per_address: None,
        }
    }
}

impl Connections {
    /// Descriptors that so many need.
    #[must_use]
    pub const fn descriptors(&self) -> u64 {
        self.max
            .saturating_mul(DESCRIPTORS_EACH)
            .saturating_add(DESCRIPTORS_BESIDE)
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
