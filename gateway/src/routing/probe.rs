//! One question to an engine: is it well?
//!
//! A connection of its own, one GET, and only the status line of the answer is read: 2xx is good,
//! anything else is not, and so is an answer that does not come in time. Never a connection of the
//! pool, for whether the engine takes new ones is part of the question.

use std::io;
use std::time::Duration;

use http::HeaderValue;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::endpoint::Endpoint;

/// A status line is not longer than this.
const MAX_LINE_BYTES: u64 = 512;

/// Asks `endpoint` for `path` and waits at most `limit`.
///
/// # Errors
/// What is wrong with it, in words for an operator.
pub async fn ask(
    endpoint: &Endpoint,
    path: &str,
    credential: Option<&HeaderValue>,
    limit: Duration,
) -> Result<(), String> {
    let status = tokio::time::timeout(limit, status(endpoint, path, credential, limit));
    match status.await {
        Err(_) => Err(format!("{path} was not answered within {limit:?}")),
        Ok(Err(error)) => Err(format!("{path}: {error}")),
        Ok(Ok(200..=299)) => Ok(()),
        Ok(Ok(status)) => Err(format!("{path} answered {status}")),
    }
}

async fn status(
    endpoint: &Endpoint,
    path: &str,
    credential: Option<&HeaderValue>,
    limit: Duration,
) -> io::Result<u16> {
    let mut stream = connect(endpoint, limit).await?;
    let head = format!(
        "GET {}{path} HTTP/1.1\r\nhost: {}\r\nuser-agent: inferscope-gateway/{}\r\nconnection: close\r\n",
        endpoint.base_path,
        endpoint.address.authority(),
        env!("CARGO_PKG_VERSION"),
    );
    let mut request = head.into_bytes();
    if let Some(credential) = credential {
        request.extend_from_slice(b"authorization: ");
        request.extend_from_slice(credential.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    stream.write_all(&request).await?;

    let mut stream = stream.take(MAX_LINE_BYTES);
    let mut answer = Vec::new();
    while !answer.contains(&b'\n') {
        if stream.read_buf(&mut answer).await? == 0 {
            break;
        }
    }
    status_of(&answer).ok_or_else(|| io::Error::other("the answer is no HTTP"))
}

/// A connection to one of its addresses, whichever takes it.
async fn connect(endpoint: &Endpoint, limit: Duration) -> io::Result<TcpStream> {
    let (mut address, addresses) = endpoint.address.resolve(limit).await?;
    let mut left = addresses;
    loop {
        let connected = TcpStream::connect(address).await;
        left = left.saturating_sub(1);
        if connected.is_ok() || left == 0 {
            return connected;
        }
        endpoint.address.failed(address);
        (address, _) = endpoint.address.resolve(limit).await?;
    }
}

/// The status of `HTTP/1.1 200 OK`.
fn status_of(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|b| *b == b'\n').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let http = words.next()?.starts_with("HTTP/1.");
    words.next()?.parse().ok().filter(|_| http)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_line_is_all_that_is_read() {
        assert_eq!(status_of(b"HTTP/1.1 204\r\n"), Some(204));
        assert_eq!(
            status_of(b"HTTP/1.0 503 Service Unavailable\r\nx"),
            Some(503)
        );
        for bad in [
            &b""[..],
            b"SSH-2.0-x\r\n",
            b"HTTP/1.1\r\n",
            b"HTTP/1.1 \xff\r\n",
        ] {
            assert_eq!(status_of(bad), None);
        }
    }
}
