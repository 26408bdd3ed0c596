//! The gateway's own answers: head and body of a refusal, and the end of a connection behind one.
//!
//! A client that is still sending its body when it is refused would lose the answer to the reset
//! that a close brings, so the sending side is shut first and what still comes is thrown away
//! for a moment.

use std::time::Duration;

use bytes::Bytes;
use http::header;
use inferscope_shared::record::gateway::Outcome;
use pingora::Result;
use pingora::http::ResponseHeader;
use pingora::prelude::Session;
use pingora::protocols::http::v1::server::HttpSession as ClientSession;
use tokio::io::AsyncReadExt as _;

use super::Received;
use crate::errors::Refusal;
use crate::exchange::Exchange;
use crate::listener::Connection;

/// How long a client may take to read a refusal.
const ANSWER: Duration = Duration::from_secs(10);
/// How long, and how much, is read and thrown away after one.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 64 * 1024 * 1024;

/// Head and body.
fn message(refusal: &Refusal, request_id: &str) -> Result<(Box<ResponseHeader>, Bytes)> {
    let body = refusal.body();
    let mut head = ResponseHeader::build(refusal.status(), Some(8))?;
    head.insert_header(header::CONTENT_TYPE, "application/json")?;
    head.insert_header(header::CONTENT_LENGTH, body.len())?;
    head.insert_header("x-request-id", request_id)?;
    for (name, value) in refusal.headers() {
        head.insert_header(name, value)?;
    }
    Ok((Box::new(head), body))
}

/// Writes a refusal where pingora's proxy has the session.
///
/// # Errors
/// The client's connection failed.
pub async fn write(session: &mut Session, refusal: &Refusal, request_id: &str) -> Result<()> {
    let (head, body) = message(refusal, request_id)?;
    let client = session.as_downstream_mut();
    client.write_response_header(head).await?;
    client.write_response_body(body, true).await
}

/// Writes a refusal during intake, settles the request, and goes on with the connection or ends it.
pub(super) async fn refuse(
    mut session: ClientSession,
    mut exchange: Box<Exchange>,
    refusal: &Refusal,
    connection: &Connection,
) -> Received {
    let whole = exchange.times.head.is_some() && session.is_body_done();
    if !whole || exchange.services.draining() {
        session.set_server_keepalive(None);
    }
    session.set_write_timeout(Some(ANSWER));
    let sent = send(&mut session, refusal, &exchange.ids.request).await;
    match sent {
        Ok(()) => exchange.ended(Outcome::Refused, refusal.kind()),
        Err(_) => exchange.ended(Outcome::ClientGone, "client_gone"),
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

async fn send(session: &mut ClientSession, refusal: &Refusal, request_id: &str) -> Result<()> {
    let (head, body) = message(refusal, request_id)?;
    session.write_response_header(head).await?;
    session.write_body(&body).await?;
    session.finish_body().await?;
    Ok(())
}
