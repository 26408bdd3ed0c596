//! Small requests outside of any measurement: what a server serves, counts and records.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use thiserror::Error;
use tokio::sync::watch;

use super::connection::Connection;
use super::exchange::{self, Cut, Ending, Limits};
use super::target::Target;
use crate::config::KernelStamps;

/// A whole answer.
#[derive(Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Value of the Server header.
    pub server: Option<String>,
    /// Body.
    pub body: Vec<u8>,
}

/// Why there is none.
#[derive(Debug, Error)]
#[error("{message}")]
pub struct NoAnswer {
    /// What that says about the server.
    pub cause: Cause,
    /// In words.
    pub message: String,
}

/// What a missing answer says about the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Nobody is there: refused, unreachable, or closed without a word.
    Gone,
    /// The time was up; a busy server looks like that too.
    Slow,
    /// Nothing about the server.
    Other,
}

impl Cause {
    fn of(kind: &str) -> Self {
        match kind {
            "connect" | "connect_refused" | "closed_before_response" | "reset" => Self::Gone,
            _ if kind.ends_with("_timeout") => Self::Slow,
            _ => Self::Other,
        }
    }
}

impl NoAnswer {
    fn other(message: impl ToString) -> Self {
        Self {
            cause: Cause::Other,
            message: message.to_string(),
        }
    }
}

/// Asks for `path` (from the target's root, base path not added) and waits for at most `limit`.
///
/// # Errors
/// When no connection, no answer, or only half of one came.
pub async fn ask(
    target: &Target,
    method: Method,
    path: &str,
    bearer: Option<&str>,
    json: Option<&serde_json::Value>,
    limit: Duration,
) -> Result<Answer, NoAnswer> {
    let whole = exchange(target, method, path, bearer, json, limit);
    tokio::time::timeout(limit, whole)
        .await
        .unwrap_or_else(|_| {
            Err(NoAnswer {
                cause: Cause::Slow,
                message: format!("no whole answer within {limit:?}"),
            })
        })
}

async fn exchange(
    target: &Target,
    method: Method,
    path: &str,
    bearer: Option<&str>,
    json: Option<&serde_json::Value>,
    limit: Duration,
) -> Result<Answer, NoAnswer> {
    let connection = Connection::open(target, limit, KernelStamps::Off)
        .await
        .map_err(|e| NoAnswer {
            cause: Cause::of(e.kind()),
            message: e.to_string(),
        })?;
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", target.host_header())
        .header("accept-encoding", "identity")
        .header("connection", "close");
    if let Some(key) = bearer {
        request = request.header("authorization", format!("Bearer {key}"));
    }
    let body = match json {
        Some(value) => {
            request = request.header("content-type", "application/json");
            Bytes::from(value.to_string())
        }
        None => Bytes::new(),
    };
    let request = request.body(Full::new(body)).map_err(NoAnswer::other)?;
    let limits = Limits {
        first_byte: limit,
        idle: limit,
        total: limit,
        after_done: limit,
    };
    let (_keep, mut cut) = watch::channel(Cut::No);
    let (exchange, _) = exchange::run(connection, request, &limits, false, &mut cut).await;
    match (exchange.ending, exchange.status) {
        (Ending::Clean, Some(status)) => Ok(Answer {
            status,
            server: exchange
                .headers
                .get("server")
                .and_then(|v| v.to_str().ok())
                .map(str::to_owned),
            body: exchange.body,
        }),
        (Ending::Broken { kind, message }, _) => Err(NoAnswer {
            cause: Cause::of(kind),
            message,
        }),
        _ => Err(NoAnswer::other("no whole answer")),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::thread;

    use super::*;
    use crate::client::exchange::tests::take_request;

    /// A server that gives each request this answer and closes.
    pub(crate) fn server(answer: impl Into<String>) -> Target {
        let answer = answer.into();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        thread::spawn(move || {
            for socket in listener.incoming() {
                let mut socket = socket.unwrap();
                if take_request(&mut socket) {
                    let _ = socket.write_all(answer.as_bytes());
                }
            }
        });
        Target::parse(&url).unwrap()
    }

    /// An answer of status 200 with this body.
    pub(crate) fn ok(body: &str) -> String {
        let length = body.len();
        format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}")
    }
}
