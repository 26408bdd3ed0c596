//! How plain types are read from a node.

use std::collections::BTreeMap;

use super::{Node, Problems};

/// A type that one node describes. Own section types implement it beside their rules.
pub trait FromYaml: Sized {
    /// The value; `None` after at least one problem was reported.
    fn from_yaml(node: &Node, problems: &mut Problems) -> Option<Self>;
}

impl FromYaml for String {
    fn from_yaml(node: &Node, problems: &mut Problems) -> Option<Self> {
        match node.scalar() {
            Some("") => {
                problems.at(node, "expected text, found empty quotes");
                None
            }
            Some(text) => Some(text.to_owned()),
            None => wrong(node, "text", problems),
        }
    }
}

impl FromYaml for bool {
    fn from_yaml(node: &Node, problems: &mut Problems) -> Option<Self> {
        match node.plain() {
            Some("true") => Some(true),
            Some("false") => Some(false),
            _ => wrong(node, "true or false", problems),
        }
    }
}

macro_rules! whole_numbers {
    ($($ty:ty),+) => {$(
        impl FromYaml for $ty {
            fn from_yaml(node: &Node, problems: &mut Problems) -> Option<Self> {
                let digits = node
                    .plain()
                    .filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
                match digits.map(str::parse) {
                    Some(Ok(number)) => Some(number),
                    _ => wrong(
                        node,
                        &format!("a whole number from 0 to {}", <$ty>::MAX),
                        problems,
                    ),
                }
            }
        }
    )+};
}
whole_numbers!(u16, u32, u64, usize);

impl FromYaml for f64 {
    fn from_yaml(node: &Node, problems: &mut Problems) -> Option<Self> {
        node.plain()
            .and_then(|text| text.parse::<Self>().ok())
            .filter(|number| number.is_finite())
            .or_else(|| wrong(node, "a number", problems))
    }
}

impl<T: FromYaml> FromYaml for Vec<T> {
    fn from_yaml(node: &Node, problems: &mut Problems) -> Option<Self> {
        let read: Vec<Option<T>> = node
            .list(problems)?
            .iter()
            .map(|item| T::from_yaml(item, problems))
            .collect();
        read.into_iter().collect()
    }
}

impl<T: FromYaml> FromYaml for BTreeMap<String, T> {
    fn from_yaml(node: &Node, problems: &mut Problems) -> Option<Self> {
        let read: Vec<Option<(String, T)>> = node
            .entries(problems)?
            .map(|(name, value)| Some((name.to_owned(), T::from_yaml(value, problems)?)))
            .collect();
        read.into_iter().collect()
    }
}

fn wrong<T>(node: &Node, wanted: &str, problems: &mut Problems) -> Option<T> {
    problems.at(
        node,
        format!("expected {wanted}, found {}", node.describe()),
    );
    None
}
