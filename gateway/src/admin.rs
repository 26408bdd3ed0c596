//! The two ports that no client of the engines gets to see.
//!
//! Metrics port, read-only: `/metrics`, `/livez`, `/readyz` (503 once a drain has begun). Admin
//! port, on loopback or behind a token: `/status`, `/records[?prefix=…]`, and by POST `/reload`.
//! Exact paths only; both live until the process ends, so that a drain can be watched.

mod pages;
mod query;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pingora::apps::ServerApp;
use pingora::protocols::Stream;
use pingora::protocols::l4::stream::Stream as L4Stream;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::server::{Current, Reloader, ServeError, bind};
use pages::{AdminPort, MetricsPort};

/// How long the accept loop rests when the process is out of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Longest that one request may take, from waiting for its head to its answer's last byte.
const REQUEST: Duration = Duration::from_secs(60);

/// Binds both ports, as far as they are configured, and serves them from now on. Returns where
/// metrics and admin port listen.
///
/// # Errors
/// The first that is not to be had.
pub async fn serve(
    current: &Current,
    reloader: &Arc<Reloader>,
) -> Result<(Option<SocketAddr>, Option<SocketAddr>), ServeError> {
    let config = &current.get().config;
    let metrics = match config.metrics {
        Some(addr) => Some(start(addr, MetricsPort::new(current)).await?),
        None => None,
    };
    let admin = match &config.admin {
        Some(admin) => Some(start(admin.addr, AdminPort::new(current, reloader, admin)).await?),
        None => None,
    };
    Ok((metrics, admin))
}

async fn start<A>(addr: SocketAddr, app: A) -> Result<SocketAddr, ServeError>
where
    A: ServerApp + Send + Sync + 'static,
{
    let listener = bind(addr)?;
    let bound = listener
        .local_addr()
        .map_err(|cause| ServeError::Bind { addr, cause })?;
    tokio::spawn(accept(listener, Arc::new(app)));
    Ok(bound)
}

async fn accept<A>(listener: TcpListener, app: Arc<A>)
where
    A: ServerApp + Send + Sync + 'static,
{
    loop {
        match listener.accept().await {
            Ok((tcp, _)) => {
                tokio::spawn(connection(tcp, Arc::clone(&app)));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection to an inner port could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// One connection, from request to request.
async fn connection<A>(tcp: TcpStream, app: Arc<A>)
where
    A: ServerApp + Send + Sync + 'static,
{
    // These ports end with the process, so pingora's shutdown signal stays silent.
    let (_never, shutdown) = watch::channel(false);
    let mut next: Option<Stream> = Some(Box::new(L4Stream::from(tcp)));
    while let Some(stream) = next {
        let served = app.process_new(stream, &shutdown);
        next = tokio::time::timeout(REQUEST, served).await.ok().flatten();
    }
}

#[cfg(test)]
mod tests;
