//! API keys: made here, shown once, known by their keyed hash from then on.

use hmac::{Hmac, KeyInit as _, Mac as _};
use rand::Rng as _;
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::config::{KEY_HASH_BYTES, Secret};

/// What a key begins with, so that a secret scanner can know one.
const PREFIX: &str = "isk_";

/// A new key of 256 random bits.
#[must_use]
pub fn generate() -> Secret {
    Secret::new(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random())))
}

/// A new server secret of 256 random bits, in hexadecimal.
#[must_use]
pub fn generate_secret() -> Secret {
    Secret::new(hex::encode(random()))
}

/// A new name for a key.
#[must_use]
pub fn generate_id() -> String {
    format!("key-{}", hex::encode(&random()[..4]))
}

fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    rand::rng().fill_bytes(&mut bytes);
    bytes
}

/// HMAC-SHA256 of `key` under the server's `secret`.
#[must_use]
pub fn hash(secret: &Secret, key: &[u8]) -> [u8; KEY_HASH_BYTES] {
    match Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes()) {
        Ok(mut mac) => {
            mac.update(key);
            mac.finalize().into_bytes().into()
        }
        // HMAC takes keys of any length; a hash that equals no stored one keeps the type honest.
        Err(_) => random(),
    }
}

/// Whether two hashes are the same, in a time that does not depend on where they differ.
#[must_use]
pub fn same(a: &[u8; KEY_HASH_BYTES], b: &[u8; KEY_HASH_BYTES]) -> bool {
    a.ct_eq(b).into()
}

/// Whether two secrets are the same, in a time that depends on the presented one's length only.
#[must_use]
pub fn same_secret(presented: &[u8], secret: &Secret) -> bool {
    same(
        &hash(secret, presented),
        &hash(secret, secret.expose().as_bytes()),
    )
}
