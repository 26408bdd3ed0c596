//! What is wrong with a configuration: all of it, each with its place.

use std::fmt;

use super::Position;

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where it stands.
    pub at: Position,
    /// Path of the value, such as `pools.main.endpoints[0]`; empty for the whole file.
    pub path: String,
    /// What is wrong and what would be right.
    pub message: String,
}

/// All faults of one file, in the order of the file when printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems {
    file: String,
    list: Vec<Problem>,
}

impl Problems {
    /// No faults yet, in a file of this name.
    #[must_use]
    pub fn new(file: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            list: Vec::new(),
        }
    }

    /// Adds one.
    pub fn push(&mut self, at: Position, path: impl Into<String>, message: impl Into<String>) {
        self.list.push(Problem {
            at,
            path: path.into(),
            message: message.into(),
        });
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// `value` when there are no faults.
    ///
    /// # Errors
    /// The faults themselves; also when `value` is missing, which only a fault can cause.
    pub fn into_result<T>(self, value: Option<T>) -> Result<T, Self> {
        match value {
            Some(value) if self.list.is_empty() => Ok(value),
            _ => Err(self),
        }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted: Vec<&Problem> = self.list.iter().collect();
        sorted.sort_by_key(|p| (p.at.line, p.at.col));
        for (i, p) in sorted.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{}:{}:{}: ", self.file, p.at.line, p.at.col)?;
            if !p.path.is_empty() {
                write!(f, "{}: ", p.path)?;
            }
            write!(f, "{}", p.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
