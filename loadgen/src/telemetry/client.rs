//! The load generator's own state beyond its loop lag: threads, control group, TCP.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What one thread has used so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadUse {
    /// Its name; threads of one name are summed.
    pub name: String,
    /// CPU time.
    pub cpu_seconds: f64,
    /// Time that it was ready to run and had no core (schedstat); null where the kernel keeps none.
    pub run_wait_seconds: Option<f64>,
}

/// What the control group has held back so far.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CgroupUse {
    /// Periods in which the quota was used up.
    pub throttled_periods: u64,
    /// Time that its threads were held back.
    pub throttled_seconds: f64,
}

/// TCP segments of this network namespace so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TcpUse {
    /// Segments sent.
    pub segments_out: u64,
    /// Of those, sent again.
    pub retransmitted: u64,
}
