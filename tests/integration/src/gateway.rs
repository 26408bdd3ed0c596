//! A gateway process before one upstream, and the records that it keeps.

use std::process::Command;

use anyhow::{Context as _, Result};
use inferscope_shared::record::gateway::GatewayRecord;

use crate::http;
use crate::process::{Server, command, until};

/// A running gateway.
#[derive(Debug)]
pub struct Gateway {
    /// Its process.
    pub server: Server,
    /// Where requests go, `host:port`.
    pub data: String,
    /// The admin port, `host:port`.
    pub admin: String,
    /// The metrics port, `host:port`.
    pub metrics: String,
    _folder: Option<tempfile::TempDir>,
}

impl Gateway {
    /// One without authentication before `upstream` (`host:port`), with hashes in its records.
    ///
    /// # Errors
    /// It does not start.
    pub fn open(upstream: &str) -> Result<Self> {
        let upstream = format!("http://{upstream}");
        let arguments = ["run", "--upstream", &upstream, "--no-auth", "--hash"];
        let ports = [
            "--listen",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
            "--metrics",
            "127.0.0.1:0",
        ];
        Self::start(
            command("inferscope-gateway", arguments.iter().chain(&ports))?,
            None,
        )
    }

    /// One with this configuration, in which `{data}`, `{admin}` and `{metrics}` ports are zero.
    ///
    /// # Errors
    /// It does not start.
    pub fn configured(yaml: &str, environment: &[(&str, &str)]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("gateway.yaml");
        std::fs::write(&file, yaml)?;
        let mut command = command("inferscope-gateway", ["run", "-c"])?;
        command.arg(&file).envs(environment.iter().copied());
        Self::start(command, Some(folder))
    }

    fn start(command: Command, folder: Option<tempfile::TempDir>) -> Result<Self> {
        let server = Server::start("inferscope-gateway", command)?;
        let (data, admin, metrics) = (
            server.address("data"),
            server.address("admin"),
            server.address("metrics"),
        );
        Ok(Self {
            server,
            data,
            admin,
            metrics,
            _folder: folder,
        })
    }

    /// The records in its ring, oldest first.
    ///
    /// # Errors
    /// The admin port does not answer, or a line is no record.
    pub fn records(&self) -> Result<Vec<GatewayRecord>> {
        let answer = http::get(&self.admin, "/records", &[])?;
        let text = answer.text();
        let lines = text.lines().skip(1);
        lines
            .map(|line| serde_json::from_str(line).with_context(|| line.to_owned()))
            .collect()
    }

    /// Waits until its ring holds `count` records.
    ///
    /// # Errors
    /// It does not in time.
    pub fn records_when(&self, count: usize) -> Result<Vec<GatewayRecord>> {
        until("the gateway's records", || {
            self.records().ok().filter(|r| r.len() >= count)
        })
    }

    /// The value of a metric line that begins with `series`, zero when there is none.
    ///
    /// # Errors
    /// The metrics port does not answer.
    pub fn metric(&self, series: &str) -> Result<f64> {
        let text = http::get(&self.metrics, "/metrics", &[])?.text();
        let value = text
            .lines()
            .filter(|l| !l.starts_with('#'))
            .find_map(|l| l.strip_prefix(series)?.trim().parse().ok());
        Ok(value.unwrap_or(0.0))
    }
}
