//! What the gateway and the load generator must agree on, and nothing else.
//!
//! Pure code: no sockets, no files, no async runtime. Whatever reads or writes the world lives in
//! `gateway` or `loadgen`; both import this crate and never each other.
//!
//! - [`sse`]: bytes in, events with end offsets out.
//! - [`openai`]: a borrowed view of what one event or body means.
//! - [`definitions`]: every latency metric once: symbol, formula, unit, start, end, exclusions.
//! - [`record`]: the JSON lines that both sides write and read back.
//! - [`clock`]: CLOCK_MONOTONIC in integer nanoseconds.
//! - [`strict_yaml`]: configuration text to nodes with positions, repeated and unknown keys refused.
//! - [`units`]: durations and sizes as people write them.

pub mod clock;
pub mod definitions;
pub mod openai;
pub mod record;
pub mod sse;
pub mod strict_yaml;
pub mod units;
