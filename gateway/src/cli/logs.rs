//! The gateway's own log, on standard error.
//!
//! The configured level holds for the gateway itself. Libraries below us log errors only, and the
//! HTTP framework nothing: it prints request heads, and with them credentials, even at that level.

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::{LogFormat, Logs};

/// Starts the log. A second call changes nothing.
pub(super) fn init(logs: &Logs) {
    let level = logs.level.parse().unwrap_or(LevelFilter::INFO);
    let filter = Targets::new()
        .with_default(LevelFilter::ERROR)
        .with_target("pingora", LevelFilter::OFF)
        .with_target("inferscope_gateway", level);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        // They would go to standard error as well, and its being closed must end nothing.
        .log_internal_errors(false);
    let registry = tracing_subscriber::registry().with(filter);
    let started = match logs.format {
        LogFormat::Json => registry.with(lines.json()).try_init(),
        LogFormat::Text => {
            use std::io::IsTerminal as _;
            let colours = std::io::stderr().is_terminal();
            registry.with(lines.with_ansi(colours)).try_init()
        }
    };
    // Only a test that logs already gets here.
    drop(started);
}
