//! `check`: what a good configuration says, in a few lines.

use std::fmt::Write as _;
use std::path::Path;

use crate::config::{Auth, Config, Usage};

pub(super) fn summary(path: &Path, config: &Config) -> String {
    let mut text = format!("{}: ok\n", path.display());
    let mut line = |name: &str, value: String| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "  {name:<9}{value}");
    };
    let ports: Vec<String> = config.listen.iter().map(|l| l.addr.to_string()).collect();
    line("listen", ports.join(", "));
    line(
        "metrics",
        config.metrics.map_or("off".into(), |addr| addr.to_string()),
    );
    let admin = config.admin.as_ref().map(|admin| {
        let guard = if admin.token.is_some() {
            " with a token"
        } else {
            ""
        };
        format!("{}{guard}", admin.addr)
    });
    line("admin", admin.unwrap_or("off".into()));
    line(
        "auth",
        match &config.auth {
            Auth::None => "none: everyone may call".into(),
            Auth::Keys { keys, .. } => format!("{} key(s)", keys.len()),
        },
    );
    for (name, pool) in &config.pools {
        let urls: Vec<String> = pool
            .endpoints
            .iter()
            .map(|e| format!("{} at {}:{}{}", e.name, e.host, e.port, e.base_path))
            .collect();
        line("pool", format!("{name}: {}", urls.join(", ")));
    }
    if config.models.is_empty() {
        line("models", "any, to the one pool".into());
    }
    for (alias, route) in &config.models {
        let upstream = route.upstream_model.as_ref();
        let upstream = upstream.map_or(String::new(), |name| format!(" as {name}"));
        line("model", format!("{alias}: pool {}{upstream}", route.pool));
    }
    let file = config.records.file.as_ref();
    let file = file.map_or("memory only".into(), |f| f.path.display().to_string());
    let hash = if config.records.hash { ", hashed" } else { "" };
    line("records", format!("{file}{hash}"));
    if config.usage == Usage::Observe && config.counts_tokens() {
        let note = "limits on tokens charge streams whose client does not ask for usage by an \
                    estimate; `usage: inject` makes them exact";
        line("note", note.to_owned());
    }
    text
}
