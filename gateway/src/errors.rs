//! What the gateway itself answers when it says no: one table, one shape.
//!
//! A [`Kind`] has one row: metric label, status, OpenAI `type` and `code`, whether a client should
//! try again. A [`Refusal`] is a kind with the sentence for this request. The body is OpenAI's
//! error object, so the official clients raise the exception that fits. An engine's own error
//! answers never pass here; their bytes go through as they are.
//!
//! Messages name the object, the value (bounded, and never a credential) and the remedy.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{ALLOW, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Method, StatusCode};

const X_SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

const INVALID: &str = "invalid_request_error";
const AUTHENTICATION: &str = "authentication_error";
const PERMISSION: &str = "permission_error";
const SERVER: &str = "server_error";

/// Longest part of a client's text that a message repeats, in characters.
const MAX_QUOTED: usize = 100;

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    label: &'static str,
    status: StatusCode,
    openai_type: &'static str,
    code: &'static str,
    retryable: bool,
    message: &'static str,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident: $label:literal, $status:ident, $ty:expr, $code:literal, $retry:literal, $message:literal;)+) => {
        /// Why the gateway says no.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Kind { $($(#[$doc])* $kind,)+ }

        impl Kind {
            /// Every kind, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$kind,)+];

            const fn row(self) -> Row {
                match self {
                    $(Self::$kind => Row {
                        label: $label,
                        status: StatusCode::$status,
                        openai_type: $ty,
                        code: $code,
                        retryable: $retry,
                        message: $message,
                    },)+
                }
            }
        }
    };
}

