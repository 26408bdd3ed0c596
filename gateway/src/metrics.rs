//! What is counted: one registry of our own, fed once per request from its record.
//!
//! Every metric is declared in one place ([`declared`]) with its help, labels, buckets and what
//! it does not count. Labels come from enums or from the configuration; text from a request is
//! never a label, so the number of series is fixed by the configuration. Units: seconds and
//! bytes. Clock of all durations: CLOCK_MONOTONIC, by way of the record.

mod declared;
mod endpoint;
pub mod labels;

use std::collections::BTreeSet;
use std::sync::{OnceLock, PoisonError, RwLock};

use inferscope_shared::record::delta;
use inferscope_shared::record::gateway::{Extraction, GatewayRecord, Outcome};
use prometheus::{IntGauge, Registry, TextEncoder};
use tracing_appender::non_blocking::ErrorCounter;

use crate::limits;
use declared::Declared;
pub use endpoint::EndpointMetrics;
use labels::{Direction, OTHER, Phase, Sink, TokenKind};

/// No request has more tokens than this, whatever its engine says.
const MAX_TOKENS: u64 = 1_000_000_000;

/// The registry and what feeds it.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    declared: Declared,
    names: RwLock<Names>,
}

/// The log's own count of lines that it lost; there is one log in a process.
static LOG_LINES_DROPPED: OnceLock<ErrorCounter> = OnceLock::new();

/// From now on `counter` is what the metric of lost log lines shows.
pub fn log_lines_dropped(counter: ErrorCounter) {
    // A second log changes nothing.
    let _ = LOG_LINES_DROPPED.set(counter);
}

/// The values that labels take from the configuration.
#[derive(Debug, Default)]
struct Names {
    models: BTreeSet<String>,
    paths: BTreeSet<String>,
}

/// Something that a gauge counts until this is dropped.
#[derive(Debug)]
pub struct Counted(IntGauge);

