//! The gateway's own log, on standard error.
//!
//! The configured level holds for our own crates. What lies below us logs errors only, at any
//! level: at finer ones the HTTP framework prints request heads, and with them credentials.

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
        .with_target("inferscope_gateway", level)
        .with_target("inferscope_shared", level);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
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
