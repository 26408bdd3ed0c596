//! The table: each reason for a no with its metric label, status, OpenAI `type` and `code`, whether
//! a client should try again, and the sentence where nothing more is known.

use http::StatusCode;

const INVALID: &str = "invalid_request_error";
const AUTHENTICATION: &str = "authentication_error";
const PERMISSION: &str = "permission_error";
const SERVER: &str = "server_error";

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) label: &'static str,
    pub(super) status: StatusCode,
    pub(super) openai_type: &'static str,
    pub(super) code: &'static str,
    pub(super) retryable: bool,
    pub(super) message: &'static str,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident: $label:literal, $status:ident, $ty:expr, $code:literal, $retry:literal, $message:literal;)+) => {
        /// Why the gateway says no.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Kind { $($(#[$doc])* $kind,)+ }

        impl Kind {
            /// Every kind, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$kind,)+];

            pub(super) const fn row(self) -> Row {
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
    /// The body is compressed and has to be read.
    BodyEncoded: "body_encoded", UNSUPPORTED_MEDIA_TYPE, INVALID, "unsupported_encoding", false,
        "the body has a content-encoding, and this gateway has to read it: send it plain";
    /// The body is over the limit.
    BodyTooLarge: "body_too_large", PAYLOAD_TOO_LARGE, INVALID, "request_too_large", false,
        "the body is too large";
    /// More requests per second than allowed.
    RequestRate: "request_rate", TOO_MANY_REQUESTS, "requests", "rate_limit_exceeded", true,
        "too many requests: wait";
    /// More tokens per minute than allowed.
    TokenRate: "token_rate", TOO_MANY_REQUESTS, "tokens", "rate_limit_exceeded", true,
        "too many tokens: wait";
    /// More requests at a time than allowed.
    Concurrency: "concurrency", TOO_MANY_REQUESTS, "requests", "concurrency_limit_exceeded", true,
        "too many requests at a time: wait until one ends";
    /// The budget of the day or month is spent.
    Budget: "budget", TOO_MANY_REQUESTS, "insufficient_quota", "insufficient_quota", false,
        "the token budget is spent";
    /// One request asks for more than a limit ever allows.
    NeverFits: "never_fits", BAD_REQUEST, INVALID, "request_exceeds_limit", false,
        "this one request asks for more than a limit allows";
    /// The prompt is over its cap.
    PromptTooLong: "prompt_too_long", BAD_REQUEST, INVALID, "context_length_exceeded", false,
        "the prompt is too long";
    /// The answer may get longer than its cap.
    AnswerTooLong: "answer_too_long", BAD_REQUEST, INVALID, "max_tokens_exceeded", false,
        "the answer may get too long";
    /// More choices than allowed.
    TooManyChoices: "too_many_choices", BAD_REQUEST, INVALID, "too_many_choices", false,
        "too many choices";
    /// Head or body came too slowly.
    RequestTimeout: "request_timeout", REQUEST_TIMEOUT, INVALID, "request_timeout", false,
        "the request was not sent in time: send head and body without pauses";
    /// The gateway is about to stop.
    Draining: "draining", SERVICE_UNAVAILABLE, SERVER, "draining", true,
        "this gateway is shutting down: try again, another one will answer";
    /// Records cannot be written, and no request is served without one.
    Unrecorded: "unrecorded", SERVICE_UNAVAILABLE, SERVER, "records_unavailable", true,
        "this gateway cannot write its records at present and serves nothing without one";
    /// As many connections are open as may.
    Connections: "connections", SERVICE_UNAVAILABLE, SERVER, "too_many_connections", true,
        "too many connections: reuse one";
    /// As many wait for an engine as may.
    QueueFull: "queue_full", SERVICE_UNAVAILABLE, SERVER, "overloaded", true,
        "too many requests wait for an engine: try again later";
    /// The wait for an engine would be too long.
    QueueTooLong: "queue_too_long", SERVICE_UNAVAILABLE, SERVER, "overloaded", true,
        "the wait for an engine would be too long: try again later";
    /// No engine had a place in time.
    QueueTimeout: "queue_timeout", SERVICE_UNAVAILABLE, SERVER, "overloaded", true,
        "no engine had a place in time: try again later";
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
