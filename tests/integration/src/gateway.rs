//! A gateway under test, on free ports, with its records read back from the admin ring.

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use inferscope_shared::record::gateway::GatewayRecord;
use serde_json::Value;
use tempfile::NamedTempFile;

use crate::process::{Server, binary, eventually};
use crate::wire::{Answer, Request, exchange};

/// How long a settled request may take to appear in the ring.
const RECORD_LIMIT: Duration = Duration::from_secs(5);

/// A running gateway.
#[derive(Debug)]
pub struct Gateway {
    /// The process.
    pub server: Server,
    /// Data port.
    pub data: SocketAddr,
    /// Metrics port.
    pub metrics: SocketAddr,
    /// Admin port.
    pub admin: SocketAddr,
    _config: Option<NamedTempFile>,
}

impl Gateway {
    /// In front of one engine, everyone may call, hashes on.
    ///
    /// # Errors
    /// When it does not start.
    pub fn before(engine: SocketAddr) -> Result<Self> {
        let upstream = format!("http://{engine}");
        let mut command = Command::new(binary("inferscope-gateway")?);
        command.args([
            "run",
            "--upstream",
            &upstream,
            "--listen",
            "127.0.0.1:0",
            "--no-auth",
            "--hash",
        ]);
        command.args(["--metrics", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
        Self::start(command, None)
    }

    /// In front of one engine, open to everyone, hashes on, with `more` top-level configuration.
    ///
    /// # Errors
    /// When it does not start.
    pub fn configured(engine: SocketAddr, more: &str) -> Result<Self> {
        Self::with_config(
            &format!(
                "version: 1\nlisten: [{{addr: \"127.0.0.1:0\"}}]\nmetrics: {{addr: \"127.0.0.1:0\"}}\n\
                 admin: {{addr: \"127.0.0.1:0\"}}\nauth: {{mode: none}}\nrecords: {{hash: true}}\n\
                 pools: {{main: {{endpoints: [{{url: \"http://{engine}\"}}]}}}}\n{more}"
            ),
            &[],
        )
    }

    /// With a whole configuration and environment.
    ///
    /// # Errors
    /// When it does not start.
    pub fn with_config(yaml: &str, environment: &[(&str, &str)]) -> Result<Self> {
        let mut file = NamedTempFile::with_suffix(".yaml")?;
        file.write_all(yaml.as_bytes())?;
        let mut command = Command::new(binary("inferscope-gateway")?);
        command
            .args(["run", "-c"])
            .arg(file.path())
            .envs(environment.iter().copied());
        Self::start(command, Some(file))
    }

    fn start(command: Command, config: Option<NamedTempFile>) -> Result<Self> {
        let server = Server::start("inferscope-gateway", command)?;
        let ready = server.ready();
        let address = |value: &Value| -> Result<SocketAddr> {
            value
                .as_str()
                .with_context(|| format!("no address in {ready}"))?
                .parse()
                .map_err(Into::into)
        };
        let (data, metrics, admin) = (
            address(&ready["data"][0])?,
            address(&ready["metrics"])?,
            address(&ready["admin"])?,
        );
        Ok(Self {
            data,
            metrics,
            admin,
            _config: config,
            server,
        })
    }

    /// Sends one request on a connection of its own.
    ///
    /// # Errors
    /// As [`exchange`].
    pub fn ask(&self, request: &Request) -> Result<Answer> {
        exchange(self.data, request)
    }

    /// The record of the request that the client called `client_request_id`, as soon as it is there.
    ///
    /// # Errors
    /// When it does not come, or comes twice.
    pub fn record(&self, client_request_id: &str) -> Result<GatewayRecord> {
        let mut found = Vec::new();
        let path = format!("/records?prefix={client_request_id}");
        eventually("a record of the request", RECORD_LIMIT, || {
            found = records(&exchange(self.admin, &Request::get(&path))?.body)?;
            Ok(!found.is_empty())
        })
        .with_context(|| format!("record {client_request_id}"))?;
        match found.pop() {
            Some(record) if found.is_empty() => Ok(record),
            _ => bail!("{client_request_id} has {} records", found.len() + 1),
        }
    }

    /// The metrics page.
    ///
    /// # Errors
    /// As [`exchange`].
    pub fn metrics_page(&self) -> Result<String> {
        let answer = exchange(self.metrics, &Request::get("/metrics"))?;
        Ok(String::from_utf8(answer.body)?)
    }
}

/// Reads record lines; the header line is left out.
///
/// # Errors
/// When a line is no record.
pub fn records(lines: &[u8]) -> Result<Vec<GatewayRecord>> {
    std::str::from_utf8(lines)?
        .lines()
        .filter(|line| !line.starts_with("{\"header\""))
        .map(|line| serde_json::from_str(line).with_context(|| format!("record line {line}")))
        .collect()
}
