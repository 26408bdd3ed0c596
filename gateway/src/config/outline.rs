//! A configuration file as a flat list of its values, and what two of them differ in.
//!
//! That list is what a reload says about itself: `timeouts.total: 30m -> 10m`. An item of a list
//! is called by its id, name, URL or address instead of by its place, so that a key that is added at
//! the front is one change. Key hashes are not shown; secrets are not in the file, only where they
//! are kept.

use std::collections::BTreeMap;

use inferscope_shared::strict_yaml::Node;

/// What tells the items of a list apart.
const NAMES: [&str; 5] = ["id", "name", "url", "addr", "path"];
/// Longest value that is shown, in characters.
const MAX_SHOWN: usize = 80;
/// What the process reads once, when it starts.
const READ_AT_START: [&str; 6] = [
    "listen",
    "metrics",
    "admin",
    "records.file",
    "records.ring",
    "logs",
];

/// The values of a file by their path. Empty for a configuration from flags.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outline(BTreeMap<String, String>);

/// One value that is another one now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Path of the value.
    pub path: String,
    /// What it was; none for one that is new.
    pub before: Option<String>,
    /// What it is; none for one that is gone.
    pub after: Option<String>,
}

impl Outline {
    /// The values under `root`.
    #[must_use]
    pub fn of(root: &Node) -> Self {
        Self(root.leaves(&NAMES).into_iter().collect())
    }

    /// What is different in `next`, by path.
    #[must_use]
    pub fn changes(&self, next: &Self) -> Vec<Change> {
        let paths: std::collections::BTreeSet<&String> =
            self.0.keys().chain(next.0.keys()).collect();
        paths
            .into_iter()
            .filter(|path| self.0.get(*path) != next.0.get(*path))
            .map(|path| Change {
                path: path.clone(),
                before: self.0.get(path).map(|value| shown(path, value)),
                after: next.0.get(path).map(|value| shown(path, value)),
            })
            .collect()
    }
}

fn shown(path: &str, value: &str) -> String {
    if path.ends_with(".hash") && path.starts_with("auth.") {
        return "(a hash)".to_owned();
    }
    match value.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_owned(),
    }
}

impl Change {
    /// Whether it comes into force only when the process starts.
    #[must_use]
    pub fn needs_restart(&self) -> bool {
        self.path != "records.file.on_full"
            && READ_AT_START.iter().any(|section| {
                let rest = self.path.strip_prefix(section);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
            })
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let none = "(not set)";
        write!(
            f,
            "{}: {} -> {}",
            self.path,
            self.before.as_deref().unwrap_or(none),
            self.after.as_deref().unwrap_or(none)
        )
    }
}

#[cfg(test)]
mod tests {
    use inferscope_shared::strict_yaml::{Problems, parse};

    use super::*;

    fn outline(text: &str) -> Outline {
        let mut problems = Problems::new("t");
        Outline::of(&parse(text, &mut problems).unwrap())
    }

    fn changes(before: &str, after: &str) -> Vec<String> {
        let changes = outline(before).changes(&outline(after));
        changes.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_value_that_changed_is_named_with_both_values() {
        assert_eq!(
            changes(
                "timeouts: {total: 30m, drain: 1m}",
                "timeouts: {total: 10m, drain: 1m}"
            ),
            ["timeouts.total: 30m -> 10m"]
        );
    }

    #[test]
    fn an_item_of_a_list_is_called_by_its_name_and_hashes_are_not_shown() {
        let before = "auth: {keys: [{id: a, hash: h1}, {id: b, hash: h2}]}";
        let after = "auth: {keys: [{id: new, hash: h3}, {id: a, hash: h1}, {id: b, hash: h4}]}";
        assert_eq!(
            changes(before, after),
            [
                "auth.keys[b].hash: (a hash) -> (a hash)",
                "auth.keys[new].hash: (not set) -> (a hash)",
                "auth.keys[new].id: (not set) -> new",
            ]
        );
    }

    #[test]
    fn the_order_of_named_items_is_no_change_that_of_plain_ones_is() {
        let keys = |a, b| format!("keys: [{{id: {a}}}, {{id: {b}}}]");
        assert_eq!(
            changes(&keys("a", "b"), &keys("b", "a")),
            Vec::<String>::new()
        );
        assert_eq!(changes("m: [a, b]", "m: [b, a]").len(), 2);
    }

    #[test]
    fn ports_records_and_logs_need_a_restart() {
        let change = outline("listen: [{addr: a}]").changes(&outline("listen: [{addr: b}]"));
        assert!(change.iter().all(Change::needs_restart));
        let change = outline("timeouts: {total: 1m}").changes(&outline("timeouts: {total: 2m}"));
        assert!(!change[0].needs_restart());
    }
}
