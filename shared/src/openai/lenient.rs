//! JSON values that never make their surroundings fail.
//!
//! Engines disagree on what is null, absent, a string or a list. Each type here takes what it can
//! from whatever value stands in its place and is empty otherwise; strings are borrowed from the
//! input unless they hold escapes.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A string that says something; the empty one counts as absent.
#[derive(Debug, Default)]
pub(super) struct Text<'a>(pub(super) Option<Cow<'a, str>>);

/// A non-negative whole number.
#[derive(Debug, Default)]
pub(super) struct Count(pub(super) Option<u64>);

/// The number of elements of a list.
#[derive(Debug, Default)]
pub(super) struct Length(pub(super) Option<u64>);

/// An object.
#[derive(Debug)]
pub(super) struct Object<T>(pub(super) Option<T>);

/// The objects of a list, with their places; other elements are left out.
#[derive(Debug)]
pub(super) struct Objects<T>(pub(super) Vec<(usize, T)>);

impl<T> Default for Object<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Default for Objects<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// What a type makes of each kind of JSON value; of most kinds, nothing.
trait Shape<'de>: Default {
    fn from_text(_: Cow<'de, str>) -> Self {
        Self::default()
    }

    fn from_count(_: u64) -> Self {
        Self::default()
    }

    fn from_list<A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }

    fn from_object<A: MapAccess<'de>>(mut object: A) -> Result<Self, A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }
}

impl<'de: 'a, 'a> Shape<'de> for Text<'a> {
    fn from_text(text: Cow<'de, str>) -> Self {
        Self((!text.is_empty()).then_some(text))
    }
}

impl Shape<'_> for Count {
    fn from_count(count: u64) -> Self {
        Self(Some(count))
    }
}

impl<'de> Shape<'de> for Length {
    fn from_list<A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        let mut length = 0;
        while list.next_element::<IgnoredAny>()?.is_some() {
            length += 1;
        }
        Ok(Self(Some(length)))
    }
}

impl<'de, T: Deserialize<'de>> Shape<'de> for Object<T> {
    fn from_object<A: MapAccess<'de>>(object: A) -> Result<Self, A::Error> {
        T::deserialize(MapAccessDeserializer::new(object)).map(|it| Self(Some(it)))
    }
}

impl<'de, T: Deserialize<'de>> Shape<'de> for Objects<T> {
    fn from_list<A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        let mut objects = Vec::new();
        let mut place = 0;
        while let Some(Object(element)) = list.next_element()? {
            objects.extend(element.map(|it| (place, it)));
            place += 1;
        }
        Ok(Self(objects))
    }
}

/// Hands whatever value comes to a [`Shape`].
struct Anything<S>(PhantomData<S>);

impl<'de, S: Shape<'de>> Visitor<'de> for Anything<S> {
    type Value = S;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<S, E> {
        Ok(S::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<S, E> {
        Ok(S::default())
    }

    fn visit_u64<E>(self, number: u64) -> Result<S, E> {
        Ok(S::from_count(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<S, E> {
        Ok(u64::try_from(number).map_or_else(|_| S::default(), S::from_count))
    }

    fn visit_f64<E>(self, _: f64) -> Result<S, E> {
        Ok(S::default())
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<S, E> {
        Ok(S::from_text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<S, E> {
        Ok(S::from_text(Cow::Owned(text.to_owned())))
    }

    fn visit_string<E>(self, text: String) -> Result<S, E> {
        Ok(S::from_text(Cow::Owned(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<S, A::Error> {
        S::from_list(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<S, A::Error> {
        S::from_object(object)
    }
}

macro_rules! deserialize_any {
    ($($shape:ty, [$($generics:tt)*];)*) => {$(
        impl<$($generics)*> Deserialize<'de> for $shape {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_any(Anything(PhantomData))
            }
        }
    )*};
}

deserialize_any! {
    Text<'a>, ['de: 'a, 'a];
    Count, ['de];
    Length, ['de];
    Object<T>, ['de, T: Deserialize<'de>];
    Objects<T>, ['de, T: Deserialize<'de>];
}
