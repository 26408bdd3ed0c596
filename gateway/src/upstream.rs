//! The way to an engine: how pingora is to connect and wait, and the head that goes there.
//!
//! Where a name leads is [`address`]'s business; which engine it is, [`crate::routing`]'s. The
//! head is made in two steps, for the endpoint, and with it base path and `Host`, is another one
//! on each attempt.

pub mod address;

use std::net::SocketAddr;
use std::time::Duration;

use http::{Method, header};
use inferscope_shared::clock::MonoNs;
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

/// The longest URI there can be; a longer one is refused before an endpoint is chosen.
const MAX_URI_BYTES: usize = u16::MAX as usize - 1;

/// How pingora is to reach `address`. Its own limits on reads and writes stay unset: the watchdog
/// beside the proxy has the better ones, and a timer per read costs more than the read's parsing.
#[must_use]
pub fn peer(address: SocketAddr, timeouts: &Timeouts, idle: Duration) -> Box<HttpPeer> {
    let mut peer = HttpPeer::new(address, false, String::new());
    let options = &mut peer.options;
    options.connection_timeout = Some(timeouts.connect);
    options.total_connection_timeout = Some(timeouts.connect);
    options.idle_timeout = Some(idle);
    options.tcp_keepalive = Some(TcpKeepalive {
        idle: Duration::from_secs(30),
        interval: Duration::from_secs(10),
        count: 3,
        #[cfg(target_os = "linux")]
        user_timeout: Duration::ZERO,
    });
    Box::new(peer)
}

/// Lets `peer` have a connection of its own instead of one from the pool: where one was stale,
/// the others may be too. `request` is an instant that no other request has.
pub const fn make_fresh(peer: &mut HttpPeer, request: MonoNs) {
    peer.group_key = request.0;
}

/// The head for an engine of `target`'s pool. Its path lacks the endpoint's base, and it has no
/// `Host` yet.
///
/// # Errors
/// Path and query are too long for a URI, or are none.
pub fn head_for_pool(
    client: &RequestHeader,
    route: &Route,
    target: &Target,
    ids: &Ids,
    body_bytes: usize,
) -> Result<RequestHeader, Refusal> {
    let base = target.pool.endpoints.iter().map(|e| e.base_path.len());
    if base.max().unwrap_or(0) + route.target.len() > MAX_URI_BYTES {
        return Err(Refusal::malformed_request());
    }
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
