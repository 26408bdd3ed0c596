//! The `loadgen` binary: arguments in, exit code out; all else is in the library.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{CommandFactory, Parser};
use loadgen::analysis::{self, AnalysisError};
use loadgen::artifacts::layout::RunDir;
use loadgen::calibration::{command, server};
use loadgen::cli::calibrate_args::{CalibrateArgs, ExactServerArgs};
use loadgen::cli::probe_args::ProbeArgs;
use loadgen::cli::run_args::{PlanArgs, RunArgs};
use loadgen::cli::{Cli, Command, OfRun};
use loadgen::client::open_files;
use loadgen::config::file;
use loadgen::config::settings::Settings;
use loadgen::doctor;
use loadgen::probe::{self, ProbeError};
use loadgen::run::{self, Done, RunError, outline};
use loadgen::show::{self, Shown};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        None => measure(&cli.run),
        Some(Command::Run(args)) => measure(&args),
        Some(Command::Plan(args)) => plan(&args),
        Some(Command::Doctor(args)) => doctor(&args),
        Some(Command::Calibrate(args)) => calibrate(&args),
        Some(Command::ExactServer(args)) => exact_server(args),
        Some(Command::Show { of, request }) => look(&of, |run, json| match &request {
            Some(id) => Ok(show::request(run, id, json)?),
            None => Ok(show::show(run, json)?),
        }),
        Some(Command::Validate(of)) => look(&of, |run, json| Ok(show::validate(run, json)?)),
        Some(Command::Report(of)) => look(&of, |run, json| {
            let shown = show::report(run, json)?;
            run::refresh_inventory(run)?;
            Ok(shown)
        }),
        Some(Command::Probe(args)) => look_at_engine(&args),
        Some(Command::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "loadgen", &mut script);
            say(&script).map(|()| 0).map_err(Into::into)
        }
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(e) => {
            let code = if is_usage(&e) { 2 } else { 1 };
            for line in format!("{e:#}").lines() {
                eprintln!("loadgen: {line}");
            }
            ExitCode::from(code)
        }
    }
}

/// Whether what was asked for, not the asking, is at fault.
fn is_usage(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(RunError::Usage(_)))
        || matches!(error.downcast_ref(), Some(ProbeError::Usage(_)))
        || matches!(
            error.downcast_ref(),
            Some(AnalysisError::NoSuchRequest { .. })
        )
}

/// What file and flags say together.
fn settings(args: &RunArgs) -> Result<Settings, RunError> {
    let file = match &args.config {
        Some(path) => file::read(path).map_err(|e| RunError::Usage(e.to_string()))?,
        None => Settings::default(),
    };
    Ok(args.settings_over(file))
}

fn prepare(args: &RunArgs) -> anyhow::Result<(tokio::runtime::Runtime, run::Prepared)> {
    let settings = settings(args)?;
    let runtime = runtime()?;
    let prepared = runtime.block_on(run::prepare(settings))?;
    Ok((runtime, prepared))
}

/// The runtime that measures: one thread, so that nothing of a request crosses threads.
fn runtime() -> io::Result<tokio::runtime::Runtime> {
    open_files::raise();
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

fn calibrate(args: &CalibrateArgs) -> anyhow::Result<u8> {
    let shown = runtime()?.block_on(command::calibrate(args))?;
    say(shown.text.as_bytes())?;
    Ok(shown.exit_code)
}

fn exact_server(args: ExactServerArgs) -> anyhow::Result<u8> {
    let [ttft, itl] = [args.ttft_ns, args.itl_ns].map(Duration::from_nanos);
    server::serve(ttft, itl)?;
    Ok(0)
}

/// Tells what a run would be; what it would be refused for now follows on standard error.
fn plan(args: &PlanArgs) -> anyhow::Result<u8> {
    let settings = settings(&args.run)?;
    let outline = outline::outline(settings, args.offline, args.assume_latency);
    let outline = runtime()?.block_on(outline)?;
    if args.run.json {
        say(format!("{:#}\n", serde_json::to_value(&outline)?).as_bytes())?;
    } else {
        say(outline.text().as_bytes())?;
    }
    match outline.faults {
        Some(faults) if !faults.is_empty() => {
            Err(RunError::Usage(format!("not ready to run:\n{}", faults.join("\n"))).into())
        }
        _ => Ok(0),
    }
}

fn doctor(args: &RunArgs) -> anyhow::Result<u8> {
    let settings = settings(args)?;
    let (found, results) = runtime()?.block_on(doctor::examine(settings))?;
    let written = found.write(&results);
    if args.json {
        say(format!("{:#}\n", serde_json::to_value(&found)?).as_bytes())?;
    } else {
        say(found.text().as_bytes())?;
    }
    match written {
        Ok(path) if !args.json => say(format!("written: {}\n", path.display()).as_bytes())?,
        Ok(_) => {}
        Err(e) => eprintln!("loadgen: {}: cannot be written ({e})", results.display()),
    }
    Ok(found.exit_code())
}

fn measure(args: &RunArgs) -> anyhow::Result<u8> {
    let (runtime, prepared) = prepare(args)?;
    let done = runtime.block_on(run::drive(prepared))?;
    let json = args.json;
    // The runtime stays polled meanwhile, so that a signal ends the process.
    runtime.block_on(async {
        let judged = tokio::task::spawn_blocking(move || judge(&done, json));
        judged.await.context("analysis")?
    })
}

fn look_at_engine(args: &ProbeArgs) -> anyhow::Result<u8> {
    let probed = runtime()?.block_on(probe::run(&args.options()))?;
    say(probed.text(args.json).as_bytes())?;
    Ok(probed.exit_code())
}

/// Analyses a run that was driven, and writes and prints what follows.
fn judge(done: &Done, json: bool) -> anyhow::Result<u8> {
    if let Some(e) = &done.disk_error {
        eprintln!(
            "loadgen: {}: {e}; what follows is from what could be written",
            done.run.raw().display()
        );
    }
    let analysis = analysis::analyze(&done.run)
        .with_context(|| format!("run {}: raw files are kept", done.run.run_id()))?;
    let published = analysis::publish(&done.run, &analysis);
    let shown = show::summary(&analysis, json);
    say(shown.text.as_bytes())?;
    let report = published?;
    run::refresh_inventory(&done.run)?;
    if !json {
        say(format!("report: {}\n", report.display()).as_bytes())?;
    }
    Ok(match (done.interrupted, &done.disk_error) {
        (Some(signal), _) => signal.exit_code(),
        (None, Some(_)) => 1,
        (None, None) => shown.exit_code,
    })
}

/// Does something with a run that has left its files.
fn look(
    of: &OfRun,
    with: impl FnOnce(&RunDir, bool) -> anyhow::Result<Shown>,
) -> anyhow::Result<u8> {
    let run =
        RunDir::locate(&of.run, &of.results_dir).map_err(|e| RunError::Usage(e.to_string()))?;
    let shown = with(&run, of.json)?;
    say(shown.text.as_bytes())?;
    Ok(shown.exit_code)
}

/// Prints to standard output; a reader that has gone away is not an error.
fn say(text: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(e),
        _ => Ok(()),
    }
}
