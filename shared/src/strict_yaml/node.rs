//! One value of a configuration file, with its place, and the typed views of it.
//!
//! Each view takes the [`Problems`] it may add to and gives `None` when it did: the reader goes on
//! with the next value and the user sees every fault at once.

use std::time::Duration;

use super::{Map, Problems};
use crate::units;

/// A place in the file, both counted from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Column, in characters.
    pub col: usize,
}

/// A value and where it stands.
#[derive(Debug, Clone)]
pub struct Node {
    pub(super) at: Position,
    pub(super) path: String,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone)]
pub(super) enum Kind {
    Scalar { text: String, plain: bool },
    Seq(Vec<Node>),
    Map(Vec<(String, Position, Node)>),
}

impl Node {
    /// Where it stands.
    #[must_use]
    pub const fn at(&self) -> Position {
        self.at
    }

    /// Its path from the file's root.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Every scalar below this value with its path. An item of a list that is a map with one of
    /// `names` in it is called by the first of those, `keys[laptop]`, else by its place, `keys[0]`.
    #[must_use]
    pub fn leaves(&self, names: &[&str]) -> Vec<(String, String)> {
        let mut leaves = Vec::new();
        self.gather(String::new(), names, &mut leaves);
        leaves
    }

    fn gather(&self, path: String, names: &[&str], leaves: &mut Vec<(String, String)>) {
        match &self.kind {
            Kind::Scalar { text, .. } => leaves.push((path, text.clone())),
            Kind::Seq(items) => {
                for (i, item) in items.iter().enumerate() {
                    let name = item
                        .called(names)
                        .map_or_else(|| i.to_string(), str::to_owned);
                    item.gather(format!("{path}[{name}]"), names, leaves);
                }
            }
            Kind::Map(members) => {
                let dot = if path.is_empty() { "" } else { "." };
                for (key, _, value) in members {
                    value.gather(format!("{path}{dot}{key}"), names, leaves);
                }
            }
        }
    }

    /// The text of the first of `names` that this map has.
    fn called(&self, names: &[&str]) -> Option<&str> {
        let Kind::Map(members) = &self.kind else {
            return None;
        };
        names.iter().find_map(|name| {
            members
                .iter()
                .find_map(|(key, _, value)| match &value.kind {
                    Kind::Scalar { text, .. } if key == name => Some(text.as_str()),
                    _ => None,
                })
        })
    }

    /// Records that this value is wrong.
    pub fn complain(&self, problems: &mut Problems, message: impl Into<String>) {
        problems.push(self.at, self.path.clone(), message);
    }

    /// Whether it is nothing: an empty value, `~` or `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(&self.kind, Kind::Scalar { text, plain: true } if matches!(text.as_str(), "" | "~" | "null"))
    }

    /// A non-empty text. Plain numbers and booleans are taken by their spelling.
    pub fn text(&self, problems: &mut Problems) -> Option<String> {
        match &self.kind {
            Kind::Scalar { text, .. } if !text.is_empty() => Some(text.clone()),
            _ => self.expected(problems, "a text"),
        }
    }

    /// `true` or `false`.
    pub fn bool(&self, problems: &mut Problems) -> Option<bool> {
        match self.plain() {
            Some("true") => Some(true),
            Some("false") => Some(false),
            _ => self.expected(problems, "true or false"),
        }
    }

    /// A whole number from zero.
    pub fn u64(&self, problems: &mut Problems) -> Option<u64> {
        match self.plain().and_then(|t| t.parse().ok()) {
            Some(n) => Some(n),
            None => self.expected(problems, "a whole number, 0 or more"),
        }
    }

    /// A finite number.
    pub fn f64(&self, problems: &mut Problems) -> Option<f64> {
        match self
            .plain()
            .and_then(|t| t.parse::<f64>().ok())
            .filter(|n| n.is_finite())
        {
            Some(n) => Some(n),
            None => self.expected(problems, "a number"),
        }
    }

    /// A duration with its unit, such as `200ms`.
    pub fn duration(&self, problems: &mut Problems) -> Option<Duration> {
        self.parsed(problems, units::parse_duration)
    }

    /// A size in bytes with its unit, such as `32MiB`.
    pub fn size_bytes(&self, problems: &mut Problems) -> Option<u64> {
        self.parsed(problems, units::parse_size_bytes)
    }

    /// One of a fixed set of words.
    pub fn one_of<T: Clone>(&self, problems: &mut Problems, words: &[(&str, T)]) -> Option<T> {
        let found = self
            .plain()
            .and_then(|t| words.iter().find(|(word, _)| *word == t));
        match found {
            Some((_, value)) => Some(value.clone()),
            None => {
                let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                self.expected(problems, &format!("one of {}", names.join(", ")))
            }
        }
    }

    /// Whatever `parse` makes of the text; its message becomes the complaint.
    pub fn parsed<T>(
        &self,
        problems: &mut Problems,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = self.text(problems)?;
        parse(&text)
            .map_err(|message| self.complain(problems, message))
            .ok()
    }

    /// The items of a list.
    pub fn items(&self, problems: &mut Problems) -> Option<&[Node]> {
        match &self.kind {
            Kind::Seq(items) => Some(items),
            _ => self.expected(problems, "a list"),
        }
    }

    /// Each item of a list, read by `read`; what fails is complained about and left out.
    pub fn list<T>(
        &self,
        problems: &mut Problems,
        mut read: impl FnMut(&Self, &mut Problems) -> Option<T>,
    ) -> Vec<T> {
        let items = self.items(problems).unwrap_or_default();
        items
            .iter()
            .filter_map(|item| read(item, problems))
            .collect()
    }

    /// A map whose keys are known beforehand.
    pub fn map(&self, problems: &mut Problems) -> Option<Map<'_>> {
        self.named(problems).map(|entries| Map::new(self, entries))
    }

    /// The entries of a map whose keys are the user's own names.
    pub fn named(&self, problems: &mut Problems) -> Option<&[(String, Position, Self)]> {
        match &self.kind {
            Kind::Map(entries) => Some(entries),
            _ => self.expected(problems, "a map"),
        }
    }

    fn plain(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    fn expected<T>(&self, problems: &mut Problems, what: &str) -> Option<T> {
        let found = match &self.kind {
            _ if self.is_null() => "nothing".to_owned(),
            Kind::Scalar { text, .. } => format!("\"{text}\""),
            Kind::Seq(_) => "a list".to_owned(),
            Kind::Map(_) => "a map".to_owned(),
        };
        self.complain(problems, format!("expected {what}, found {found}"));
        None
    }
}
