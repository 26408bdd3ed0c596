//! Programs under test: found in `target/release`, started, watched, and never left behind.
//!
//! A server prints one JSON line on standard output when it listens; [`Server::start`] waits for it,
//! so nothing here polls or sleeps. Standard error goes to a file whose end is shown when the test
//! that owns the server fails.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::NamedTempFile;

/// How long a server may take until it listens; a real engine loads its weights in this time.
const START_LIMIT: Duration = Duration::from_secs(60);

/// The root of the repository.
#[must_use]
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The built program `name`.
///
/// # Errors
/// When it has not been built.
pub fn binary(name: &str) -> Result<PathBuf> {
    // This test runs from target/release/deps.
    let own = std::env::current_exe()?;
    let folder = own
        .parent()
        .and_then(Path::parent)
        .context("no target folder")?;
    let path = folder.join(name);
    if !path.is_file() {
        bail!(
            "{} is not there: run `cargo build --release --workspace` first",
            path.display()
        );
    }
    Ok(path)
}

/// A running server, killed when dropped.
#[derive(Debug)]
pub struct Server {
    name: String,
    child: Child,
    log: NamedTempFile,
    ready: Value,
}

impl Server {
    /// Starts `command` and waits for its ready line.
    ///
    /// # Errors
    /// When it can't be started, ends early, or says nothing in time; its log is in the message.
    pub fn start(name: &str, mut command: Command) -> Result<Self> {
        let log = NamedTempFile::new()?;
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(log.path())?)
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        let out = child.stdout.take().context("no standard output")?;
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(out).lines();
            let _ = sender.send(lines.next());
            // Keep the pipe open and empty, so that a talkative server never blocks or dies.
            lines.for_each(drop);
        });
        let first = receiver.recv_timeout(START_LIMIT);
        let mut server = Self {
            name: name.to_owned(),
            child,
            log,
            ready: Value::Null,
        };
        let Ok(Some(Ok(line))) = first else {
            let log = server.log();
            let status = server.child.try_wait()?;
            bail!("{name} did not start ({status:?}); its log:\n{log}");
        };
        server.ready =
            serde_json::from_str(&line).with_context(|| format!("{name}'s ready line: {line}"))?;
        Ok(server)
    }

    /// The ready line.
    #[must_use]
    pub fn ready(&self) -> &Value {
        &self.ready
    }

    /// What it has logged so far.
    #[must_use]
    pub fn log(&self) -> String {
        let mut text = String::new();
        if let Ok(mut file) = File::open(self.log.path()) {
            let _ = file.read_to_string(&mut text);
        }
        text
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        send_signal(&self.child, signal)
    }

    /// True while it runs.
    ///
    /// # Errors
    /// When its state can't be read.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Waits until it has ended by itself.
    ///
    /// # Errors
    /// When it is still running after `limit`.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        wait(&mut self.child, limit)
            .map_err(|e| anyhow!("{}: {e}; its log:\n{}", self.name, self.log()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<_> = log.lines().rev().take(40).collect();
            eprintln!("--- end of the log of {}", self.name);
            tail.iter().rev().for_each(|line| eprintln!("{line}"));
        }
    }
}

/// Sends `signal` to a child of ours.
///
/// # Errors
/// When it is gone.
pub fn send_signal(child: &Child, signal: Signal) -> Result<()> {
    let pid = Pid::from_raw(i32::try_from(child.id())?).context("process id zero")?;
    Ok(kill_process(pid, signal)?)
}

/// Waits for `child` to end, for `limit` at most.
///
/// # Errors
/// When the time is up.
pub fn wait(child: &mut Child, limit: Duration) -> Result<ExitStatus> {
    let end = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() > end {
            bail!("still running after {limit:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Asks `probe` again and again until it says yes.
///
/// # Errors
/// When it has not within `limit`.
pub fn eventually(
    what: &str,
    limit: Duration,
    mut probe: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let end = Instant::now() + limit;
    while !probe()? {
        if Instant::now() > end {
            bail!("not within {limit:?}: {what}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
