//! What all connections of one fake engine share.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::config::Config;
use crate::line::lock;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::pacer::{Batching, Pacer};
use crate::recorder::Recorder;
use crate::script::stage::Stage;

pub(crate) struct Engine {
    pub config: Config,
    pub pacer: Pacer,
    pub stage: Stage,
    pub metrics: Metrics,
    pub recorder: Recorder,
    pub log: Log,
    pub prefixes: Prefixes,
    ids: AtomicU64,
    hasher: RandomState,
}

impl Engine {
    pub fn new(mut config: Config) -> io::Result<Self> {
        if config.models.is_empty() {
            let message = "no model to serve; name at least one";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        if let Some(parameters) = &config.timing {
            config.max_model_len = config.max_model_len.min(parameters.kv_tokens());
        }
        let metrics = Metrics::new(&config.models, config.timing);
        let batching = config
            .timing
            .map(|parameters| Batching::new(parameters, metrics.model(0)))
            .transpose()
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
        Ok(Self {
            pacer: Pacer::start(config.spin, batching)?,
            stage: Stage::new(std::mem::take(&mut config.scripts)),
            metrics,
            recorder: Recorder::new(config.record_requests, config.record_body_bytes),
            log: Log::open(config.log.as_deref())?,
            prefixes: Prefixes::new(config.ttft_seen.is_some()),
            ids: AtomicU64::new(0),
            hasher: RandomState::new(),
            config,
        })
    }

    /// A response id that no other response of this machine is likely to have.
    pub fn fresh_id(&self) -> String {
        let n = self.ids.fetch_add(1, Ordering::Relaxed);
        format!("{:016x}", self.hasher.hash_one(n))
    }
}

/// The pretended prefix cache: remembers prompts' beginnings, forgets none.
pub(crate) struct Prefixes {
    on: bool,
    seen: Mutex<HashSet<String>>,
}

impl Prefixes {
    fn new(on: bool) -> Self {
        Self {
            on,
            seen: Mutex::default(),
        }
    }

    /// Whether the prefix was here before; it is from now on.
    pub fn seen(&self, prefix: &str) -> bool {
        self.on && !lock(&self.seen).insert(prefix.to_owned())
    }
}
