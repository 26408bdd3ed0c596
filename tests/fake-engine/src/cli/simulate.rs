//! `fake-engine simulate`, and reading loadgen's `plan.jsonl` for it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use inferscope_fake_engine::model::Parameters;
use inferscope_fake_engine::model::closed_form::{Saturation, saturation};
use inferscope_fake_engine::parse_duration;
use inferscope_fake_engine::simulate::{Clients, Latency, Planned, Summary, run, unit_poisson};
use serde::{Deserialize, Serialize};

use super::model::{LengthArgs, ModelArgs, engine_line, saturation_line};

const EXAMPLES: &str = "\
Examples:
  fake-engine simulate --rate 40 --requests 5000
  fake-engine simulate --concurrency 128 --input-tokens 1024 --output-tokens 16
  fake-engine simulate --plan results/raw/RUN/plan.jsonl --json
";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SimulateArgs {
    /// Poisson arrivals, requests per second
    #[arg(long, value_name = "R", conflicts_with_all = ["concurrency", "plan"])]
    rate: Option<f64>,
    /// Clients that each wait for their answer before they ask again
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: Option<u32>,
    /// The requests of a run of loadgen: arrivals and lengths, warm-up included
    #[arg(long, value_name = "FILE", conflicts_with_all = ["requests", "warmup"])]
    plan: Option<PathBuf>,
    /// Which point of the plan, where it has several
    #[arg(long, value_name = "ID", requires = "plan")]
    point: Option<String>,
    #[command(flatten)]
    lengths: LengthArgs,
    /// Measured requests
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    requests: u32,
    /// Requests before those [default: the concurrency, or a tenth of the requests]
    #[arg(long, value_name = "N")]
    warmup: Option<u32>,
    /// Closed loop: from an answer's end to its client's next request
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_duration)]
    turnaround: Duration,
    /// Closed loop: spread the first requests over this time
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_duration)]
    stagger: Duration,
    /// Of the arrivals
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    model: ModelArgs,
}

/// What of a line of `plan.jsonl` matters here.
#[derive(Debug, Deserialize)]
struct PlanLine {
    point_id: String,
    phase: String,
    offset_ns: Option<u64>,
    prompt_tokens: Option<u32>,
    output_tokens: u32,
}

#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    summary: Summary,
    saturation: Saturation,
}

impl SimulateArgs {
    /// Runs and prints.
    ///
    /// # Errors
    /// When the load is not stated, the plan is unreadable, or there is no such engine.
    pub fn run(&self) -> anyhow::Result<()> {
        let parameters = self.model.parameters()?;
        let planned = match (&self.plan, self.rate) {
            (Some(path), _) => self.read(path)?,
            (None, Some(rate)) => self.poisson(rate)?,
            (None, None) => self.alike(),
        };
        let clients = match self.concurrency {
            Some(concurrency) => Clients::Closed {
                concurrency,
                turnaround_ns: nanoseconds(self.turnaround),
                stagger_ns: nanoseconds(self.stagger),
            },
            None if self.rate.is_none() && self.plan.is_none() => {
                anyhow::bail!("no load: name --rate, --concurrency or --plan")
            }
            None => Clients::Open,
        };
        let mut shape = self.lengths.shape();
        if let Some(first) = planned.first() {
            shape.prompt_tokens = first.prompt_tokens;
            shape.output_tokens = first.output_tokens;
        }
        let report = Report {
            summary: run(parameters, &planned, clients, self.lengths.prefix_tokens)?.summary(),
            saturation: saturation(&parameters, shape),
        };
        let mut out = std::io::stdout().lock();
        if self.json {
            serde_json::to_writer(&mut out, &report)?;
            writeln!(out)?;
            return Ok(());
        }
        print(&parameters, &report, &mut out)?;
        Ok(())
    }

    fn alike(&self) -> Vec<Planned> {
        let warmup = self
            .warmup
            .or(self.concurrency)
            .unwrap_or(self.requests / 10);
        (0..warmup + self.requests)
            .map(|i| Planned {
                at_ns: 0,
                prompt_tokens: self.lengths.input_tokens,
                output_tokens: self.lengths.output_tokens,
                measured: i >= warmup,
            })
            .collect()
    }

    fn poisson(&self, rate: f64) -> anyhow::Result<Vec<Planned>> {
        anyhow::ensure!(
            rate.is_finite() && rate > 0.0,
            "--rate {rate}: requests per second must be above 0"
        );
        let mut all = self.alike();
        for (planned, at) in all.iter_mut().zip(unit_poisson(self.seed)) {
            planned.at_ns = (at / rate * 1e9) as u64;
        }
        Ok(all)
    }

    fn read(&self, path: &Path) -> anyhow::Result<Vec<Planned>> {
        let shown = path.display();
        let file = std::fs::File::open(path).with_context(|| format!("{shown}"))?;
        let mut point = self.point.clone();
        let mut all = Vec::new();
        for (number, line) in (1..).zip(BufReader::new(file).lines()) {
            let line = line.with_context(|| format!("{shown}"))?;
            let line: PlanLine =
                serde_json::from_str(&line).with_context(|| format!("{shown}:{number}"))?;
            match &point {
                Some(point) if *point == line.point_id => {}
                Some(_) if self.point.is_some() => continue,
                Some(first) => anyhow::bail!(
                    "{shown} has several points; choose one with --point, e.g. --point {first} or \
                     --point {}",
                    line.point_id
                ),
                None => point = Some(line.point_id.clone()),
            }
            let at_ns = match (line.offset_ns, self.concurrency) {
                (Some(offset), None) => offset,
                (None, Some(_)) => 0,
                (Some(_), Some(_)) => anyhow::bail!(
                    "{shown}:{number}: the plan has arrival times; leave out --concurrency"
                ),
                (None, None) => anyhow::bail!(
                    "{shown}:{number}: the plan is a closed loop's; add --concurrency"
                ),
            };
            all.push(Planned {
                at_ns,
                prompt_tokens: line.prompt_tokens.unwrap_or(self.lengths.input_tokens),
                output_tokens: line.output_tokens,
                measured: line.phase == "measure",
            });
        }
        anyhow::ensure!(!all.is_empty(), "{shown} has no request of that point");
        Ok(all)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn print(
    parameters: &Parameters,
    report: &Report,
    out: &mut impl std::io::Write,
) -> std::io::Result<()> {
    let s = &report.summary;
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.3}"));
    writeln!(out, "engine      {}", engine_line(parameters))?;
    writeln!(out, "saturation  {}", saturation_line(&report.saturation))?;
    writeln!(
        out,
        "throughput  {} requests/s, {} output tokens/s, {} requests measured over {} s",
        number(s.requests_per_s),
        number(s.output_tokens_per_s),
        s.requests,
        number(s.window_seconds)
    )?;
    writeln!(
        out,
        "batch       {} sequences on average, {} preemptions, prefix hits {}",
        number(s.mean_batch),
        s.preemptions,
        number(s.prefix_hit_share)
    )?;
    writeln!(
        out,
        "{:<10}{:>12}{:>12}{:>12}{:>12}{:>12}",
        "ms", "mean", "p50", "p95", "p99", "max"
    )?;
    for (name, latency) in [("TTFT", s.ttft_ms), ("TPOT", s.tpot_ms), ("E2E", s.e2e_ms)] {
        if let Some(Latency {
            mean,
            p50,
            p95,
            p99,
            max,
        }) = latency
        {
            writeln!(
                out,
                "{name:<10}{mean:>12.3}{p50:>12.3}{p95:>12.3}{p99:>12.3}{max:>12.3}"
            )?;
        }
    }
    Ok(())
}
