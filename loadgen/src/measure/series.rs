//! The values of each metric that one point collects.

use inferscope_shared::clock::MonoNs;
use inferscope_shared::definitions::arithmetic::{itl_event_ns, itl_token_ns, ms, tpot_ns};
use inferscope_shared::record::delta;
use inferscope_shared::record::request::{EventKind, RequestRecord};

use super::aggregate::Metrics;
use crate::stats::Summary;

/// Milliseconds from `from` to `to`, negative when `to` is the earlier one.
pub(crate) fn between_ms(from: Option<MonoNs>, to: Option<MonoNs>) -> Option<f64> {
    Some(ms(to?.signed_since(from?) as f64))
}

/// Origin of latency: the first write call, or in an open loop the planned arrival.
pub(crate) fn origin(record: &RequestRecord, open_loop: bool) -> Option<MonoNs> {
    if open_loop {
        record.intended_ns
    } else {
        record.sent_start_ns
    }
}

/// End of an answer that ended ok: its end mark, else its clean end.
pub(crate) fn answer_end(record: &RequestRecord) -> Option<MonoNs> {
    record.done_ns.or(record.end_ns)
}

/// Time per output token of one answer.
pub(crate) fn tpot_ms(record: &RequestRecord) -> Option<f64> {
    let first = record.first_output_ns?;
    tpot_ns(first, record.last_output_ns?, record.completion_tokens?).map(ms)
}

/// Values of one point, in milliseconds.
#[derive(Debug, Default)]
pub(crate) struct Series {
    pub ttft: Vec<f64>,
    ttft_from_sent: Vec<f64>,
    first_event: Vec<f64>,
    tpot: Vec<f64>,
    pub itl_event: Vec<f64>,
    itl_token: Vec<f64>,
    answers_with_gaps: usize,
    answers_with_token_gaps: usize,
    e2e: Vec<f64>,
    e2e_from_sent: Vec<f64>,
    dispatch_lag: Vec<f64>,
    connect: Vec<f64>,
    pub output_events: u64,
}

impl Series {
    /// A measured request that was sent, however it ended.
    pub fn sent(&mut self, record: &RequestRecord) {
        let lag = between_ms(record.intended_ns, record.sent_start_ns);
        self.dispatch_lag.extend(lag);
        if !record.connect.reused {
            let ready = record.connect.tls_ns.or(record.connect.tcp_ns);
            self.connect
                .extend(between_ms(record.connect.start_ns, ready));
        }
    }

    /// A measured request that ended ok.
    pub fn ok(&mut self, record: &RequestRecord, open_loop: bool) {
        let origin = origin(record, open_loop);
        let sent = record.sent_start_ns;
        let end = answer_end(record);
        self.ttft.extend(between_ms(origin, record.first_output_ns));
        self.ttft_from_sent
            .extend(between_ms(sent, record.first_output_ns));
        self.first_event
            .extend(between_ms(origin, record.first_event_ns));
        self.tpot.extend(tpot_ms(record));
        self.e2e.extend(between_ms(origin, end));
        self.e2e_from_sent.extend(between_ms(sent, end));
        self.gaps(record);
    }

    fn gaps(&mut self, record: &RequestRecord) {
        let Some(sent) = record.sent_start_ns else {
            return;
        };
        let outputs: Vec<(MonoNs, Option<u64>)> = delta::decode(sent.0, &record.events.at_ns)
            .into_iter()
            .map(MonoNs)
            .zip(record.events.tokens.iter().copied())
            .zip(&record.events.kind)
            .filter(|(_, kind)| **kind == EventKind::Output)
            .map(|(event, _)| event)
            .collect();
        self.output_events += outputs.len() as u64;
        if outputs.len() < 2 {
            return;
        }
        let at: Vec<MonoNs> = outputs.iter().map(|(at, _)| *at).collect();
        self.itl_event
            .extend(itl_event_ns(&at).map(|ns| ms(ns as f64)));
        self.answers_with_gaps += 1;
        if let Some(gaps) = itl_token_ns(&outputs, record.completion_tokens) {
            self.itl_token.extend(gaps.into_iter().map(ms));
            self.answers_with_token_gaps += 1;
        }
    }

    /// The distributions. Gaps of one answer depend on each other, so their intervals count each
    /// answer once. Gaps per token are given only when every answer has them.
    pub fn summarise(self) -> Metrics {
        let all_have = self.answers_with_token_gaps == self.answers_with_gaps;
        let itl_token = if all_have { self.itl_token } else { Vec::new() };
        Metrics {
            ttft_ms: Summary::of(self.ttft),
            ttft_from_sent_ms: Summary::of(self.ttft_from_sent),
            first_event_ms: Summary::of(self.first_event),
            tpot_ms: Summary::of(self.tpot),
            itl_event_ms: Summary::of_groups(self.itl_event, self.answers_with_gaps),
            itl_token_ms: Summary::of_groups(itl_token, self.answers_with_gaps),
            e2e_ms: Summary::of(self.e2e),
            e2e_from_sent_ms: Summary::of(self.e2e_from_sent),
            dispatch_lag_ms: Summary::of(self.dispatch_lag),
            connect_ms: Summary::of(self.connect),
        }
    }
}
