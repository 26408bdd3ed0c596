//! Which of a client's request headers an engine gets to see.
//!
//! An allow list: what is not on it stays here, so credentials, cookies, client addresses,
//! hop-by-hop headers and whatever comes up tomorrow never reach an engine by accident. Set by
//! the gateway itself and therefore not on the list: host, content-length, accept-encoding,
//! `x-request-id` (the gateway's own), traceparent and the pool's credential.
//!
//! The surprise: `x-stainless-*` (the official clients' telemetry: OS, runtime, retry count)
//! stays here too; no engine reads it.

use http::HeaderName;
use http::header::{ACCEPT, ACCEPT_LANGUAGE, CONTENT_ENCODING, CONTENT_TYPE, USER_AGENT};
use pingora::http::RequestHeader;

/// What passes, all values of it.
const ALLOWED: [HeaderName; 8] = [
    ACCEPT,
    ACCEPT_LANGUAGE,
    CONTENT_ENCODING,
    CONTENT_TYPE,
    USER_AGENT,
    HeaderName::from_static("baggage"),
    HeaderName::from_static("openai-beta"),
    HeaderName::from_static("tracestate"),
];

/// Copies what an engine may see from the client's request to the engine's.
pub fn towards_engine(from: &RequestHeader, to: &mut RequestHeader) {
    for name in ALLOWED {
        for value in from.headers.get_all(&name) {
            if to.append_header(name.clone(), value.clone()).is_err() {
                tracing::debug!(header = %name, "a header could not be passed on");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(pairs: &[(&'static str, &'static str)]) -> Vec<String> {
        let mut from = RequestHeader::build("POST", b"/v1/completions", None).unwrap();
        for (name, value) in pairs {
            from.append_header(*name, *value).unwrap();
        }
        let mut to = RequestHeader::build("POST", b"/v1/completions", None).unwrap();
        towards_engine(&from, &mut to);
        to.headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect()
    }

    #[test]
    fn what_describes_the_content_passes() {
        let pairs = [
            ("content-type", "application/json"),
            ("accept", "text/event-stream"),
            ("tracestate", "a=1"),
            ("tracestate", "b=2"),
        ];
        assert_eq!(
            passed(&pairs),
            [
                "accept: text/event-stream",
                "content-type: application/json",
                "tracestate: a=1",
                "tracestate: b=2"
            ]
        );
    }

    #[test]
    fn credentials_cookies_hops_and_strangers_stay_here() {
        let pairs = [
            ("authorization", "Bearer K"),
            ("proxy-authorization", "Basic K"),
            ("x-api-key", "K"),
            ("api-key", "K"),
            ("cookie", "session=K"),
            ("connection", "x-secret"),
            ("x-secret", "K"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("te", "trailers"),
            ("expect", "100-continue"),
            ("host", "evil"),
            ("content-length", "7"),
            ("x-request-id", "theirs"),
            ("x-forwarded-for", "10.0.0.1"),
            ("x-stainless-os", "Linux"),
            ("accept-encoding", "gzip"),
        ];
        assert!(passed(&pairs).is_empty(), "{:?}", passed(&pairs));
    }
}
