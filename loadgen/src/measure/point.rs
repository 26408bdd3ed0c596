//! One load point: from its records to its entry in `aggregate.json`, what its gates need, and
//! the curves that charts draw.

use std::collections::BTreeMap;

use inferscope_shared::clock::MonoNs;
use inferscope_shared::definitions::arithmetic::{fraction, per_second};
use inferscope_shared::record::request::{Outcome, Phase, RequestRecord, TokensSource};

use super::aggregate::{Connections, Point, Requests, Throughput, Tokens, Warmup, Window};
use super::judge::Judge;
use super::series::{Series, answer_end, between_ms};
use super::window::Instants;
use crate::artifacts::manifest::PointRun;
use crate::config::LoadValue;
use crate::slo::Slo;
use crate::stats::{Percentile, Summary, ecdf};

/// Points of a curve; more cannot be seen.
const CURVE_POINTS: usize = 400;

/// A finished point.
#[derive(Debug)]
pub struct PointMeasure {
    /// Its entry in `aggregate.json`.
    pub point: Point,
    /// What gates look at beyond it.
    pub evidence: Evidence,
    /// Distributions for charts.
    pub curves: Curves,
}

/// What gates look at beyond the aggregate.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evidence {
    /// Measured answers that ended ok whose stamps are all there and in order.
    pub timed: Share,
    /// Measured answers that ended ok with exactly the tokens asked for, of those with a count.
    pub exact_length: Share,
    /// Measured requests that ended ok whose tokens the engine counted.
    pub counted: Share,
    /// Nearest rank p99 of dispatch after the planned instant; the maximum below 100 requests.
    pub dispatch_p99_ms: Option<f64>,
    /// Time to first token in order of dispatch.
    pub ttft_in_order: Vec<f64>,
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

/// Empirical distributions `(milliseconds, share)`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Curves {
    /// Time to first token.
    pub ttft: Vec<(f64, f64)>,
    /// Gaps between output events.
    pub itl: Vec<(f64, f64)>,
}

/// An answer that ended ok, of whatever phase.
#[derive(Debug, Clone, Copy)]
struct Completion {
    end: MonoNs,
    tokens: Option<u64>,
    good: bool,
}

/// A point whose records are still coming.
#[derive(Debug)]
pub struct PointBuilder {
    id: String,
    arm: String,
    load: LoadValue,
    judge: Option<Judge>,
    requests: Requests,
    errors: BTreeMap<String, u64>,
    series: Series,
    instants: Instants,
    completions: Vec<Completion>,
    tokens: Tokens,
    connections: Connections,
    warmup: Warmup,
    warmup_ttft: Vec<f64>,
    evidence: Evidence,
    dispatch: Vec<f64>,
    ttft_by_dispatch: Vec<(Option<MonoNs>, f64)>,
}

impl PointBuilder {
    /// An empty point.
    #[must_use]
    pub fn new(run: &PointRun, slo: Option<Slo>) -> Self {
        Self {
            id: run.point_id.clone(),
            arm: run.arm.clone(),
            load: run.load,
            judge: slo.map(Judge::new),
            requests: Requests::default(),
            errors: BTreeMap::new(),
            series: Series::default(),
            instants: Instants::default(),
            completions: Vec::new(),
            tokens: Tokens::default(),
            connections: Connections::default(),
            warmup: Warmup::default(),
            warmup_ttft: Vec::new(),
            evidence: Evidence::default(),
            dispatch: Vec::new(),
            ttft_by_dispatch: Vec::new(),
        }
    }

    /// Takes one record; `asked` are the output tokens that its request asked for.
    pub fn push(&mut self, record: &RequestRecord, asked: Option<u64>) {
        let open = self.load.is_open();
        let measured = record.phase == Phase::Measure;
        if record.outcome != Outcome::Dropped {
            self.instants
                .sent(measured, record.dispatched_ns, record.end_ns);
        }
        if record.outcome == Outcome::Ok
            && let Some(end) = answer_end(record)
        {
            self.completions.push(Completion {
                end,
                tokens: record.completion_tokens,
                good: self.judge.as_ref().is_some_and(|j| j.is_good(record, open)),
            });
        }
        match record.phase {
            Phase::Measure => self.measured(record, asked),
            Phase::Warmup => self.warmed_up(record),
            Phase::Drain => {}
        }
    }

    fn warmed_up(&mut self, record: &RequestRecord) {
        self.warmup.planned += 1;
        if record.outcome == Outcome::Ok {
            self.warmup.ok += 1;
            let ttft = between_ms(record.sent_start_ns, record.first_output_ns);
            self.warmup_ttft.extend(ttft);
        }
    }

