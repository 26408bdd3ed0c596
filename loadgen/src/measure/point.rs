//! One load point: from its records to its entry in `aggregate.json`, what its gates need
//! ([`super::evidence`]), and the curves that charts draw.

use std::collections::BTreeMap;

use inferscope_shared::definitions::arithmetic::fraction;
use inferscope_shared::record::request::{Outcome, Phase, RequestRecord};

use super::aggregate::{Connections, Point, Requests, Tokens, Warmup, Window};
use super::evidence::{Evidence, Span};
use super::judge::Judge;
use super::rates::Completions;
use super::series::{Series, between_ms};
use super::window::Instants;
use crate::artifacts::manifest::PointRun;
use crate::config::LoadValue;
use crate::reconcile::Lengths;
use crate::slo::Slo;
use crate::stats::spill::Spill;
use crate::stats::{Ordered, Percentile, Values};

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

/// Empirical distributions `(milliseconds, share)`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Curves {
    /// Time to first token.
    pub ttft: Vec<(f64, f64)>,
    /// Gaps between output events.
    pub itl: Vec<(f64, f64)>,
}

/// A point whose records are still coming.
#[derive(Debug)]
pub struct PointBuilder {
    id: String,
    arm: String,
    load: LoadValue,
    span: Span,
    judge: Option<Judge>,
    requests: Requests,
    errors: BTreeMap<String, u64>,
    series: Series,
    instants: Instants,
    completions: Completions,
    tokens: Tokens,
    connections: Connections,
    warmup: Warmup,
    warmup_ttft: Ordered,
    evidence: Evidence,
    dispatch: Values,
}

impl PointBuilder {
    /// An empty point.
    #[must_use]
    pub fn new(run: &PointRun, slo: Option<Slo>, spill: &Spill) -> Self {
        Self {
            id: run.point_id.clone(),
            arm: run.arm.clone(),
            load: run.load,
            span: (run.start_ns, run.end_ns),
            judge: slo.map(|slo| Judge::new(slo, spill)),
            requests: Requests::default(),
            errors: BTreeMap::new(),
            series: Series::new(spill),
            instants: Instants::new(spill),
            completions: Completions::new(spill),
            tokens: Tokens::default(),
            connections: Connections::default(),
            warmup: Warmup::default(),
            warmup_ttft: Ordered::new(spill),
            evidence: Evidence::default(),
            dispatch: Values::new(spill),
        }
    }

    /// Takes one record and what its request asked for.
    pub fn push(&mut self, record: &RequestRecord, asked: Lengths) {
        let open = self.load.is_open();
        let measured = record.phase == Phase::Measure;
        self.evidence.rows.add(record.seq);
        self.evidence.claim.add(record, asked);
        if record.outcome != Outcome::Dropped {
            self.instants
                .sent(measured, record.dispatched_ns, record.end_ns);
        }
        let good = self.judge.as_ref().is_some_and(|j| j.is_good(record, open));
        self.completions.add(record, good);
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
            self.warmup_ttft.extend(record.dispatched_ns, ttft);
        }
    }

    fn measured(&mut self, record: &RequestRecord, asked: Lengths) {
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
        // What the stated limit of requests in flight held back is not the instrument's delay.
        let due = record.intended_ns.max(record.released_ns);
        self.dispatch.extend(between_ms(due, record.dispatched_ns));
        if record.outcome == Outcome::Ok {
            self.ok(record, asked, open);
        }
    }

    fn ok(&mut self, record: &RequestRecord, asked: Lengths, open: bool) {
        self.series.ok(record, open);
        if let Some(judge) = &mut self.judge {
            judge.ok(record, open);
        }
        self.tokens.prompt.add(record.prompt_tokens);
        self.tokens.completion.add(record.completion_tokens);
        self.evidence.ok(record, asked, open, self.span);
    }

    /// The point's numbers.
    #[must_use]
    pub fn finish(mut self) -> PointMeasure {
        let open = self.load.is_open();
        let window = self.instants.window(open);
        let rates = self.completions.rates(window, open);
        self.tokens.output_events = self.series.output_events;
        let counted = Some(self.series.counted_events).filter(|&events| events > 0);
        let sum = self.tokens.completion.sum;
        self.tokens.per_event = sum.zip(counted).map(|(sum, n)| sum as f64 / n as f64);
        let connections = Connections {
            reuse_fraction: fraction(
                self.connections.reused,
                self.connections.reused + self.connections.opened,
            ),
            ..self.connections
        };
        let judged = self
            .judge
            .map(|judge| judge.finish(self.requests, rates.good_per_s));
        let dispatch_at = if open {
            Percentile::P99
        } else {
            Percentile::P90
        };
        let evidence = Evidence {
            dispatch_ms: self.dispatch.sorted().nearest(dispatch_at),
            samples: judged.as_ref().map_or_else(Vec::new, |j| j.samples.clone()),
            ..self.evidence
        };
        let (metrics, curves) = self.series.summarise();
        let (goodput, slo) = judged.map(|j| (j.goodput, j.slo)).unzip();
        let point = Point {
            point_id: self.id,
            arm: self.arm,
            load: self.load,
            window: Window {
                seconds: window.map(|(start, end)| end.since(start) as f64 / 1e9),
                start_ns: window.map(|(start, _)| start),
                end_ns: window.map(|(_, end)| end),
            },
            requests: self.requests,
            errors: self.errors,
            metrics,
            throughput: rates.throughput,
            goodput,
            slo,
            success_rate: fraction(self.requests.ok, self.requests.planned),
            tokens: self.tokens,
            connections,
            warmup: Warmup {
                ttft_ms: self.warmup_ttft.summary(),
                ..self.warmup
            },
            telemetry: None,
            engine: None,
        };
        PointMeasure {
            point,
            evidence,
            curves,
        }
    }
}
