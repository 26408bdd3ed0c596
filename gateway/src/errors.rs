//! What the gateway itself answers when it says no: one table, one shape.
//!
//! A [`Kind`] has one row: metric label, status, OpenAI `type` and `code`, whether a client should
//! try again. A [`Refusal`] is a kind with the sentence for this request. The body is OpenAI's
//! error object, so the official clients raise the exception that fits. An engine's own error
//! answers never pass here; their bytes go through as they are.
//!
//! Messages name the object, the value (bounded, and never a credential) and the remedy.

mod kind;

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Method, StatusCode};

pub use kind::Kind;
use kind::Row;

const X_SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");

/// The official clients take no longer pause for a sane one, and wait by their own rule instead.
pub const MAX_PAUSE: Duration = Duration::from_secs(60);

/// Longest part of a client's text that a message repeats, in characters.
const MAX_QUOTED: usize = 100;

/// A no, with its words for one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    kind: Kind,
    message: Cow<'static, str>,
    /// Field of the request that is at fault.
    param: Option<&'static str>,
    /// When to try again, if that is known.
    retry_after: Option<Duration>,
    /// What stands beside it in the head, such as what a path allows or a limit has left.
    fields: Vec<(HeaderName, HeaderValue)>,
}

impl From<Kind> for Refusal {
    fn from(kind: Kind) -> Self {
        Self {
            kind,
            message: Cow::Borrowed(kind.row().message),
            param: None,
            retry_after: None,
            fields: Vec::new(),
        }
    }
}

impl Refusal {
    /// A refusal of `kind` with its own words.
    #[must_use]
    pub fn because(kind: Kind, message: String) -> Self {
        Self::with(kind, None, message)
    }

    /// The same, with when a client should try again: at most a minute is told, and not the same
    /// instant to all.
    #[must_use]
    pub fn after(mut self, pause: Duration) -> Self {
        self.retry_after = Some(spread(pause.min(MAX_PAUSE), rand::random()));
        self
    }

    /// The same, with more response headers.
    #[must_use]
    pub fn and(mut self, fields: Vec<(HeaderName, HeaderValue)>) -> Self {
        self.fields.extend(fields);
        self
    }

    fn with(kind: Kind, param: Option<&'static str>, message: String) -> Self {
        Self {
            message: Cow::Owned(message),
            param,
            ..kind.into()
        }
    }

    /// No route has this model's name.
    #[must_use]
    pub fn model_not_found(name: &str) -> Self {
        let message = format!(
            "the model `{}` does not exist here: GET /v1/models lists what is served",
            quoted(name)
        );
        Self::with(Kind::ModelUnknown, Some("model"), message)
    }

    /// The caller may not use this model.
    #[must_use]
    pub fn model_not_allowed(name: &str) -> Self {
        let message = format!(
            "this API key may not use the model `{}`: ask the operator",
            quoted(name)
        );
        Self::with(Kind::ModelForbidden, Some("model"), message)
    }

    /// The model decides where to go and was not named.
    #[must_use]
    pub fn model_required() -> Self {
        Self {
            param: Some("model"),
            ..Kind::ModelMissing.into()
        }
    }

    /// The request is no HTTP that can be relayed.
    #[must_use]
    pub fn malformed_request() -> Self {
        Kind::Malformed.into()
    }

    /// It is not beyond doubt where the body ends.
    #[must_use]
    pub fn unclear_framing() -> Self {
        let message = "it is unclear where the body ends: send either content-length, or \
                       transfer-encoding with `chunked` alone";
        Self::with(Kind::Malformed, None, message.to_owned())
    }

    /// Head or body came too slowly.
    #[must_use]
    pub fn request_timeout() -> Self {
        Kind::RequestTimeout.into()
    }

    /// The gateway is about to stop.
    #[must_use]
    pub fn draining() -> Self {
        Kind::Draining.into()
    }

    /// The body is over `limit` bytes.
    #[must_use]
    pub fn body_too_large(limit: u64) -> Self {
        let message = format!("the body is over the limit of {limit} bytes: send less");
        Self::with(Kind::BodyTooLarge, None, message)
    }

    /// The body can't be used: why, and what would be right.
    #[must_use]
    pub fn invalid_body(why: &str) -> Self {
        Self::with(Kind::BodyInvalid, None, why.to_owned())
    }

    /// No route has this path; `served` are those that there are.
    #[must_use]
    pub fn route_not_found(path: &str, served: &[String]) -> Self {
        let message = format!(
            "the path {} is not served here: use one of {}",
            quoted(path),
            served.join(", ")
        );
        Self::with(Kind::RouteUnknown, None, message)
    }

    /// The path takes only `allowed`.
    #[must_use]
    pub fn method_not_allowed(path: &str, allowed: &Method) -> Self {
        let message = format!("{} takes {allowed} only", quoted(path));
        let allow = HeaderValue::from_str(allowed.as_str()).ok();
        Self::with(Kind::MethodNotAllowed, None, message)
            .and(allow.map(|value| (ALLOW, value)).into_iter().collect())
    }

    /// Status of the answer.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.kind.row().status
    }

    /// The sentence for the client.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Its row of the table.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// The OpenAI error object.
    #[must_use]
    pub fn body(&self) -> Bytes {
        let Row {
            openai_type, code, ..
        } = self.kind.row();
        let body = serde_json::json!({"error": {
            "message": self.message,
            "type": openai_type,
            "param": self.param,
            "code": code,
        }});
        Bytes::from(format!("{body}\n"))
    }

    /// Headers beside content type and length.
    #[must_use]
    pub fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        let row = self.kind.row();
        let retry = if row.retryable { "true" } else { "false" };
        let mut headers = vec![(X_SHOULD_RETRY, HeaderValue::from_static(retry))];
        if row.status == StatusCode::UNAUTHORIZED {
            let challenge = match self.kind {
                Kind::CredentialMissing => r#"Bearer realm="inferscope""#,
                _ => r#"Bearer realm="inferscope", error="invalid_token""#,
            };
            headers.push((WWW_AUTHENTICATE, HeaderValue::from_static(challenge)));
        }
        if let Some(pause) = self.retry_after {
            let ms = pause.as_millis().max(1) as u64;
            headers.push((RETRY_AFTER, HeaderValue::from(whole_seconds(pause))));
            headers.push((RETRY_AFTER_MS, HeaderValue::from(ms)));
        } else if row.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.push((RETRY_AFTER, HeaderValue::from_static("1")));
        }
        headers.extend(self.fields.iter().cloned());
        headers
    }
}

/// `pause` in seconds as `retry-after` has them: up, and at least one.
fn whole_seconds(pause: Duration) -> u64 {
    let begun = u64::from(pause.subsec_nanos() > 0);
    (pause.as_secs() + begun).max(1)
}

/// `pause` and a `share` (0 to 1) of what is missing to the whole second that is told beside it: the
/// official clients wait exactly as long as `retry-after-ms` says, and would all come back at once.
fn spread(pause: Duration, share: f64) -> Duration {
    let told = Duration::from_secs(whole_seconds(pause));
    pause + told.saturating_sub(pause).mul_f64(share)
}

/// A client's text, short enough to repeat.
fn quoted(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_QUOTED) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests;
