//! The gateway's own log, on standard error.
//!
//! Lines go through a bounded queue to a thread that writes them: a log that nobody reads (a full
//! pipe, a disk that hangs) holds up no request. Lines that the queue has no room for are dropped and
//! counted.
//!
//! The configured level holds for the gateway itself. Libraries below us log errors only, and the
//! HTTP framework nothing: it prints request heads, and with them credentials, even at that level.

use tracing::level_filters::LevelFilter;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::{LogFormat, Logs};

/// Lines that may wait to be written.
const QUEUE_LINES: usize = 16_384;

/// Starts the log, which ends, its last lines written, when the guard is dropped. A second call
/// changes nothing.
pub(super) fn init(logs: &Logs) -> WorkerGuard {
    let (writer, guard) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(QUEUE_LINES)
        .thread_name("log")
        .finish(std::io::stderr());
    crate::metrics::log_lines_dropped(writer.error_counter());
    let level = logs.level.parse().unwrap_or(LevelFilter::INFO);
    let filter = Targets::new()
        .with_default(LevelFilter::ERROR)
        .with_target("pingora", LevelFilter::OFF)
        .with_target("inferscope_gateway", level);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(writer)
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
    guard
}
