//! Paths that are routed beside the built-in ones.

use http::Method;
use inferscope_shared::strict_yaml::{Node, Problems};

use crate::routes;

/// A path that the operator named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtraRoute {
    /// The one method that is taken.
    pub method: Method,
    /// The exact path.
    pub path: String,
}

pub(super) fn routes(node: &Node, problems: &mut Problems) -> Vec<ExtraRoute> {
    node.list(problems, |item, problems| {
        let mut map = item.map(problems)?;
        let words = [
            ("GET", Method::GET),
            ("POST", Method::POST),
            ("DELETE", Method::DELETE),
        ];
        let method = map
            .one_of("method", problems, &words)
            .unwrap_or(Method::POST);
        let path = map
            .need("path", "/v1/audio/speech", problems)
            .and_then(|node| node.parsed(problems, exact_path));
        map.finish(problems);
        Some(ExtraRoute {
            method,
            path: path?,
        })
    })
}

fn exact_path(text: &str) -> Result<String, String> {
    if text.contains('*') {
        return Err("no wildcards: name each path".to_owned());
    }
    if routes::is_plain(text.as_bytes()) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "\"{text}\" is no plain path: begin with /, no query, no dot segments, no %-codes"
        ))
    }
}
