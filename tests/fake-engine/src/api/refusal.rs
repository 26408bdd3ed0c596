//! Refusals of request bodies, in vLLM's words.

use serde_json::Value;

use crate::http::Reply;

/// A value that can't be served.
pub(crate) fn bad(param: &str, message: &str) -> Reply {
    Reply::error(400, "BadRequestError", Some(param), message)
}

/// A value of the wrong form; `problem` is what follows `1 validation error`.
pub(crate) fn invalid(param: &str, problem: &str) -> Reply {
    let message = format!("1 validation error:\n  {{{problem}}}");
    Reply::error(400, "Bad Request", Some(param), &message)
}

/// A field that isn't there.
pub(crate) fn missing(location: &str, input: &str) -> Reply {
    invalid(
        location,
        &format!(
            "'type': 'missing', 'loc': '{location}', 'msg': 'Field required', 'input': '{input}'"
        ),
    )
}

/// What stands where a field is missing.
pub(crate) fn shape(body: &Value) -> String {
    format!(
        "<dict of {} items>",
        body.as_object().map_or(0, serde_json::Map::len)
    )
}
