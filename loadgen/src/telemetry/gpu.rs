//! Graphics cards, by NVML.
//!
//! The driver's library is opened when a run starts, never linked: a machine without one says so
//! and goes on. What a card or a driver does not support is null in its line. `INFERSCOPE_NVML`
//! names another library, for a driver in an unusual place.
//!
//! The surprise: ids of processes on a card are those that the driver knows. In a container they
//! may be the host's, and whether such a process is the engine's cannot be said from here.

pub mod energy;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use inferscope_shared::clock::MonoNs;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sampler::{Lines, Source, When};
use super::{SourceReport, process};

/// Where the driver's library is, if not where the loader looks.
pub const LIBRARY: &str = "INFERSCOPE_NVML";

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

impl GpuSample {
    /// A card that says nothing.
    #[must_use]
    pub fn unknown(t_ns: MonoNs, index: u32) -> Self {
        Self {
            t_ns,
            index,
            uuid: None,
            name: None,
            utilization: None,
            memory_used_bytes: None,
            memory_total_bytes: None,
            power_watts: None,
            energy_joules: None,
            sm_clock_mhz: None,
            sm_clock_max_mhz: None,
            memory_clock_mhz: None,
            temperature_celsius: None,
            throttle: None,
            processes: None,
        }
    }
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

/// All cards that the driver shows.
#[derive(Debug)]
pub struct Cards {
    nvml: Nvml,
    /// Root of the engine's process tree, where known.
    engine: Option<u32>,
}

impl Cards {
    /// Opens the driver's library: `library`, or where the loader finds it.
    ///
    /// # Errors
    /// Why there is none, or why it does not work.
    pub fn open(library: Option<&OsStr>, engine: Option<u32>) -> Result<Self, String> {
        let mut builder = Nvml::builder();
        if let Some(path) = library {
            builder.lib_path(path);
        }
        let nvml = builder.init().map_err(|e| match e {
            NvmlError::LibloadingError(e) => format!("no NVIDIA driver on this host ({e})"),
            e => format!("NVML: {e}"),
        })?;
        match nvml.device_count() {
            Ok(0) => Err("the NVIDIA driver shows no card".to_owned()),
            Ok(_) => Ok(Self { nvml, engine }),
            Err(e) => Err(format!("NVML: {e}")),
        }
    }

    /// The library that [`LIBRARY`] names.
    #[must_use]
    pub fn named_library() -> Option<OsString> {
        std::env::var_os(LIBRARY).filter(|path| !path.is_empty())
    }

    fn card(&self, index: u32) -> GpuSample {
        let unknown = GpuSample::unknown(MonoNs::now(), index);
        let Ok(card) = self.nvml.device_by_index(index) else {
            return unknown;
        };
        let memory = card.memory_info().ok();
        GpuSample {
            uuid: card.uuid().ok(),
            name: card.name().ok(),
            utilization: card
                .utilization_rates()
                .ok()
                .map(|u| f64::from(u.gpu) / 100.0),
            memory_used_bytes: memory.as_ref().map(|m| m.used),
            memory_total_bytes: memory.as_ref().map(|m| m.total),
            power_watts: card.power_usage().ok().map(|mw| f64::from(mw) / 1e3),
            energy_joules: card
                .total_energy_consumption()
                .ok()
                .map(|mj| mj as f64 / 1e3),
            sm_clock_mhz: card.clock_info(Clock::SM).ok(),
            sm_clock_max_mhz: card.max_clock_info(Clock::SM).ok(),
            memory_clock_mhz: card.clock_info(Clock::Memory).ok(),
            temperature_celsius: card.temperature(TemperatureSensor::Gpu).ok().map(f64::from),
            throttle: card.current_throttle_reasons().ok().map(reasons),
            processes: self.processes(&card),
            ..unknown
        }
    }

    /// Those that compute and those that draw; a process may do both.
    fn processes(&self, card: &Device<'_>) -> Option<Vec<GpuProcess>> {
        let computing = card.running_compute_processes().ok()?;
        // Cards for computing alone have no such list.
        let drawing = card.running_graphics_processes().unwrap_or_default();
        let mut memory: BTreeMap<u32, Option<u64>> = BTreeMap::new();
        for one in computing.into_iter().chain(drawing) {
            let used = match one.used_gpu_memory {
                UsedGpuMemory::Used(bytes) => Some(bytes),
                UsedGpuMemory::Unavailable => None,
            };
            let held = memory.entry(one.pid).or_default();
            *held = (*held).max(used);
        }
        let all = memory.into_iter().map(|(pid, memory_bytes)| GpuProcess {
            pid,
            name: process::find::name_of(pid),
            memory_bytes,
            engine: self.engine.and_then(|root| process::belongs(pid, root)),
        });
        Some(all.collect())
    }
}

/// NVML's names in snake case. An idle card's low clock is not held back, so it says nothing.
fn reasons(set: ThrottleReasons) -> Vec<String> {
    set.iter_names()
        .filter(|(_, one)| !one.intersects(ThrottleReasons::GPU_IDLE) && !one.is_empty())
        .map(|(name, _)| name.to_ascii_lowercase())
        .collect()
}

impl Source for Cards {
    fn sample(&mut self, _: &str, _: When, lines: &mut Lines) -> Result<(), String> {
        let count = self.nvml.device_count().map_err(|e| format!("NVML: {e}"))?;
        for index in 0..count {
            lines.push(&self.card(index));
        }
        Ok(())
    }

    fn describe(&self, report: &mut SourceReport) {
        let mut names: BTreeMap<String, u32> = BTreeMap::new();
        for index in 0..self.nvml.device_count().unwrap_or(0) {
            let card = self.nvml.device_by_index(index);
            let name = card.and_then(|card| card.name());
            *names
                .entry(name.unwrap_or_else(|_| "unnamed".to_owned()))
                .or_default() += 1;
        }
        let cards: Vec<String> = names
            .iter()
            .map(|(name, n)| format!("{n} × {name}"))
            .collect();
        let driver = self.nvml.sys_driver_version();
        let driver = driver.map_or_else(|_| String::new(), |v| format!(", driver {v}"));
        report.subject = Some(format!("{}{driver}", cards.join(", ")));
    }
}

#[cfg(test)]
mod tests;
