//! The command line: what was asked, and the one place where errors become exit codes.
//!
//! 0 is done, 1 is a failure while running, 2 is a fault of the command line, the configuration
//! or what it names (a port in use, records that can't be written). Results go to standard
//! output, everything else to standard error.

mod args;
mod check;
mod explain;
mod keys;
mod logs;
mod usage;

use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

pub use args::Cli;
use args::{Command, KeysCommand, Run, UsageCommand};

use crate::config::{Config, ConfigError, Quick};
use crate::server::{self, ServeError};

/// Something failed while running.
const FAILED: u8 = 1;
/// Command line, configuration, or what it names.
const USAGE: u8 = 2;

/// Why a command ended without success.
#[derive(Debug)]
enum Failure {
    /// The configuration; its text is complete as it is.
    Config(ConfigError),
    /// One line.
    Usage(String),
    /// The gateway could not start or go on.
    Serve(ServeError),
    /// Standard output can't be written.
    Output(io::Error),
}

impl Failure {
    const fn code(&self) -> u8 {
        match self {
            Self::Config(_)
            | Self::Usage(_)
            | Self::Serve(ServeError::Bind { .. } | ServeError::Records(_)) => USAGE,
            Self::Serve(_) | Self::Output(_) => FAILED,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(ConfigError::Problems(problems)) => problems.fmt(f),
            Self::Config(error) => write!(f, "error: {error}"),
            Self::Usage(line) => write!(f, "error: {line}"),
            Self::Serve(error) => write!(f, "error: {error}"),
            Self::Output(error) => write!(f, "error: cannot write to standard output: {error}"),
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

/// Does what the process was called for.
#[must_use]
pub fn main() -> ExitCode {
    match dispatch(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Nothing is left to do when standard error is gone too.
            let _ = writeln!(io::stderr(), "{failure}");
            ExitCode::from(failure.code())
        }
    }
}

fn dispatch(cli: Cli) -> Result<(), Failure> {
    match cli.command {
        Command::Run(run) => {
            let path = run.config.clone();
            let config = run_config(run)?;
            let _log = logs::init(&config.logs);
            server::run(config, path).map_err(Failure::Serve)
        }
        Command::Check { config } => {
            let summary = check::summary(&config, &Config::load(&config)?);
            print(&summary)
        }
        Command::Explain {
            config,
            key_id,
            model,
            path,
            json,
        } => {
            let config = Config::load(&config)?;
            let case = explain::Case {
                key_id: key_id.as_deref(),
                model: model.as_deref(),
                path: &path,
            };
            let explained = explain::explain(&config, &case).map_err(Failure::Usage)?;
            match json {
                true => print(&format!("{explained:#}\n")),
                false => print(&explain::text(&explained)),
            }
        }
        Command::Usage(UsageCommand::Export(export)) => {
            let days = usage::Days {
                since: export.since,
                until: export.until,
            };
            let table = usage::read(&export.records, &export.by, &days).map_err(Failure::Usage)?;
            if table.unreadable > 0 {
                let lines = table.unreadable;
                let _ = writeln!(
                    io::stderr(),
                    "warning: {lines} lines are no records and in no sum"
                );
            }
            if table.dropped > 0 {
                let lost = table.dropped;
                let _ = writeln!(
                    io::stderr(),
                    "warning: {lost} records were dropped when they were to be written, and are in no sum"
                );
            }
            print(&table.write(&export.by, export.format))
        }
        Command::Keys(KeysCommand::New { tenant, id, secret }) => {
            let text = keys::new(&tenant, id, &secret).map_err(Failure::Usage)?;
            print(&text)
        }
        Command::Keys(KeysCommand::Secret) => print(&keys::secret()),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            let mut command = Cli::command();
            let name = command.get_name().to_owned();
            clap_complete::generate(shell, &mut command, name, &mut script);
            print(&String::from_utf8_lossy(&script))
        }
    }
}

fn run_config(run: Run) -> Result<Config, Failure> {
    let (Some(upstream), listen) = (run.upstream, run.listen) else {
        let path = run.config.unwrap_or_default();
        return Ok(Config::load(&path)?);
    };
    if !run.no_auth {
        return Err(Failure::Usage(
            "--upstream lets everyone in: say so with --no-auth, or use -c FILE with keys".into(),
        ));
    }
    if let Some(admin) = run.admin.filter(|addr| !addr.ip().is_loopback()) {
        return Err(Failure::Usage(format!(
            "--admin {admin} can be reached from outside: use 127.0.0.1, or -c FILE with admin.token"
        )));
    }
    Ok(Config::quick(Quick {
        upstream,
        listen,
        metrics: run.metrics,
        admin: run.admin,
        records: run.records,
        hash: run.hash,
    }))
}

fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The reader had enough, as in `… | head -1`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(Failure::Output),
    }
}

#[cfg(test)]
mod tests;
