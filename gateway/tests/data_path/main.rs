//! The data path over real sockets: a raw client, the gateway in this process, a scripted engine.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test's helpers fail by panicking"
)]

mod aborts;
mod clients;
mod drains;
mod edges;
mod endpoints;
mod engine;
mod engines;
mod harness;
mod injecting;
mod limits;
mod queueing;
mod relaying;
mod reloads;
mod requests;

use engine::{Do, chunk, event, last_chunk, stream_head};

/// A request for a stream.
const ASK: &str = r#"{"model":"m","stream":true}"#;

/// A whole stream of these contents.
fn stream(contents: &[&str]) -> Vec<Do> {
    let mut steps = vec![stream_head()];
    steps.extend(contents.iter().map(|c| chunk(event(c))));
    steps.push(chunk("data: [DONE]\n\n"));
    steps.push(last_chunk());
    steps
}
