//! The data ports with pingora's proxy behind them.

use std::net::SocketAddr;
use std::sync::Arc;

use pingora::proxy::{HttpProxy, http_proxy};
use pingora::server::configuration::ServerConf;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::{Current, ServeError, bind};
use crate::config::HalfClose;
use crate::listener::stamped::OnFin;
use crate::listener::{self, Shared};
use crate::proxy::Gateway;
use crate::routing::keeper;

/// Idle connections to engines that are kept, in all.
const KEPT_CONNECTIONS: usize = 1024;

/// Bound and not yet served.
pub struct DataPorts {
    listeners: Vec<(TcpListener, OnFin)>,
    shared: Shared,
    alive: mpsc::Receiver<()>,
}

impl DataPorts {
    /// Binds every port of the configuration.
    ///
    /// # Errors
    /// The first that is not to be had.
    pub async fn bind(current: &Current) -> Result<Self, ServeError> {
        let mut listeners = Vec::new();
        for port in &current.get().config.listen {
            let on_fin = match port.half_close {
                HalfClose::Gone => OnFin::Gone,
                HalfClose::Tolerate => OnFin::Tolerate,
            };
            listeners.push((bind(port.addr).await?, on_fin));
        }
        let (sender, alive) = mpsc::channel(1);
        Ok(Self {
            listeners,
            shared: Shared {
                current: current.clone(),
                proxy: proxy(),
                doors: Arc::default(),
                alive: sender,
            },
            alive,
        })
    }

    /// Where they listen.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners
            .iter()
            .filter_map(|(listener, _)| listener.local_addr().ok())
            .collect()
    }

    /// Serves until the phase leaves [`super::Phase::Serving`] and the last connection has ended,
    /// and keeps the endpoints as long.
    pub async fn serve(mut self) {
        let current = self.shared.current.clone();
        for (listener, on_fin) in self.listeners {
            tokio::spawn(listener::accept(listener, on_fin, self.shared.clone()));
        }
        drop(self.shared);
        tokio::select! {
            _ = self.alive.recv() => {}
            () = keeper::keep(current) => {}
        }
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
