//! What went wrong between client and engine, in the record's words, and what the client is told.
//!
//! Before the answer's head: an OpenAI error body with 502 or 504. Inside an event stream: an
//! error event and then an abnormal end, never a clean one and never `[DONE]`. Inside any other
//! body: the abnormal end alone, for a JSON document cannot take an error in its middle.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use inferscope_shared::record::gateway::Outcome;
use pingora::prelude::Session;
use pingora::{Error, ErrorSource, ErrorType, RetryType};

use crate::errors::Refusal;
use crate::exchange::Exchange;
use crate::listener::track::Limit;

/// The pool has no endpoint to offer.
pub const NO_ENDPOINT: ErrorType = ErrorType::new("NoEndpoint");
/// The endpoint's name has no address.
pub const UNRESOLVED: ErrorType = ErrorType::new("Unresolved");

/// How long a last word to a client may take.
const LAST_WORD: Duration = Duration::from_secs(1);

/// The client left, or sent what ends an exchange.
const CLIENT_GONE: &str = "client_gone";

/// Outcome and kind of `error`.
fn ending(error: &Error, head_seen: bool) -> (Outcome, &'static str) {
    use ErrorType as T;
    if *error.esource() == ErrorSource::Downstream {
        return (Outcome::ClientGone, CLIENT_GONE);
    }
    let reset = error
        .root_cause()
        .downcast_ref::<io::Error>()
        .is_some_and(|e| {
            matches!(
                e.kind(),
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
            )
        });
    match error.etype() {
        T::ConnectTimedout => (Outcome::Timeout, "connect_timeout"),
        T::ConnectRefused => (Outcome::UpstreamError, "connect_refused"),
        T::ConnectNoRoute | T::ConnectError | T::BindError | T::SocketError => {
            (Outcome::UpstreamError, "connect_failed")
        }
        e if *e == NO_ENDPOINT => (Outcome::UpstreamError, "no_endpoint"),
        e if *e == UNRESOLVED => (Outcome::UpstreamError, "unresolved"),
        T::ReadTimedout | T::WriteTimedout => (Outcome::Timeout, "idle"),
        T::InvalidHTTPHeader | T::H1Error => (Outcome::UpstreamError, "bad_response"),
        _ if *error.esource() != ErrorSource::Upstream => (Outcome::UpstreamError, "internal"),
        _ if reset => (Outcome::UpstreamError, "reset"),
        _ if head_seen => (Outcome::UpstreamError, "truncated"),
        _ => (Outcome::UpstreamError, "closed_before_answer"),
    }
}

/// Whether `error`, on a connection from the pool, means that the engine had closed it before the
/// request reached it: the request could not be written, or not one byte came back.
#[must_use]
pub fn is_stale(error: &Error) -> bool {
    match error.etype() {
        ErrorType::WriteError => true,
        ErrorType::ConnectionClosed | ErrorType::ReadError => {
            error.retry == RetryType::ReusedOnly
                && error
                    .context
                    .as_ref()
                    .is_some_and(|c| c.as_str().ends_with("already read: 0"))
        }
        _ => false,
    }
}

/// Notes how `exchange` ended and tells the client, if there is one and something can be told.
/// Returns the status for pingora's log.
pub async fn answer(session: &mut Session, error: &Error, exchange: &mut Exchange) -> u16 {
    let limit = exchange.track.tripped();
    match limit {
        Some(limit) => exchange.ended_by(limit),
        None => {
            let head_seen = exchange.times.response_head.is_some();
            let (outcome, kind) = ending(error, head_seen);
            exchange.ending = None;
            exchange.ended(outcome, kind);
        }
    }
    tracing::debug!(request_id = %exchange.ids.request, %error, "request failed");
    let gone = exchange
        .ending
        .is_some_and(|e| e.outcome == Outcome::ClientGone);
    if gone || limit == Some(Limit::ClientStalled) {
        return 0;
    }
    session.set_keepalive(None);
    session.set_write_timeout(Some(LAST_WORD));
    let refusal = Refusal::upstream(exchange.ending.map_or("internal", |e| e.kind));
    let told = match session.response_written() {
        None => crate::intake::answer::write(session, &refusal, &exchange.ids.request).await,
        Some(head) if head.headers.get("content-type").is_some_and(is_events) => {
            session
                .write_response_body(Some(event(&refusal)), false)
                .await
        }
        Some(_) => Ok(()),
    };
    if let Err(error) = told {
        tracing::debug!(request_id = %exchange.ids.request, %error, "the client could not be told");
    }
    refusal.status().as_u16()
}

fn is_events(value: &http::HeaderValue) -> bool {
    value.as_bytes().starts_with(b"text/event-stream")
}

/// An error event. The blank lines before it end whatever event the engine was in.
fn event(refusal: &Refusal) -> Bytes {
    let body = refusal.body();
    [b"\n\ndata: ", body.trim_ascii(), b"\n\n"].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upstream(etype: ErrorType) -> Box<Error> {
        Error::explain(
            etype,
            "while reading response headers, bytes already read: 0",
        )
        .into_up()
    }

    #[test]
    fn each_failure_has_its_word() {
        use ErrorType as T;
        let reset = io::Error::from(io::ErrorKind::ConnectionReset);
        for (error, head_seen, expected) in [
            (
                upstream(T::ConnectTimedout),
                false,
                (Outcome::Timeout, "connect_timeout"),
            ),
            (
                upstream(T::ConnectRefused),
                false,
                (Outcome::UpstreamError, "connect_refused"),
            ),
            (
                upstream(T::ConnectionClosed),
                false,
                (Outcome::UpstreamError, "closed_before_answer"),
            ),
            (
                upstream(T::Custom("PrematureBodyEnd")),
                true,
                (Outcome::UpstreamError, "truncated"),
            ),
            (
                Error::because(T::ReadError, "reading body", reset).into_up(),
                true,
                (Outcome::UpstreamError, "reset"),
            ),
            (
                upstream(T::InvalidHTTPHeader),
                false,
                (Outcome::UpstreamError, "bad_response"),
            ),
            (
                Error::explain(NO_ENDPOINT, "none"),
                false,
                (Outcome::UpstreamError, "no_endpoint"),
            ),
            (
                Error::explain(T::ConnectionClosed, "left").into_down(),
                true,
                (Outcome::ClientGone, CLIENT_GONE),
            ),
        ] {
            assert_eq!(ending(&error, head_seen), expected, "{error}");
        }
    }

    #[test]
    fn only_a_silent_close_is_stale() {
        let mut error = upstream(ErrorType::ConnectionClosed);
        assert!(!is_stale(&error), "the connector did not say so");
        error.retry = RetryType::ReusedOnly;
        assert!(is_stale(&error));

        let mut begun = Error::explain(
            ErrorType::ConnectionClosed,
            "while reading response headers, bytes already read: 17",
        );
        begun.retry = RetryType::ReusedOnly;
        assert!(!is_stale(&begun), "an answer had begun");
        assert!(!is_stale(&upstream(ErrorType::ReadTimedout)));
    }
}
