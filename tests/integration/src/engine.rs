//! The fake engine inside the test's own process, for scenarios that only care how fast it is.
//! Those that script it, or want its CPU and memory apart, start it themselves.

use std::time::Duration;

use anyhow::Result;
use inferscope_fake_engine::{Config, FakeEngine, Handle};

/// An engine whose first token comes after `ttft_ms` and each further one after `itl_ms`.
///
/// # Errors
/// It cannot listen.
pub fn paced(ttft_ms: u64, itl_ms: u64) -> Result<Handle> {
    Ok(FakeEngine::start(Config {
        ttft: Duration::from_millis(ttft_ms),
        itl: Duration::from_millis(itl_ms),
        ..Config::default()
    })?)
}
