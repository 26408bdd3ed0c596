//! Another configuration in the place of the one in force, without a pause.
//!
//! The file is read and checked in whole before anything changes; one with a fault changes
//! nothing. What it means to running requests: see [`super::current`]. What a reload cannot do
//! (ports, record files and logs are set up once) it names, and does the rest.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::Current;
use crate::config::{Change, Config, ConfigError};
use crate::metrics::labels::Reload as Label;

/// What a reload did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reloaded {
    /// What is in force now and was not before.
    pub changes: Vec<Change>,
    /// What the file says and a restart would put in force.
    pub need_restart: Vec<Change>,
}

/// Why nothing changed.
#[derive(Debug)]
pub enum ReloadError {
    /// The process was started by flags.
    NoFile,
    /// The file is not to be had, or has faults: all of them.
    Config(ConfigError),
}

impl fmt::Display for ReloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFile => f.write_str(
                "there is no file to reload: this gateway was started by flags; start it with -c FILE",
            ),
            Self::Config(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReloadError {}

/// Reloads, one at a time.
#[derive(Debug)]
pub struct Reloader {
    path: Option<PathBuf>,
    current: Current,
    one_at_a_time: Mutex<()>,
}

impl Reloader {
    /// Reloads `current` from the file at `path`, if it came from one.
    #[must_use]
    pub fn new(path: Option<PathBuf>, current: Current) -> Self {
        Self {
            path,
            current,
            one_at_a_time: Mutex::new(()),
        }
    }

    /// Reads the file and puts it in force; requests whose head comes from then on are under it.
    /// Blocks on the file and on the files of secrets.
    ///
    /// # Errors
    /// [`ReloadError`]: nothing changed then.
    pub fn reload(&self) -> Result<Reloaded, ReloadError> {
        let _turn = self
            .one_at_a_time
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let before = self.current.get();
        let outcome = self.load().map(|config| {
            let changes = before.config.outline.changes(&config.outline);
            let (need_restart, changes) = changes.into_iter().partition(Change::needs_restart);
            let next = before.next(Arc::new(config));
            let changed = Arc::clone(next.router.changed());
            self.current.replace(next);
            changed.notify_one();
            Reloaded {
                changes,
                need_restart,
            }
        });
        match &outcome {
            Ok(done) => done.log(),
            Err(error) => tracing::error!(%error, "the configuration stays as it is"),
        }
        before.metrics.reloaded(match outcome {
            Ok(_) => Label::Done,
            Err(_) => Label::Refused,
        });
        outcome
    }

    fn load(&self) -> Result<Config, ReloadError> {
        let path = self.path.as_deref().ok_or(ReloadError::NoFile)?;
        Config::load(path).map_err(ReloadError::Config)
    }
}

impl Reloaded {
    fn log(&self) {
        tracing::info!(
            changes = self.changes.len(),
            "the configuration was reloaded"
        );
        for change in &self.changes {
            tracing::info!(%change, "in force");
        }
        for change in &self.need_restart {
            tracing::warn!(%change, "not in force: restart the gateway for it");
        }
    }
}
