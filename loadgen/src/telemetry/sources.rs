//! Which sources a run has, from its configuration and what preflight found.

use std::io;

use super::engine::scrape::Scraper;
use super::gpu::Cards;
use super::process::Tree;
use super::sampler::{Sampler, Source, When};
use super::{SourceReport, process};
use crate::artifacts::layout::RunDir;
use crate::client::target::Target;
use crate::config::{Gpu, Resolved, Sampling};

/// Where the engine is, as far as that is known.
#[derive(Debug, Clone)]
pub struct Engine {
    /// Its own address; none when only a gateway in front of it is known.
    pub target: Option<Target>,
    /// The key that its own endpoints want.
    pub key: Option<String>,
    /// The root of its process tree, or why it is not known.
    pub process: Result<u32, String>,
}

/// The sources of a run, each on its thread. The client's own lines are those of
/// [`crate::drive::lag`].
#[derive(Debug)]
pub struct Sources(Vec<(&'static str, Sampler)>);

impl Sources {
    /// Creates their files and starts them.
    ///
    /// # Errors
    /// When a file exists or cannot be created, or no thread can be started.
    pub fn start(config: &Resolved, engine: Engine, run: &RunDir) -> io::Result<Self> {
        let interval = config.telemetry.interval;
        let Engine {
            target,
            key,
            process,
        } = engine;
        let wanted = config.telemetry.engine;
        let scraper = move || match (wanted, target) {
            (Sampling::Off, _) => Err("telemetry.engine: off".to_owned()),
            (_, None) => Err("engine.url is not known: only the gateway is measured".to_owned()),
            (_, Some(target)) => Ok(Box::new(Scraper::new(target, key)?) as Box<dyn Source>),
        };
        let none = config.gpu == Gpu::None;
        let root = process.clone().ok();
        let cards = move || {
            if none {
                return Err("gpu: none".to_owned());
            }
            let library = Cards::named_library();
            let cards = Cards::open(library.as_deref(), root)?;
            Ok(Box::new(cards) as Box<dyn Source>)
        };
        let wanted = config.telemetry.process;
        let tree = move || {
            if wanted == Sampling::Off {
                return Err("telemetry.process: off".to_owned());
            }
            Ok(Box::new(Tree::of(process?)?) as Box<dyn Source>)
        };
        Ok(Self(vec![
            (
                "engine",
                Sampler::start("engine", &run.server_metrics(), interval, scraper)?,
            ),
            (
                "process",
                Sampler::start("process", &run.process_metrics(), interval, tree)?,
            ),
            (
                "gpu",
                Sampler::start("gpu", &run.gpu_metrics(), interval, cards)?,
            ),
        ]))
    }

    /// Takes one sample of each, before or after a point, and returns when all are taken; a source
    /// that hangs is bounded by its own limits.
    pub async fn point(&self, id: &str, when: When) {
        let taken: Vec<_> = self.0.iter().map(|(_, s)| s.point(id, when)).collect();
        for done in taken {
            // Dropped by a thread that failed: its report says so.
            let _ = done.await;
        }
    }

    /// Ends them all; how each one went, and the first write that failed.
    pub fn finish(self) -> (Vec<SourceReport>, io::Result<()>) {
        let mut reports = Vec::new();
        let mut disk = Ok(());
        for (name, sampler) in self.0 {
            let (report, written) = sampler.finish(name);
            reports.push(report);
            disk = disk.and(written);
        }
        (reports, disk)
    }
}

/// The root of the engine's process tree: as configured, else who listens at its address.
///
/// # Errors
/// When what is configured fits no process or several: a fault of the configuration.
pub async fn engine_process(
    config: &Resolved,
    target: Option<&Target>,
) -> Result<Result<u32, String>, String> {
    if let Some(pid) = config.engine.pid {
        return match process::Tree::of(pid) {
            Ok(tree) => Ok(Ok(tree.root())),
            Err(e) => Err(format!(
                "engine.pid {pid}: {e}; give the id of the engine's process, or leave it out"
            )),
        };
    }
    if let Some(text) = &config.engine.process {
        return match process::find::by_name(text) {
            Ok(pid) => Ok(Ok(pid)),
            Err(e) => Err(format!("engine.process {text:?}: {e}")),
        };
    }
    if config.telemetry.process == Sampling::Off {
        return Ok(Err("telemetry.process: off".to_owned()));
    }
    let Some(target) = target else {
        return Ok(Err(
            "engine.url is not known: only the gateway is measured".to_owned()
        ));
    };
    let addresses: Vec<_> = match tokio::net::lookup_host(target.address()).await {
        Ok(addresses) => addresses.collect(),
        Err(e) => return Ok(Err(format!("{target}: {e}"))),
    };
    Ok(process::find::by_address(&addresses))
}
