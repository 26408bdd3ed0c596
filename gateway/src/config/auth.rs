//! Who may call: mode, the server's hashing secret, keys by their keyed hash, tenants.

use std::collections::BTreeMap;

use inferscope_shared::strict_yaml::{Map, Node, Problems};

use super::limits::{limits, positive};
use super::secret::secret;
use super::{LimitsConfig, ModelRoute, Secret};
use crate::queue::fair::Priority;

/// Length of HMAC-SHA256.
pub const KEY_HASH_BYTES: usize = 32;
/// What a hash in the file begins with, so that another kind can come later.
const HASH_PREFIX: &str = "hmac-sha256:";
/// Shortest hashing secret.
const MIN_SECRET_BYTES: usize = 16;

/// Who may call.
#[derive(Debug, Clone)]
pub enum Auth {
    /// Everyone; written out as `mode: none`.
    None,
    /// Whoever shows one of these keys.
    Keys {
        /// What the hashes are keyed with.
        secret: Secret,
        /// At least one.
        keys: Vec<ApiKey>,
    },
}

/// A key, known by its hash only.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiKey {
    /// Its name in records and logs.
    pub id: String,
    /// Whose it is.
    pub tenant: String,
    /// HMAC-SHA256 of the key under the server's secret.
    pub hash: [u8; KEY_HASH_BYTES],
    /// What it may use, beside what its tenant may.
    pub limits: Option<LimitsConfig>,
}

impl Auth {
    /// The keys; none where nobody is asked for one.
    #[must_use]
    pub fn keys(&self) -> &[ApiKey] {
        match self {
            Self::None => &[],
            Self::Keys { keys, .. } => keys,
        }
    }
}

/// What a tenant may use.
#[derive(Debug, Clone, PartialEq)]
pub struct Tenant {
    /// Aliases it may name; `None` is all.
    pub models: Option<Vec<String>>,
    /// What its keys may use together.
    pub limits: Option<LimitsConfig>,
    /// Its class in the queue.
    pub priority: Priority,
    /// Its share of a class, relative to other tenants.
    pub weight: u64,
}

#[derive(Clone, Copy)]
enum Mode {
    None,
    Keys,
    Jwt,
}

pub(super) fn auth(
    node: &Node,
    tenants: &BTreeMap<String, Tenant>,
    problems: &mut Problems,
) -> Option<Auth> {
    let mut map = node.map(problems)?;
    let words = [
        ("keys", Mode::Keys),
        ("none", Mode::None),
        ("jwt", Mode::Jwt),
    ];
    let mode_node = map.get("mode");
    let mode = match mode_node {
        Some(node) => node.one_of(problems, &words),
        None => Some(Mode::Keys),
    };
    map.not_in_this_version("jwt", problems);
    let auth = match mode {
        Some(Mode::Keys) => keys_mode(node, &mut map, tenants, problems),
        Some(Mode::None) => {
            for unused in ["keys", "secret"] {
                if let Some(node) = map.get(unused) {
                    node.complain(
                        problems,
                        "has no effect with `mode: none`; remove it, or write `mode: keys`",
                    );
                }
            }
            Some(Auth::None)
        }
        Some(Mode::Jwt) => {
            if let Some(node) = mode_node {
                node.complain(problems, "jwt is not in this version; write keys or none");
            }
            None
        }
        None => None,
    };
    // Unknown keys of a section whose mode is unknown would only repeat the first fault.
    if matches!(mode, Some(Mode::Keys | Mode::None)) {
        map.finish(problems);
    }
    auth
}

fn keys_mode(
    auth: &Node,
    map: &mut Map<'_>,
    tenants: &BTreeMap<String, Tenant>,
    problems: &mut Problems,
) -> Option<Auth> {
    let keys_node = map.get("keys");
    let before = problems.len();
    let keys = keys_node
        .map(|node| node.list(problems, |item, problems| key(item, tenants, problems)))
        .unwrap_or_default();
    if keys.is_empty() && problems.len() == before {
        auth.complain(
            problems,
            "no keys: make one with `inferscope-gateway keys new --tenant NAME`, or write `mode: none` to let everyone in",
        );
    }
    for (i, key) in keys.iter().enumerate() {
        if let Some(node) = keys_node
            && keys[..i]
                .iter()
                .any(|k| k.id == key.id || k.hash == key.hash)
        {
            node.complain(
                problems,
                format!("the id or hash of \"{}\" is listed twice", key.id),
            );
        }
    }
    let secret_node = map.need("secret", "env:INFERSCOPE_KEY_SECRET", problems)?;
    let secret = secret(secret_node, problems)?;
    if secret.expose().len() < MIN_SECRET_BYTES {
        secret_node.complain(
            problems,
            format!("the secret is shorter than {MIN_SECRET_BYTES} bytes: make one with `inferscope-gateway keys secret`"),
        );
    }
    Some(Auth::Keys { secret, keys })
}

