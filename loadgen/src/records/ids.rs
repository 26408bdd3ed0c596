//! A set of request ids, small however many there are: ids are a point's name and a number, and the
//! numbers of a point lie close together.

use std::collections::{HashMap, HashSet};

use crate::measure::Rows;

/// Request ids.
#[derive(Debug, Default)]
pub struct Ids {
    /// By what stands before the last dot.
    numbered: HashMap<String, Rows>,
    /// Ids of another form.
    other: HashSet<String>,
    len: u64,
}

impl Ids {
    /// Adds an id; false when it was there.
    pub fn add(&mut self, id: &str) -> bool {
        let new = match parts(id) {
            Some((before, number)) => match self.numbered.get_mut(before) {
                Some(rows) => rows.add(number),
                None => {
                    let rows = self.numbered.entry(before.to_owned()).or_default();
                    rows.add(number)
                }
            },
            None => self.other.insert(id.to_owned()),
        };
        self.len += u64::from(new);
        new
    }

    /// Whether an id is there.
    #[must_use]
    pub fn contains(&self, id: &str) -> bool {
        match parts(id) {
            Some((before, number)) => {
                let rows = self.numbered.get(before);
                rows.is_some_and(|rows| rows.contains(number))
            }
            None => self.other.contains(id),
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<'a> FromIterator<&'a str> for Ids {
    fn from_iter<T: IntoIterator<Item = &'a str>>(all: T) -> Self {
        let mut ids = Self::default();
        for id in all {
            ids.add(id);
        }
        ids
    }
}

/// What stands before the last dot, and the number behind it if it is written like one.
fn parts(id: &str) -> Option<(&str, u64)> {
    let (before, text) = id.rsplit_once('.')?;
    let number: u64 = text.parse().ok()?;
    let plain = text == "0" || !text.starts_with(['0', '+']);
    plain.then_some((before, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_told_apart_whatever_their_form() {
        let all = [
            "r.a.0", "r.a.1", "r.b.1", "r.a.01", "r.a.+1", "r.a.x", "r", "r.a.00",
        ];
        let mut ids: Ids = all.into_iter().collect();
        assert_eq!(ids.len(), all.len() as u64);
        assert!(all.iter().all(|id| ids.contains(id) && !ids.add(id)));
        assert!(!ids.contains("r.b.0") && !ids.contains("r.a.2") && !ids.contains("r.a."));
    }
}
