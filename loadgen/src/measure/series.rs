//! The values of each metric that one point collects.

use inferscope_shared::clock::MonoNs;
use inferscope_shared::definitions::arithmetic::{itl_event_ns, itl_token_ns, ms, tpot_ns};
use inferscope_shared::record::delta;
use inferscope_shared::record::request::{EventKind, RequestRecord};

use super::aggregate::Metrics;
use super::point::Curves;
use crate::stats::spill::Spill;
use crate::stats::{Ordered, Sorted, Values, ecdf};

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

/// Points of a curve; more cannot be seen.
const CURVE_POINTS: usize = 400;

/// Values of one point, in milliseconds.
#[derive(Debug)]
pub(crate) struct Series {
    ttft: Ordered,
    ttft_from_sent: Ordered,
    first_event: Ordered,
    tpot: Ordered,
    itl_event: Values,
    itl_token: Values,
    answers_with_gaps: usize,
    answers_with_token_gaps: usize,
    e2e: Ordered,
    e2e_from_sent: Ordered,
    dispatch_lag: Ordered,
    connect: Ordered,
    ttft_kernel: Ordered,
    itl_event_kernel: Values,
    read_lag: Values,
    answers_with_kernel_gaps: usize,
    answers_with_reads: usize,
    pub output_events: u64,
    /// Those of answers with an exact count.
    pub counted_events: u64,
}

impl Series {
    /// No values yet.
    pub fn new(spill: &Spill) -> Self {
        let ordered = || Ordered::new(spill);
        Self {
            ttft: ordered(),
            ttft_from_sent: ordered(),
            first_event: ordered(),
            tpot: ordered(),
            itl_event: Values::new(spill),
            itl_token: Values::new(spill),
            answers_with_gaps: 0,
            answers_with_token_gaps: 0,
            e2e: ordered(),
            e2e_from_sent: ordered(),
            dispatch_lag: ordered(),
            connect: ordered(),
            ttft_kernel: ordered(),
            itl_event_kernel: Values::new(spill),
            read_lag: Values::new(spill),
            answers_with_kernel_gaps: 0,
            answers_with_reads: 0,
            output_events: 0,
            counted_events: 0,
        }
    }

    /// A measured request that was sent, however it ended.
    pub fn sent(&mut self, record: &RequestRecord) {
        let at = record.dispatched_ns;
        let lag = between_ms(record.intended_ns, record.sent_start_ns);
        self.dispatch_lag.extend(at, lag);
        if !record.connect.reused {
            let ready = record.connect.tls_ns.or(record.connect.tcp_ns);
            self.connect
                .extend(at, between_ms(record.connect.start_ns, ready));
        }
    }

    /// A measured request that ended ok.
    pub fn ok(&mut self, record: &RequestRecord, open_loop: bool) {
        let origin = origin(record, open_loop);
        let sent = record.sent_start_ns;
        let end = answer_end(record);
        let at = record.dispatched_ns;
        let first = record.first_output_ns;
        self.ttft.extend(at, between_ms(origin, first));
        self.ttft_from_sent.extend(at, between_ms(sent, first));
        self.first_event
            .extend(at, between_ms(origin, record.first_event_ns));
        self.tpot.extend(at, tpot_ms(record));
        self.e2e.extend(at, between_ms(origin, end));
        self.e2e_from_sent.extend(at, between_ms(sent, end));
        let received = record.first_output_rx_ns;
        let received = received.filter(|_| record.first_output_rx_exact);
        self.ttft_kernel.extend(at, between_ms(origin, received));
        self.gaps(record);
        self.kernel(record);
    }

    /// What the kernel's receive stamps say of one answer.
    fn kernel(&mut self, record: &RequestRecord) {
        let (Some(sent), events) = (record.sent_start_ns, &record.events) else {
            return;
        };
        let (gaps, reads) = (self.itl_event_kernel.len(), self.read_lag.len());
        let at = delta::decode(sent.0, &events.at_ns);
        let mut bounds = events.rx_upper_bound.iter().peekable();
        let mut before = None;
        for (i, (lag, kind)) in events.rx_lag_ns.iter().zip(&events.kind).enumerate() {
            let is_bound = bounds.next_if(|&&bound| bound as usize == i).is_some();
            if at.get(i) != at.get(i + 1) {
                self.read_lag.extend(lag.map(|ns| ms(ns as f64)));
            }
            if *kind != EventKind::Output {
                continue;
            }
            let received = lag.filter(|_| !is_bound).and_then(|lag| {
                let read = at.get(i)?;
                Some(MonoNs(read.saturating_sub(lag)))
            });
            self.itl_event_kernel.extend(between_ms(before, received));
            before = received;
        }
        self.answers_with_kernel_gaps += usize::from(self.itl_event_kernel.len() > gaps);
        self.answers_with_reads += usize::from(self.read_lag.len() > reads);
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
        if record.completion_tokens.is_some() {
            self.counted_events += outputs.len() as u64;
        }
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

    /// The distributions, and their curves. Values of requests may depend on those before them,
    /// and their intervals count them by their effective number. Gaps of one answer depend on
    /// each other, so their intervals count each answer once. Gaps per token are given only when
    /// every answer has them.
    pub fn summarise(self) -> (Metrics, Curves) {
        let all_have = self.answers_with_token_gaps == self.answers_with_gaps;
        let itl_token = if all_have {
            self.itl_token.sorted()
        } else {
            Sorted::of([])
        };
        let ttft = self.ttft.finish();
        let itl_event = self.itl_event.sorted();
        let curves = Curves {
            ttft: ecdf(&ttft.sorted, CURVE_POINTS),
            itl: ecdf(&itl_event, CURVE_POINTS),
        };
        let metrics = Metrics {
            ttft_ms: ttft.summary(),
            ttft_from_sent_ms: self.ttft_from_sent.summary(),
            first_event_ms: self.first_event.summary(),
            tpot_ms: self.tpot.summary(),
            itl_event_ms: itl_event.summary(self.answers_with_gaps),
            itl_token_ms: itl_token.summary(self.answers_with_gaps),
            e2e_ms: self.e2e.summary(),
            e2e_from_sent_ms: self.e2e_from_sent.summary(),
            dispatch_lag_ms: self.dispatch_lag.summary(),
            connect_ms: self.connect.summary(),
            ttft_kernel_ms: self.ttft_kernel.summary(),
            itl_event_kernel_ms: (self.itl_event_kernel.sorted())
                .summary(self.answers_with_kernel_gaps),
            read_lag_ms: self.read_lag.sorted().summary(self.answers_with_reads),
        };
        (metrics, curves)
    }
}
