//! `fake-engine capacity`.

use std::io::{IsTerminal as _, Write as _};

use clap::Args;
use inferscope_fake_engine::simulate::Slo;
use inferscope_fake_engine::simulate::capacity::{Capacity, Question, capacity};

use super::model::{LengthArgs, ModelArgs, engine_line, saturation_line};

const EXAMPLES: &str = "\
Examples:
  fake-engine capacity --slo ttft=200ms,tpot=30ms,at=p95
  fake-engine capacity --slo ttft=1s,at=p99 --input-tokens 1024 --max-num-seqs 32 --json
";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CapacityArgs {
    /// Limits to keep: ttft, tpot, e2e and the percentile they hold at (at=p95 if not named)
    #[arg(long, value_name = "SPEC")]
    slo: Slo,
    #[command(flatten)]
    lengths: LengthArgs,
    /// Measured requests of each run; a tenth more warm it up
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(20..))]
    requests: u32,
    /// Runs with other arrivals, from whose differences the interval follows
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(2..))]
    replications: u32,
    /// Of the arrivals
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    model: ModelArgs,
}

impl CapacityArgs {
    /// Looks for the capacity and prints it.
    ///
    /// # Errors
    /// When there is no such engine, or it can't hold the requests.
    pub fn run(&self) -> anyhow::Result<()> {
        let question = Question {
            parameters: self.model.parameters()?,
            shape: self.lengths.shape(),
            slo: self.slo,
            requests: self.requests as usize,
            replications: self.replications,
            seed: self.seed,
        };
        let mut err = std::io::stderr();
        let shown = err.is_terminal();
        let found = capacity(&question, |i| {
            if shown {
                let _ = write!(err, "\rreplication {} of {}", i + 1, self.replications);
            }
        })?;
        if shown {
            // Takes the progress line away again.
            let _ = write!(err, "\r\x1b[K");
        }
        let mut out = std::io::stdout().lock();
        if self.json {
            serde_json::to_writer(&mut out, &found)?;
            writeln!(out)?;
        } else {
            self.print(&question, &found, &mut out)?;
        }
        Ok(())
    }

    fn print(
        &self,
        question: &Question,
        found: &Capacity,
        out: &mut impl std::io::Write,
    ) -> std::io::Result<()> {
        writeln!(out, "engine      {}", engine_line(&question.parameters))?;
        writeln!(
            out,
            "load        {} + {} tokens, Poisson; {} replications of {} requests, seed {}",
            self.lengths.input_tokens,
            self.lengths.output_tokens,
            self.replications,
            self.requests,
            self.seed
        )?;
        writeln!(out, "saturation  {}", saturation_line(&found.saturation))?;
        match (found.requests_per_s, found.ci95, &found.reason) {
            (Some(rate), Some([low, high]), _) => writeln!(
                out,
                "capacity    {rate:.3} requests/s, 95 % interval {low:.3} to {high:.3}"
            ),
            (_, _, Some(reason)) => writeln!(out, "capacity    none: {reason}"),
            _ => writeln!(out, "capacity    none"),
        }
    }
}
