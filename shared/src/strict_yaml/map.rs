//! A map with a known set of keys: each read once by name, the rest refused at the end.

use std::time::Duration;

use super::{Node, Position, Problems};

/// Reads the keys of one map. Call [`Map::finish`] when all known keys have been asked for.
#[derive(Debug)]
pub struct Map<'a> {
    node: &'a Node,
    entries: &'a [(String, Position, Node)],
    known: Vec<&'static str>,
}

impl<'a> Map<'a> {
    pub(super) const fn new(node: &'a Node, entries: &'a [(String, Position, Node)]) -> Self {
        Self {
            node,
            entries,
            known: Vec::new(),
        }
    }

    /// The value of `key`, which is hereby known; `None` when absent or null.
    pub fn get(&mut self, key: &'static str) -> Option<&'a Node> {
        self.known.push(key);
        self.entries
            .iter()
            .find(|(name, ..)| name == key)
            .map(|(.., node)| node)
            .filter(|n| !n.is_null())
    }

    /// The value of `key`; its absence is a fault, whose message gives `example` as a value.
    pub fn need(
        &mut self,
        key: &'static str,
        example: &str,
        problems: &mut Problems,
    ) -> Option<&'a Node> {
        let found = self.get(key);
        if found.is_none() {
            let message = format!("\"{key}\" is missing: add it, such as `{key}: {example}`");
            self.node.complain(problems, message);
        }
        found
    }

    /// The value of `key` read by `read`, when present.
    pub fn read<T>(
        &mut self,
        key: &'static str,
        problems: &mut Problems,
        read: impl FnOnce(&'a Node, &mut Problems) -> Option<T>,
    ) -> Option<T> {
        self.get(key).and_then(|node| read(node, problems))
    }

    /// A text.
    pub fn text(&mut self, key: &'static str, problems: &mut Problems) -> Option<String> {
        self.read(key, problems, Node::text)
    }

    /// `true` or `false`.
    pub fn bool(&mut self, key: &'static str, problems: &mut Problems) -> Option<bool> {
        self.read(key, problems, Node::bool)
    }

    /// A whole number from zero.
    pub fn u64(&mut self, key: &'static str, problems: &mut Problems) -> Option<u64> {
        self.read(key, problems, Node::u64)
    }

    /// A finite number.
    pub fn f64(&mut self, key: &'static str, problems: &mut Problems) -> Option<f64> {
        self.read(key, problems, Node::f64)
    }

    /// A duration with its unit.
    pub fn duration(&mut self, key: &'static str, problems: &mut Problems) -> Option<Duration> {
        self.read(key, problems, Node::duration)
    }

    /// A size in bytes with its unit.
    pub fn size_bytes(&mut self, key: &'static str, problems: &mut Problems) -> Option<u64> {
        self.read(key, problems, Node::size_bytes)
    }

    /// One of a fixed set of words.
    pub fn one_of<T: Clone>(
        &mut self,
        key: &'static str,
        problems: &mut Problems,
        words: &[(&str, T)],
    ) -> Option<T> {
        self.read(key, problems, |node, problems| node.one_of(problems, words))
    }

    /// A key that the contract names and this version does not implement: refused, not ignored.
    pub fn not_in_this_version(&mut self, key: &'static str, problems: &mut Problems) {
        if let Some(node) = self.get(key) {
            node.complain(problems, "is not in this version; remove it");
        }
    }

    /// Complains about every key that nobody asked for.
    pub fn finish(self, problems: &mut Problems) {
        for (name, at, node) in self.entries {
            if self.known.contains(&name.as_str()) {
                continue;
            }
            let hint = match nearest(name, &self.known) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => format!("known here: {}", self.known.join(", ")),
            };
            problems.push(*at, node.path(), format!("unknown key \"{name}\"; {hint}"));
        }
    }
}

/// The known word that is at most a third of the letters away (one, for a short word), if any.
fn nearest(word: &str, known: &[&'static str]) -> Option<&'static str> {
    let best = known.iter().map(|k| (edits(word, k), *k)).min()?;
    (best.0 <= (word.chars().count() / 3).max(1)).then_some(best.1)
}

/// Levenshtein distance, by the usual two-row table.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let replace = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
