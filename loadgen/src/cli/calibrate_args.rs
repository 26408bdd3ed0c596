//! Flags of `calibrate` and of the exact server behind it.

use std::time::Duration;

use clap::Args;
use inferscope_shared::units::parse_duration;

use super::run_args::{ENDPOINTS, whole, word};
use crate::config::Endpoint;

/// Flags of `calibrate`.
#[derive(Debug, Clone, Args)]
pub struct CalibrateArgs {
    /// Requests in flight; closed loop.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>, default_value_t = 16, conflicts_with = "rate")]
    pub concurrency: u32,
    /// Requests per second; open loop, Poisson.
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    pub rate: Option<f64>,
    /// The server's time to first token.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "50ms")]
    pub ttft: Duration,
    /// The server's time between tokens.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "20ms")]
    pub itl: Duration,
    /// How long to measure.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "5s")]
    pub duration: Duration,
    /// Tokens per prompt.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u64>, default_value_t = 128)]
    pub input_tokens: u64,
    /// Tokens, and so events, per answer.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u64>, default_value_t = 16)]
    pub output_tokens: u64,
    /// Endpoint to ask.
    #[arg(long, value_name = "chat|completions", value_parser = endpoint, default_value = "chat")]
    pub endpoint: Endpoint,
    /// Limits to hold a tenth of against the errors, such as ttft=200ms,tpot=50ms.
    #[arg(long, value_name = "SPEC")]
    pub slo: Option<String>,
    /// JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

fn endpoint(text: &str) -> Result<Endpoint, String> {
    word(text, &ENDPOINTS)
}

/// Flags of the hidden `exact-server`.
#[derive(Debug, Clone, Copy, Args)]
pub struct ExactServerArgs {
    /// Time to first token, nanoseconds.
    #[arg(long)]
    pub ttft_ns: u64,
    /// Time between tokens, nanoseconds.
    #[arg(long)]
    pub itl_ns: u64,
}
