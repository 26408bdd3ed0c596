//! A base URL, as something to connect to: host, port, and the path in front of `/v1/…`.

use std::fmt;

use thiserror::Error;

/// Where requests of an arm go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    host: String,
    port: u16,
    base_path: String,
}

/// Why a text is no base URL that this version can use.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TargetError {
    /// TLS.
    #[error("{0}: https is not in this version; use http:// on a trusted network")]
    Tls(String),
    /// Anything else.
    #[error("{url}: {why}; write it like http://127.0.0.1:8000")]
    Malformed {
        /// The text.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
}

impl Target {
    /// Reads a base URL. A trailing `/v1` is accepted and dropped, because that is how base URLs
    /// are written for the OpenAI clients.
    ///
    /// # Errors
    /// When it is no `http://` URL of a host, an optional port and an optional path.
    pub fn parse(url: &str) -> Result<Self, TargetError> {
        let malformed = |why| TargetError::Malformed {
            url: redact(url),
            why,
        };
        let uri: http::Uri = url
            .trim()
            .parse()
            .map_err(|_| malformed("is no valid URL"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(TargetError::Tls(redact(url))),
            Some(_) => return Err(malformed("has a scheme other than http")),
            None => return Err(malformed("has no scheme")),
        }
        let authority = uri.authority().ok_or_else(|| malformed("has no host"))?;
        if authority.as_str().contains('@') {
            return Err(malformed(
                "holds credentials; name an API key by api_key instead",
            ));
        }
        if uri.query().is_some() {
            return Err(malformed("has a query"));
        }
        let host = authority.host();
        if host.is_empty() {
            return Err(malformed("has no host"));
        }
        let port = match authority.as_str().strip_prefix(host) {
            None | Some("") => 80,
            Some(port) => port
                .strip_prefix(':')
                .and_then(|port| port.parse().ok())
                .filter(|&port| port != 0)
                .ok_or_else(|| malformed("has no port between 1 and 65535"))?,
        };
        let path = uri.path().trim_end_matches('/');
        let base_path = path.strip_suffix("/v1").unwrap_or(path);
        Ok(Self {
            host: host.to_owned(),
            port,
            base_path: base_path.to_owned(),
        })
    }

    /// Host and port, as a resolver takes them.
    #[must_use]
    pub fn address(&self) -> (&str, u16) {
        (
            self.host.trim_start_matches('[').trim_end_matches(']'),
            self.port,
        )
    }

    /// Value of the Host header.
    #[must_use]
    pub fn host_header(&self) -> String {
        if self.port == 80 {
            self.host.clone()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// A path on this target, such as `/v1/models`.
    #[must_use]
    pub fn path(&self, path: &str) -> String {
        format!("{}{path}", self.base_path)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}:{}{}", self.host, self.port, self.base_path)
    }
}

/// A URL with whatever stands before an `@` in its authority left out.
#[must_use]
pub fn redact(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if at > scheme => {
            format!("{}://…@{}", &url[..scheme], &url[at + 1..])
        }
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls_are_read_as_the_openai_clients_write_them() {
        let t = Target::parse("http://127.0.0.1:8000/v1/").unwrap();
        assert_eq!(t.address(), ("127.0.0.1", 8000));
        assert_eq!(t.path("/v1/models"), "/v1/models");
        let t = Target::parse("http://host/llm").unwrap();
        assert_eq!(t.host_header(), "host");
        assert_eq!(t.path("/v1/models"), "/llm/v1/models");
        assert_eq!(
            Target::parse("http://[::1]:9").unwrap().address(),
            ("::1", 9)
        );
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        for (url, says) in [
            ("https://x:1", "https is not in this version"),
            ("127.0.0.1:8000", "write it like http://"),
            ("ftp://x", "scheme"),
            ("http://x:0", "port"),
            ("http://x:99999", "port"),
            ("http://u:secret@x", "credentials"),
            ("", "no valid URL"),
        ] {
            let error = Target::parse(url).unwrap_err().to_string();
            assert!(error.contains(says), "{url}: {error}");
            assert!(!error.contains("secret"));
        }
    }
}
