//! Who calls: a request's credential to a [`Principal`].
//!
//! Keys are kept as HMAC-SHA256 under the server's secret; a presented key is hashed once and
//! compared with **all** of them in constant time, so neither content nor position shows in the
//! time it takes. Nothing here logs, and no refusal repeats what was presented.
//!
//! Accepted: `Authorization: Bearer KEY`, the scheme in any case, one or more blanks before the
//! key, blanks after it dropped (a tab is not a blank); or `x-api-key: KEY`. One credential per
//! request: two are 400, even equal ones.

pub mod keys;

use std::sync::Arc;

use http::header::{AUTHORIZATION, HeaderName};
use http::{HeaderMap, HeaderValue};

use crate::config::{self, Config, Secret};
use crate::errors::{Kind, Refusal};

const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// Tenant and key id of callers whom nobody asks.
const ANYONE: &str = "anonymous";

/// A caller, known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// Whose key it is.
    pub tenant: String,
    /// Which key it is; never the key.
    pub key_id: String,
    /// Aliases it may name; `None` is all.
    pub models: Option<Arc<[String]>>,
}

impl Principal {
    /// Whether it may use `model`.
    ///
    /// # Errors
    /// The refusal.
    pub fn may_use(&self, model: &str) -> Result<(), Refusal> {
        match &self.models {
            Some(models) if !models.iter().any(|m| m == model) => {
                Err(Refusal::model_not_allowed(model))
            }
            _ => Ok(()),
        }
    }
}

/// The keys of one configuration.
#[derive(Debug)]
pub struct Authenticator {
    /// `None` asks nobody.
    keys: Option<Keys>,
}

#[derive(Debug)]
struct Keys {
    secret: Secret,
    known: Vec<([u8; config::KEY_HASH_BYTES], Principal)>,
}

impl Authenticator {
    /// Knows the keys of `config`.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let keys = match &config.auth {
            config::Auth::None => None,
            config::Auth::Keys { secret, keys } => Some(Keys {
                secret: secret.clone(),
                known: keys
                    .iter()
                    .map(|key| (key.hash, principal(key, config)))
                    .collect(),
            }),
        };
        Self { keys }
    }

    /// Who sent `headers`.
    ///
    /// # Errors
    /// The refusal: no credential, an unknown one (401), or more than one (400).
    pub fn authenticate(&self, headers: &HeaderMap) -> Result<Principal, Refusal> {
        let Some(keys) = &self.keys else {
            return Ok(Principal {
                tenant: ANYONE.to_owned(),
                key_id: ANYONE.to_owned(),
                models: None,
            });
        };
        let presented = credential(headers)?;
        let hash = keys::hash(&keys.secret, presented);
        let mut found = None;
        for (known, principal) in &keys.known {
            if keys::same(&hash, known) {
                found = Some(principal);
            }
        }
        found.cloned().ok_or_else(|| Kind::CredentialInvalid.into())
    }
}

fn principal(key: &config::ApiKey, config: &Config) -> Principal {
    let models = config
        .tenants
        .get(&key.tenant)
        .and_then(|tenant| tenant.models.as_deref())
        .map(Arc::from);
    Principal {
        tenant: key.tenant.clone(),
        key_id: key.id.clone(),
        models,
    }
}

/// The one credential among `headers`.
fn credential(headers: &HeaderMap) -> Result<&[u8], Refusal> {
    let bearers = headers.get_all(AUTHORIZATION).iter().map(bearer);
    let plain = headers
        .get_all(X_API_KEY)
        .iter()
        .map(|value| Some(trim_blanks(value.as_bytes())));
    let mut all = bearers.chain(plain);
    let first = all.next().ok_or(Kind::CredentialMissing)?;
    if all.next().is_some() {
        return Err(Kind::CredentialAmbiguous.into());
    }
    first
        .filter(|key| !key.is_empty())
        .ok_or_else(|| Kind::CredentialInvalid.into())
}

/// The key of a `Bearer` credential.
#[must_use]
pub fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, rest) = value.as_bytes().split_at_checked(b"bearer".len())?;
    (scheme.eq_ignore_ascii_case(b"bearer") && rest.first() == Some(&b' '))
        .then(|| trim_blanks(rest))
}

fn trim_blanks(mut text: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] | [rest @ .., b' '] = text {
        text = rest;
    }
    text
}

#[cfg(test)]
mod tests;
