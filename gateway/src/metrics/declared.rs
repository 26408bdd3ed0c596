//! Every metric once: name, help (with what it does not count), labels, buckets.
//!
//! Buckets differ per metric, because LLM traffic spans microseconds (a relayed chunk) to half an
//! hour (a long answer): each set ends beyond the largest value that its limit allows.

use prometheus::core::Collector;
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, Result,
};

/// Seconds to the first output: 5 ms to 10 minutes.
const TTFT: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 300.0, 600.0,
];
/// Seconds between outputs: 0.25 ms to a minute.
const ITL: &[f64] = &[
    0.000_25, 0.000_5, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04,
    0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];
/// Seconds of a whole request: 5 ms to two hours.
const E2E: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0, 90.0, 120.0, 180.0, 300.0, 450.0, 600.0, 900.0, 1_800.0, 3_600.0, 7_200.0,
];
/// Seconds of one phase: 10 µs to half an hour.
const PHASE: &[f64] = &[
    0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025,
    0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0,
];
/// Seconds that the gateway holds a piece: 5 µs to 10 s.
const RELAY: &[f64] = &[
    0.000_005, 0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005,
    0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 10.0,
];
/// Seconds that a client kept writes waiting: 100 µs to two minutes.
const BLOCKED: &[f64] = &[
    0.000_1, 0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0,
];

/// How a metric is made from its declaration.
trait Declare: Sized + Collector + Clone + 'static {
    fn declare(name: &str, help: &str, labels: &[&str], buckets: &[f64]) -> Result<Self>;
}

macro_rules! plain {
    ($($ty:ty),+) => {$(
        impl Declare for $ty {
            fn declare(name: &str, help: &str, _: &[&str], _: &[f64]) -> Result<Self> {
                Self::new(name, help)
            }
        }
    )+};
}
plain!(IntCounter, IntGauge);

macro_rules! labelled {
    ($($ty:ty),+) => {$(
        impl Declare for $ty {
            fn declare(name: &str, help: &str, labels: &[&str], _: &[f64]) -> Result<Self> {
                Self::new(Opts::new(name, help), labels)
            }
        }
    )+};
}
labelled!(IntCounterVec, IntGaugeVec);

impl Declare for Histogram {
    fn declare(name: &str, help: &str, _: &[&str], buckets: &[f64]) -> Result<Self> {
        Self::with_opts(HistogramOpts::new(name, help).buckets(buckets.to_vec()))
    }
}

impl Declare for HistogramVec {
    fn declare(name: &str, help: &str, labels: &[&str], buckets: &[f64]) -> Result<Self> {
        Self::new(
            HistogramOpts::new(name, help).buckets(buckets.to_vec()),
            labels,
        )
    }
}

macro_rules! metrics {
    ($($name:ident: $ty:ty, [$($label:literal),*], $buckets:expr, $help:literal;)+) => {
        /// Handles of all metrics.
        #[derive(Debug)]
        pub(super) struct Declared { $(pub(super) $name: $ty,)+ }

        impl Declared {
            /// Declares all of them in `registry`.
            pub(super) fn register(registry: &Registry) -> Result<Self> {
                $(
                    let $name = <$ty as Declare>::declare(
                        concat!("inferscope_gateway_", stringify!($name)),
                        $help,
                        &[$($label),*],
                        $buckets,
                    )?;
                    registry.register(Box::new($name.clone()))?;
                )+
                Ok(Self { $($name,)+ })
            }
        }
    };
}

