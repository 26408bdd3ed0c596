//! The gateway as a process: its ports, its parts, its way to stop.
//!
//! A drain begins with SIGTERM or SIGINT: readiness goes off, idle connections are closed, requests
//! that still come get 503 and `connection: close`. The process, and with it the ports, leaves as
//! soon as the last stream ends, or cuts what is left when the drain's time is up. A second
//! signal cuts at once. Metrics and admin ports answer until the end.

mod current;
mod data;
mod reload;
#[cfg(test)]
mod tests;
pub mod workers;

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::admission::Admission;
use crate::auth::Authenticator;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::records::{Records, RecordsError};
use crate::routes::Routes;
use crate::routing::Router;
pub use current::Current;
pub use data::DataPorts;
pub use reload::{ReloadError, Reloaded, Reloader};

/// What tells one boot of the host from the next.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Connections that may wait to be accepted; the system's own bound (net.core.somaxconn) holds, too.
/// With a short queue, some of several hundred clients that come at once are reset.
const BACKLOG: u32 = 4_096;
/// How much of a budget's history a process that is killed may lose.
const SAVE_BUDGETS: Duration = Duration::from_secs(5);
/// How long what was cut may take to say so.
const CUT: Duration = Duration::from_secs(2);
/// How long the runtime may take to drop what did not.
const DROP: Duration = Duration::from_secs(1);

/// Where the process is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Requests are taken.
    Serving,
    /// Streams finish; nothing new is taken.
    Draining,
    /// Streams that still run are ended.
    Cut,
}

/// What all requests share under one configuration. Immutable: a reload makes [the next
/// one](Self::next).
#[derive(Debug)]
pub struct Services {
    /// The configuration.
    pub config: Arc<Config>,
    /// Who may call.
    pub auth: Authenticator,
    /// Which paths are ours.
    pub routes: Routes,
    /// Where a model is served.
    pub router: Router,
    /// Who has to wait, and who is turned away.
    pub admission: Admission,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Where records go.
    pub records: Arc<Records>,
    /// Boot within which the records' instants are comparable.
    pub boot_id: String,
    /// Where the process is in its life.
    pub phase: watch::Receiver<Phase>,
}

impl Services {
    /// The parts that `config` describes, made anew: for the start of the process.
    ///
    /// # Errors
    /// The records can't be written where it says.
    pub fn new(config: Arc<Config>, phase: watch::Receiver<Phase>) -> Result<Self, ServeError> {
        let routes = Routes::new(&config.routes);
        let metrics =
            Metrics::new(config.models.keys().cloned(), routes.paths()).map_err(|cause| {
                ServeError::Start {
                    what: "declare the metrics",
                    cause: io::Error::other(cause),
                    remedy: "this is a fault of the gateway, please report it",
                }
            })?;
        let metrics = Arc::new(metrics);
        let boot_id = std::fs::read_to_string(BOOT_ID).map_err(|cause| ServeError::Start {
            what: "read /proc/sys/kernel/random/boot_id",
            cause,
            remedy: "mount /proc",
        })?;
        let boot_id = boot_id.trim().to_owned();
        let records = Records::start(&config.records, &boot_id, &metrics)?;
        let router = Router::new(&config, None, &metrics);
        let admission = Admission::new(&config, &router, None, &metrics);
        Ok(Self {
            auth: Authenticator::new(&config),
            routes,
            router,
            admission,
            metrics,
            records: Arc::new(records),
            boot_id,
            phase,
            config,
        })
    }

    /// The parts that `config` describes, which take over from these what must survive: the
    /// counts of limits, places in queues, the health of endpoints, metrics and records.
    #[must_use]
    pub fn next(&self, config: Arc<Config>) -> Self {
        let routes = Routes::new(&config.routes);
        let router = Router::new(&config, Some(&self.router), &self.metrics);
        let admission = Admission::new(&config, &router, Some(&self.admission), &self.metrics);
        Self {
            auth: Authenticator::new(&config),
            router,
            admission,
            metrics: {
                self.metrics
                    .name(config.models.keys().cloned(), routes.paths());
                Arc::clone(&self.metrics)
            },
            routes,
            records: Arc::clone(&self.records),
            boot_id: self.boot_id.clone(),
            phase: self.phase.clone(),
            config,
        }
    }

    /// Whether the process is about to stop.
    #[must_use]
    pub fn draining(&self) -> bool {
        *self.phase.borrow() != Phase::Serving
    }
}

/// Why the gateway does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A port is not to be had.
    #[error("cannot listen on {addr}: {cause}; choose a free address of this host")]
    Bind {
        /// The address.
        addr: SocketAddr,
        /// What the system said.
        cause: io::Error,
    },
    /// Records can't be written.
    #[error(transparent)]
    Records(#[from] RecordsError),
    /// The process lacks what it needs from the system.
    #[error("cannot {what}: {cause}; {remedy}")]
    Start {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        cause: io::Error,
        /// What to do.
        remedy: &'static str,
    },
}

