//! What gates look at beyond the aggregate: counts and shares of one point's records.

use inferscope_shared::clock::MonoNs;
use inferscope_shared::definitions::arithmetic::fraction;
use inferscope_shared::record::request::{RequestRecord, TokensSource};

use super::judge::Sample;
use super::rows::Rows;
use super::series::answer_end;
use crate::reconcile::{Claim, Lengths};

/// What gates look at beyond the aggregate.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evidence {
    /// Which records there are.
    pub rows: Rows,
    /// Measured answers that ended ok whose stamps are all there and in order.
    pub timed: Share,
    /// Measured answers that ended ok with exactly the tokens asked for, of those with a count.
    pub exact_length: Share,
    /// Those whose prompt had exactly the tokens planned, of those with both counts.
    pub exact_prompt: Share,
    /// What the client can claim of all records, of whatever phase.
    pub claim: Claim,
    /// Measured requests that ended ok whose tokens the engine counted.
    pub counted: Share,
    /// Dispatch after the planned instant by nearest rank, in milliseconds: p99 in an open loop,
    /// p90 of dispatch after a slot came free in a closed one.
    pub dispatch_ms: Option<f64>,
    /// What each latency limit was judged by.
    pub samples: Vec<Sample>,
    /// Measured arrivals that a signal dropped or cut.
    pub interrupted: u64,
}

/// So many of so many, with one that is not among them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Share {
    /// Those that are.
    pub part: u64,
    /// All.
    pub whole: u64,
    /// The first that is not, and why.
    pub first_miss: Option<String>,
}

impl Share {
    fn add(&mut self, miss: Option<impl FnOnce() -> String>) {
        self.whole += 1;
        match miss {
            None => self.part += 1,
            Some(why) => {
                self.first_miss.get_or_insert_with(why);
            }
        }
    }

    /// The share; `None` of nothing.
    #[must_use]
    pub fn fraction(&self) -> Option<f64> {
        fraction(self.part, self.whole)
    }
}

impl Evidence {
    /// A measured answer that ended ok, and what its request asked for.
    pub(super) fn ok(
        &mut self,
        record: &RequestRecord,
        asked: Lengths,
        open_loop: bool,
        point: Span,
    ) {
        let id = &record.request_id;
        let fault = timing_fault(record, open_loop, point);
        self.timed
            .add(fault.map(|why| move || format!("{id}: {why}")));
        let uncounted = record.tokens_source == TokensSource::Unknown;
        self.counted
            .add(uncounted.then_some(|| format!("{id} has no token count")));
        if let (Some(asked), Some(got)) = (asked.output_tokens, record.completion_tokens) {
            self.exact_length.add(
                (asked != got)
                    .then_some(|| format!("{id} has {got} tokens, {asked} were asked for")),
            );
        }
        if let (Some(asked), Some(got)) = (asked.prompt_tokens, record.prompt_tokens) {
            self.exact_prompt.add(
                (asked != got).then_some(|| format!("{id} has {got} tokens, planned were {asked}")),
            );
        }
    }
}

/// First and last instant of a point, where its manifest entry says so.
pub(super) type Span = (Option<MonoNs>, Option<MonoNs>);

/// What is missing, out of order or outside its point among the stamps of an answer that ended ok.
fn timing_fault(record: &RequestRecord, open_loop: bool, point: Span) -> Option<String> {
    let has_output = record.first_output_ns.is_some();
    let stamps = [
        ("intended_ns", record.intended_ns, open_loop),
        ("dispatched_ns", record.dispatched_ns, true),
        ("sent_start_ns", record.sent_start_ns, true),
        ("head_ns", record.head_ns, true),
        ("first_event_ns", record.first_event_ns, has_output),
        (
            "first_output_ns",
            record.first_output_ns,
            record.completion_tokens > Some(0),
        ),
        ("last_output_ns", record.last_output_ns, has_output),
        ("the answer's end", answer_end(record), true),
    ];
    let mut before: Option<(&str, MonoNs)> = None;
    for (name, at, needed) in stamps {
        let Some(at) = at else {
            if needed {
                return Some(format!("{name} is missing"));
            }
            continue;
        };
        if let Some((earlier, _)) = before.filter(|(_, t)| at < *t) {
            return Some(format!("{name} lies before {earlier}"));
        }
        if point.0.is_some_and(|start| at < start) {
            return Some(format!("{name} lies before the point began"));
        }
        if point.1.is_some_and(|end| at > end) {
            return Some(format!("{name} lies after the point ended"));
        }
        before = Some((name, at));
    }
    let events = &record.events;
    let n = events.at_ns.len();
    let equal = [
        events.end_offset.len(),
        events.kind.len(),
        events.tokens.len(),
    ];
    equal
        .iter()
        .any(|&len| len != n)
        .then(|| "series of events differ in length".to_owned())
}
