//! The fake engine as its users meet it: raw bytes over TCP against an engine in this process.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod binary;
mod client;
mod exact;
mod life;
mod modelled;
mod scripts;
mod service;
mod vllm_shape;
