//! Who keeps the limits: single answers (goodput) and the point as a whole (`slo.met`).
//!
//! Failed, incomplete and dropped requests are misses and never leave a denominator, and so are
//! requests of an open loop that were sent late: their schedule was not the planned one. At a
//! percentile a latency limit holds when that share of all planned requests kept it, which is
//! the nearest-rank percentile with misses counted as infinitely slow.

use inferscope_shared::definitions as defs;
use inferscope_shared::definitions::arithmetic::fraction;
use inferscope_shared::record::request::{Outcome, RequestRecord};

use super::aggregate::{Goodput, Requests, SloCheck, SloResult};
use super::series::{answer_end, between_ms, origin, tpot_ms};
use crate::slo::Slo;
use crate::stats::Ordered;
use crate::stats::spill::Spill;

/// Whether one answer keeps one limit.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kept {
    /// It has a value, within the limit or not.
    Value(f64),
    /// The metric does not apply to it (TPOT below two tokens): kept.
    NotApplicable,
    /// It should have a value and has none (unknown token count, no output): a miss.
    Unknown,
}

/// What the records of a point showed against its limits.
#[derive(Debug)]
pub struct Judge {
    slo: Slo,
    ttft: Option<Track>,
    tpot: Option<Track>,
    e2e: Option<Track>,
    good: u64,
    unknown_tpot: u64,
}

/// What a point's numbers say about its limits.
#[derive(Debug)]
pub struct Judged {
    /// What was completed within the limits.
    pub goodput: Goodput,
    /// Whether the limits hold.
    pub slo: SloResult,
    /// What each latency limit was judged by.
    pub samples: Vec<Sample>,
}

/// What one latency limit was judged by.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// `ttft_ms`, `tpot_ms` or `e2e_ms`.
    pub metric: &'static str,
    /// Planned requests that the limit applies to.
    pub planned: u64,
    /// Those that did not keep it, whatever the reason.
    pub misses: u64,
    /// Independent values per value, at most 1.
    pub worth: f64,
}

/// One latency limit and what it is held against.
#[derive(Debug)]
struct Track {
    limit: f64,
    /// Values of answers that have one.
    values: Ordered,
    /// Those within the limit.
    kept: u64,
    /// Answers that the limit does not apply to.
    not_applicable: u64,
}

impl Track {
    fn new(limit: f64, spill: &Spill) -> Self {
        Self {
            limit,
            values: Ordered::new(spill),
            kept: 0,
            not_applicable: 0,
        }
    }

    fn add(&mut self, record: &RequestRecord, kept: Kept) {
        match kept {
            Kept::Value(ms) => {
                self.values.extend(record.dispatched_ns, Some(ms));
                self.kept += u64::from(ms <= self.limit);
            }
            Kept::NotApplicable => self.not_applicable += 1,
            Kept::Unknown => {}
        }
    }

    /// What it shows. Answers that the limit does not apply to leave the percentile on both
    /// sides.
    fn finish(self, metric: &'static str, planned: u64, slo: &Slo) -> (SloCheck, Sample) {
        let planned = planned.saturating_sub(self.not_applicable);
        let values = self.values.finish();
        let sample = Sample {
            metric,
            planned,
            misses: planned.saturating_sub(self.kept),
            worth: match values.sorted.len() {
                0 => 1.0,
                n => values.effective / n as f64,
            },
        };
        let planned = usize::try_from(planned).unwrap_or(0);
        let rank = slo.at.rank(planned).checked_sub(1);
        let value = rank.and_then(|rank| values.sorted.get(rank));
        let enough = planned >= slo.at.values_needed();
        let check = SloCheck {
            metric: metric.to_owned(),
            limit: self.limit,
            value: value.filter(|_| enough),
            met: enough.then(|| value.is_some_and(|ms| ms <= self.limit)),
        };
        (check, sample)
    }
}

impl Judge {
    /// A judge by these limits.
    #[must_use]
    pub fn new(slo: Slo, spill: &Spill) -> Self {
        let track = |limit: Option<f64>| limit.map(|limit| Track::new(limit, spill));
        Self {
            slo,
            ttft: track(slo.limits.ttft_ms),
            tpot: track(slo.limits.tpot_ms),
            e2e: track(slo.limits.e2e_ms),
            good: 0,
            unknown_tpot: 0,
        }
    }

    /// Whether an answer keeps every latency limit. Anything but a whole answer does not.
    #[must_use]
    pub fn is_good(&self, record: &RequestRecord, open_loop: bool) -> bool {
        let within = |limit: Option<f64>, kept: Kept| match (limit, kept) {
            (None, _) | (_, Kept::NotApplicable) => true,
            (Some(limit), Kept::Value(ms)) => ms <= limit,
            (Some(_), Kept::Unknown) => false,
        };
        let limits = self.slo.limits;
        record.outcome == Outcome::Ok
            && !(open_loop && record.late)
            && within(limits.ttft_ms, ttft(record, open_loop))
            && within(limits.tpot_ms, tpot(record))
            && within(limits.e2e_ms, e2e(record, open_loop))
    }

