//! The `model` and `stream` members of a request body, found without building the document.
//!
//! The body is walked once and everything else is skipped unread. A rewrite replaces the bytes of
//! the model's value and no other: numbers, blanks, escapes and key order stay as they were sent.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// What the gateway needs to know of a request body.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// The model named, if one is.
    pub model: Option<Model>,
    /// `"stream": true`.
    pub stream: bool,
}

/// The model's name and where its JSON value lies in the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// The name, unescaped.
    pub name: String,
    /// Bytes of the value, quotes included.
    pub value: Range<usize>,
}

/// Why a body says nothing about its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// It is no JSON object.
    NotAnObject,
    /// It names its model twice: engine and gateway could read different ones.
    TwoModels,
    /// Its model is no string.
    ModelNotText,
}

/// Finds the facts in `body`.
///
/// # Errors
/// [`Unread`] when the body can't be understood, or not without doubt.
pub fn read(body: &[u8]) -> Result<Facts, Unread> {
    let members: Members<'_> =
        serde_json::from_slice(body).map_err(|error| match error.to_string() {
            text if text.starts_with(TWO_MODELS) => Unread::TwoModels,
            _ => Unread::NotAnObject,
        })?;
    let model = match members.model.map(RawValue::get) {
        None | Some("null") => None,
        Some(raw) => {
            let name: Cow<'_, str> = serde_json::from_str(raw).map_err(|_| Unread::ModelNotText)?;
            let start = raw.as_ptr() as usize - body.as_ptr() as usize;
            Some(Model {
                name: name.into_owned(),
                value: start..start + raw.len(),
            })
        }
    };
    Ok(Facts {
        model,
        stream: members.stream.is_some_and(|raw| raw.get() == "true"),
    })
}

/// `body` with the model's value replaced by `name`.
#[must_use]
pub fn rewrite(body: &Bytes, model: &Model, name: &str) -> Bytes {
    if model.name == name {
        return body.clone();
    }
    let name = serde_json::Value::from(name).to_string();
    let parts = [
        &body[..model.value.start],
        name.as_bytes(),
        &body[model.value.end..],
    ];
    Bytes::from(parts.concat())
}

const TWO_MODELS: &str = "two models";

#[derive(Default)]
struct Members<'a> {
    model: Option<&'a RawValue>,
    stream: Option<&'a RawValue>,
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Members::default();
        while let Some(key) = map.next_key()? {
            match key {
                Key::Model if members.model.is_some() => {
                    return Err(serde::de::Error::custom(TWO_MODELS));
                }
                Key::Model => members.model = Some(map.next_value()?),
                Key::Stream => members.stream = Some(map.next_value()?),
                Key::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(members)
    }
}

enum Key {
    Model,
    Stream,
    Other,
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl Visitor<'_> for KeyVisitor {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_str<E>(self, key: &str) -> Result<Key, E> {
                Ok(match key {
                    "model" => Key::Model,
                    "stream" => Key::Stream,
                    _ => Key::Other,
                })
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r03_unknown_fields_are_stepped_over() {
        let body = br#"{"chat_template_kwargs":{"model":"inner"},"x":[1,{"model":2}], "model" : "m" ,"stream":true}"#;
        let facts = read(body).unwrap();
        let model = facts.model.unwrap();
        assert_eq!(model.name, "m");
        assert_eq!(&body[model.value], b"\"m\"");
        assert!(facts.stream);
    }

    #[test]
    fn r04_a_rewrite_changes_the_model_value_alone() {
        let body = Bytes::from_static(
            br#"{"model":"m","seed":12345678901234567890,"n_big":9007199254740995,"temperature":1.0,"top_p":0.10000000000000001,"eps":1e-7,"neg":-0.0,"e":1E5,"messages":[]}"#,
        );
        let model = read(&body).unwrap().model.unwrap();
        let rewritten = rewrite(&body, &model, "served/\"name\"");
        let expected =
            String::from_utf8(body.to_vec())
                .unwrap()
                .replacen(r#""m""#, r#""served/\"name\"""#, 1);
        assert_eq!(rewritten, expected.as_bytes());
    }

    #[test]
    fn the_same_name_keeps_the_very_bytes() {
        let body = Bytes::from_static(br#"{"model":"\u006d"}"#);
        let model = read(&body).unwrap().model.unwrap();
        assert_eq!(model.name, "m");
        assert_eq!(rewrite(&body, &model, "m").as_ptr(), body.as_ptr());
    }

    #[test]
    fn an_escaped_key_is_the_same_key() {
        let facts = read(br#"{"mod\u0065l":"m"}"#).unwrap();
        assert_eq!(facts.model.unwrap().name, "m");
    }

    #[test]
    fn doubt_is_told_apart_from_silence() {
        assert_eq!(read(b"{}"), Ok(Facts::default()));
        assert_eq!(read(br#"{"model":null}"#), Ok(Facts::default()));
        assert_eq!(
            read(br#"{"model":"a","model":"b"}"#),
            Err(Unread::TwoModels)
        );
        assert_eq!(read(br#"{"model":7}"#), Err(Unread::ModelNotText));
        for broken in [&b"[]"[..], b"", b"\"model\"", b"{\"model\":", b"\xff"] {
            assert_eq!(read(broken), Err(Unread::NotAnObject), "{broken:?}");
        }
    }
}
