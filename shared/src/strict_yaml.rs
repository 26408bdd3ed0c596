//! Configuration text to nodes that know where they stand, so that every complaint can point.
//!
//! A [`Node`] carries its line, column and path. Reading never stops at the first fault: whatever
//! is wrong goes into [`Problems`], which prints all of them as `file:line:col: path: message`.
//! Repeated keys, unknown keys (with the nearest known one), aliases and tags are faults. The one
//! surprise: `yes`, `on` and the like are strings here, only `true` and `false` are booleans.

mod map;
mod node;
mod parse;
mod problem;

pub use map::Map;
pub use node::{Node, Position};
pub use parse::parse;
pub use problem::{Problem, Problems};

#[cfg(test)]
mod tests;