kinds! {
    /// No credential was shown.
    CredentialMissing: "credential_missing", UNAUTHORIZED, AUTHENTICATION, "invalid_api_key", false,
        "no API key was given: send `Authorization: Bearer KEY` or `x-api-key: KEY`";
    /// The credential is none of ours.
    CredentialInvalid: "credential_invalid", UNAUTHORIZED, AUTHENTICATION, "invalid_api_key", false,
        "the API key is not known here: check it, or ask the operator for a new one";
    /// More than one credential.
    CredentialAmbiguous: "credential_ambiguous", BAD_REQUEST, INVALID, "ambiguous_credentials", false,
        "more than one credential was sent: send Authorization or x-api-key, once";
    /// The path has parts that could be read in two ways.
    PathUnclear: "path_unclear", BAD_REQUEST, INVALID, "invalid_path", false,
        "the path holds dot segments, %-codes or doubled slashes: send the plain path";
    /// No such path.
    RouteUnknown: "route_unknown", NOT_FOUND, INVALID, "unknown_url", false,
        "the path is not served here";
    /// The path takes another method.
    MethodNotAllowed: "method_not_allowed", METHOD_NOT_ALLOWED, INVALID, "method_not_allowed", false,
        "the path takes another method";
    /// No such model.
    ModelUnknown: "model_unknown", NOT_FOUND, INVALID, "model_not_found", false,
        "the model does not exist";
    /// The caller may not use the model.
    ModelForbidden: "model_forbidden", FORBIDDEN, PERMISSION, "model_not_allowed", false,
        "this key may not use the model";
    /// The model decides the pool and was not named.
    ModelMissing: "model_missing", BAD_REQUEST, INVALID, "missing_model", false,
        "the request names no model: set `model` in the body";
    /// The request is no HTTP that can be relayed.
    Malformed: "malformed_request", BAD_REQUEST, INVALID, "malformed_request", false,
        "the request is not well-formed HTTP/1.1: check the client, and any proxy before this gateway";
    /// The body can't be used.
    BodyInvalid: "body_invalid", BAD_REQUEST, INVALID, "invalid_body", false,
        "the body cannot be used";
    /// The body is over the limit.
    BodyTooLarge: "body_too_large", PAYLOAD_TOO_LARGE, INVALID, "request_too_large", false,
        "the body is too large";
    /// Head or body came too slowly.
    RequestTimeout: "request_timeout", REQUEST_TIMEOUT, INVALID, "request_timeout", false,
        "the request was not sent in time: send head and body without pauses";
    /// The gateway is about to stop.
    Draining: "draining", SERVICE_UNAVAILABLE, SERVER, "draining", true,
        "this gateway is shutting down: try again, another one will answer";
    /// The engine's port did not answer.
    ConnectTimeout: "connect_timeout", GATEWAY_TIMEOUT, SERVER, "engine_unreachable", true,
        "the engine could not be reached in time";
    /// The engine's port is closed.
    ConnectRefused: "connect_refused", BAD_GATEWAY, SERVER, "engine_unreachable", true,
        "the engine refused the connection: it may be starting or down";
    /// The engine can't be reached for another reason.
    ConnectFailed: "connect_failed", BAD_GATEWAY, SERVER, "engine_unreachable", true,
        "the engine could not be reached";
    /// The engine's name has no address.
    Unresolved: "unresolved", BAD_GATEWAY, SERVER, "engine_unreachable", true,
        "the engine's host name has no address";
    /// No engine is left to try.
    NoEndpoint: "no_endpoint", SERVICE_UNAVAILABLE, SERVER, "engine_unreachable", true,
        "no engine is available for this model";
    /// The engine fell silent on the connection.
    Idle: "idle", GATEWAY_TIMEOUT, SERVER, "engine_timeout", false,
        "the engine's connection fell silent";
    /// No first byte in time.
    FirstByteTimeout: "first_byte_timeout", GATEWAY_TIMEOUT, SERVER, "engine_timeout", false,
        "the engine did not begin to answer in time";
    /// A stream fell silent.
    BetweenEventsTimeout: "between_events_timeout", GATEWAY_TIMEOUT, SERVER, "engine_timeout", false,
        "the engine's stream fell silent";
    /// The whole took too long.
    TotalTimeout: "total_timeout", GATEWAY_TIMEOUT, SERVER, "engine_timeout", false,
        "the request took longer than this gateway allows";
    /// The drain's time was up.
    Drain: "drain", SERVICE_UNAVAILABLE, SERVER, "draining", true,
        "this gateway had to shut down before the answer was complete";
    /// The engine answered what is no HTTP.
    BadResponse: "bad_response", BAD_GATEWAY, SERVER, "engine_failed", false,
        "the engine's answer is not well-formed HTTP";
    /// The engine reset the connection.
    Reset: "reset", BAD_GATEWAY, SERVER, "engine_failed", false,
        "the engine broke the connection off";
    /// The engine's answer ended early.
    Truncated: "truncated", BAD_GATEWAY, SERVER, "engine_failed", false,
        "the engine's answer ended before it was complete";
    /// The engine closed before it answered.
    ClosedBeforeAnswer: "closed_before_answer", BAD_GATEWAY, SERVER, "engine_failed", false,
        "the engine closed the connection before it answered";
    /// A fault of the gateway.
    Internal: "internal", INTERNAL_SERVER_ERROR, SERVER, "internal_error", false,
        "the gateway failed on this request; its log says why";
}

impl Kind {
    /// Its name in records and metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        self.row().label
    }
}

/// A no, with its words for one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    kind: Kind,
    message: Cow<'static, str>,
    /// Field of the request that is at fault.
    param: Option<&'static str>,
    allow: Option<HeaderValue>,
}

impl From<Kind> for Refusal {
    fn from(kind: Kind) -> Self {
        Self {
            kind,
            message: Cow::Borrowed(kind.row().message),
            param: None,
            allow: None,
        }
    }
}

impl Refusal {
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
        Self {
            allow: HeaderValue::from_str(allowed.as_str()).ok(),
            ..Self::with(Kind::MethodNotAllowed, None, message)
        }
    }

    /// Status of the answer.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.kind.row().status
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
        if row.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.push((RETRY_AFTER, HeaderValue::from_static("1")));
        }
        if let Some(allow) = &self.allow {
            headers.push((ALLOW, allow.clone()));
        }
        headers
    }
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
