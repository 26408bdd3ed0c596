//! `keys`: what is shown once, and what goes into the configuration.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::auth::keys;
use crate::config::{SecretRef, hash_text};

/// A new key for `tenant` on the first line, and the YAML that lets it in.
pub(super) fn new(tenant: &str, id: Option<String>, secret: &SecretRef) -> Result<String, String> {
    if let SecretRef::File(path) = secret {
        make_if_absent(path)?;
    }
    let server = secret
        .fetch()
        .map_err(|why| format!("{why}; `inferscope-gateway keys secret` makes one"))?;
    let id = id.unwrap_or_else(keys::generate_id);
    let key = keys::generate();
    let hash = hash_text(&keys::hash(&server, key.expose().as_bytes()));
    Ok(format!(
        "{key}

# Above: the key, shown this once. Below: what goes into the configuration.
auth:
  mode: keys
  secret: {secret}
  keys:
    - id: {id}
      tenant: {tenant}
      hash: {hash}
",
        key = key.expose()
    ))
}

/// A new secret.
pub(super) fn secret() -> String {
    format!("{}\n", keys::generate_secret().expose())
}

fn make_if_absent(path: &Path) -> Result<(), String> {
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    let written = match made {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        made => made.and_then(|mut file| file.write_all(secret().as_bytes())),
    };
    written.map_err(|error| {
        format!(
            "cannot make the secret file {}: {error}; choose a writable directory",
            path.display()
        )
    })
}
