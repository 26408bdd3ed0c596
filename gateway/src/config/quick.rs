//! A configuration from a few flags, for a first try without a file.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::{
    Admin, Auth, Choosing, Config, Connections, Endpoint, HalfClose, Listen, Logs,
    MAX_REQUEST_BODY, Outline, Pool, QueueConfig, RecordsConfig, RecordsFile, Timeouts, Usage,
};

/// What `run --upstream` was told.
#[derive(Debug, Clone)]
pub struct Quick {
    /// The engine.
    pub upstream: Endpoint,
    /// The data port.
    pub listen: SocketAddr,
    /// The metrics port.
    pub metrics: Option<SocketAddr>,
    /// The admin port; loopback, for it has no token.
    pub admin: Option<SocketAddr>,
    /// Where records go.
    pub records: Option<PathBuf>,
    /// Hash both directions of each answer.
    pub hash: bool,
}

impl Config {
    /// Everyone may call, any model goes to the one engine.
    #[must_use]
    pub fn quick(quick: Quick) -> Self {
        let pool = Pool {
            endpoints: vec![quick.upstream],
            credential: None,
            limits: None,
            choosing: Choosing::default(),
            concurrency: None,
        };
        Self {
            listen: vec![Listen {
                addr: quick.listen,
                half_close: HalfClose::Gone,
            }],
            metrics: quick.metrics,
            admin: quick.admin.map(|addr| Admin { addr, token: None }),
            auth: Auth::None,
            tenants: BTreeMap::new(),
            models: BTreeMap::new(),
            pools: BTreeMap::from([("default".to_owned(), pool)]),
            connections: Connections::default(),
            queue: QueueConfig::default(),
            timeouts: Timeouts::default(),
            routes: Vec::new(),
            usage: Usage::default(),
            records: RecordsConfig {
                file: quick.records.map(RecordsFile::at),
                hash: quick.hash,
                ..RecordsConfig::default()
            },
            max_body_bytes: MAX_REQUEST_BODY,
            logs: Logs::default(),
            outline: Outline::default(),
        }
    }
}
