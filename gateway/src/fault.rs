//! What went wrong between client and engine, in the record's words, and what the client is told.
//!
//! Before the answer's head: an OpenAI error body with 502 or 504. Inside an event stream: an
//! error event and then an abnormal end, never a clean one and never `[DONE]`. Inside any other
//! body: the abnormal end alone, for a JSON document cannot take an error in its middle.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use inferscope_shared::record::gateway::Outcome;
use pingora::http::ResponseHeader;
use pingora::prelude::Session;
use pingora::{Error, ErrorSource, ErrorType, RetryType};

use crate::errors::{Kind, Refusal};
use crate::exchange::Exchange;
use crate::listener::track::Limit;
use crate::relay::observe::Body;

/// The pool has no endpoint to offer.
pub const NO_ENDPOINT: ErrorType = ErrorType::new("NoEndpoint");
/// The endpoint's name has no address.
pub const UNRESOLVED: ErrorType = ErrorType::new("Unresolved");

/// How long after a request the close that was under way when it was sent may be seen.
const STALE: Duration = Duration::from_secs(1);

/// How long a last word to a client may take.
const LAST_WORD: Duration = Duration::from_secs(1);

/// Why a request did not end well. Its label is the record's `error_kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// One that the client is told of, where it still can be.
    Told(Kind),
    /// The client left, or sent what ends an exchange.
    ClientGone,
    /// The client did not read what it had asked for.
    ClientStalled,
    /// It was dropped when the drain's time was up.
    Cut,
    /// The engine answered with a status of 5xx.
    Status5xx,
    /// The engine put an error event into a good answer.
    StreamError,
}

impl Cause {
    /// Those that no answer of the gateway's own stands for.
    pub const UNTOLD: [Self; 5] = [
        Self::ClientGone,
        Self::ClientStalled,
        Self::Cut,
        Self::Status5xx,
        Self::StreamError,
    ];

    /// Its name in records and metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Told(kind) => kind.label(),
            Self::ClientGone => "client_gone",
            Self::ClientStalled => "client_stalled",
            Self::Cut => "cut",
            Self::Status5xx => "status_5xx",
            Self::StreamError => "stream_error",
        }
    }
}

impl From<Kind> for Cause {
    fn from(kind: Kind) -> Self {
        Self::Told(kind)
    }
}

/// Outcome and cause of `error`.
fn ending(error: &Error, head_seen: bool) -> (Outcome, Cause) {
    use ErrorType as T;
    if *error.esource() == ErrorSource::Downstream {
        return (Outcome::ClientGone, Cause::ClientGone);
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
    let kind = match error.etype() {
        T::ConnectTimedout => Kind::ConnectTimeout,
        T::ConnectRefused => Kind::ConnectRefused,
        T::ConnectNoRoute | T::ConnectError | T::BindError | T::SocketError => Kind::ConnectFailed,
        e if *e == NO_ENDPOINT => Kind::NoEndpoint,
        e if *e == UNRESOLVED => Kind::Unresolved,
        T::ReadTimedout | T::WriteTimedout => Kind::Idle,
        T::InvalidHTTPHeader | T::H1Error => Kind::BadResponse,
        _ if *error.esource() != ErrorSource::Upstream => Kind::Internal,
        _ if reset => Kind::Reset,
        _ if head_seen => Kind::Truncated,
        _ => Kind::ClosedBeforeAnswer,
    };
    let outcome = match kind {
        Kind::ConnectTimeout | Kind::Idle => Outcome::Timeout,
        _ => Outcome::UpstreamError,
    };
    (outcome, kind.into())
}

/// Whether the engine, once reached, gave no whole answer. (Whether it can be reached is noted with
/// each attempt.)
const fn broke_off(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::Told(Kind::Reset | Kind::Truncated | Kind::ClosedBeforeAnswer | Kind::BadResponse)
    )
}

/// Whether `error`, on a connection from the pool, means that the engine had closed it before the
/// request reached it: the request could not be written, or not one byte came back. An engine
/// that closes later than [`STALE`] after the request has had it, and may have worked on it.
#[must_use]
pub fn is_stale(error: &Error, since_sent: Duration) -> bool {
    if *error.esource() != ErrorSource::Upstream || since_sent > STALE {
        return false;
    }
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
    exchange.track.set_connecting(false);
    // A status of 5xx that did not arrive whole is no longer what ended the request.
    exchange.ending = None;
    match limit {
        Some(limit) => exchange.ended_by(limit),
        None => {
            let head_seen = exchange.times.response_head.is_some();
            let (outcome, cause) = ending(error, head_seen);
            if let Some(lease) = &mut exchange.lease
                && broke_off(cause)
            {
                lease.failed();
            }
            exchange.ended(outcome, cause);
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
    let refusal = Refusal::from(match exchange.ending.map(|e| e.cause) {
        Some(Cause::Told(kind)) => kind,
        _ => Kind::Internal,
    });
    // A write that still waits may have left half a chunk, and no word fits in there.
    let blocked = exchange.track.lock().delivery.blocked_since().is_some();
    let told = match answered(session) {
        _ if blocked => Ok(()),
        None => crate::intake::answer::write(session, &refusal, &exchange.ids.request).await,
        Some(_) if exchange.answer == Body::Events => {
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

/// The head that the client got, interim ones aside.
pub fn answered(session: &Session) -> Option<&ResponseHeader> {
    session
        .response_written()
        .filter(|head| !head.status.is_informational())
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
                (Outcome::ClientGone, "client_gone"),
            ),
        ] {
            let (outcome, cause) = ending(&error, head_seen);
            assert_eq!((outcome, cause.label()), expected, "{error}");
        }
    }

    #[test]
    fn only_a_silent_close_is_stale() {
        let mut error = upstream(ErrorType::ConnectionClosed);
        assert!(
            !is_stale(&error, Duration::ZERO),
            "the connector did not say so"
        );
        error.retry = RetryType::ReusedOnly;
        assert!(is_stale(&error, STALE));
        assert!(!is_stale(&error, STALE * 2), "the engine had the request");

        let mut begun = Error::explain(
            ErrorType::ConnectionClosed,
            "while reading response headers, bytes already read: 17",
        )
        .into_up();
        begun.retry = RetryType::ReusedOnly;
        assert!(!is_stale(&begun, Duration::ZERO), "an answer had begun");
        assert!(!is_stale(&upstream(ErrorType::ReadTimedout), STALE));
        assert!(is_stale(&upstream(ErrorType::WriteError), STALE));
        let client = Error::explain(ErrorType::WriteError, "left").into_down();
        assert!(!is_stale(&client, STALE), "no fault of the engine");
    }
}
