//! The lines of one event, whole and contiguous, to its fields.
//!
//! Framing has found the borders already; nothing here depends on how the bytes arrived.

use super::{CR, LF};

/// What an event's lines say.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fields<'a> {
    /// All data lines, joined with LF; empty when there are none.
    pub(super) data: &'a [u8],
    /// Value of the last `event` line.
    pub(super) name: Option<&'a [u8]>,
}

/// Reads the fields of a raw event. Data of one line is borrowed from `raw`; data of several is
/// joined in `joined`, which comes in empty.
pub(super) fn read<'a>(raw: &'a [u8], joined: &'a mut Vec<u8>) -> Fields<'a> {
    let mut first_data: Option<&[u8]> = None;
    let mut name = None;
    for (field, value) in lines(raw).filter_map(split) {
        match field {
            b"data" => match first_data {
                None => first_data = Some(value),
                Some(first) => {
                    if joined.is_empty() {
                        joined.extend_from_slice(first);
                    }
                    joined.push(LF);
                    joined.extend_from_slice(value);
                }
            },
            b"event" => name = Some(value),
            _ => {}
        }
    }
    let data = if joined.is_empty() {
        first_data.unwrap_or_default()
    } else {
        joined
    };
    Fields { data, name }
}

/// Lines without their ends. CRLF shows as an empty line more, which [`split`] drops.
fn lines(raw: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = raw;
    std::iter::from_fn(move || {
        let len = memchr::memchr2(LF, CR, rest)?;
        let line = &rest[..len];
        rest = &rest[len + 1..];
        Some(line)
    })
}

/// Field name and value; `None` for an empty line and for a comment.
fn split(line: &[u8]) -> Option<(&[u8], &[u8])> {
    match memchr::memchr(b':', line) {
        None if line.is_empty() => None,
        None => Some((line, b"")),
        Some(0) => None,
        Some(colon) => {
            let value = &line[colon + 1..];
            Some((&line[..colon], value.strip_prefix(b" ").unwrap_or(value)))
        }
    }
}
