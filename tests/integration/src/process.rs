//! Built binaries as processes that tell where they listen and are gone when dropped.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// How long a server may take until it listens, and a condition until it holds. Generous: a slow
/// machine is no failure.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The repository's root.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Path of a built binary.
///
/// # Errors
/// It is not built, with the command that does.
pub fn binary(name: &str) -> Result<PathBuf> {
    let here = std::env::current_exe()?;
    let folder = here
        .parent()
        .and_then(Path::parent)
        .context("the test binary lies in no folder")?;
    let path = folder.join(name);
    if !path.exists() {
        bail!(
            "{} is not built; run: cargo build --release --workspace",
            path.display()
        );
    }
    Ok(path)
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    /// What it said when it listened.
    pub ready: Value,
    name: String,
    child: Child,
    folder: tempfile::TempDir,
}

impl Server {
    /// Starts `command` and waits for its ready line.
    ///
    /// # Errors
    /// It cannot be started, ends, or says nothing in time; its log is in the message.
    pub fn start(name: &str, mut command: Command) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let log = File::create(folder.path().join("log"))?;
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let out = child.stdout.take().context("no standard output")?;
        let (say, hear) = mpsc::channel();
        thread::spawn(move || {
            let mut lines = BufReader::new(out).lines();
            let _ = say.send(lines.next());
            // Keep the pipe open and empty for as long as the server writes.
            lines.for_each(drop);
        });
        let line = hear.recv_timeout(PATIENCE);
        let mut server = Self {
            ready: Value::Null,
            name: name.to_owned(),
            child,
            folder,
        };
        match line {
            Ok(Some(Ok(line))) => {
                server.ready =
                    serde_json::from_str(&line).with_context(|| format!("{name} said {line}"))?;
                Ok(server)
            }
            _ => bail!("{name} did not get ready; its log:\n{}", server.log()),
        }
    }

    /// The address under `key` of the ready line.
    ///
    /// # Panics
    /// There is none: the test's own mistake.
    #[must_use]
    pub fn address(&self, key: &str) -> String {
        let value = &self.ready[key];
        let text = value.as_str().or_else(|| value[0].as_str());
        text.unwrap_or_else(|| panic!("{} has no address \"{key}\": {}", self.name, self.ready))
            .to_owned()
    }

    /// What it wrote to standard error so far.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Closes its standard input, as the end of whoever started it does.
    pub fn close_input(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Waits until it ends by itself.
    ///
    /// # Errors
    /// It does not within [`PATIENCE`].
    pub fn wait(&mut self) -> Result<ExitStatus> {
        let child = &mut self.child;
        until("the process to end", || child.try_wait().ok().flatten())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("---- log of {} ----\n{}", self.name, self.log());
        }
    }
}

/// Asks until there is an answer.
///
/// # Errors
/// There is none within [`PATIENCE`].
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return Ok(answer);
        }
        if Instant::now() > deadline {
            bail!("waited {} s for {what}", PATIENCE.as_secs());
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// A command of a built binary.
///
/// # Errors
/// It is not built.
pub fn command<S: AsRef<OsStr>>(
    name: &str,
    arguments: impl IntoIterator<Item = S>,
) -> Result<Command> {
    let mut command = Command::new(binary(name)?);
    command.args(arguments);
    Ok(command)
}
