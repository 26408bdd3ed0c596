//! The harness that scenarios stand on: built binaries as processes, a client of exact bytes, and
//! the files that a run leaves.
//!
//! Servers bind port 0 of 127.0.0.1 and say on standard output where they are; nothing here knows
//! a port beforehand or sleeps to synchronise. A server is killed when its handle is dropped, and
//! its log is shown when the test fails. The binaries are those of `target/release`: build the
//! workspace first (`tests/run.sh` does).

#![expect(clippy::panic, reason = "a harness fails its test by a panic")]

pub mod capture;
pub mod engine;
pub mod gateway;
pub mod http;
pub mod load;
pub mod process;