    fn measured(&mut self, record: &RequestRecord, asked: Option<u64>) {
        let open = self.load.is_open();
        let counts = &mut self.requests;
        counts.planned += 1;
        self.instants.planned(record.intended_ns);
        match record.outcome {
            Outcome::Ok => counts.ok += 1,
            Outcome::Failed => counts.failed += 1,
            Outcome::Incomplete => counts.incomplete += 1,
            Outcome::Dropped => counts.dropped += 1,
        }
        if record.outcome != Outcome::Ok {
            let kind = record.error_kind.as_deref().unwrap_or("unknown");
            *self.errors.entry(kind.to_owned()).or_default() += 1;
            self.evidence.interrupted += u64::from(kind == "interrupted");
        }
        if record.outcome == Outcome::Dropped {
            return;
        }
        counts.sent += 1;
        counts.late += u64::from(record.late);
        if record.connect.reused {
            self.connections.reused += 1;
        } else {
            self.connections.opened += 1;
        }
        self.series.sent(record);
        self.dispatch
            .extend(between_ms(record.intended_ns, record.dispatched_ns));
        if record.outcome == Outcome::Ok {
            self.ok(record, asked, open);
        }
    }

    fn ok(&mut self, record: &RequestRecord, asked: Option<u64>, open: bool) {
        let id = &record.request_id;
        self.series.ok(record, open);
        if let Some(judge) = &mut self.judge {
            judge.ok(record, open);
        }
        self.tokens.prompt.add(record.prompt_tokens);
        self.tokens.completion.add(record.completion_tokens);
        if let Some(ttft) = between_ms(record.sent_start_ns, record.first_output_ns) {
            self.ttft_by_dispatch.push((record.dispatched_ns, ttft));
        }
        let evidence = &mut self.evidence;
        evidence
            .timed
            .add(timing_fault(record, open).map(|why| move || format!("{id}: {why}")));
        let uncounted = record.tokens_source == TokensSource::Unknown;
        evidence
            .counted
            .add(uncounted.then_some(|| format!("{id} has no token count")));
        if let (Some(asked), Some(got)) = (asked, record.completion_tokens) {
            evidence.exact_length.add(
                (asked != got)
                    .then_some(|| format!("{id} has {got} tokens, {asked} were asked for")),
            );
        }
    }

    /// The point's numbers.
    #[must_use]
    pub fn finish(mut self) -> PointMeasure {
        let window = self.instants.window(self.load.is_open());
        let window_ns = window.map_or(0, |(start, end)| end.since(start));
        let inside: Vec<Completion> = self
            .completions
            .iter()
            .copied()
            .filter(|c| window.is_some_and(|(start, end)| c.end > start && c.end <= end))
            .collect();
        let tokens: Option<u64> = inside.iter().map(|c| c.tokens).sum();
        let good_inside = inside.iter().filter(|c| c.good).count() as u64;
        self.tokens.output_events = self.series.output_events;
        let connections = Connections {
            reuse_fraction: fraction(
                self.connections.reused,
                self.connections.reused + self.connections.opened,
            ),
            ..self.connections
        };
        self.ttft_by_dispatch.sort_by_key(|(at, _)| *at);
        self.dispatch.sort_unstable_by(f64::total_cmp);
        let evidence = Evidence {
            dispatch_p99_ms: Percentile::P99.nearest(&self.dispatch),
            ttft_in_order: self
                .ttft_by_dispatch
                .iter()
                .map(|(_, ttft)| *ttft)
                .collect(),
            ..self.evidence
        };
        let curves = Curves {
            ttft: curve(&self.series.ttft),
            itl: curve(&self.series.itl_event),
        };
        let (goodput, slo) = self
            .judge
            .map(|judge| judge.finish(self.requests, good_inside, window_ns))
            .unzip();
        let point = Point {
            point_id: self.id,
            arm: self.arm,
            load: self.load,
            window: Window {
                seconds: window.map(|_| window_ns as f64 / 1e9),
                start_ns: window.map(|(start, _)| start),
                end_ns: window.map(|(_, end)| end),
            },
            requests: self.requests,
            errors: self.errors,
            metrics: self.series.summarise(),
            throughput: Throughput {
                completed: inside.len() as u64,
                requests_per_s: per_second(inside.len() as u64, window_ns),
                output_tokens_per_s: tokens.and_then(|n| per_second(n, window_ns)),
            },
            goodput,
            slo,
            success_rate: fraction(self.requests.ok, self.requests.planned),
            tokens: self.tokens,
            connections,
            warmup: Warmup {
                ttft_ms: Summary::of(self.warmup_ttft),
                ..self.warmup
            },
        };
        PointMeasure {
            point,
            evidence,
            curves,
        }
    }
}

fn curve(values: &[f64]) -> Vec<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    ecdf(&sorted, CURVE_POINTS)
}

/// What is missing or out of order among the stamps of an answer that ended ok.
fn timing_fault(record: &RequestRecord, open_loop: bool) -> Option<String> {
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
