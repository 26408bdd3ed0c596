//! The gateway as a process: its ports, its parts, its way to stop.
//!
//! A drain begins with SIGTERM or SIGINT: readiness goes off, the data ports close, idle
//! connections are closed, a request that still comes on a busy one gets 503. The process leaves
//! as soon as the last stream ends, or cuts what is left when the drain's time is up. A second
//! signal cuts at once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pingora::proxy::{HttpProxy, http_proxy};
use pingora::server::configuration::ServerConf;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use crate::auth::Authenticator;
use crate::config::Config;
use crate::listener::{self, Shared, stamped::OnFin};
use crate::metrics::Metrics;
use crate::proxy::Gateway;
use crate::records::Records;
use crate::routes::Routes;
use crate::routing::Router;

/// How long what was cut may take to say so.
const CUT: Duration = Duration::from_secs(2);
/// Idle connections to engines that are kept, in all.
const KEPT_CONNECTIONS: usize = 1024;

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

/// What all requests share.
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
    /// Whether the process is about to stop.
    #[must_use]
    pub fn draining(&self) -> bool {
        *self.phase.borrow() != Phase::Serving
    }
}

/// The data ports, bound and not yet served.
pub struct DataPorts {
    listeners: Vec<(TcpListener, OnFin)>,
    shared: Shared,
    alive: mpsc::Receiver<()>,
}

impl DataPorts {
    /// Puts the proxy behind `listeners`.
    #[must_use]
    pub fn new(listeners: Vec<(TcpListener, OnFin)>, services: Arc<Services>) -> Self {
        let (sender, alive) = mpsc::channel(1);
        let shared = Shared {
            services,
            proxy: proxy(),
            alive: sender,
        };
        Self {
            listeners,
            shared,
            alive,
        }
    }

    /// Where they listen.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners
            .iter()
            .filter_map(|(listener, _)| listener.local_addr().ok())
            .collect()
    }

    /// Serves until the phase leaves [`Phase::Serving`] and the last connection has ended.
    pub async fn serve(mut self) {
        for (listener, on_fin) in self.listeners {
            tokio::spawn(listener::accept(listener, on_fin, self.shared.clone()));
        }
        drop(self.shared);
        let _ = self.alive.recv().await;
    }
}

/// pingora's proxy around ours. It reads no configuration file and runs on our runtime.
fn proxy() -> Arc<HttpProxy<Gateway>> {
    let conf = ServerConf {
        upstream_keepalive_pool_size: KEPT_CONNECTIONS,
        ..ServerConf::default()
    };
    Arc::new(http_proxy(&Arc::new(conf), Gateway))
}
