//! The request's body: read whole, up to a limit, in a bounded time.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header;
use pingora::protocols::http::v1::server::HttpSession as ClientSession;

use super::facts::{self, Facts, Unread};
use super::{Stop, expects_continue};
use crate::config::Config;
use crate::errors::{Kind, Refusal};
use crate::server::Services;

/// How much is set aside before the first byte of a body has come.
const FIRST_BYTES: u64 = 1024 * 1024;

/// From this size on a walk over a body takes some tenths of a millisecond.
const LONG: usize = 256 * 1024;

/// Reads the body.
pub(super) async fn read(session: &mut ClientSession, config: &Config) -> Result<Bytes, Stop> {
    if session.is_body_empty() {
        return Ok(Bytes::new());
    }
    let limit = config.max_body_bytes;
    let length = session
        .get_header(header::CONTENT_LENGTH)
        .and_then(|v| v.to_str().ok()?.trim().parse::<u64>().ok());
    if length.is_some_and(|n| n > limit) {
        return Err(Refusal::body_too_large(limit).into());
    }
    if expects_continue(session) {
        // Otherwise the interim answer would mark the connection for closing.
        session.set_close_on_response_before_downstream_finish(false);
        let told = session.write_continue_response().await;
        session.set_close_on_response_before_downstream_finish(true);
        told.map_err(|_| Stop::Gone)?;
    }
    let deadline: Duration = config.timeouts.request_body;
    tokio::time::timeout(deadline, gather(session, length, limit))
        .await
        .map_err(|_| Refusal::request_timeout())?
}

async fn gather(
    session: &mut ClientSession,
    length: Option<u64>,
    limit: u64,
) -> Result<Bytes, Stop> {
    let mut whole = BytesMut::new();
    while let Some(piece) = session.read_body_bytes().await.map_err(failed)? {
        if whole.is_empty() && session.is_body_done() {
            if piece.len() as u64 > limit {
                return Err(Refusal::body_too_large(limit).into());
            }
            return Ok(piece);
        }
        if whole.is_empty() {
            whole.reserve(length.unwrap_or(0).min(FIRST_BYTES) as usize);
        }
        if (whole.len() + piece.len()) as u64 > limit {
            return Err(Refusal::body_too_large(limit).into());
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole.freeze())
}

/// A body that can't be read: broken framing is the client's fault, the rest its leaving.
fn failed(error: Box<pingora::Error>) -> Stop {
    use pingora::ErrorType as T;
    match error.etype() {
        T::ConnectionClosed | T::ReadError | T::ReadTimedout => Stop::Gone,
        _ if error.to_string().contains("Premature") => Stop::Gone,
        _ => Refusal::malformed_request().into(),
    }
}

/// Whether the body is packed in a way that only an engine would undo.
fn is_encoded(session: &ClientSession) -> bool {
    let encodings = session
        .req_header()
        .headers
        .get_all(header::CONTENT_ENCODING);
    encodings
        .iter()
        .any(|v| !v.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity"))
}

/// What the body says of its model. A body that says nothing goes on where nothing depends on it.
///
/// A long body is walked on another thread: the streams of this one would stand meanwhile.
pub(super) async fn facts(
    session: &ClientSession,
    body: &Bytes,
    services: &Services,
) -> Result<Facts, Refusal> {
    if body.is_empty() {
        return Ok(Facts::default());
    }
    if is_encoded(session) {
        return match services.config.models.is_empty() {
            true => Ok(Facts::default()),
            false => Err(Kind::BodyEncoded.into()),
        };
    }
    let read = if body.len() < LONG {
        facts::read(body)
    } else {
        let body = body.clone();
        let read = tokio::task::spawn_blocking(move || facts::read(&body)).await;
        read.map_err(|_| Refusal::from(Kind::Internal))?
    };
    match read {
        Ok(facts) => Ok(facts),
        Err(Unread::Repeated(name)) => Err(Refusal::invalid_body(&format!(
            "the body has more than one `{name}`: send it once"
        ))),
        Err(_) if services.config.models.is_empty() => Ok(Facts::default()),
        Err(Unread::ModelNotText) => Err(Refusal::invalid_body(
            "the body's `model` is not a string: send its name, such as \"model\": \"NAME\"",
        )),
        Err(Unread::NotAnObject) => Err(Refusal::invalid_body(
            "the body is not a JSON object: send one, with a `model` in it",
        )),
    }
}
