//! Graphics cards, by NVML.

use inferscope_shared::clock::MonoNs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Line of `gpu_metrics.jsonl`: one card at one instant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GpuSample {
    /// When.
    pub t_ns: MonoNs,
    /// The card's index.
    pub index: u32,
    /// Its unique id.
    pub uuid: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// Share of time with a kernel running, 0 to 1.
    pub utilization: Option<f64>,
    /// Memory in use.
    pub memory_used_bytes: Option<u64>,
    /// Memory there is.
    pub memory_total_bytes: Option<u64>,
    /// Power drawn now.
    pub power_watts: Option<f64>,
    /// Energy used since the driver was loaded.
    pub energy_joules: Option<f64>,
    /// Clock of the multiprocessors.
    pub sm_clock_mhz: Option<u32>,
    /// The highest that it can have.
    pub sm_clock_max_mhz: Option<u32>,
    /// Clock of the memory.
    pub memory_clock_mhz: Option<u32>,
    /// Temperature.
    pub temperature_celsius: Option<f64>,
    /// Why clocks are held back now, NVML's reasons in snake case; null = not said.
    pub throttle: Option<Vec<String>>,
    /// Processes on the card; null = not said.
    pub processes: Option<Vec<GpuProcess>>,
}

/// A process on a card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GpuProcess {
    /// Its id, in this namespace as far as NVML knows.
    pub pid: u32,
    /// Its name; null where it cannot be seen.
    pub name: Option<String>,
    /// Memory that it holds on the card.
    pub memory_bytes: Option<u64>,
    /// Belongs to the engine's process tree; null when that is not known.
    pub engine: Option<bool>,
}