metrics! {
    build_info: IntGaugeVec, ["version"], &[],
        "Always 1; the label says which gateway this is.";
    requests_total: IntCounterVec, ["path", "model", "outcome", "status"], &[],
        "Requests that ended, refused ones too. Not counted: connections without a whole head, requests on the metrics and admin ports.";
    failures_total: IntCounterVec, ["kind"], &[],
        "Requests that did not end well, by what went wrong. Not counted: error answers of an engine below 500, which pass through.";
    requests_in_flight: IntGauge, [], &[],
        "Requests whose head began and that have not ended. Not counted: idle connections.";
    open_streams: IntGauge, [], &[],
        "Answers of server-sent events that are under way. Not counted: plain answers, streams that have not begun.";
    ttft_seconds: HistogramVec, ["model"], TTFT,
        "First byte of the request's head to the read of the piece with the first output, streams only. Not counted: answers without output; the role event is no output.";
    itl_seconds: HistogramVec, ["model"], ITL,
        "Between reads of pieces that held events, first to last output, streams only. Events read together count as one. Not counted: comments, what follows the last output.";
    tpot_seconds: HistogramVec, ["model"], ITL,
        "(last output - first output) / (completion tokens - 1), streams only. Not counted: answers whose usage the engine did not report, or with fewer than 2 tokens.";
    e2e_seconds: HistogramVec, ["model"], E2E,
        "First byte of the request's head to the last byte of the answer. Not counted: requests that did not end well.";
    phase_seconds: HistogramVec, ["phase"], PHASE,
        "One phase of a request. Not counted: phases that were not both entered and left.";
    chunk_added_delay_seconds: Histogram, [], RELAY,
        "Read of a piece from the engine to the completed flush that carried its last byte to the client. A client that reads slowly shows here too. Not counted: pieces that were never written.";
    events_coalesced_total: IntCounter, [], &[],
        "Events that left in one flush with an earlier piece. Not counted: events that the engine itself sent in one piece.";
    bytes_total: IntCounterVec, ["direction"], &[],
        "Decoded body bytes: in = from clients, out = written to clients. Not counted: heads, chunk framing.";
    tokens_total: IntCounterVec, ["kind", "model"], &[],
        "Tokens as the engine reported them; cached ones are in prompt too. Not counted: answers without a usage report, and counts beyond a thousand million.";
    upstream_retries_total: IntCounterVec, ["reason"], &[],
        "Attempts towards engines after the first of a request: connect, where no connection could be made; stale, where the engine had closed a kept one. Not counted: anything after a first byte, for that is never sent again.";
    extraction_partial_total: IntCounter, [], &[],
        "Answers that could not be followed to the end (oversized event, encoding, malformed JSON). Their bytes went through all the same.";
    config_reloads_total: IntCounterVec, ["outcome"], &[],
        "Reloads of the configuration, by signal or admin port: done, or refused because the file had faults. Not counted: the first load.";
    limit_hits_total: IntCounterVec, ["scope", "limit", "enforced"], &[],
        "Requests that did not fit under a limit of their key, tenant or pool; enforced=false: it would have been refused. One request can hit several. Not counted: caps on the size of one request.";
    cap_hits_total: IntCounterVec, ["scope", "action", "enforced"], &[],
        "Requests larger than a cap on prompt, answer or choices: refused or clamped. Not counted: requests that fit.";
    tokens_charged_total: IntCounterVec, ["source"], &[],
        "Tokens charged to limits, as the engine counted them (usage) or estimated where it did not (estimate). Not counted: requests under no limits, requests without an answer.";
    endpoint_up: IntGaugeVec, ["pool", "endpoint"], &[],
        "1 while an endpoint gets its share of requests, 0 while it is drained, unhealthy or ejected.";
    endpoint_requests: IntGaugeVec, ["pool", "endpoint"], &[],
        "Requests that hold a place at an endpoint, connecting ones too. Not counted: requests that wait in the queue, probes.";
    endpoint_ejections_total: IntCounterVec, ["pool", "endpoint"], &[],
        "Times that an endpoint was put out for failed requests. Not counted: failed probes, draining, failures of a pool's last endpoint.";
    endpoint_probes_total: IntCounterVec, ["pool", "endpoint", "outcome"], &[],
        "Health probes that ended, good or bad. Not counted: requests of clients.";
    connections_refused_total: IntCounter, [], &[],
        "Connections that were turned away because as many were open as may. Not counted: requests that were refused.";
    log_lines_dropped_total: IntCounter, [], &[],
        "Lines of the gateway's own log that were lost because nobody read it fast enough. Not counted: records of requests.";
    queue_waiting: IntGauge, [], &[],
        "Requests that wait for a place at an engine. Not counted: requests that found one at once.";
    queue_wait_seconds: Histogram, [], PHASE,
        "Time in the queue, of those who got a place, left, or were refused in it. Not counted: requests that found a place at once, or were refused at the door.";
    permits_outstanding: IntGauge, [], &[],
        "Requests that hold a place under the limits. Not counted: requests that were refused or still wait to be read.";
    write_blocked_seconds: Histogram, [], BLOCKED,
        "Time that writes of one answer waited for the client. Not counted: answers that never waited.";
    records_dropped_total: IntCounterVec, ["sink"], &[],
        "Records that a sink lost because its queue was full or a write failed. Not counted: old records that left the ring for newer ones.";
}