impl Counted {
    fn new(gauge: &IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    /// Metrics whose `model` label is one of `models` and whose `path` label is one of `paths`,
    /// or `other`.
    ///
    /// # Errors
    /// Two metrics of one name: a fault of the declarations, which a test would show.
    pub fn new(
        models: impl IntoIterator<Item = String>,
        paths: impl IntoIterator<Item = String>,
    ) -> prometheus::Result<Self> {
        let registry = Registry::new();
        let declared = Declared::register(&registry)?;
        declared
            .build_info
            .with_label_values(&[env!("CARGO_PKG_VERSION")])
            .set(1);
        Ok(Self {
            registry,
            declared,
            names: RwLock::new(Names {
                models: models.into_iter().collect(),
                paths: paths.into_iter().collect(),
            }),
        })
    }

    /// From now on these models and paths have labels of their own. Series of others stay as
    /// they are.
    pub fn name(
        &self,
        models: impl IntoIterator<Item = String>,
        paths: impl IntoIterator<Item = String>,
    ) {
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        names.models = models.into_iter().collect();
        names.paths = paths.into_iter().collect();
    }

    /// A request did not fit under a limit.
    pub fn limited(&self, scope: limits::Scope, what: limits::What, enforced: bool) {
        let enforced = if enforced { "true" } else { "false" };
        self.declared
            .limit_hits_total
            .with_label_values(&[scope.label(), what.label(), enforced])
            .inc();
    }

    /// A request was larger than a cap.
    pub fn capped(&self, scope: limits::Scope, clamped: bool, enforced: bool) {
        let action = if clamped { "clamp" } else { "refuse" };
        let enforced = if enforced { "true" } else { "false" };
        self.declared
            .cap_hits_total
            .with_label_values(&[scope.label(), action, enforced])
            .inc();
    }

    /// Tokens were charged to limits, `counted` by the engine or estimated.
    pub fn charged(&self, counted: bool, tokens: u64) {
        let source = if counted { "usage" } else { "estimate" };
        self.declared
            .tokens_charged_total
            .with_label_values(&[source])
            .inc_by(tokens.min(MAX_TOKENS));
    }

    /// A request holds a place under the limits until the value is dropped.
    #[must_use]
    pub fn permit(&self) -> Counted {
        Counted::new(&self.declared.permits_outstanding)
    }

    /// What is counted of the endpoint of that name in that pool.
    #[must_use]
    pub fn endpoint(&self, pool: &str, endpoint: &str) -> EndpointMetrics {
        EndpointMetrics::new(&self.declared, pool, endpoint)
    }

    /// That endpoint is configured no more: nothing is shown of it.
    pub fn forget_endpoint(&self, pool: &str, endpoint: &str) {
        endpoint::forget(&self.declared, pool, endpoint);
    }

    /// A request is sent again.
    pub fn retried(&self, why: labels::Retry) {
        self.declared
            .upstream_retries_total
            .with_label_values(&[why.label()])
            .inc();
    }

    /// A connection was turned away.
    pub fn turned_away(&self) {
        self.declared.connections_refused_total.inc();
    }

    /// A request waits in the queue until the value is dropped.
    #[must_use]
    pub fn waiting(&self) -> Counted {
        Counted::new(&self.declared.queue_waiting)
    }

    /// A request was in the queue for so long.
    pub fn waited(&self, ns: u64) {
        self.declared.queue_wait_seconds.observe(seconds(ns));
    }

    /// A reload of the configuration ended.
    pub fn reloaded(&self, outcome: labels::Reload) {
        self.declared
            .config_reloads_total
            .with_label_values(&[outcome.label()])
            .inc();
    }

    /// A request's head began.
    pub fn request_started(&self) {
        self.declared.requests_in_flight.inc();
    }

    /// An answer of events began; it counts as open until the value is dropped.
    #[must_use]
    pub fn open_stream(&self) -> Counted {
        Counted::new(&self.declared.open_streams)
    }

    /// `sink` lost `records`.
    pub fn records_dropped(&self, sink: Sink, records: u64) {
        self.declared
            .records_dropped_total
            .with_label_values(&[sink.label()])
            .inc_by(records);
    }

    /// Requests whose head began and that are not settled.
    #[must_use]
    pub fn requests_in_flight(&self) -> i64 {
        self.declared.requests_in_flight.get()
    }

    /// A request ended: the one call that counts it.
    pub fn settled(&self, record: &GatewayRecord) {
        let all = &self.declared;
        all.requests_in_flight.dec();
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        let model = one_of(&names.models, record.model.as_deref());
        let path = one_of(&names.paths, Some(&record.path));
        all.requests_total
            .with_label_values(&[
                path,
                model,
                labels::outcome(record.outcome),
                labels::status_class(record.status),
            ])
            .inc();
        if let Some(kind) = &record.error_kind {
            all.failures_total
                .with_label_values(&[labels::failure(kind)])
                .inc();
        }
        self.latencies(record, model);
        self.phases(record);
        self.pieces(record, model);
        self.amounts(record, model);
    }

    fn latencies(&self, record: &GatewayRecord, model: &str) {
        let all = &self.declared;
        if record.stream
            && let Some(first) = record.t_first_output_ns
        {
            all.ttft_seconds
                .with_label_values(&[model])
                .observe(seconds(first));
            if let (Some(last), Some(tokens @ 2..=MAX_TOKENS)) =
                (record.t_last_output_ns, record.usage.completion_tokens)
            {
                all.tpot_seconds
                    .with_label_values(&[model])
                    .observe(seconds(last.saturating_sub(first)) / (tokens - 1) as f64);
            }
        }
        if record.outcome == Outcome::Ok {
            all.e2e_seconds
                .with_label_values(&[model])
                .observe(seconds(record.t_end_ns));
        }
    }

    fn phases(&self, record: &GatewayRecord) {
        for phase in Phase::ALL {
            if let Some(ns) = phase.of(record) {
                self.declared
                    .phase_seconds
                    .with_label_values(&[phase.label()])
                    .observe(seconds(ns));
            }
        }
    }

    fn pieces(&self, record: &GatewayRecord, model: &str) {
        let all = &self.declared;
        let read = delta::decode(0, &record.chunks.read_ns);
        let written = delta::decode(0, &record.chunks.written_ns);
        for (read, written) in read.iter().zip(&written) {
            all.chunk_added_delay_seconds
                .observe(seconds(written.saturating_sub(*read)));
        }
        let events = &record.chunks.events;
        let together: u64 = written
            .windows(2)
            .zip(events.get(1..).unwrap_or_default())
            .filter(|(pair, _)| pair[0] == pair[1])
            .map(|(_, events)| events)
            .sum();
        all.events_coalesced_total.inc_by(together);

        let (Some(first), Some(last)) = (record.t_first_output_ns, record.t_last_output_ns) else {
            return;
        };
        if !record.stream {
            return;
        }
        let gaps = all.itl_seconds.with_label_values(&[model]);
        let mut before = first;
        for (&at, _) in read.iter().zip(events).filter(|(_, events)| **events > 0) {
            if at > first && at <= last {
                gaps.observe(seconds(at - before));
                before = at;
            }
        }
    }

    fn amounts(&self, record: &GatewayRecord, model: &str) {
        let all = &self.declared;
        for (direction, bytes) in [
            (Direction::In, record.bytes_in),
            (Direction::Out, record.bytes_out),
        ] {
            all.bytes_total
                .with_label_values(&[direction.label()])
                .inc_by(bytes);
        }
        for (kind, tokens) in [
            (TokenKind::Prompt, record.usage.prompt_tokens),
            (TokenKind::Completion, record.usage.completion_tokens),
            (TokenKind::Cached, record.usage.cached_tokens),
        ] {
            // A count beyond all sense would spoil the sum for good, or be more than it can hold.
            if let Some(tokens @ ..=MAX_TOKENS) = tokens {
                all.tokens_total
                    .with_label_values(&[kind.label(), model])
                    .inc_by(tokens);
            }
        }
        if record.extraction == Extraction::Partial {
            all.extraction_partial_total.inc();
        }
        if record.write_blocked_ns > 0 {
            all.write_blocked_seconds
                .observe(seconds(record.write_blocked_ns));
        }
    }

    /// All metrics in Prometheus' text format.
    ///
    /// # Errors
    /// A metric that can't be written as text: a fault of the declarations.
    pub fn render(&self) -> prometheus::Result<String> {
        if let Some(counter) = LOG_LINES_DROPPED.get() {
            let dropped = &self.declared.log_lines_dropped_total;
            dropped.reset();
            dropped.inc_by(counter.dropped_lines() as u64);
        }
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn one_of<'a>(known: &'a BTreeSet<String>, name: Option<&str>) -> &'a str {
    name.and_then(|name| known.get(name))
        .map_or(OTHER, String::as_str)
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::record as sample_record;
