//! Errors in all the shapes that engines give them: an object, a string, fields at the top of
//! the body, or FastAPI's `detail`.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::ApiError;
use super::wire::{ErrorObject, Top};

/// The error that an object speaks of, if it does. `named_error` says that the event's name
/// already called it one.
pub(super) fn find<'a>(
    top: &mut Top<'a>,
    data: &'a str,
    named_error: bool,
) -> Option<ApiError<'a>> {
    if let Some(error) = top.error.and_then(read) {
        return Some(error);
    }
    let is_bare =
        top.object.0.as_deref() == Some("error") || top.type_.0.as_deref() == Some("error");
    if is_bare || named_error {
        return Some(ApiError {
            message: top.message.0.take().unwrap_or(Cow::Borrowed(data)),
            kind: top.type_.0.take(),
            code: top.code.and_then(scalar),
        });
    }
    let detail = top.detail.filter(|_| top.choices.0.is_empty())?;
    Some(ApiError {
        message: scalar(detail).unwrap_or(Cow::Borrowed(detail.get())),
        ..ApiError::default()
    })
}

/// An `error` field's value; `None` for null, false and the empty string, which say "no error".
pub(super) fn read(value: &RawValue) -> Option<ApiError<'_>> {
    match value.get().as_bytes().first()? {
        b'{' => {
            let error: ErrorObject<'_> = serde_json::from_str(value.get()).unwrap_or_default();
            Some(ApiError {
                message: error.message.0.unwrap_or(Cow::Borrowed(value.get())),
                kind: error.type_.0,
                code: error.code.and_then(scalar),
            })
        }
        b'n' | b'f' => None,
        _ => {
            let message = scalar(value).unwrap_or(Cow::Borrowed(value.get()));
            (!message.is_empty()).then(|| ApiError {
                message,
                ..ApiError::default()
            })
        }
    }
}

/// A string's text or a number's digits.
fn scalar(value: &RawValue) -> Option<Cow<'_, str>> {
    let json = value.get();
    match json.as_bytes().first()? {
        b'"' => match json[1..json.len() - 1].contains('\\') {
            false => Some(Cow::Borrowed(&json[1..json.len() - 1])),
            true => serde_json::from_str(json).ok().map(Cow::Owned),
        },
        b'-' | b'0'..=b'9' => Some(Cow::Borrowed(json)),
        _ => None,
    }
}
