//! The `fake-engine` binary: command line in, ready line out, then serve until killed; or a run in
//! virtual time.

use std::convert::Infallible;
use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use inferscope_fake_engine::FakeEngine;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

mod cli;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let result = match cli.command {
        None => serve(cli.serve).map(|never| match never {}),
        Some(cli::Command::Simulate(args)) => args.run(),
        Some(cli::Command::Capacity(args)) => args.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fake-engine: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn serve(args: cli::ServeArgs) -> anyhow::Result<Infallible> {
    let config = args.config()?;
    // Two descriptors a connection: take what the system allows.
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    );
    let engine = FakeEngine::start(config)?;
    let mut out = std::io::stdout();
    writeln!(out, r#"{{"ready":true,"listen":"{}"}}"#, engine.addr())?;
    out.flush()?;
    loop {
        std::thread::park();
    }
}
