//! One YAML file to one validated [`Config`].
//!
//! Each section has a file under `config/` with its types, its rules and its defaults beside each
//! other; this module owns the top level and what several sections must agree on. Nothing stops
//! at the first fault: [`ConfigError`] holds all of them with their places. Sections that
//! are part of the contract but do nothing in this version are refused, never ignored.
//!
//! Secrets come from `env:NAME` or `file:/path` only, are read once while loading, and print as
//! `[redacted]`.

mod auth;
mod connections;
mod limits;
mod listen;
mod outline;
mod pools;
mod queue;
mod quick;
mod records;
mod routes;
mod secret;
#[cfg(test)]
mod tests;
mod timeouts;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use inferscope_shared::strict_yaml::{self, Map, Node, Problems};

pub use auth::{ApiKey, Auth, KEY_HASH_BYTES, Tenant};
pub(crate) use auth::{check_name, hash_text};
pub use connections::Connections;
pub use limits::{LimitsConfig, OutputCap, Over};
pub use listen::{Admin, HalfClose, Listen};
pub use outline::{Change, Outline};
pub use pools::{Choosing, EjectionConfig, Endpoint, HealthConfig, ModelRoute, Policy, Pool};
pub use queue::QueueConfig;
pub use quick::Quick;
pub use records::{OnFull, RecordsConfig, RecordsFile, RecordsRing};
pub use routes::ExtraRoute;
pub use secret::{Secret, SecretRef};
pub use timeouts::Timeouts;

/// The only version of the file's format.
const VERSION: u64 = 1;
/// Largest request body, unless configured.
const MAX_REQUEST_BODY: u64 = 32 << 20;

/// Whether engines are asked for usage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Usage {
    /// Nobody is: no byte is changed in either direction.
    #[default]
    Observe,
    /// They are, for every stream, and what clients did not ask for is cut out again.
    Inject,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// The gateway's own log, on standard error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logs {
    /// Lowest level that is written: error, warn, info, debug or trace.
    pub level: &'static str,
    /// How lines look.
    pub format: LogFormat,
}

impl Default for Logs {
    fn default() -> Self {
        Self {
            level: "info",
            format: LogFormat::Text,
        }
    }
}

/// Everything the gateway needs to run. Immutable once loaded.
#[derive(Debug, Clone)]
pub struct Config {
    /// Data ports, at least one.
    pub listen: Vec<Listen>,
    /// Where `/metrics`, `/livez` and `/readyz` are served, if anywhere.
    pub metrics: Option<std::net::SocketAddr>,
    /// Where `/status` and `/records` are served, if anywhere.
    pub admin: Option<Admin>,
    /// Who may call.
    pub auth: Auth,
    /// What each tenant may use; a tenant that is not listed may use every model.
    pub tenants: BTreeMap<String, Tenant>,
    /// Model aliases. Empty: any model goes to the only pool.
    pub models: BTreeMap<String, ModelRoute>,
    /// Groups of engines.
    pub pools: BTreeMap<String, Pool>,
    /// How many connections clients may have.
    pub connections: Connections,
    /// Who may wait for an engine.
    pub queue: QueueConfig,
    /// Time limits.
    pub timeouts: Timeouts,
    /// Paths beyond the built-in ones.
    pub routes: Vec<ExtraRoute>,
    /// Whether engines are asked for usage.
    pub usage: Usage,
    /// Where records go.
    pub records: RecordsConfig,
    /// Largest request body that is taken, in bytes.
    pub max_body_bytes: u64,
    /// The gateway's own log.
    pub logs: Logs,
    /// The file's values, to tell it from another one.
    pub outline: Outline,
}

