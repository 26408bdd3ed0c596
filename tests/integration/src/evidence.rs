//! A run of loadgen in a folder of its own, and the evidence that it left.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use inferscope_shared::record::request::{Phase, RequestRecord};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tempfile::TempDir;

use crate::process::{binary, wait};

/// The id that every run of the scenarios gets; their folders differ.
pub const RUN_ID: &str = "scenario";

/// No run of a scenario takes longer.
const RUN_LIMIT: Duration = Duration::from_secs(240);

/// A finished run.
#[derive(Debug)]
pub struct Run {
    /// Exit code; `None` after a signal.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// The folder it ran in; `results/` and `reports/` lie here.
    pub folder: TempDir,
}

/// loadgen with `arguments`, prepared to run in `folder`.
///
/// # Errors
/// When it has not been built.
pub fn loadgen(folder: &Path, arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(binary("loadgen")?);
    command
        .current_dir(folder)
        .args(arguments)
        .stdin(Stdio::null());
    Ok(command)
}

impl Run {
    /// Runs loadgen to its end with these flags and a fixed run id.
    ///
    /// # Errors
    /// When it can't be started or does not end.
    pub fn of(arguments: &[&str]) -> Result<Self> {
        Self::with(arguments, |_| Ok(()))
    }

    /// The same, after `prepare` has put files into its folder.
    ///
    /// # Errors
    /// When it can't be started or does not end.
    pub fn with(arguments: &[&str], prepare: impl FnOnce(&Path) -> Result<()>) -> Result<Self> {
        let folder = TempDir::new()?;
        prepare(folder.path())?;
        let mut command = loadgen(folder.path(), arguments)?;
        command.args(["--run-id", RUN_ID]);
        Self::finish(command, folder)
    }

    /// Runs a prepared command to its end.
    ///
    /// # Errors
    /// When it can't be started or does not end.
    pub fn finish(mut command: Command, folder: TempDir) -> Result<Self> {
        let (out, err) = (folder.path().join("stdout"), folder.path().join("stderr"));
        let mut child = command
            .stdout(std::fs::File::create(&out)?)
            .stderr(std::fs::File::create(&err)?)
            .spawn()?;
        let status = wait(&mut child, RUN_LIMIT);
        if status.is_err() {
            child.kill()?;
            child.wait()?;
        }
        let (stdout, stderr) = (
            std::fs::read_to_string(&out)?,
            std::fs::read_to_string(&err)?,
        );
        std::fs::remove_file(out)?;
        std::fs::remove_file(err)?;
        let status = status.with_context(|| format!("loadgen said:\n{stdout}\n{stderr}"))?;
        Ok(Self {
            code: status.code(),
            stdout,
            stderr,
            folder,
        })
    }

    /// Fails unless the exit code is `code`, and then shows what loadgen said.
    ///
    /// # Errors
    /// When it is another.
    pub fn expect(self, code: i32) -> Result<Self> {
        if self.code != Some(code) {
            let validation =
                std::fs::read_to_string(self.raw("validation.json")).unwrap_or_default();
            bail!(
                "exit code {:?}, wanted {code}\n{}\n{}\n{validation}",
                self.code,
                self.stdout,
                self.stderr
            );
        }
        Ok(self)
    }

    /// A file of `results/raw/<run>`.
    #[must_use]
    pub fn raw(&self, name: &str) -> PathBuf {
        self.folder
            .path()
            .join("results/raw")
            .join(RUN_ID)
            .join(name)
    }

    /// A file of `results/processed/<run>`.
    #[must_use]
    pub fn processed(&self, name: &str) -> PathBuf {
        self.folder
            .path()
            .join("results/processed")
            .join(RUN_ID)
            .join(name)
    }

    /// Every line of `requests.jsonl`.
    ///
    /// # Errors
    /// When a line is no request record.
    pub fn requests(&self) -> Result<Vec<RequestRecord>> {
        json_lines(&self.raw("requests.jsonl"))
    }

    /// The measured ones among them.
    ///
    /// # Errors
    /// As [`Run::requests`].
    pub fn measured(&self) -> Result<Vec<RequestRecord>> {
        let mut requests = self.requests()?;
        requests.retain(|r| r.phase == Phase::Measure);
        Ok(requests)
    }

    /// The one measured request of a run that has just one.
    ///
    /// # Errors
    /// When there are others.
    pub fn only(&self) -> Result<RequestRecord> {
        let mut measured = self.measured()?;
        match measured.pop() {
            Some(request) if measured.is_empty() => Ok(request),
            _ => bail!(
                "not one measured request: {measured:#?}\n{}\n{}",
                self.stdout,
                self.stderr
            ),
        }
    }

    /// The verdict with its gates.
    ///
    /// # Errors
    /// When the file is missing or no JSON.
    pub fn validation(&self) -> Result<Value> {
        json(&self.raw("validation.json"))
    }

    /// The status of one gate: its worst one, if it has several scopes.
    ///
    /// # Errors
    /// When there is no such gate.
    pub fn gate(&self, id: &str) -> Result<String> {
        let validation = self.validation()?;
        let gates = validation["gates"].as_array().context("no gates")?;
        let statuses: Vec<_> = gates
            .iter()
            .filter(|g| g["id"] == id)
            .filter_map(|g| g["status"].as_str())
            .collect();
        for worst in ["FAIL", "UNDECIDED", "PASS", "NOT_APPLICABLE"] {
            if statuses.contains(&worst) {
                return Ok(worst.to_owned());
            }
        }
        let known: Vec<_> = gates.iter().map(|g| &g["id"]).collect();
        bail!("no gate {id} among {known:?}")
    }
}

/// Reads a JSON file.
///
/// # Errors
/// When it is missing or no JSON of that kind.
pub fn json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

/// Reads a file of JSON lines.
///
/// # Errors
/// When it is missing, or a line is no JSON of that kind.
pub fn json_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    text.lines()
        .map(|line| {
            serde_json::from_str(line).with_context(|| format!("{}: {line}", path.display()))
        })
        .collect()
}
