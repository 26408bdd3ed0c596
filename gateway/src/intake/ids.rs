//! The names of a request: ours, the client's, and the trace it belongs to.

use http::HeaderMap;
use rand::Rng as _;
use uuid::Uuid;

/// Longest client id that is kept.
const MAX_CLIENT_ID: usize = 128;

/// See the module head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ids {
    /// Made here (UUID v7), sent to the engine and answered to the client.
    pub request: String,
    /// What the client sent in `x-request-id`, when it fits charset and length.
    pub client: Option<String>,
    /// The trace's id: the client's, or one made here.
    pub trace: String,
    /// What goes upstream as `traceparent`.
    pub traceparent: String,
}

impl Ids {
    /// Names the request with these headers.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok());
        let (trace, traceparent) = match text("traceparent").and_then(trace_id) {
            Some((trace, whole)) => (trace.to_owned(), whole.to_owned()),
            None => new_trace(),
        };
        Self {
            request: Uuid::now_v7().to_string(),
            client: text("x-request-id")
                .filter(|id| fits(id))
                .map(str::to_owned),
            trace,
            traceparent,
        }
    }
}

/// Nothing that a log, a query or a file name would have to escape.
fn fits(id: &str) -> bool {
    (1..=MAX_CLIENT_ID).contains(&id.len())
        && id
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.:".contains(&b))
}

/// The trace id of a W3C `traceparent` that can be passed on, and the header itself.
fn trace_id(header: &str) -> Option<(&str, &str)> {
    let header = header.trim();
    let mut parts = header.split('-');
    let (version, trace, span, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let hex = |part: &str, len: usize| {
        part.len() == len
            && part
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let zero = |part: &str| part.bytes().all(|b| b == b'0');
    (hex(version, 2)
        && version != "ff"
        && (version != "00" || parts.next().is_none())
        && hex(trace, 32)
        && !zero(trace)
        && hex(span, 16)
        && !zero(span)
        && hex(flags, 2))
    .then_some((trace, header))
}

/// A trace that begins here; not sampled, for nobody asked for it.
fn new_trace() -> (String, String) {
    let mut rng = rand::rng();
    let trace = format!("{:016x}{:016x}", rng.next_u64(), rng.next_u64() | 1);
    let traceparent = format!("00-{trace}-{:016x}-00", rng.next_u64() | 1);
    (trace, traceparent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| {
                (
                    http::HeaderName::from_static(name),
                    http::HeaderValue::from_str(value).unwrap(),
                )
            })
            .collect()
    }

    #[test]
    fn a_valid_traceparent_is_passed_on_as_it_is() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let ids = Ids::of(&headers(&[("traceparent", parent)]));
        assert_eq!(ids.traceparent, parent);
        assert_eq!(ids.trace, "0af7651916cd43dd8448eb211c80319c");
    }

    #[test]
    fn a_broken_traceparent_is_replaced() {
        for broken in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
        ] {
            let ids = Ids::of(&headers(&[("traceparent", broken)]));
            assert_ne!(ids.traceparent, broken);
            assert!(trace_id(&ids.traceparent).is_some(), "{}", ids.traceparent);
        }
    }

    #[test]
    fn a_client_id_is_kept_only_when_it_fits() {
        let of = |id: &str| Ids::of(&headers(&[("x-request-id", id)])).client;
        assert_eq!(of("run.direct.c4.17").as_deref(), Some("run.direct.c4.17"));
        assert_eq!(of("a-b_c:D9").as_deref(), Some("a-b_c:D9"));
        for other in ["two words", "a/b", "a=b", "a+b", "a@b", "", "é"] {
            assert_eq!(of(other), None, "{other}");
        }
        assert_eq!(of(&"x".repeat(MAX_CLIENT_ID + 1)), None);
        assert_ne!(
            Ids::of(&headers(&[])).request,
            Ids::of(&headers(&[])).request
        );
    }
}