fn key(node: &Node, tenants: &BTreeMap<String, Tenant>, problems: &mut Problems) -> Option<ApiKey> {
    let mut map = node.map(problems)?;
    let id = map
        .need("id", "laptop", problems)
        .and_then(|n| name(n, problems));
    let tenant_node = map.need("tenant", "research", problems);
    let tenant = tenant_node.and_then(|n| name(n, problems));
    let hash = map
        .need("hash", "hmac-sha256:HEX", problems)
        .and_then(|n| n.parsed(problems, hash));
    let limits = map.read("limits", problems, limits);
    map.finish(problems);
    if let (Some(node), Some(tenant)) = (tenant_node, &tenant)
        && !tenants.is_empty()
        && !tenants.contains_key(tenant)
    {
        node.complain(
            problems,
            format!("no tenant \"{tenant}\" under `tenants`: add it there"),
        );
    }
    Some(ApiKey {
        id: id?,
        tenant: tenant?,
        hash: hash?,
        limits,
    })
}

fn hash(text: &str) -> Result<[u8; KEY_HASH_BYTES], String> {
    let mut hash = [0; KEY_HASH_BYTES];
    text.strip_prefix(HASH_PREFIX)
        .and_then(|digits| hex::decode_to_slice(digits, &mut hash).ok())
        .map(|()| hash)
        // Not repeated: it may be the key itself, pasted in the wrong place.
        .ok_or_else(|| {
            format!("expected {HASH_PREFIX} and 64 hexadecimal digits, as `inferscope-gateway keys new` prints them")
        })
}

/// A name that is safe in records, logs and metrics.
pub(super) fn name(node: &Node, problems: &mut Problems) -> Option<String> {
    node.parsed(problems, |text| check_name(text).map(|()| text.to_owned()))
}

/// Whether `text` is safe as a name in records, logs and metrics.
///
/// # Errors
/// A sentence that says what is accepted. It does not repeat the text.
pub fn check_name(text: &str) -> Result<(), String> {
    let fits = (1..=128).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.:/@".contains(&b));
    if fits {
        Ok(())
    } else {
        Err("a name has 1 to 128 letters, digits and - _ . : / @".to_owned())
    }
}

/// The text of a hash in the file.
#[must_use]
pub fn hash_text(hash: &[u8; KEY_HASH_BYTES]) -> String {
    format!("{HASH_PREFIX}{}", hex::encode(hash))
}

pub(super) fn tenants(
    node: &Node,
    models: &BTreeMap<String, ModelRoute>,
    problems: &mut Problems,
) -> BTreeMap<String, Tenant> {
    let mut tenants = BTreeMap::new();
    for (name, _, node) in node.named(problems).unwrap_or_default() {
        let Some(mut map) = node.map(problems) else {
            continue;
        };
        let allowed = map.read("models", problems, |node, problems| {
            Some(node.list(problems, |item, problems| {
                let alias = item.text(problems)?;
                if !models.contains_key(&alias) {
                    item.complain(
                        problems,
                        format!("no model \"{alias}\" under `models`: add it there"),
                    );
                }
                Some(alias)
            }))
        });
        let mut limits = map.read("limits", problems, limits);
        if let Some(node) = map.get("enforce") {
            let enforce = node.bool(problems);
            match (&mut limits, enforce) {
                (Some(limits), Some(enforce)) => limits.enforce &= enforce,
                (None, _) => node.complain(
                    problems,
                    "has no effect without `limits`: add them, or remove it",
                ),
                _ => {}
            }
        }
        let classes = [
            ("high", Priority::High),
            ("normal", Priority::Normal),
            ("low", Priority::Low),
        ];
        let priority = map.one_of("priority", problems, &classes);
        let weight = map.read("weight", problems, positive);
        map.finish(problems);
        let tenant = Tenant {
            models: allowed,
            limits,
            priority: priority.unwrap_or_default(),
            weight: weight.unwrap_or(1),
        };
        tenants.insert(name.clone(), tenant);
    }
    tenants
}
