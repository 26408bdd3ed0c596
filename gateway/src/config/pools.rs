//! Where requests go: pools of engines, and the model aliases that lead to them.

mod health;

use std::collections::BTreeMap;

use inferscope_shared::strict_yaml::{Node, Problems};

use super::auth::name;
use super::limits::{limits, positive};
use super::secret::secret;
use super::{LimitsConfig, Secret};

pub use health::{Choosing, EjectionConfig, HealthConfig, Policy};

/// One engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Its name in records and metrics.
    pub name: String,
    /// Host name or IP address, a v6 one without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// What stands before the request's path, without a slash at its end.
    pub base_path: String,
    /// Its share of requests, relative to the pool's other endpoints.
    pub weight: u64,
}

/// Engines that serve the same models.
#[derive(Debug, Clone)]
pub struct Pool {
    /// At least one.
    pub endpoints: Vec<Endpoint>,
    /// What the gateway shows the engines as `Authorization: Bearer`.
    pub credential: Option<Secret>,
    /// Which endpoint a request goes to.
    pub choosing: Choosing,
    /// Requests that each endpoint is handed at a time; the others wait here.
    pub concurrency: Option<u64>,
    /// What all callers together may use of it.
    pub limits: Option<LimitsConfig>,
}

/// Where a model alias leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelRoute {
    /// The pool that serves it.
    pub pool: String,
    /// Its name there, if another one.
    pub upstream_model: Option<String>,
    /// Longest prompt and answer together: no request can cost more than that per choice.
    pub context_tokens: Option<u64>,
}

pub(super) fn pools(node: &Node, problems: &mut Problems) -> BTreeMap<String, Pool> {
    let mut pools = BTreeMap::new();
    let before = problems.len();
    let entries = node.named(problems).unwrap_or_default();
    for (name, _, node) in entries {
        if let Some(pool) = pool(node, problems) {
            pools.insert(name.clone(), pool);
        }
    }
    if entries.is_empty() && problems.len() == before {
        node.complain(
            problems,
            "give at least one pool: `NAME: {endpoints: [...]}`",
        );
    }
    pools
}

fn pool(node: &Node, problems: &mut Problems) -> Option<Pool> {
    let mut map = node.map(problems)?;
    let list = map.need("endpoints", "[{url: http://127.0.0.1:8000}]", problems);
    let before = problems.len();
    let endpoints = list
        .map(|list| list.list(problems, endpoint))
        .unwrap_or_default();
    let none = endpoints.is_empty() && problems.len() == before;
    let credential = map.read("credential", problems, secret);
    let limits = map.read("limits", problems, limits);
    let concurrency = map.read("concurrency", problems, positive);
    let choosing = health::choosing(&mut map, problems);
    map.not_in_this_version("tls", problems);
    map.finish(problems);
    if let Some(list) = list {
        if none {
            list.complain(
                problems,
                "a pool needs an endpoint: add `- url: http://HOST:PORT`",
            );
        }
        for (i, endpoint) in endpoints.iter().enumerate() {
            if endpoints[..i].iter().any(|e| e.name == endpoint.name) {
                list.complain(
                    problems,
                    format!("the endpoint name \"{}\" is used twice", endpoint.name),
                );
            }
        }
    }
    Some(Pool {
        endpoints,
        credential,
        choosing,
        concurrency,
        limits,
    })
}

fn endpoint(node: &Node, problems: &mut Problems) -> Option<Endpoint> {
    let mut map = node.map(problems)?;
    let given = map.read("name", problems, name);
    let endpoint = map
        .need("url", "http://127.0.0.1:8000", problems)
        .and_then(|node| node.parsed(problems, Endpoint::parse));
    let weight = map.read("weight", problems, positive);
    map.finish(problems);
    let mut endpoint = endpoint?;
    endpoint.weight = weight.unwrap_or(1);
    if let Some(name) = given {
        endpoint.name = name;
    }
    Some(endpoint)
}

impl Endpoint {
    /// Reads `http://HOST[:PORT][/BASE]`; the name is `HOST:PORT`.
    ///
    /// # Errors
    /// A sentence that names the URL (never credentials in it) and what is accepted.
    pub fn parse(url: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            let shown = if url.contains('@') { "the URL" } else { url };
            format!("{shown}: {why}; write http://HOST:PORT, such as http://127.0.0.1:8000")
        };
        if url.starts_with("https://") {
            return Err(wrong("TLS to engines is not in this version"));
        }
        let rest = url
            .strip_prefix("http://")
            .ok_or_else(|| wrong("does not begin with http://"))?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(wrong("no user or password in a URL, use `credential`"));
        }
        if path.contains(['?', '#', '%']) || path.contains("..") || path.contains("//") {
            return Err(wrong("the base path is not a plain one"));
        }
        if path.trim_end_matches('/') == "/v1" {
            return Err(wrong("leave out /v1, the request's path has it"));
        }
        let parsed: http::uri::Authority = authority
            .parse()
            .map_err(|_| wrong("no host and port can be read from it"))?;
        let port = match parsed.port_u16() {
            Some(0) => return Err(wrong("port 0 cannot be connected to")),
            Some(port) => port,
            None if authority.len() > parsed.host().len() => {
                return Err(wrong("the port is no number up to 65535"));
            }
            None => 80,
        };
        let host = parsed.host().trim_matches(['[', ']']);
        if host.is_empty() {
            return Err(wrong("the host is missing"));
        }
        Ok(Self {
            name: format!("{}:{port}", parsed.host()),
            host: host.to_owned(),
            port,
            base_path: path.trim_end_matches('/').to_owned(),
            weight: 1,
        })
    }
}

pub(super) fn models(
    node: &Node,
    pools: &BTreeMap<String, Pool>,
    problems: &mut Problems,
) -> BTreeMap<String, ModelRoute> {
    let mut models = BTreeMap::new();
    for (alias, _, node) in node.named(problems).unwrap_or_default() {
        let Some(mut map) = node.map(problems) else {
            continue;
        };
        let pool_node = map.need("pool", "main", problems);
        let pool = pool_node.and_then(|node| node.text(problems));
        let upstream_model = map.text("upstream_model", problems);
        let context_tokens = map.read("context_tokens", problems, positive);
        map.finish(problems);
        if let (Some(node), Some(pool)) = (pool_node, &pool)
            && !pools.contains_key(pool)
        {
            node.complain(
                problems,
                format!("no pool \"{pool}\" under `pools`: add it there"),
            );
        }
        if let Some(pool) = pool {
            models.insert(
                alias.clone(),
                ModelRoute {
                    pool,
                    upstream_model,
                    context_tokens,
                },
            );
        }
    }
    models
}
