//! Which script answers which request.
//!
//! Chosen by the request's model (`script:NAME`) or, before any body is read, by its path.
//! Several scripts under one name are played in turn and the last one stays: a retry can meet
//! another answer than the first try.

use std::collections::HashMap;
use std::sync::Mutex;

use super::Script;
use crate::line::lock;

/// The scripts that an engine starts with.
#[derive(Debug, Clone, Default)]
pub struct Scripts {
    /// Scripts by name, in the order they are played.
    pub(crate) named: Vec<(String, Script)>,
    /// Script names by exact request path.
    pub(crate) routes: Vec<(String, Route)>,
}

/// When a path's script starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    pub name: String,
    pub before_body: bool,
}

impl Scripts {
    /// No scripts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a script for model `script:<name>`, after those that the name already has.
    #[must_use]
    pub fn add(mut self, name: &str, script: Script) -> Self {
        self.named.push((name.to_owned(), script));
        self
    }

    /// Requests for `path`, whatever their method, get the script `name`.
    #[must_use]
    pub fn route(self, path: &str, name: &str) -> Self {
        self.with_route(path, name, false)
    }

    /// As [`Scripts::route`], but the script starts as soon as the head is in; the body is read
    /// only afterwards.
    #[must_use]
    pub fn route_before_body(self, path: &str, name: &str) -> Self {
        self.with_route(path, name, true)
    }

    pub(crate) fn with_route(mut self, path: &str, name: &str, before_body: bool) -> Self {
        let route = Route {
            name: name.to_owned(),
            before_body,
        };
        self.routes.push((path.to_owned(), route));
        self
    }
}

/// The scripts of a running engine.
#[derive(Debug, Default)]
pub(crate) struct Stage {
    named: Mutex<HashMap<String, Turns>>,
    routes: HashMap<String, Route>,
}

#[derive(Debug, Default)]
struct Turns {
    scripts: Vec<Script>,
    next: usize,
}

impl Stage {
    pub fn new(scripts: Scripts) -> Self {
        let stage = Self {
            routes: scripts.routes.into_iter().collect(),
            ..Self::default()
        };
        for (name, script) in scripts.named {
            stage.add(&name, script);
        }
        stage
    }

    pub fn add(&self, name: &str, script: Script) {
        lock(&self.named)
            .entry(name.to_owned())
            .or_default()
            .scripts
            .push(script);
    }

    /// The next script of that name.
    pub fn take(&self, name: &str) -> Option<Script> {
        let mut named = lock(&self.named);
        let turns = named.get_mut(name)?;
        let script = turns.scripts.get(turns.next)?.clone();
        if turns.next + 1 < turns.scripts.len() {
            turns.next += 1;
        }
        Some(script)
    }

    pub fn route(&self, path: &str) -> Option<&Route> {
        self.routes.get(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_of_a_name_take_turns_and_the_last_stays() {
        let stage = Stage::new(
            Scripts::new()
                .add("a", Script::new().raw("1"))
                .add("a", Script::new().raw("2")),
        );
        let sent: Vec<_> = (0..3).map(|_| stage.take("a").unwrap().bytes()).collect();
        assert_eq!(sent, [b"1", b"2", b"2"]);
        assert_eq!(stage.take("b"), None);
    }
}
