//! A vLLM-shaped server whose timing is exact and whose faults are scripted.
//!
//! Exact mode answers with a fixed time to first token and fixed gaps, every event stamped with
//! CLOCK_MONOTONIC just before its send: what a client measures can be checked against it.
//! Script mode sends exactly the bytes, pauses and faults that a test wrote down. Everything that
//! clients did is recorded. Nothing here is an inference engine and no number of it performance.
//! The surprise: there is no async runtime; one thread per connection reads, one pacer sends.

mod api;
mod clock;
mod config;
mod conn;
mod engine;
mod generate;
mod http;
mod line;
mod log;
mod metrics;
pub mod model;
mod pacer;
mod program;
mod recorder;
mod script;
mod server;
pub mod simulate;

pub use clock::{now_ns, parse_duration};
pub use config::Config;
pub use program::End;
pub use recorder::{ClosedBy, Counts, RecordedConnection, RecordedRequest};
pub use script::file::{ScriptFileError, load as load_scripts};
pub use script::stage::Scripts;
pub use script::{Script, chunk, head};
pub use server::{FakeEngine, Handle};
