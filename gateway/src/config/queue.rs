//! The queue before the engines: how many may wait, and how long.

use std::time::Duration;

use inferscope_shared::strict_yaml::{Node, Problems};

use super::limits::positive;

/// Bounds of each pool's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueConfig {
    /// Requests that may wait.
    pub max_requests: u64,
    /// Tokens that those may cost together.
    pub max_tokens: Option<u64>,
    /// Longest wait, counted from a request's first byte.
    pub max_wait: Duration,
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self {
            max_requests: 1_024,
            max_tokens: None,
            max_wait: Duration::from_secs(30),
        }
    }
}

pub(super) fn queue(node: &Node, problems: &mut Problems) -> Option<QueueConfig> {
    let mut map = node.map(problems)?;
    let defaults = QueueConfig::default();
    // None may wait: whoever finds no place is refused at once.
    let max_requests = map.u64("max_requests", problems);
    let queue = QueueConfig {
        max_requests: max_requests.unwrap_or(defaults.max_requests),
        max_tokens: map.read("max_tokens", problems, positive),
        max_wait: map
            .duration("max_wait", problems)
            .unwrap_or(defaults.max_wait),
    };
    map.finish(problems);
    Some(queue)
}
