//! What the scenarios share: servers started from `target/release`, a raw client that sends exact
//! bytes and reads as slowly as it is told, runs of loadgen with their evidence read back, and
//! captured answers of real engines.
//!
//! It drives the built programs from outside and never imports the gateway or loadgen. Times are
//! CLOCK_MONOTONIC, as everywhere. The surprise: `cargo test` does not build other crates' programs,
//! so `cargo build --release --workspace` comes first (tests/run.sh does both).

pub mod capture;
pub mod evidence;
pub mod gateway;
pub mod process;
pub mod sse;
pub mod wire;

/// SHA-256 of `bytes` in lower-case hex, as records carry it.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    hex::encode(Sha256::digest(bytes))
}
