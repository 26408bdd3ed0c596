//! The command line of `fake-engine`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use inferscope_fake_engine::{Config, ScriptFileError, load_scripts};

/// Requests kept for `GET /fake/requests`, and bytes of body of each.
const RECORD_REQUESTS: usize = 100;
const RECORD_BODY_BYTES: usize = 64 << 10;

/// A vLLM-shaped server with exact timing and scripted faults. Never a measure of performance.
///
/// When listening it prints one JSON line, {"ready":true,"listen":ADDR}, on standard output.
#[derive(Debug, Parser)]
#[command(name = "fake-engine", version)]
pub struct Args {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// From the request's last byte to its first output, e.g. 50ms
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = duration)]
    ttft: Duration,
    /// As --ttft for prompts whose first 64 words were seen before (a prefix cache)
    #[arg(long, value_name = "TIME", value_parser = duration)]
    ttft_seen: Option<Duration>,
    /// Between outputs, e.g. 20ms or 50us
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = duration)]
    itl: Duration,
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
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    keep_alive: Duration,
    /// Wake up this long before a deadline and spin: more exact, more CPU
    #[arg(long, value_name = "TIME", default_value = "20us", value_parser = duration)]
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
}

impl Args {
    /// The engine's settings.
    ///
    /// # Errors
    /// When the script file is refused.
    pub fn config(self) -> Result<Config, ScriptFileError> {
        Ok(Config {
            listen: self.listen,
            models: self.models,
            ttft: self.ttft,
            ttft_seen: self.ttft_seen,
            itl: self.itl,
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

/// A time with its unit: `ns`, `us`, `ms`, `s` or `m`.
fn duration(text: &str) -> Result<Duration, String> {
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit_seconds = match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        _ => return Err(format!("{text:?} needs a unit: ns, us, ms, s or m")),
    };
    let number: f64 = number
        .parse()
        .map_err(|_| format!("{text:?} is no time; write for example 20ms"))?;
    Duration::try_from_secs_f64(number * unit_seconds).map_err(|_| format!("{text:?} is too long"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn times_need_units() {
        assert_eq!(duration("50us"), Ok(Duration::from_micros(50)));
        assert_eq!(duration("0.05ms"), Ok(Duration::from_micros(50)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1_500)));
        for bad in ["20", "ms", "1h", "-1s", ""] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
