//! Values that must not be seen: where they come from, and a type that does not print them.

use std::fmt;
use std::path::PathBuf;

use inferscope_shared::strict_yaml::{Node, Problems};

/// A secret value. `Debug` prints `[redacted]`; there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A secret with this value.
    #[must_use]
    pub const fn new(value: String) -> Self {
        Self(value)
    }

    /// The value. Whoever calls this must not let it reach a log, a record or an answer.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// Where a secret is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretRef {
    /// `env:NAME`: an environment variable.
    Env(String),
    /// `file:/path`: a file, blanks and line ends around its content dropped.
    File(PathBuf),
}

impl SecretRef {
    /// Reads `env:NAME` or `file:/path`.
    ///
    /// # Errors
    /// A sentence that says what is accepted. It does not repeat the text, which may be a secret
    /// that was written in the wrong place.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(name) = text.strip_prefix("env:").filter(|name| !name.is_empty()) {
            return Ok(Self::Env(name.to_owned()));
        }
        if let Some(path) = text.strip_prefix("file:").filter(|path| !path.is_empty()) {
            return Ok(Self::File(path.into()));
        }
        Err("a secret is never written here: give env:NAME or file:/path".to_owned())
    }

    /// Fetches the secret.
    ///
    /// # Errors
    /// A sentence that names the place and what to do.
    pub fn fetch(&self) -> Result<Secret, String> {
        let (place, value) = match self {
            Self::Env(name) => {
                let value = std::env::var(name).map_err(|_| {
                    format!("the environment variable {name} is not set: export it")
                })?;
                (format!("the environment variable {name}"), value)
            }
            Self::File(path) => {
                let path_name = path.display();
                let value = std::fs::read_to_string(path).map_err(|error| {
                    format!(
                        "cannot read the secret file {path_name}: {error}; \
                         name a file that the gateway's user can read"
                    )
                })?;
                (format!("the file {path_name}"), value)
            }
        };
        match value.trim() {
            "" => Err(format!("{place} is empty: put the secret there")),
            value => Ok(Secret::new(value.to_owned())),
        }
    }
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

/// The secret that `node` points to.
pub(super) fn secret(node: &Node, problems: &mut Problems) -> Option<Secret> {
    node.parsed(problems, |text| SecretRef::parse(text)?.fetch())
}
