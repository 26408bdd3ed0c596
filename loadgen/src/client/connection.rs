//! Connections of one arm: opened, kept warm, and looked at before they are used again.
//!
//! A kept connection is used again only if it has been idle for less than the keep-alive limit
//! and the peer has not closed it: polling it reads the end of stream that a close left behind.
//! There is no retry. A peer that closes in the instant of the request makes it fail, and that is
//! recorded.
//!
//! The surprise: llama.cpp announces keep-alive and closes right after each stream, some
//! microseconds behind the last byte. So the first connection of an arm is watched for a moment
//! before any is used again, and an arm that closes gets a new connection for each request.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1;
use inferscope_shared::clock::MonoNs;
use inferscope_shared::record::request::Connect;
use rustix::io::Errno;
use tokio::net::TcpStream;

use super::io::{StampedIo, Stamping, Stamps};
use super::target::Target;
use crate::config::KernelStamps;

/// `error_kind` of a request that the client's own limits kept from being sent.
pub const CLIENT_LIMIT: &str = "client_limit";

/// An HTTP/1.1 connection and what is needed to drive it.
pub struct Connection {
    /// Where requests go in.
    pub sender: http1::SendRequest<Full<Bytes>>,
    /// What moves the bytes; polled by whoever uses the connection.
    pub driver: http1::Connection<StampedIo, Full<Bytes>>,
    /// Stamps of the current request.
    pub stamps: Arc<Stamps>,
    /// Whether the kernel stamps what it receives.
    pub stamping: Stamping,
    /// How it was established.
    pub connect: Connect,
    last_used: MonoNs,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("connect", &self.connect)
            .field("last_used", &self.last_used)
            .finish_non_exhaustive()
    }
}

/// Why no connection came about.
#[derive(Debug)]
pub enum ConnectError {
    /// The time limit.
    Timeout(Duration),
    /// Name resolution, refusal, no route.
    Io(io::Error),
}

impl ConnectError {
    /// The record's `error_kind`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Timeout(_) => "connect_timeout",
            Self::Io(e) if is_own_limit(e) => CLIENT_LIMIT,
            Self::Io(e) if e.kind() == io::ErrorKind::ConnectionRefused => "connect_refused",
            Self::Io(_) => "connect",
        }
    }
}

/// Whether this process or machine had nothing left to connect with: files or local ports. No
/// server can be blamed for it.
fn is_own_limit(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE | Errno::ADDRNOTAVAIL)
    )
}

impl std::fmt::Display for ConnectError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Timeout(limit) => write!(f, "no connection within {limit:?}"),
            Self::Io(e) => e.fmt(f),
        }
    }
}

impl Connection {
    /// Opens a connection.
    ///
    /// # Errors
    /// When the target does not accept one within `limit`.
    pub async fn open(
        target: &Target,
        limit: Duration,
        kernel_stamps: KernelStamps,
    ) -> Result<Self, ConnectError> {
        let start = MonoNs::now();
        let socket = tokio::time::timeout(limit, TcpStream::connect(target.address()))
            .await
            .map_err(|_| ConnectError::Timeout(limit))?
            .map_err(ConnectError::Io)?;
        let tcp = MonoNs::now();
        socket.set_nodelay(true).map_err(ConnectError::Io)?;
        let stamps = Arc::new(Stamps::default());
        let stamping = Stamping::ask(&socket, kernel_stamps);
        let io = StampedIo::new(socket, Arc::clone(&stamps), stamping);
        let (sender, driver) = http1::Builder::new()
            .handshake(io)
            .await
            .map_err(|e| ConnectError::Io(io::Error::other(e)))?;
        Ok(Self {
            sender,
            driver,
            stamps,
            stamping,
            connect: Connect {
                reused: false,
                start_ns: Some(start),
                tcp_ns: Some(tcp),
                tls_ns: None,
            },
            last_used: tcp,
        })
    }

    /// Waits up to `limit` for the peer to close it; true when it did not.
    pub async fn stays_open(&mut self, limit: Duration) -> bool {
        tokio::time::timeout(limit, &mut self.driver).await.is_err()
    }

    /// Whether the peer has left it open, as far as can be known without a round trip.
    fn is_open(&mut self) -> bool {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        match Pin::new(&mut self.driver).poll(&mut cx) {
            Poll::Ready(_) => false,
            Poll::Pending => !self.sender.is_closed(),
        }
    }
}

/// Idle connections of one arm, the latest used first.
#[derive(Debug)]
pub struct Pool {
    target: Target,
    connect_limit: Duration,
    keep_alive: Duration,
    keeps: Option<bool>,
    idle: Vec<Connection>,
}

impl Pool {
    /// An empty pool.
    #[must_use]
    pub fn new(target: Target, connect_limit: Duration, keep_alive: Duration) -> Self {
        Self {
            target,
            connect_limit,
            keep_alive,
            keeps: None,
            idle: Vec::new(),
        }
    }

    /// Where its connections lead.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The time limit of a connect.
    #[must_use]
    pub fn connect_limit(&self) -> Duration {
        self.connect_limit
    }

    /// Whether the peer leaves connections open after an answer; none until seen.
    #[must_use]
    pub fn peer_keeps(&self) -> Option<bool> {
        self.keeps
    }

    /// Remembers what the peer did with a connection; having closed one counts for good.
    pub fn peer_kept(&mut self, kept: bool) {
        self.keeps = Some(kept && self.keeps != Some(false));
    }

    /// A kept connection that is still open, if there is one.
    pub fn take(&mut self) -> Option<Connection> {
        let now = MonoNs::now();
        let keep_alive_ns = u64::try_from(self.keep_alive.as_nanos()).unwrap_or(u64::MAX);
        while let Some(mut connection) = self.idle.pop() {
            if now.since(connection.last_used) > keep_alive_ns {
                // The ones below have been idle for even longer.
                self.idle.clear();
                return None;
            }
            if connection.is_open() {
                connection.connect = Connect {
                    reused: true,
                    ..Connect::default()
                };
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection for reuse.
    pub fn put(&mut self, mut connection: Connection) {
        connection.last_used = MonoNs::now();
        self.idle.push(connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_client_ran_out_of_is_not_the_servers_fault() {
        let kind = |errno: Errno| ConnectError::Io(errno.into()).kind();
        for own in [Errno::MFILE, Errno::NFILE, Errno::ADDRNOTAVAIL] {
            assert_eq!(kind(own), CLIENT_LIMIT);
        }
        assert_eq!(kind(Errno::CONNREFUSED), "connect_refused");
        assert_eq!(kind(Errno::HOSTUNREACH), "connect");
    }
}
