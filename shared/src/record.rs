//! The JSON lines that cross a process border: what the gateway writes per request and what
//! loadgen writes per planned arrival.
//!
//! Absolute instants are CLOCK_MONOTONIC nanoseconds (see [`crate::clock`]). Series are delta
//! encoded ([`delta`]): the first entry is relative to the record's stated origin, each further
//! one to the entry before. A field whose event never happened is null, never zero.

pub mod delta;
pub mod gateway;
pub mod request;
pub mod schema;

/// Version of the record and artifact schemas; raised together with an ADR.
pub const SCHEMA_VERSION: u32 = 1;

/// Whether files of a schema version can be read.
///
/// # Errors
/// A sentence, when they are of another version.
pub fn check_version(found: u32) -> Result<(), String> {
    if found == SCHEMA_VERSION {
        Ok(())
    } else {
        Err(format!(
            "is of schema version {found} and this program reads version {SCHEMA_VERSION}; use the version that wrote it"
        ))
    }
}
