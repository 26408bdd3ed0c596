//! From a model's name to an endpoint.
//!
//! A model alias leads to a pool and, if it says so, to another name upstream; a pool gives the
//! endpoint with the least requests in flight, in turn where several have equally few. The count
//! is a [`Lease`]: it goes back when the lease is dropped, however the request ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use crate::config;
use crate::errors::Refusal;
use crate::upstream::address::Address;

/// One engine.
#[derive(Debug)]
pub struct Endpoint {
    /// Its name in records and metrics.
    pub name: String,
    /// Where it listens.
    pub address: Address,
    /// What stands before the normal path, without a slash at its end.
    pub base_path: String,
    outstanding: AtomicUsize,
}

/// Endpoints that serve the same models.
#[derive(Debug)]
pub struct Pool {
    /// Its name in configuration, records and metrics.
    pub name: String,
    /// Its engines.
    pub endpoints: Vec<Endpoint>,
    /// What the gateway shows an engine of this pool as its own credential.
    pub credential: Option<http::HeaderValue>,
    turn: AtomicUsize,
}

/// A request's place at an endpoint.
#[derive(Debug)]
pub struct Lease {
    pool: Arc<Pool>,
    index: usize,
}

impl Lease {
    /// The endpoint.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.pool.endpoints[self.index]
    }

    /// The endpoint's place in its pool.
    #[must_use]
    pub const fn index(&self) -> usize {
        self.index
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.endpoint().outstanding.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Pool {
    /// The pool that `config` describes.
    #[must_use]
    pub fn new(name: &str, config: &config::Pool) -> Self {
        let endpoints = config
            .endpoints
            .iter()
            .map(|endpoint| Endpoint {
                name: endpoint.name.clone(),
                address: Address::new(&endpoint.host, endpoint.port),
                base_path: endpoint.base_path.clone(),
                outstanding: AtomicUsize::new(0),
            })
            .collect();
        Self {
            name: name.to_owned(),
            endpoints,
            credential: config.credential.as_ref().and_then(bearer),
            turn: AtomicUsize::new(0),
        }
    }

    /// The endpoint with the fewest requests in flight among those not in `tried`; among all
    /// when every one was tried. `None` for a pool without endpoints.
    #[must_use]
    pub fn lease(self: &Arc<Self>, tried: &[usize]) -> Option<Lease> {
        let n = self.endpoints.len();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let fewest = |skip: &[usize]| {
            (0..n)
                .map(|i| turn.wrapping_add(i) % n)
                .filter(|i| !skip.contains(i))
                .min_by_key(|&i| self.endpoints[i].outstanding.load(Ordering::Relaxed))
        };
        let index = fewest(tried).or_else(|| fewest(&[]))?;
        self.endpoints[index]
            .outstanding
            .fetch_add(1, Ordering::Relaxed);
        Some(Lease {
            pool: Arc::clone(self),
            index,
        })
    }
}

/// A credential as the engine wants to see it; marked, so that it is never printed.
fn bearer(secret: &config::Secret) -> Option<http::HeaderValue> {
    let mut value = http::HeaderValue::try_from(format!("Bearer {}", secret.expose())).ok()?;
    value.set_sensitive(true);
    Some(value)
}

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
}

impl Router {
    /// The table that `config` describes.
    #[must_use]
    pub fn new(config: &config::Config, _before: Option<&Self>) -> Self {
        let pools = config
            .pools
            .iter()
            .map(|(name, pool)| (name.clone(), Arc::new(Pool::new(name, pool))))
            .collect();
        Self {
            pools,
            models: config.models.clone(),
        }
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

    /// Where a request for `model` goes. Without configured models any name, or none, goes to
    /// the only pool.
    ///
    /// # Errors
    /// The refusal: the model is unknown, or none is named where it decides.
    pub fn target(&self, model: Option<&str>) -> Result<Target, Refusal> {
        match model {
            Some(name) if !self.models.is_empty() => {
                let route = self
                    .models
                    .get(name)
                    .ok_or_else(|| Refusal::model_not_found(name))?;
                let pool = self
                    .pools
                    .get(&route.pool)
                    .ok_or_else(|| Refusal::model_not_found(name))?;
                Ok(Target {
                    pool: Arc::clone(pool),
                    upstream_model: route.upstream_model.clone(),
                })
            }
            _ => match self.pools.values().next() {
                Some(pool) if self.pools.len() == 1 => Ok(Target {
                    pool: Arc::clone(pool),
                    upstream_model: None,
                }),
                _ => Err(Refusal::model_required()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(endpoints: usize) -> Arc<Pool> {
        let endpoints = (0..endpoints)
            .map(|i| Endpoint {
                name: i.to_string(),
                address: Address::new("127.0.0.1", 1),
                base_path: String::new(),
                outstanding: AtomicUsize::new(0),
            })
            .collect();
        Arc::new(Pool {
            name: "p".to_owned(),
            endpoints,
            credential: None,
            turn: AtomicUsize::new(0),
        })
    }

    #[test]
    fn the_endpoint_with_the_fewest_requests_is_next() {
        let pool = pool(3);
        let first: Vec<Lease> = (0..3).map(|_| pool.lease(&[]).unwrap()).collect();
        let mut taken: Vec<usize> = first.iter().map(Lease::index).collect();
        taken.sort_unstable();
        assert_eq!(taken, [0, 1, 2], "each has one");

        let mut first = first;
        let freed = first.remove(1).index();
        assert_eq!(pool.lease(&[]).unwrap().index(), freed);
    }

    #[test]
    fn equal_endpoints_take_turns() {
        let pool = pool(2);
        let one = pool.lease(&[]).unwrap().index();
        let two = pool.lease(&[]).unwrap().index();
        assert_ne!(one, two);
    }

    #[test]
    fn a_repeat_goes_elsewhere_while_there_is_an_elsewhere() {
        let pool = pool(2);
        let _busy = pool.lease(&[0]).unwrap();
        assert_eq!(pool.lease(&[0]).unwrap().index(), 1);
        assert!(pool.lease(&[0, 1]).is_some());
        assert!(super::tests::pool(0).lease(&[]).is_none());
    }
}
