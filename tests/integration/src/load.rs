//! Runs of the load generator and the evidence they leave.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, Result, ensure};
use inferscope_shared::record::request::RequestRecord;
use serde_json::Value;

use crate::process::command;

/// Whether a gate judges how calm the machine is: no matter of tests that share it.
#[must_use]
pub fn is_of_the_machine(gate: &str) -> bool {
    const MACHINE: [&str; 8] = [
        "dispatch_lag",
        "client_loop_lag",
        "instrument_error",
        "client_cpu",
        "client_run_wait",
        "cgroup_throttled",
        "tcp_retransmits",
        "clock_uncertainty",
    ];
    MACHINE.contains(&gate)
}

/// A folder for results, gone with the value.
#[derive(Debug)]
pub struct Lab {
    folder: tempfile::TempDir,
}

/// A finished run.
#[derive(Debug)]
pub struct Run {
    /// Exit code, `None` after a signal.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// The results folder.
    pub results: PathBuf,
    /// The run's id.
    pub id: String,
}

impl Lab {
    /// An empty folder.
    ///
    /// # Errors
    /// None can be made.
    pub fn new() -> Result<Self> {
        Ok(Self {
            folder: tempfile::tempdir()?,
        })
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// `loadgen` with these arguments, results and reports going to this folder.
    ///
    /// # Errors
    /// It is not built.
    pub fn command(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = command("loadgen", arguments)?;
        command
            .current_dir(self.path())
            .arg("--results-dir")
            .arg(self.path().join("results"));
        Ok(command)
    }

    /// Runs to the end under the given run id; without a calibration unless the arguments ask for
    /// one, because most scenarios have no limits that need it.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn run(&self, id: &str, arguments: &[&str]) -> Result<Run> {
        let mut command = self.command(arguments)?;
        command.args(["--run-id", id]);
        if !arguments.contains(&"--calibration") {
            command.args(["--calibration", "off"]);
        }
        let output = command.output()?;
        Ok(self.finished(id, &output))
    }

    /// What is left of a run that ended with `output`.
    #[must_use]
    pub fn finished(&self, id: &str, output: &Output) -> Run {
        Run {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            results: self.path().join("results"),
            id: id.to_owned(),
        }
    }
}

impl Run {
    /// A file of the run's raw folder.
    #[must_use]
    pub fn raw(&self, name: &str) -> PathBuf {
        self.results.join("raw").join(&self.id).join(name)
    }

    /// A file of the run's processed folder.
    #[must_use]
    pub fn processed(&self, name: &str) -> PathBuf {
        self.results.join("processed").join(&self.id).join(name)
    }

    /// All request records, in order of their end.
    ///
    /// # Errors
    /// The file is missing or a line is no record.
    pub fn requests(&self) -> Result<Vec<RequestRecord>> {
        let text = self.text(&self.raw("requests.jsonl"))?;
        text.lines()
            .map(|line| serde_json::from_str(line).with_context(|| line.to_owned()))
            .collect()
    }

    /// The records of measured requests.
    ///
    /// # Errors
    /// As [`Run::requests`].
    pub fn measured(&self) -> Result<Vec<RequestRecord>> {
        let mut records = self.requests()?;
        records.retain(|r| r.phase == inferscope_shared::record::request::Phase::Measure);
        Ok(records)
    }

    /// A JSON file.
    ///
    /// # Errors
    /// It is missing or no JSON.
    pub fn json(&self, path: &Path) -> Result<Value> {
        serde_json::from_str(&self.text(path)?).with_context(|| path.display().to_string())
    }

    /// Fails unless every point has a record of its own for each planned arrival, warm-up included.
    ///
    /// # Errors
    /// The point that has another number of records, and both numbers.
    pub fn every_arrival_has_its_record(&self) -> Result<()> {
        let manifest = self.json(&self.raw("manifest.json"))?;
        let requests = self.requests()?;
        for point in manifest["points"].as_array().context("points")? {
            let id = point["point_id"].as_str().context("point_id")?;
            let planned = point["planned"].as_u64().context("planned")?;
            let planned = planned + point["warmup"].as_u64().context("warmup")?;
            let seqs: BTreeSet<u64> = requests
                .iter()
                .filter(|r| r.point_id == id)
                .map(|r| r.seq)
                .collect();
            let rows = requests.iter().filter(|r| r.point_id == id).count();
            ensure!(
                rows as u64 == planned && seqs.len() == rows,
                "{id}: {rows} records, {} of them different, for {planned} planned arrivals",
                seqs.len()
            );
        }
        Ok(())
    }

    /// What a gate found, over all its scopes.
    ///
    /// # Errors
    /// There is no `validation.json`, or no such gate in it.
    pub fn gate(&self, id: &str) -> Result<Vec<String>> {
        let validation = self.json(&self.raw("validation.json"))?;
        let found: Vec<String> = validation["gates"]
            .as_array()
            .context("gates")?
            .iter()
            .filter(|g| g["id"] == id)
            .filter_map(|g| g["status"].as_str().map(str::to_owned))
            .collect();
        ensure!(!found.is_empty(), "no gate {id}");
        Ok(found)
    }

    /// The verdict's word.
    ///
    /// # Errors
    /// There is no `validation.json`.
    pub fn verdict(&self) -> Result<String> {
        let validation = self.json(&self.raw("validation.json"))?;
        Ok(validation["status"].as_str().unwrap_or_default().to_owned())
    }

    /// Fails unless the run is VALID, or only gates on the client's own timing say otherwise: a busy
    /// machine is no fault of the programs.
    ///
    /// # Errors
    /// What loadgen said.
    pub fn sound(&self) -> Result<()> {
        let said = || format!("exit {:?}\n{}\n{}", self.code, self.stdout, self.stderr);
        ensure!(matches!(self.code, Some(0 | 3 | 4)), "{}", said());
        let validation = self.json(&self.raw("validation.json"))?;
        for gate in validation["gates"].as_array().context("gates")? {
            let passed = gate["status"] == "PASS" || gate["status"] == "NOT_APPLICABLE";
            let machine = gate["id"].as_str().is_some_and(is_of_the_machine);
            ensure!(passed || machine, "{gate}\n{}", said());
        }
        Ok(())
    }

    fn text(&self, path: &Path) -> Result<String> {
        fs::read_to_string(path).with_context(|| {
            format!(
                "{} is missing; loadgen ended with {:?} and said:\n{}",
                path.display(),
                self.code,
                self.stderr
            )
        })
    }
}
