//! The way to an engine: its address, and how pingora is to connect and wait.
//!
//! Names are resolved here, without blocking and without the panic that pingora's own resolving
//! ends in. An address is looked up again after [`FRESH`]; while a lookup fails the last answer
//! stays good. Where a name has several addresses (localhost: v6 and v4), a failed connect moves
//! on to the next and later requests begin there.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::{Method, header};
use pingora::http::RequestHeader;
use pingora::prelude::HttpPeer;
use pingora::protocols::TcpKeepalive;
use pingora::{ErrorType, OrErr as _};

use crate::config::Timeouts;
use crate::errors::Refusal;
use crate::headers;
use crate::intake::ids::Ids;
use crate::routes::Route;
use crate::routing::{Endpoint, Target};

/// How long a lookup is believed.
const FRESH: Duration = Duration::from_secs(5);
/// Idle connections are dropped before an engine's own 5 s keep-alive closes them under us.
const IDLE: Duration = Duration::from_secs(4);
/// Host and port of an endpoint.
#[derive(Debug)]
pub struct Address {
    host: String,
    port: u16,
    known: Mutex<Option<(Instant, Vec<SocketAddr>)>>,
    /// Which of several addresses to begin with.
    first: AtomicUsize,
}

impl Address {
    /// An address, a v6 one without brackets; nothing is looked up yet.
    #[must_use]
    pub fn new(host: &str, port: u16) -> Self {
        Self {
            host: host.to_owned(),
            port,
            known: Mutex::default(),
            first: AtomicUsize::new(0),
        }
    }

    /// The value of a `Host` header towards it.
    #[must_use]
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Where to connect now, and of how many addresses that is one.
    ///
    /// # Errors
    /// The lookup's error, when there is no older answer.
    pub async fn resolve(&self) -> io::Result<(SocketAddr, usize)> {
        let host = self.host.as_str();
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Ok((SocketAddr::new(ip, self.port), 1));
        }
        if let Some(found) = self.pick(|age| age < FRESH) {
            return Ok(found);
        }
        match tokio::net::lookup_host((host, self.port)).await {
            Ok(addresses) => {
                let addresses: Vec<SocketAddr> = addresses.collect();
                *self.known.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some((Instant::now(), addresses));
                self.pick(|_| true)
                    .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no address"))
            }
            Err(error) => self.pick(|_| true).ok_or(error),
        }
    }

    /// The next resolve begins with the next address.
    pub fn failed(&self) {
        self.first.fetch_add(1, Ordering::Relaxed);
    }

    fn pick(&self, good: impl Fn(Duration) -> bool) -> Option<(SocketAddr, usize)> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, addresses) = known.as_ref()?;
        let n = addresses.len();
        (n > 0 && good(at.elapsed()))
            .then(|| (addresses[self.first.load(Ordering::Relaxed) % n], n))
    }
}

/// How pingora is to reach `address`. Its own limits on reads and writes stay unset: the watchdog
/// beside the proxy has the better ones, and a timer per read costs more than the read's parsing.
#[must_use]
pub fn peer(address: SocketAddr, timeouts: &Timeouts) -> Box<HttpPeer> {
    let mut peer = HttpPeer::new(address, false, String::new());
    let options = &mut peer.options;
    options.connection_timeout = Some(timeouts.connect);
    options.total_connection_timeout = Some(timeouts.connect);
    options.idle_timeout = Some(IDLE);
    options.tcp_keepalive = Some(TcpKeepalive {
        idle: Duration::from_secs(30),
        interval: Duration::from_secs(10),
        count: 3,
        #[cfg(target_os = "linux")]
        user_timeout: Duration::ZERO,
    });
    Box::new(peer)
}

/// The head for an engine of `target`'s pool. Its path lacks the endpoint's base, and it has no
/// `Host` yet.
///
/// # Errors
/// The path can't be part of a request line.
pub fn head_for_pool(
    client: &RequestHeader,
    route: &Route,
    target: &Target,
    ids: &Ids,
    body_bytes: usize,
) -> Result<RequestHeader, Refusal> {
    let mut head = RequestHeader::build(client.method.clone(), route.target.as_bytes(), Some(12))
        .map_err(|_| Refusal::malformed_request())?;
    headers::towards_engine(client, &mut head);
    let set = |head: &mut RequestHeader| -> pingora::Result<()> {
        // Compressed events can't be watched, and a compressor holds them back.
        head.insert_header(header::ACCEPT_ENCODING, "identity")?;
        head.insert_header("x-request-id", &ids.request)?;
        head.insert_header("traceparent", &ids.traceparent)?;
        if let Some(credential) = &target.pool.credential {
            head.insert_header(header::AUTHORIZATION, credential.clone())?;
        }
        if body_bytes > 0 || client.method == Method::POST {
            head.insert_header(header::CONTENT_LENGTH, body_bytes)?;
        }
        Ok(())
    };
    set(&mut head).map_err(|_| Refusal::malformed_request())?;
    Ok(head)
}

/// The same head for `endpoint`.
///
/// # Errors
/// Base path and path make no URI.
pub fn head_for_endpoint(
    head: &RequestHeader,
    endpoint: &Endpoint,
) -> pingora::Result<RequestHeader> {
    let mut head = head.clone();
    if !endpoint.base_path.is_empty() {
        let path = format!("{}{}", endpoint.base_path, head.uri);
        let uri = path
            .parse()
            .or_err(ErrorType::InternalError, "base path and path")?;
        head.set_uri(uri);
    }
    head.insert_header(header::HOST, endpoint.address.authority())?;
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_header_brackets_version_6() {
        assert_eq!(Address::new("engine", 8000).authority(), "engine:8000");
        assert_eq!(Address::new("::1", 8000).authority(), "[::1]:8000");
    }

    #[tokio::test]
    async fn a_literal_needs_no_lookup_and_a_failed_connect_moves_on() {
        let (address, n) = Address::new("::1", 8000).resolve().await.unwrap();
        assert_eq!((address.to_string().as_str(), n), ("[::1]:8000", 1));

        let two = Address::new("engine", 1);
        let addresses: Vec<SocketAddr> =
            vec!["[::1]:1".parse().unwrap(), "127.0.0.1:1".parse().unwrap()];
        *two.known.lock().unwrap() = Some((Instant::now(), addresses.clone()));
        assert_eq!(two.resolve().await.unwrap(), (addresses[0], 2));
        two.failed();
        assert_eq!(two.resolve().await.unwrap(), (addresses[1], 2));
    }
}
