//! Serving: the flags of `fake-engine` without a subcommand.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use inferscope_fake_engine::{Config, load_scripts, parse_duration};

use super::model::ModelArgs;

/// Requests kept for `GET /fake/requests`, and bytes of body of each.
const RECORD_REQUESTS: usize = 100;
const RECORD_BODY_BYTES: usize = 64 << 10;

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Timing {
    #[default]
    Exact,
    Model,
}

#[derive(Debug, Default, PartialEq, Args)]
#[command(next_help_heading = "With --timing exact")]
struct ExactArgs {
    /// From the request's last byte to its first output [default: 50ms]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    ttft: Option<Duration>,
    /// As --ttft for prompts whose first 64 words were seen before (a prefix cache)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    ttft_seen: Option<Duration>,
    /// Between outputs, e.g. 15ms or 50us [default: 20ms]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    itl: Option<Duration>,
}

#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// What decides when output is ready: fixed times, or the timing model of a batching engine
    #[arg(long, value_name = "MODE", value_enum, default_value_t)]
    timing: Timing,
    /// Output tokens of a request that sets no limit
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..))]
    output_tokens: u64,
    /// Served model, may be repeated; a request without one gets the first
    #[arg(long = "model", value_name = "NAME", default_value = "fake-model")]
    models: Vec<String>,
    /// Context length, tokens
    #[arg(long, value_name = "N", default_value_t = 1 << 20)]
    max_model_len: u64,
    /// Scripted answers for models named script:NAME (JSON)
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Append one JSON line per request
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Close idle connections after this
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    keep_alive: Duration,
    /// Wake up this long before a deadline and spin: more exact, more CPU
    #[arg(long, value_name = "TIME", default_value = "20us", value_parser = parse_duration)]
    spin: Duration,
    /// Send the role event at once and not with the first token
    #[arg(long)]
    role_at_once: bool,
    /// Hold the response head back until the first event
    #[arg(long)]
    head_with_first_event: bool,
    /// Go on after the client's FIN, which otherwise means that it is gone
    #[arg(long)]
    tolerate_half_close: bool,
    #[command(flatten)]
    exact: ExactArgs,
    #[command(flatten)]
    model: ModelArgs,
}

impl ServeArgs {
    /// The engine's settings.
    ///
    /// # Errors
    /// When flags contradict each other or the script file is refused.
    pub fn config(self) -> anyhow::Result<Config> {
        let exact = self.exact;
        let timing = match self.timing {
            Timing::Exact if self.model.given() => anyhow::bail!(
                "flags of the timing model have no effect with --timing exact; add --timing model"
            ),
            Timing::Model if exact != ExactArgs::default() => anyhow::bail!(
                "--ttft, --ttft-seen and --itl have no effect with --timing model; leave them out"
            ),
            Timing::Exact => None,
            Timing::Model => Some(self.model.parameters()?),
        };
        let default = Config::default();
        Ok(Config {
            listen: self.listen,
            models: self.models,
            timing,
            ttft: exact.ttft.unwrap_or(default.ttft),
            ttft_seen: exact.ttft_seen,
            itl: exact.itl.unwrap_or(default.itl),
            output_tokens: self.output_tokens,
            max_model_len: self.max_model_len,
            keep_alive: self.keep_alive,
            spin: self.spin,
            role_at_once: self.role_at_once,
            head_with_first_event: self.head_with_first_event,
            tolerate_half_close: self.tolerate_half_close,
            scripts: match self.script {
                Some(path) => load_scripts(&path)?,
                None => Default::default(),
            },
            log: self.log,
            record_requests: RECORD_REQUESTS,
            record_body_bytes: RECORD_BODY_BYTES,
        })
    }
}