/// Why there is no configuration.
#[derive(Debug)]
pub enum ConfigError {
    /// The file could not be read.
    Read(PathBuf, std::io::Error),
    /// The file, or the command line that stands for one, has faults.
    Problems(Problems),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path, error) => write!(
                f,
                "cannot read the configuration {}: {error}; name an existing file with -c",
                path.display()
            ),
            Self::Problems(problems) => problems.fmt(f),
        }
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Reads and checks the file at `path`. Binds nothing.
    ///
    /// # Errors
    /// The file can't be read, or all that is wrong with it.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError::Read(path.to_owned(), error))?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Checks `text`, which messages call `file`.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn parse(file: &str, text: &str) -> Result<Self, ConfigError> {
        let mut problems = Problems::new(file);
        let config = strict_yaml::parse(text, &mut problems)
            .and_then(|root| Self::from_root(&root, &mut problems));
        problems.into_result(config).map_err(ConfigError::Problems)
    }

    fn from_root(root: &Node, problems: &mut Problems) -> Option<Self> {
        let mut map = root.map(problems)?;
        version(&mut map, problems);
        let listen = map
            .need("listen", "[{addr: 127.0.0.1:8080}]", problems)
            .map(|node| listen::listen(node, problems))
            .unwrap_or_default();
        let metrics = map.read("metrics", problems, listen::metrics);
        let admin = map.read("admin", problems, listen::admin);
        let inner = [
            ("metrics", metrics),
            ("admin", admin.as_ref().map(|a| a.addr)),
        ];
        listen::apart(root, &listen, inner, problems);
        let pools = map
            .need(
                "pools",
                "{main: {endpoints: [{url: http://127.0.0.1:8000}]}}",
                problems,
            )
            .map(|node| pools::pools(node, problems))
            .unwrap_or_default();
        let models = map
            .get("models")
            .map(|node| pools::models(node, &pools, problems))
            .unwrap_or_default();
        if models.is_empty() && pools.len() > 1 {
            root.complain(
                problems,
                "several pools need a table of models: add `models: {ALIAS: {pool: NAME}}`",
            );
        }
        let tenants = map
            .get("tenants")
            .map(|node| auth::tenants(node, &models, problems))
            .unwrap_or_default();
        let auth = match map.get("auth") {
            Some(node) => auth::auth(node, &tenants, problems),
            None => {
                root.complain(
                    problems,
                    "\"auth\" is missing: give keys, or write `auth: {mode: none}` to let everyone in",
                );
                None
            }
        };
        let timeouts = map
            .read("timeouts", problems, timeouts::timeouts)
            .unwrap_or_default();
        let routes = map
            .get("routes")
            .map(|node| routes::routes(node, problems))
            .unwrap_or_default();
        let words = [("observe", Usage::Observe), ("inject", Usage::Inject)];
        let usage = map.one_of("usage", problems, &words).unwrap_or_default();
        let records = map
            .read("records", problems, records::records)
            .unwrap_or_default();
        let max_body_bytes = max_request_body(&mut map, problems);
        let logs = map.read("logs", problems, logs).unwrap_or_default();
        let connections = map
            .read("connections", problems, connections::connections)
            .unwrap_or_default();
        let queue = map
            .read("queue", problems, queue::queue)
            .unwrap_or_default();
        map.not_in_this_version("traces", problems);
        map.finish(problems);
        Some(Self {
            listen,
            metrics,
            admin,
            auth: auth?,
            tenants,
            models,
            pools,
            connections,
            queue,
            timeouts,
            routes,
            usage,
            records,
            max_body_bytes,
            logs,
            outline: Outline::of(root),
        })
    }
}

impl Config {
    fn limits(&self) -> impl Iterator<Item = &LimitsConfig> {
        let keys = self.auth.keys().iter().map(|key| &key.limits);
        let tenants = self.tenants.values().map(|tenant| &tenant.limits);
        let pools = self.pools.values().map(|pool| &pool.limits);
        keys.chain(tenants).chain(pools).flatten()
    }

    /// Whether anything has a budget of the day or the month.
    #[must_use]
    pub fn has_budgets(&self) -> bool {
        self.limits()
            .any(|limits| limits.daily_tokens.or(limits.monthly_tokens).is_some())
    }

    /// Whether anything is charged for the tokens it uses.
    #[must_use]
    pub fn counts_tokens(&self) -> bool {
        self.has_budgets() || self.limits().any(|limits| limits.tokens_per_min.is_some())
    }
}

fn version(map: &mut Map<'_>, problems: &mut Problems) {
    if let Some(node) = map.need("version", "1", problems)
        && node.u64(problems).is_some_and(|v| v != VERSION)
    {
        node.complain(problems, "expected 1, the only version of this format");
    }
}

fn max_request_body(map: &mut Map<'_>, problems: &mut Problems) -> u64 {
    let Some(node) = map.get("max_request_body") else {
        return MAX_REQUEST_BODY;
    };
    match node.size_bytes(problems) {
        Some(0) => {
            node.complain(problems, "no body would fit: write a size such as 32MiB");
            MAX_REQUEST_BODY
        }
        Some(bytes) => bytes,
        None => MAX_REQUEST_BODY,
    }
}

fn logs(node: &Node, problems: &mut Problems) -> Option<Logs> {
    let mut map = node.map(problems)?;
    let defaults = Logs::default();
    let levels = ["error", "warn", "info", "debug", "trace"].map(|level| (level, level));
    let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
    let logs = Logs {
        level: map
            .one_of("level", problems, &levels)
            .unwrap_or(defaults.level),
        format: map
            .one_of("format", problems, &formats)
            .unwrap_or(defaults.format),
    };
    map.finish(problems);
    Some(logs)
}
