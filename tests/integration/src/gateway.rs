//! A gateway process before one upstream, and the records that it keeps.

use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
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
    folder: Option<tempfile::TempDir>,
}

/// Where a configured gateway's file lies in its folder.
const FILE: &str = "gateway.yaml";

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

    /// The same with `more` top-level configuration; its one pool is called `main`.
    ///
    /// # Errors
    /// It does not start.
    pub fn before(upstream: &str, more: &str) -> Result<Self> {
        let yaml = format!("{}auth: {{mode: none}}\n{more}", base(upstream));
        Self::configured(&yaml, &[])
    }

    /// One with this configuration, which has to name three ports 0.
    ///
    /// # Errors
    /// It does not start.
    pub fn configured(yaml: &str, environment: &[(&str, &str)]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join(FILE);
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
            folder,
        })
    }

    /// Writes another configuration where it will read it next time.
    ///
    /// # Errors
    /// It was started by flags, or the file cannot be written.
    pub fn write(&self, yaml: &str) -> Result<()> {
        let folder = self.folder.as_ref().context("it has no file")?;
        // In one step: a reload must not find half of it.
        let new = folder.path().join("new.yaml");
        std::fs::write(&new, yaml)?;
        Ok(std::fs::rename(new, folder.path().join(FILE))?)
    }

    /// Asks the admin port to do `what`, such as `/reload`.
    ///
    /// # Errors
    /// The admin port does not answer.
    pub fn post(&self, what: &str) -> Result<http::Answer> {
        let mut client = http::Client::connect(&self.admin)?;
        client.request("POST", what, &[("content-length", "0")], b"")?;
        client.answer()
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

    /// Waits for the record of the request that the client called `id`.
    ///
    /// # Errors
    /// It does not come in time, or there are two.
    pub fn record_of(&self, id: &str) -> Result<GatewayRecord> {
        let mut found = until("the gateway's record", || {
            let mut records = self.records().ok()?;
            records.retain(|r| r.client_request_id.as_deref() == Some(id));
            (!records.is_empty()).then_some(records)
        })
        .context(id.to_owned())?;
        match (found.pop(), found.len()) {
            (Some(record), 0) => Ok(record),
            (_, others) => bail!("{id} has {} records", others + 1),
        }
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

/// A configuration with three ports 0 before `upstream`; who may call is left to say.
#[must_use]
pub fn base(upstream: &str) -> String {
    format!(
        "version: 1\n\
         listen: [{{addr: \"127.0.0.1:0\"}}]\n\
         metrics: {{addr: \"127.0.0.1:0\"}}\n\
         admin: {{addr: \"127.0.0.1:0\"}}\n\
         records: {{hash: true}}\n\
         pools: {{main: {{endpoints: [{{url: \"http://{upstream}\"}}]}}}}\n"
    )
}

/// A gateway that lets one key in, made by `keys new` for the tenant `team`.
#[derive(Debug)]
pub struct Guarded {
    /// The gateway.
    pub gateway: Gateway,
    /// The key.
    pub key: String,
}

impl Guarded {
    /// One before `upstream` (`host:port`) with `more` top-level configuration.
    ///
    /// # Errors
    /// No key is made, or the gateway does not start.
    pub fn before(upstream: &str, more: &str) -> Result<Self> {
        Self::shaped(upstream, |yaml| yaml + more)
    }

    /// One before `upstream` whose configuration is what `shape` makes of the plain one.
    ///
    /// # Errors
    /// No key is made, or the gateway does not start.
    pub fn shaped(upstream: &str, shape: impl FnOnce(String) -> String) -> Result<Self> {
        let secret = [("KEY_SECRET", "a secret of these tests and of nobody else")];
        let arguments = "keys new --tenant team --id team-1 --secret env:KEY_SECRET";
        let made = command("inferscope-gateway", arguments.split(' '))?
            .envs(secret)
            .output()?;
        let problem = String::from_utf8_lossy(&made.stderr);
        ensure!(made.status.success(), "keys new: {problem}");
        // The key on the first line, then what goes into the configuration, as it stands.
        let made = String::from_utf8(made.stdout)?;
        let (key, auth) = made.split_once('\n').context("keys new says one line")?;
        let yaml = shape(format!("{}{auth}tenants: {{team: {{}}}}\n", base(upstream)));
        let gateway = Gateway::configured(&yaml, &secret)?;
        let key = key.to_owned();
        Ok(Self { gateway, key })
    }
}