/// Binds `addr`.
///
/// # Errors
/// [`ServeError::Bind`].
pub fn bind(addr: SocketAddr) -> Result<TcpListener, ServeError> {
    let listen = || {
        let socket = match addr {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        }?;
        // A port of a process that has just ended can be had at once.
        socket.set_reuseaddr(true)?;
        socket.bind(addr)?;
        socket.listen(BACKLOG)
    };
    listen().map_err(|cause| ServeError::Bind { addr, cause })
}

/// The line that says where everything listens.
#[derive(Debug, Serialize)]
struct Ready {
    ready: bool,
    data: Vec<SocketAddr>,
    metrics: Option<SocketAddr>,
    admin: Option<SocketAddr>,
}

/// Serves `config`, which came from the file at `path`, until a signal ends it. SIGHUP reads that
/// file again.
///
/// # Errors
/// Why it could not begin to.
pub fn run(config: Config, path: Option<PathBuf>) -> Result<(), ServeError> {
    raise_descriptor_limit();
    compare_descriptors(&config);
    // What relays has threads of its own; this one accepts, probes and serves the inner ports.
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|cause| ServeError::Start {
            what: "start the worker threads",
            cause,
            remedy: "raise the limits of threads and open files (ulimit -u and -n)",
        })?;
    let served = runtime.block_on(serve(config, path));
    // On a failure nothing was served, and there is nothing to write.
    let records = served?;
    end(runtime, &records);
    Ok(())
}

/// Ends what still runs, then the records. In this order, for an exchange that was cut and did
/// not say so in time is dropped with the runtime, and settles as it goes.
fn end(runtime: Runtime, records: &Records) {
    runtime.shutdown_timeout(DROP);
    records.close();
}

/// Serves until a signal ends it; gives back where the last records will go.
async fn serve(config: Config, path: Option<PathBuf>) -> Result<Arc<Records>, ServeError> {
    let mut signals = Signals::new().map_err(|cause| ServeError::Start {
        what: "catch the signals that stop the process",
        cause,
        remedy: "raise the limit of open files (ulimit -n)",
    })?;
    let (phase, watched) = watch::channel(Phase::Serving);
    let current = Current::new(Services::new(Arc::new(config), watched)?);
    let data = DataPorts::bind(&current).await?;
    let reloader = Arc::new(Reloader::new(path, current.clone()));
    let (metrics, admin) = crate::admin::serve(&current, &reloader).await?;
    let ready = Ready {
        ready: true,
        data: data.addresses(),
        metrics,
        admin,
    };
    if let Err(error) = announce(&ready) {
        tracing::warn!(%error, ?ready, "the ready line cannot be written to standard output");
    }
    let mut serving = tokio::spawn(data.serve());
    let saving = tokio::spawn(save_budgets(current.clone()));

    let signal = signals.stop(&reloader).await;
    let services = current.get();
    let limit = services.config.timeouts.drain;
    tracing::info!(signal, ?limit, "draining: the last stream ends the process");
    let _ = phase.send(Phase::Draining);
    let why = tokio::select! {
        _ = &mut serving => None,
        () = tokio::time::sleep(limit) => Some("the drain's time is up"),
        signal = signals.stop(&reloader) => Some(signal),
    };
    if let Some(why) = why {
        tracing::warn!(why, "cutting what still runs");
        let _ = phase.send(Phase::Cut);
        let _ = tokio::time::timeout(CUT, &mut serving).await;
    }
    saving.abort();
    let last = current.get();
    last.admission.limits.save();
    Ok(Arc::clone(&last.records))
}

/// Writes what was spent of budgets, again and again.
async fn save_budgets(current: Current) {
    loop {
        tokio::time::sleep(SAVE_BUDGETS).await;
        let services = current.get();
        let _ = tokio::task::spawn_blocking(move || services.admission.limits.save()).await;
    }
}

/// Says so when the configuration promises more connections than there are descriptors for.
fn compare_descriptors(config: &Config) {
    let have = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let most = config.connections.max;
    let need = config.connections.descriptors();
    if have < need {
        tracing::warn!(
            have,
            need,
            "connections.max: {most} needs {need} open files: raise the limit (ulimit -n, LimitNOFILE=), or lower connections.max"
        );
    }
}

/// A stream needs three descriptors, and the usual soft limit of 1024 is there for programs that
/// use `select`.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, soft = limit.current, "the limit of open files stays as it is");
    }
}

fn announce(ready: &Ready) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, ready)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// The signals that stop the process, and the one that makes it read its configuration again.
struct Signals {
    term: Signal,
    int: Signal,
    hup: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
            hup: signal(SignalKind::hangup())?,
        })
    }

    /// The name of the next one that stops the process.
    async fn stop(&mut self, reloader: &Arc<Reloader>) -> &'static str {
        loop {
            tokio::select! {
                _ = self.term.recv() => return "SIGTERM",
                _ = self.int.recv() => return "SIGINT",
                _ = self.hup.recv() => {
                    // It logs what it did. Another signal need not wait for it.
                    let reloader = Arc::clone(reloader);
                    tokio::task::spawn_blocking(move || {
                        let _ = reloader.reload();
                    });
                }
            }
        }
    }
}
