//! Samples the engine's process tree on a thread of its own while requests run.

use std::time::Duration;

use inferscope_shared::clock::MonoNs;

use super::WhichProcess;
use super::life::Sample;
use crate::client::target::Target;

/// Time between samples.
pub(super) const INTERVAL: Duration = Duration::from_millis(50);

/// A process being watched.
#[derive(Debug)]
pub(super) struct Watch {
    pub pid: u32,
    pub name: Option<String>,
}

impl Watch {
    /// Starts to watch.
    ///
    /// # Errors
    /// Why nothing can be watched.
    pub fn start(_which: &WhichProcess, _target: &Target) -> Result<Self, String> {
        Err("this version cannot watch a process".to_owned())
    }

    /// Ends it. Samples in order of time, and why they end early if they do.
    pub fn finish(self, _origin: MonoNs) -> (Vec<Sample>, Option<String>) {
        (Vec::new(), None)
    }
}
