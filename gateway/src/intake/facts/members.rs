//! The walk over a body's members.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{Amount, Facts, Model, StreamOptions, Unread};

/// Members whose value is kept. Their order is that of [`Members::values`].
const WATCHED: [&str; 12] = [
    "model",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "n",
    "best_of",
    "messages",
    "prompt",
    "input",
    "tools",
];
const OUTPUT_LIMITS: Range<usize> = 3..6;
const PROMPTS: Range<usize> = 8..12;

/// The watched members' values as they stand in the body.
#[derive(Default)]
pub(super) struct Members<'a> {
    values: [Option<&'a RawValue>; WATCHED.len()],
    repeated: Option<&'static str>,
}

impl<'a> Members<'a> {
    pub(super) fn facts(self, body: &[u8]) -> Result<Facts, Unread> {
        if let Some(name) = self.repeated {
            return Err(Unread::Repeated(name));
        }
        let first_member = body.iter().position(|&b| b == b'{').map_or(0, |at| at + 1);
        let [model, stream, stream_options, .., n, best_of, _, _, _, _] = self.values;
        Ok(Facts {
            model: present(model).map(|raw| name(raw, body)).transpose()?,
            stream: stream.is_some_and(|raw| raw.get() == "true"),
            stream_options: stream_options.map(|raw| options(raw, body)).transpose()?,
            output_limits: OUTPUT_LIMITS
                .filter_map(|i| amount(WATCHED[i], self.values[i], body))
                .collect(),
            null_limits: OUTPUT_LIMITS
                .filter_map(|i| Some((WATCHED[i], place(null(self.values[i])?, body))))
                .collect(),
            n: amount("n", n, body),
            best_of: amount("best_of", best_of, body),
            prompt_bytes: PROMPTS
                .filter_map(|i| present(self.values[i]))
                .map(|raw| raw.get().len() as u64)
                .sum(),
            first_member,
            empty: body[first_member..].trim_ascii_start().starts_with(b"}"),
        })
    }
}

/// A member that is there and not null.
fn present(member: Option<&RawValue>) -> Option<&RawValue> {
    member.filter(|raw| raw.get() != "null")
}

/// A member that is there and null.
fn null(member: Option<&RawValue>) -> Option<&RawValue> {
    member.filter(|raw| raw.get() == "null")
}

/// Where `raw`, which borrows from `body`, lies in it.
fn place(raw: &RawValue, body: &[u8]) -> Range<usize> {
    let start = raw.get().as_ptr() as usize - body.as_ptr() as usize;
    start..start + raw.get().len()
}

fn name(raw: &RawValue, body: &[u8]) -> Result<Model, Unread> {
    let name: Cow<'_, str> = serde_json::from_str(raw.get()).map_err(|_| Unread::ModelNotText)?;
    Ok(Model {
        name: name.into_owned(),
        value: place(raw, body),
    })
}

fn amount(name: &'static str, member: Option<&RawValue>, body: &[u8]) -> Option<Amount> {
    let raw = present(member)?;
    Some(Amount {
        name,
        number: whole(raw.get()),
        value: place(raw, body),
    })
}

/// The whole number that `text` spells, `1e3` and `7.0` included, saturated.
fn whole(text: &str) -> Option<u64> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    // A quoted number is a string: `parse` would not take the quotes either.
    let number: f64 = text.parse().ok()?;
    (number >= 0.0 && number.fract() == 0.0).then_some(number as u64)
}

fn options(raw: &RawValue, body: &[u8]) -> Result<StreamOptions, Unread> {
    // What is no object here is the engine's to refuse.
    let inner: Options<'_> = serde_json::from_str(raw.get()).unwrap_or_default();
    if inner.repeated {
        return Err(Unread::Repeated("include_usage"));
    }
    Ok(StreamOptions {
        value: place(raw, body),
        include_usage: inner.include_usage.and_then(|raw| raw.get().parse().ok()),
        include_usage_value: inner.include_usage.map(|raw| place(raw, body)),
    })
}

#[derive(Default)]
struct Options<'a> {
    include_usage: Option<&'a RawValue>,
    repeated: bool,
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut members = Members::default();
        deserializer.deserialize_map(Walk(
            |key: &str| WATCHED.iter().position(|name| *name == key),
            |i: usize, raw| {
                if members.values[i].replace(raw).is_some() {
                    members.repeated = Some(WATCHED[i]);
                }
            },
        ))?;
        Ok(members)
    }
}

impl<'de> Deserialize<'de> for Options<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut options = Options::default();
        deserializer.deserialize_map(Walk(
            |key: &str| (key == "include_usage").then_some(0),
            |_, raw| {
                options.repeated |= options.include_usage.replace(raw).is_some();
            },
        ))?;
        Ok(options)
    }
}

/// Steps through an object: the first function says which keys matter, the second gets their
/// values.
struct Walk<K, V>(K, V);

impl<'de, K, V> Visitor<'de> for Walk<K, V>
where
    K: Fn(&str) -> Option<usize>,
    V: FnMut(usize, &'de RawValue),
{
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Key<'de>>()? {
            match (self.0)(&key.0) {
                Some(i) => (self.1)(i, map.next_value()?),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// A key, borrowed where it has no escapes.
struct Key<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(key)))
            }

            fn visit_str<E>(self, key: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(key.to_owned())))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}
