//! The gateway's own answers, mostly refusals, and the end of a connection behind one.
//!
//! A client that is still sending its body when it is refused would lose the answer to the reset
//! that a close brings, so the sending side is shut first and what still comes is thrown away
//! for a moment.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode, header};
use inferscope_shared::record::gateway::Outcome;
use pingora::Result;
use pingora::http::ResponseHeader;
use pingora::prelude::Session;
use pingora::protocols::http::v1::server::HttpSession as ClientSession;
use tokio::io::AsyncReadExt as _;

use super::Received;
use crate::errors::{Kind, Refusal};
use crate::exchange::Exchange;
use crate::fault::Cause;
use crate::listener::Connection;

/// How long a client may take to read a refusal.
const ANSWER: Duration = Duration::from_secs(10);
/// How long, and how much, is read and thrown away after one.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 64 * 1024 * 1024;

/// An answer that the gateway makes itself.
pub(super) struct Reply {
    status: StatusCode,
    fields: Vec<(HeaderName, HeaderValue)>,
    body: Bytes,
    /// Why, for one that says no.
    refused: Option<Kind>,
}

impl From<&Refusal> for Reply {
    fn from(refusal: &Refusal) -> Self {
        Self {
            status: refusal.status(),
            fields: refusal.headers(),
            body: refusal.body(),
            refused: Some(refusal.kind()),
        }
    }
}

impl Reply {
    /// A JSON document.
    pub(super) const fn document(body: Bytes) -> Self {
        Self {
            status: StatusCode::OK,
            fields: Vec::new(),
            body,
            refused: None,
        }
    }

    fn head(&self, request_id: &str) -> Result<Box<ResponseHeader>> {
        let mut head = ResponseHeader::build(self.status, Some(8))?;
        head.insert_header(header::CONTENT_TYPE, "application/json")?;
        head.insert_header(header::CONTENT_LENGTH, self.body.len())?;
        head.insert_header("x-request-id", request_id)?;
        for (name, value) in &self.fields {
            head.insert_header(name, value)?;
        }
        Ok(Box::new(head))
    }
}

/// Writes a refusal where pingora's proxy has the session.
///
/// # Errors
/// The client's connection failed.
pub async fn write(session: &mut Session, refusal: &Refusal, request_id: &str) -> Result<()> {
    let reply = Reply::from(refusal);
    let client = session.as_downstream_mut();
    client
        .write_response_header(reply.head(request_id)?)
        .await?;
    client.write_response_body(reply.body, true).await
}

/// Answers during intake, settles the request, and goes on with the connection or ends it.
pub(super) async fn answer(
    mut session: ClientSession,
    mut exchange: Box<Exchange>,
    reply: &Reply,
    connection: &Connection,
) -> Received {
    let whole = exchange.times.head.is_some() && session.is_body_done() && session.will_keepalive();
    if !whole || exchange.services.draining() {
        session.set_server_keepalive(None);
    }
    session.set_write_timeout(Some(ANSWER));
    let sent = send(&mut session, reply, &exchange.ids.request).await;
    match (&sent, reply.refused) {
        (Ok(()), Some(kind)) => exchange.ended(Outcome::Refused, kind),
        (Ok(()), None) => {}
        (Err(_), _) => exchange.ended(Outcome::ClientGone, Cause::ClientGone),
    }
    exchange.settle();
    drop(exchange);
    if sent.is_err() {
        return Received::Closed;
    }
    if session.will_keepalive() {
        return match connection.release(session).await {
            Some(stream) => Received::Answered(stream),
            None => Received::Closed,
        };
    }
    session.shutdown().await;
    if !whole {
        let mut stream = session.into_inner();
        let rest = async {
            let mut sink = vec![0; 64 * 1024];
            let mut left = LINGER_BYTES;
            while let Ok(n @ 1..) = stream.read(&mut sink).await {
                left = left.saturating_sub(n);
                if left == 0 {
                    break;
                }
            }
        };
        let _ = tokio::time::timeout(LINGER, rest).await;
    }
    Received::Closed
}

async fn send(session: &mut ClientSession, reply: &Reply, request_id: &str) -> Result<()> {
    session
        .write_response_header(reply.head(request_id)?)
        .await?;
    session.write_body(&reply.body).await?;
    session.finish_body().await?;
    Ok(())
}
