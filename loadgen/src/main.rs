//! The `loadgen` binary: arguments in, exit code out; all else is in the library.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use loadgen::cli::run_args::RunArgs;
use loadgen::cli::{Cli, Command};
use loadgen::config::file;
use loadgen::run::{self, RunError};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        None => measure(&cli.run),
        Some(Command::Run(args)) => measure(&args),
        Some(Command::Plan(args)) => plan(&args),
        Some(Command::Show(_) | Command::Validate(_) | Command::Report(_)) => Ok(1),
        Some(Command::Completions { shell }) => {
            clap_complete::generate(shell, &mut Cli::command(), "loadgen", &mut io::stdout());
            Ok(0)
        }
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(e) => {
            let code = match e.downcast_ref::<RunError>() {
                Some(RunError::Usage(_)) => 2,
                _ => 1,
            };
            for line in format!("{e:#}").lines() {
                eprintln!("loadgen: {line}");
            }
            ExitCode::from(code)
        }
    }
}

fn prepare(args: &RunArgs) -> anyhow::Result<(tokio::runtime::Runtime, run::Prepared)> {
    let flags = args.settings();
    let settings = match &args.config {
        Some(path) => {
            let file = file::read(path).map_err(|e| RunError::Usage(e.to_string()))?;
            flags.over(file)
        }
        None => flags,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let prepared = runtime.block_on(run::prepare(settings))?;
    Ok((runtime, prepared))
}

fn plan(args: &RunArgs) -> anyhow::Result<u8> {
    let (_, prepared) = prepare(args)?;
    io::stdout().write_all(run::describe_plan(&prepared).as_bytes())?;
    Ok(0)
}

fn measure(args: &RunArgs) -> anyhow::Result<u8> {
    let (runtime, prepared) = prepare(args)?;
    let done = runtime.block_on(run::drive(prepared))?;
    run::refresh_inventory(&done.run)?;
    println!("{}", done.run.raw().display());
    if let Some(signal) = done.interrupted {
        return Ok(signal.exit_code());
    }
    Ok(u8::from(done.disk_error.is_some()))
}
