//! The data ports with pingora's proxy behind them.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::workers::Workers;
use super::{Current, Phase, ServeError, bind};
use crate::config::HalfClose;
use crate::listener::stamped::OnFin;
use crate::listener::{self, Shared};
use crate::routing::keeper;

/// Bound and not yet served.
pub struct DataPorts {
    listeners: Vec<(TcpListener, OnFin)>,
    shared: Shared,
    workers: Arc<Workers>,
    /// Dropped when the drain begins; connections hold their own.
    keep_alive: mpsc::Sender<()>,
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
            listeners.push((bind(port.addr)?, on_fin));
        }
        let workers = Workers::start(current).map_err(|cause| ServeError::Start {
            what: "start the threads that relay",
            cause,
            remedy: "raise the limits of threads and open files (ulimit -u and -n)",
        })?;
        let (sender, alive) = mpsc::channel(1);
        Ok(Self {
            listeners,
            shared: Shared {
                current: current.clone(),
                doors: Arc::default(),
                alive: sender.downgrade(),
            },
            workers: Arc::new(workers),
            keep_alive: sender,
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

    /// Serves until the phase leaves [`Phase::Serving`] and the last connection has ended, and keeps
    /// the endpoints as long. Until then the ports stay open; once a drain has begun, new requests
    /// get 503.
    pub async fn serve(mut self) {
        let current = self.shared.current.clone();
        let mut phase = current.get().phase.clone();
        let mut accepting = JoinSet::new();
        for (listener, on_fin) in self.listeners {
            let (shared, workers) = (self.shared.clone(), self.workers.clone());
            accepting.spawn(listener::accept(listener, on_fin, shared, workers));
        }
        let ended = async {
            let _ = phase.wait_for(|p| *p != Phase::Serving).await;
            drop(self.keep_alive);
            let _ = self.alive.recv().await;
        };
        tokio::select! {
            () = ended => {}
            () = keeper::keep(current) => {}
        }
    }
}
