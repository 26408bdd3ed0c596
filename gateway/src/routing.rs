//! From a model's name to an endpoint.
//!
//! A model alias leads to a [`pool`] and, if it says so, to another name upstream; the pool gives
//! the endpoint with the least under way for its weight, or the one that a session has ([`choice`]).
//! Left out are endpoints whose probes fail ([`health`]) or whose requests fail ([`ejection`]), as
//! long as others are well, and always those that an operator drained ([`condition`]). [`keeper`]
//! does what that needs beside the requests. A place at an endpoint is a [`Lease`]: it goes back when
//! the lease is dropped, however the request ended.

pub mod choice;
pub mod condition;
pub mod ejection;
pub mod endpoint;
pub mod health;
pub mod keeper;
pub mod pool;
mod probe;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use inferscope_shared::clock::MonoNs;
use tokio::sync::Notify;

use crate::config;
use crate::errors::Refusal;
use crate::metrics::Metrics;
pub use endpoint::Endpoint;
pub use pool::{Lease, Pool, Wants};

/// Where a request goes.
#[derive(Debug, Clone)]
pub struct Target {
    /// The pool that serves it.
    pub pool: Arc<Pool>,
    /// The model's name there, where it is another one.
    pub upstream_model: Option<String>,
}

/// The table of models and pools of one configuration.
#[derive(Debug)]
pub struct Router {
    pools: BTreeMap<String, Arc<Pool>>,
    models: BTreeMap<String, config::ModelRoute>,
    changed: Arc<Notify>,
}

impl Router {
    /// The table that `config` describes; endpoints that it shares with `before` stay as they are.
    #[must_use]
    pub fn new(config: &config::Config, before: Option<&Self>, metrics: &Metrics) -> Self {
        let changed = before.map_or_else(Arc::default, |before| Arc::clone(&before.changed));
        let pools = config.pools.iter().map(|(name, pool)| {
            let before = before.and_then(|before| before.pools.get(name));
            let pool = Pool::new(name, pool, before.map(|pool| &**pool), &changed, metrics);
            (name.clone(), Arc::new(pool))
        });
        let router = Self {
            pools: pools.collect(),
            models: config.models.clone(),
            changed: Arc::clone(&changed),
        };
        let shown = |pool: &Pool, endpoint: &Endpoint| {
            let mut all = router.endpoints();
            all.any(|(p, e)| p.name == pool.name && e.name == endpoint.name)
        };
        for (pool, endpoint) in before.into_iter().flat_map(Self::endpoints) {
            if !shown(pool, endpoint) {
                metrics.forget_endpoint(&pool.name, &endpoint.name);
            }
        }
        router
    }

    /// All endpoints, with their pools.
    pub fn endpoints(&self) -> impl Iterator<Item = (&Pool, &Endpoint)> {
        let pools = self.pools.values().map(|pool| &**pool);
        pools.flat_map(|pool| pool.endpoints.iter().map(move |endpoint| (pool, endpoint)))
    }

    /// All pools, by name.
    pub fn pools(&self) -> impl Iterator<Item = &Arc<Pool>> {
        self.pools.values()
    }

    /// Takes an endpoint out, or lets it in again; requests that run there go on.
    ///
    /// # Errors
    /// A sentence: there is no such pool or endpoint, and those that there are.
    pub fn drain(&self, pool: &str, endpoint: &str, drained: bool) -> Result<(), String> {
        let list = |names: &mut dyn Iterator<Item = &str>| names.collect::<Vec<_>>().join(", ");
        let found = self.pools.get(pool).ok_or_else(|| {
            let names = list(&mut self.pools.keys().map(String::as_str));
            format!("there is no pool \"{pool}\"; there are: {names}")
        })?;
        let mut endpoints = found.endpoints.iter();
        let endpoint = endpoints.find(|e| e.name == endpoint).ok_or_else(|| {
            let names = list(&mut found.endpoints.iter().map(|e| e.name.as_str()));
            format!("pool \"{pool}\" has no endpoint \"{endpoint}\"; it has: {names}")
        })?;
        found.drain(endpoint, drained, MonoNs::now());
        Ok(())
    }

    /// The pool called `name`.
    #[must_use]
    pub fn pool(&self, name: &str) -> Option<&Arc<Pool>> {
        self.pools.get(name)
    }

    /// What [`keeper`] is woken by.
    #[must_use]
    pub const fn changed(&self) -> &Arc<Notify> {
        &self.changed
    }

    /// OpenAI's list of models: the aliases that `visible` lets through.
    pub fn list(&self, visible: impl Fn(&str) -> bool) -> Bytes {
        let models: Vec<_> = self
            .models
            .keys()
            .filter(|alias| visible(alias))
            .map(|alias| {
                serde_json::json!({
                    "id": alias,
                    "object": "model",
                    "created": 0,
                    "owned_by": "inferscope",
                })
            })
            .collect();
        let list = serde_json::json!({"object": "list", "data": models});
        Bytes::from(format!("{list}\n"))
    }

    /// Where a request for `model` goes; see [`way`].
    ///
    /// # Errors
    /// As [`way`].
    pub fn target(&self, model: Option<&str>) -> Result<Target, Refusal> {
        let (_, pool, upstream_model) = way(&self.models, &self.pools, model)?;
        Ok(Target {
            pool: Arc::clone(pool),
            upstream_model: upstream_model.map(str::to_owned),
        })
    }
}

/// The pool, with its name, to which a request for `model` goes, and the model's name there where
/// it is another one. Without configured models any name, or none, goes to the only pool.
///
/// # Errors
/// The refusal: the model is unknown, or none is named where it decides.
pub fn way<'a, P>(
    models: &'a BTreeMap<String, config::ModelRoute>,
    pools: &'a BTreeMap<String, P>,
    model: Option<&str>,
) -> Result<(&'a str, &'a P, Option<&'a str>), Refusal> {
    match model {
        Some(alias) if !models.is_empty() => {
            let route = models.get(alias);
            let found = route.and_then(|route| {
                let (name, pool) = pools.get_key_value(&route.pool)?;
                Some((name.as_str(), pool, route.upstream_model.as_deref()))
            });
            found.ok_or_else(|| Refusal::model_not_found(alias))
        }
        _ => match pools.first_key_value() {
            Some((name, pool)) if pools.len() == 1 => Ok((name.as_str(), pool, None)),
            _ => Err(Refusal::model_required()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draining_names_what_there_is() {
        let text = "version: 1
listen: [{addr: '127.0.0.1:0'}]
auth: {mode: none}
pools: {p: {endpoints: [{name: a, url: 'http://a'}, {name: b, url: 'http://b'}]}}
";
        let config = config::Config::parse("t", text).unwrap();
        let router = Router::new(&config, None, &Metrics::new([], []).unwrap());
        assert_eq!(router.drain("p", "b", true), Ok(()));
        assert_eq!(
            router.drain("q", "b", true).unwrap_err(),
            r#"there is no pool "q"; there are: p"#
        );
        assert_eq!(
            router.drain("p", "c", true).unwrap_err(),
            r#"pool "p" has no endpoint "c"; it has: a, b"#
        );
    }
}
