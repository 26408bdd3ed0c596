//! Flags of `probe`, and what they say as [`Options`].

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use inferscope_shared::units::parse_duration;

use crate::probe::{Options, WhichProcess};

/// Flags of `probe`.
#[derive(Debug, Clone, Args)]
pub struct ProbeArgs {
    /// Base URL of the engine, with or without /v1.
    pub url: String,
    /// Model to ask [default: the one that the engine serves].
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Environment variable that holds the API key.
    #[arg(long, value_name = "NAME")]
    api_key_env: Option<String>,
    /// The engine's process [default: whoever listens there, if that is this host].
    #[arg(long, value_name = "N", conflicts_with = "process")]
    pid: Option<u32>,
    /// The engine's process by its name or a part of its command line.
    #[arg(long, value_name = "NAME")]
    process: Option<String>,
    /// Shortest and longest prompt in tokens, chat template included [default: 64,384].
    #[arg(long, value_name = "SHORT,LONG", value_parser = lengths)]
    prompt: Option<(u64, u64)>,
    /// Tokens to ask for per answer.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..))]
    output_tokens: u64,
    /// How often each experiment is made; claims need 6.
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    requests: u32,
    /// Requests at once in the experiment about batching; 1 leaves it out.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    concurrency: u32,
    /// Longest request.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    timeout: Duration,
    /// Longest probe; what was measured until then is kept.
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = parse_duration)]
    within: Duration,
    /// JSON instead of text.
    #[arg(long)]
    pub json: bool,
    /// Also write probe.json, probe.txt and timeline.svg into this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl ProbeArgs {
    /// What to do.
    #[must_use]
    pub fn options(&self) -> Options {
        Options {
            url: self.url.clone(),
            model: self.model.clone(),
            api_key: self.api_key_env.as_ref().map(|name| format!("env:{name}")),
            process: match (self.pid, &self.process) {
                (Some(pid), _) => WhichProcess::Id(pid),
                (None, Some(name)) => WhichProcess::Named(name.clone()),
                (None, None) => WhichProcess::Listener,
            },
            prompt: self.prompt,
            output_tokens: self.output_tokens,
            rounds: self.requests,
            at_once: self.concurrency,
            timeout: self.timeout,
            within: self.within,
            out: self.out.clone(),
        }
    }
}

fn lengths(text: &str) -> Result<(u64, u64), String> {
    let refuse = || format!("\"{text}\": write two lengths in tokens, such as 64,512");
    let (short, long) = text.split_once(',').ok_or_else(refuse)?;
    let read = |part: &str| part.trim().parse::<u64>().map_err(|_| refuse());
    let (short, long) = (read(short)?, read(long)?);
    if short == 0 || long < short.saturating_add(3) {
        return Err(format!(
            "\"{text}\": the long prompt needs at least 3 tokens more than the short one"
        ));
    }
    Ok((short, long))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_lengths_are_read_and_nonsense_is_refused() {
        assert_eq!(lengths("64,512"), Ok((64, 512)));
        assert_eq!(lengths("8, 11"), Ok((8, 11)));
        for bad in ["64", "512,64", "0,5", "a,b", "64,512,900", "5,5", ""] {
            assert!(lengths(bad).is_err(), "{bad}");
        }
    }
}
