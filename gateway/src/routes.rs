//! Which paths are ours, decided on exactly the bytes that go upstream.
//!
//! A path is routed when it equals a listed one, byte for byte, with its method. Nothing is
//! decoded or normalised first: a path that an engine could read in another way (dot segments,
//! %-codes, backslashes, doubled slashes) is refused before the list is looked at. A query is no
//! part of the decision and is passed on.

use http::Method;

use crate::config::ExtraRoute;
use crate::errors::{Kind, Refusal};

/// The inference paths of OpenAI-compatible engines. Model management (LoRA loading, sleep,
/// shutdown) is not among them; whoever needs such a path names it in the configuration.
const BUILT_IN: [(Method, &str); 12] = [
    (Method::POST, "/v1/chat/completions"),
    (Method::POST, "/v1/completions"),
    (Method::POST, "/v1/responses"),
    (Method::POST, "/v1/embeddings"),
    (Method::POST, "/v1/rerank"),
    (Method::POST, "/rerank"),
    (Method::POST, "/v2/rerank"),
    (Method::POST, "/v1/score"),
    (Method::POST, "/score"),
    (Method::GET, "/v1/models"),
    (Method::POST, "/tokenize"),
    (Method::POST, "/detokenize"),
];

/// A request's path, known to be ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The path alone: for records and metrics.
    pub path: String,
    /// The path and the query, if any: for the engine.
    pub target: String,
}

/// The list.
#[derive(Debug)]
pub struct Routes {
    routes: Vec<(Method, String)>,
}

impl Routes {
    /// The built-in paths and `extra` ones.
    #[must_use]
    pub fn new(extra: &[ExtraRoute]) -> Self {
        let built_in = BUILT_IN.map(|(method, path)| (method, path.to_owned()));
        let named = extra
            .iter()
            .map(|route| (route.method.clone(), route.path.clone()));
        Self {
            routes: built_in.into_iter().chain(named).collect(),
        }
    }

    /// Every path once: the labels that metrics may have.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        let mut paths: Vec<String> = self.routes.iter().map(|(_, path)| path.clone()).collect();
        paths.sort_unstable();
        paths.dedup();
        paths
    }

    /// The route of a request for `raw`, which is the request line's target. HEAD is routed
    /// where GET is.
    ///
    /// # Errors
    /// The refusal: no such path, another method, or a path that is not plain.
    pub fn resolve(&self, method: &Method, raw: &[u8]) -> Result<Route, Refusal> {
        let path = raw.split(|&b| b == b'?').next().unwrap_or_default();
        if !is_plain(path) {
            return Err(Kind::PathUnclear.into());
        }
        let target = std::str::from_utf8(raw).map_err(|_| Refusal::from(Kind::PathUnclear))?;
        let path = &target[..path.len()];
        let asked = match *method {
            Method::HEAD => &Method::GET,
            _ => method,
        };
        let mut other = None;
        for (allowed, _) in self.routes.iter().filter(|(_, route)| route == path) {
            if allowed == asked {
                return Ok(Route {
                    path: path.to_owned(),
                    target: target.to_owned(),
                });
            }
            other = Some(allowed);
        }
        Err(other.map_or_else(
            || Refusal::route_not_found(path, &self.paths()),
            |allowed| Refusal::method_not_allowed(path, allowed),
        ))
    }
}

/// Whether every reader reads the same path: segments of unreserved characters, none of them
/// empty (but for one slash at the end), `.` or `..`.
#[must_use]
pub fn is_plain(path: &[u8]) -> bool {
    let Some(rest) = path.strip_prefix(b"/") else {
        return false;
    };
    let rest = rest.strip_suffix(b"/").unwrap_or(rest);
    rest.is_empty() && path.len() == 1
        || rest.split(|&b| b == b'/').all(|segment| {
            !segment.is_empty()
                && segment != b"."
                && segment != b".."
                && segment
                    .iter()
                    .all(|&b| b.is_ascii_alphanumeric() || b"-_.~:@".contains(&b))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes() -> Routes {
        Routes::new(&[ExtraRoute {
            method: Method::POST,
            path: "/v1/audio/speech".to_owned(),
        }])
    }

    fn status(method: &Method, raw: &str) -> u16 {
        match routes().resolve(method, raw.as_bytes()) {
            Ok(_) => 200,
            Err(refusal) => refusal.status().as_u16(),
        }
    }

    #[test]
    fn listed_paths_are_routed_with_their_query() {
        let route = routes()
            .resolve(&Method::POST, b"/v1/completions?a=%2f..")
            .unwrap();
        assert_eq!(route.path, "/v1/completions");
        assert_eq!(route.target, "/v1/completions?a=%2f..");
        assert_eq!(status(&Method::HEAD, "/v1/models"), 200);
        assert_eq!(status(&Method::POST, "/v1/audio/speech"), 200);
    }

    #[test]
    fn unlisted_paths_and_other_methods_are_not() {
        for path in [
            "/",
            "/v1",
            "/v1/models/",
            "/v1/load_lora_adapter",
            "/health",
            "/V1/models",
        ] {
            assert_eq!(status(&Method::GET, path), 404, "{path}");
        }
        assert_eq!(status(&Method::GET, "/v1/completions"), 405);
        assert_eq!(status(&Method::OPTIONS, "/v1/chat/completions"), 405);
        assert_eq!(status(&Method::DELETE, "/v1/models"), 405);
    }

    #[test]
    fn r19_dot_segments_and_encoded_ones_reach_no_engine() {
        for path in [
            "/health/../v1/chat/completions",
            "/health/%2e%2e/v1/chat/completions",
            "/v1/chat/completions/../../metrics",
            "/v1/./chat/completions",
            "//v1/chat/completions",
            "/v1//chat/completions",
            "/v1/chat%2fcompletions",
            "/v1\\chat/completions",
            "/v1/chat/completions;x=1",
            "/v1/chat/completions\u{e4}",
            "http://other/v1/chat/completions",
            "*",
            "",
        ] {
            assert_eq!(status(&Method::POST, path), 400, "{path}");
        }
    }

    #[test]
    fn o11_metrics_are_not_on_the_data_port() {
        for (path, expected) in [("/metrics", 404), ("/metrics/", 404), ("/%6Detrics", 400)] {
            assert_eq!(status(&Method::GET, path), expected, "{path}");
        }
    }
}