    /// Takes a measured answer that ended ok.
    pub fn ok(&mut self, record: &RequestRecord, open_loop: bool) {
        self.good += u64::from(self.is_good(record, open_loop));
        if open_loop && record.late {
            return;
        }
        let tpot = tpot(record);
        for (track, kept) in [
            (&mut self.ttft, ttft(record, open_loop)),
            (&mut self.tpot, tpot),
            (&mut self.e2e, e2e(record, open_loop)),
        ] {
            if let Some(track) = track {
                track.add(record, kept);
            }
        }
        self.unknown_tpot += u64::from(tpot == Kept::Unknown);
    }

    /// Goodput and verdict over the limits. `good_per_s` is the rate of good answers.
    #[must_use]
    pub fn finish(self, requests: Requests, good_per_s: Option<f64>) -> Judged {
        let success_rate = fraction(requests.ok, requests.planned);
        let shortfall = match (self.slo.success, success_rate) {
            (Some(limit), Some(rate)) if rate < limit => Some(format!(
                "success rate {rate:.4} is below its limit {limit}: {} of {} planned requests ended ok",
                requests.ok, requests.planned
            )),
            _ => None,
        };
        let no_count = (self.slo.limits.tpot_ms.is_some() && self.unknown_tpot > 0).then(|| {
            format!(
                "{} answers have no token count and cannot show that they kept the tpot limit: counted as misses",
                self.unknown_tpot
            )
        });
        let goodput = if let Some(reason) = shortfall.clone() {
            Goodput {
                requests_per_s: Some(0.0),
                fraction: Some(0.0),
                good: self.good,
                reason: Some(reason),
            }
        } else {
            Goodput {
                requests_per_s: good_per_s,
                fraction: fraction(self.good, requests.planned),
                good: self.good,
                reason: no_count.clone(),
            }
        };
        let (slo, samples) = self.verdict(requests, success_rate);
        Judged {
            goodput,
            slo,
            samples,
        }
    }

    fn verdict(self, requests: Requests, success_rate: Option<f64>) -> (SloResult, Vec<Sample>) {
        let limits = self.slo.limits;
        let mut checks = Vec::new();
        let mut samples = Vec::new();
        let mut reasons = Vec::new();
        if let Some(limit) = self.slo.success {
            let check = SloCheck {
                metric: defs::SUCCESS_RATE.symbol.to_owned(),
                limit,
                value: success_rate,
                met: success_rate.map(|rate| rate >= limit),
            };
            reasons.extend(reason(&check, requests.planned, requests, &self.slo));
            checks.push(check);
        }
        for (definition, track) in [
            (&defs::TTFT, self.ttft),
            (&defs::TPOT, self.tpot),
            (&defs::E2E, self.e2e),
        ] {
            if let Some(track) = track {
                let (check, sample) = track.finish(definition.symbol, requests.planned, &self.slo);
                reasons.extend(reason(&check, sample.planned, requests, &self.slo));
                checks.push(check);
                samples.push(sample);
            }
        }
        let met = if checks.iter().any(|it| it.met == Some(false)) {
            Some(false)
        } else if checks.iter().any(|it| it.met.is_none()) {
            None
        } else {
            Some(true)
        };
        let result = SloResult {
            met,
            at: self.slo.at.to_string(),
            limits,
            success: self.slo.success,
            checks,
            reasons,
        };
        (result, samples)
    }
}

/// Why a limit is not kept, or why nobody can say; `applies` planned requests were judged by it.
fn reason(check: &SloCheck, applies: u64, requests: Requests, slo: &Slo) -> Option<String> {
    let SloCheck {
        metric,
        limit,
        value,
        met,
    } = check;
    Some(match (met, value) {
        (Some(true), _) => return None,
        (None, _) => format!(
            "{metric}: {applies} planned requests are too few for {}, which needs {}",
            slo.at,
            slo.at.values_needed()
        ),
        (Some(_), Some(value)) if metric == defs::SUCCESS_RATE.symbol => {
            format!("{metric} {value:.4} is below its limit {limit}")
        }
        (Some(_), Some(value)) => format!(
            "{metric} {} of planned requests {value:.1} is above its limit {limit}",
            slo.at
        ),
        (Some(_), None) => format!(
            "{metric} {} of planned requests falls among those without an answer that counts ({} of {} ended ok, {} late)",
            slo.at, requests.ok, requests.planned, requests.late
        ),
    })
}

fn value(ms: Option<f64>) -> Kept {
    ms.map_or(Kept::Unknown, Kept::Value)
}

fn ttft(record: &RequestRecord, open_loop: bool) -> Kept {
    value(between_ms(
        origin(record, open_loop),
        record.first_output_ns,
    ))
}

fn tpot(record: &RequestRecord) -> Kept {
    match record.completion_tokens {
        Some(0 | 1) => Kept::NotApplicable,
        _ => value(tpot_ms(record)),
    }
}

fn e2e(record: &RequestRecord, open_loop: bool) -> Kept {
    value(between_ms(origin(record, open_loop), answer_end(record)))
}
