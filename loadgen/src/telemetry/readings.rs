//! What the sources left on disk, read back for analysis.

use std::path::Path;

use inferscope_shared::clock::MonoNs;
use serde::de::DeserializeOwned;

use super::engine::scrape::Snapshot;
use super::engine::{self, Counters};
use super::gpu::GpuSample;
use super::process::ProcessSample;
use super::sampler::{Line, When};
use crate::analysis::AnalysisError;
use crate::analysis::lines::Lines;
use crate::artifacts::layout::RunDir;
use crate::drive::lag::ClientMetrics;

/// The engine's counters at one instant of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineReading {
    /// When.
    pub t_ns: MonoNs,
    /// The point.
    pub point_id: String,
    /// Before, during or after it.
    pub when: When,
    /// What the engine said.
    pub counters: Counters,
}

/// All samples of a run, each source in the order of time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Readings {
    /// The load generator itself.
    pub client: Vec<ClientMetrics>,
    /// The engine's counters.
    pub engine: Vec<EngineReading>,
    /// The engine's processes.
    pub process: Vec<ProcessSample>,
    /// Graphics cards.
    pub gpu: Vec<GpuSample>,
}

impl Readings {
    /// Reads a run's files; one that is not there or says that there is no data gives none.
    ///
    /// # Errors
    /// When a file cannot be read or a whole line of one is not what it should be.
    pub fn read(run: &RunDir) -> Result<Self, AnalysisError> {
        Ok(Self {
            client: lines(&run.client_metrics(), |line| line)?,
            engine: lines(&run.server_metrics(), |line: Snapshot| EngineReading {
                t_ns: line.t_ns,
                point_id: line.point_id,
                when: line.when,
                counters: engine::read(&line.metrics),
            })?,
            process: lines(&run.process_metrics(), |line| line)?,
            gpu: lines(&run.gpu_metrics(), |line| line)?,
        })
    }

    /// The engine's counters before and after a point.
    #[must_use]
    pub fn around(&self, point_id: &str) -> (Option<&Counters>, Option<&Counters>) {
        let at = |when| {
            let mut of_point = self.engine.iter().filter(|r| r.point_id == point_id);
            of_point.find(|r| r.when == when).map(|r| &r.counters)
        };
        (at(When::Before), at(When::After))
    }
}

fn lines<T: DeserializeOwned, R>(
    path: &Path,
    keep: impl Fn(T) -> R,
) -> Result<Vec<R>, AnalysisError> {
    let mut all = Vec::new();
    if path.is_file() {
        let mut lines = Lines::open(path)?;
        while let Some(at) = lines.read::<Line<T>>()? {
            if let Line::Sample(line) = at.value {
                all.push(keep(line));
            }
        }
    }
    Ok(all)
}
