//! How a fake engine behaves.
//!
//! All times are wall-free durations; deadlines made of them are absolute CLOCK_MONOTONIC.
//! The surprise: `ttft` counts from the moment the request's last byte was read, not from the
//! moment the client began to send it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::model::Parameters;
use crate::script::stage::Scripts;

/// Settings of a fake engine.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Served models; a request without one gets the first.
    pub models: Vec<String>,
    /// The timing model, which then decides when output is ready; `None`: exact mode, by the three
    /// times below.
    pub timing: Option<Parameters>,
    /// From the request's last byte to its first output event.
    pub ttft: Duration,
    /// As `ttft`, for a prompt whose first 64 words were seen before; `None`: no prefix cache.
    pub ttft_seen: Option<Duration>,
    /// Between output events.
    pub itl: Duration,
    /// Output tokens of a request that sets no limit; such an answer ends with `stop`.
    pub output_tokens: u64,
    /// Context length told by `/v1/models` and kept to; with the timing model at most what the KV
    /// cache holds.
    pub max_model_len: u64,
    /// Idle connections are closed after this.
    pub keep_alive: Duration,
    /// How long before a deadline the pacer wakes and spins. More is more exact and costs CPU.
    pub spin: Duration,
    /// Send the role event at once and not with the first token.
    pub role_at_once: bool,
    /// Hold the response head back until the first event.
    pub head_with_first_event: bool,
    /// Go on after the client's FIN. Otherwise FIN means that the client is gone.
    pub tolerate_half_close: bool,
    /// Scripted responses.
    pub scripts: Scripts,
    /// One JSON line per request goes here.
    pub log: Option<PathBuf>,
    /// How many of the latest requests are kept for [`crate::Handle::requests`].
    pub record_requests: usize,
    /// How many bytes of a request's body are kept.
    pub record_body_bytes: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            models: vec!["fake-model".to_owned()],
            timing: None,
            ttft: Duration::from_millis(50),
            ttft_seen: None,
            itl: Duration::from_millis(20),
            output_tokens: 16,
            max_model_len: 1 << 20,
            keep_alive: Duration::from_secs(5),
            spin: Duration::from_micros(20),
            role_at_once: false,
            head_with_first_event: false,
            tolerate_half_close: false,
            scripts: Scripts::new(),
            log: None,
            record_requests: 10_000,
            record_body_bytes: usize::MAX,
        }
    }
}
