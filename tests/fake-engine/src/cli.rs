//! The command line of `fake-engine`.

use clap::{Parser, Subcommand};

mod capacity;
mod model;
mod serve;
mod simulate;

pub use capacity::CapacityArgs;
pub use serve::ServeArgs;
pub use simulate::SimulateArgs;

const EXAMPLES: &str = "\
Examples:
  fake-engine --ttft 50ms --itl 20ms                     fixed times, for calibration
  fake-engine --timing model --max-num-seqs 64           a batching engine with a knee
  fake-engine simulate --rate 40                         the same engine in virtual time
  fake-engine capacity --slo ttft=200ms,tpot=30ms,at=p95
";

/// A vLLM-shaped server with known timing and scripted faults. Never a measure of performance.
///
/// When listening it prints one JSON line, {"ready":true,"listen":ADDR}, on standard output.
#[derive(Debug, Parser)]
#[command(
    name = "fake-engine",
    version,
    after_help = EXAMPLES,
    args_conflicts_with_subcommands = true
)]
pub struct Cli {
    /// Instead of serving
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Serving
    #[command(flatten)]
    pub serve: ServeArgs,
}

/// What runs in virtual time.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a load through the timing model in virtual time
    Simulate(SimulateArgs),
    /// Look for the highest Poisson rate that keeps an SLO, by the timing model in virtual time
    Capacity(CapacityArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_of_the_other_mode_are_refused() {
        let config = |arguments: &[&str]| {
            let all = std::iter::once(&"fake-engine").chain(arguments);
            Cli::try_parse_from(all).unwrap().serve.config()
        };
        let said = |arguments: &[&str]| config(arguments).unwrap_err().to_string();
        assert!(said(&["--max-num-seqs", "4"]).contains("add --timing model"));
        assert!(said(&["--timing", "model", "--itl", "1ms"]).contains("leave them out"));
        assert!(said(&["--timing", "model", "--block-size", "0"]).contains("at least 1"));
        let model = config(&["--timing", "model", "--no-enable-prefix-caching"]).unwrap();
        assert!(!model.timing.unwrap().enable_prefix_caching);
        assert_eq!(config(&[]).unwrap().timing, None);
    }
}
