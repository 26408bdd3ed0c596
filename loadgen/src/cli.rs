//! The command line: what can be said, not what is done.
//!
//! `loadgen --path both …` is the short form of `loadgen run --path both …`. Flags are laid over
//! the configuration file. Units are part of a value (`200ms`, `5s`), never of a flag's meaning.

pub mod calibrate_args;
pub mod probe_args;
pub mod run_args;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use calibrate_args::{CalibrateArgs, ExactServerArgs};
use probe_args::ProbeArgs;
use run_args::{PlanArgs, RunArgs};

/// Load generator that measures LLM serving, its own error included, and decides whether a run
/// can be believed.
#[derive(Debug, Parser)]
#[command(
    name = "loadgen",
    version,
    args_conflicts_with_subcommands = true,
    arg_required_else_help = true,
    after_help = EXAMPLES
)]
pub struct Cli {
    /// What to do; `run` when left out.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Flags of `run`.
    #[command(flatten)]
    pub run: RunArgs,
}

const EXAMPLES: &str = "\
Examples:
  Direct against gateway, three levels of concurrency:
    loadgen --path both --direct-url http://127.0.0.1:8000 --gateway-url http://127.0.0.1:8080 \\
      --api-key-env KEY --model m --concurrency 1,2,4 --requests 20 \\
      --gateway-records http://127.0.0.1:9091/records
  Ten requests a second for a minute, judged by an SLO:
    loadgen --direct-url http://127.0.0.1:8000 --model m --rate 10 --arrival poisson \\
      --duration 60s --slo ttft=200ms,tpot=50ms,success=0.99,at=p95
  From a file, with one flag laid over it:
    loadgen run -c configs/experiment.yaml --seed 7
  An engine that was just started, as a black box:
    loadgen probe http://127.0.0.1:8000
  Before a run:
    loadgen doctor -c configs/experiment.yaml
    loadgen plan -c configs/experiment.yaml --offline --assume-latency 2s
  Look at a run again, offline:
    loadgen show RUN        loadgen validate RUN        loadgen report RUN

Exit codes: 0 valid, 1 run failed, 2 usage or configuration, 3 INVALID, 4 INCONCLUSIVE,
130/143 interrupted (what was measured is kept).";

/// Subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a measurement.
    Run(RunArgs),
    /// Say what a run would send and how long it takes, without sending it.
    Plan(PlanArgs),
    /// Check everything that a run needs, and send each arm one tiny request.
    Doctor(RunArgs),
    /// Measure the instrument's own error on this machine, at a load of your choice.
    Calibrate(CalibrateArgs),
    /// The server of a calibration; ends with its standard input.
    #[command(hide = true)]
    ExactServer(ExactServerArgs),
    /// Show the result of a run, or one request's timeline.
    Show {
        /// The run.
        #[command(flatten)]
        of: OfRun,
        /// Show this request instead, client and gateway merged.
        #[arg(long, value_name = "REQUEST-ID")]
        request: Option<String>,
    },
    /// Judge a run again from its raw files; the exit code tells the verdict.
    Validate(OfRun),
    /// Write a run's report and charts again from its raw files.
    Report(OfRun),
    /// Look at one engine as a black box: where its time goes, without a configuration.
    Probe(ProbeArgs),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// A run to look at.
#[derive(Debug, Clone, Args)]
pub struct OfRun {
    /// Run id, or the path of results/raw/<run-id>.
    pub run: String,
    /// Where runs lie.
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub results_dir: PathBuf,
    /// JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_negative_number_is_a_wrong_value_and_no_unknown_flag() {
        for flag in ["--requests", "--concurrency", "--idle-timeout", "--seed"] {
            let error = Cli::try_parse_from(["loadgen", flag, "-5"])
                .unwrap_err()
                .to_string();
            assert!(error.contains("invalid value '-5' for"), "{flag}: {error}");
        }
        // What a number may not be otherwise is the rules' to say.
        Cli::try_parse_from(["loadgen", "--rate", "-1"]).unwrap();
    }

    #[test]
    fn run_is_the_default_command() {
        let cli = Cli::parse_from(["loadgen", "--path", "both", "-c", "x.yaml"]);
        assert!(cli.command.is_none());
        let long = Cli::parse_from(["loadgen", "run", "--path", "both", "-c", "x.yaml"]);
        assert!(matches!(long.command, Some(Command::Run(_))));
    }
}
