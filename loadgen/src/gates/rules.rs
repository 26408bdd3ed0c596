//! The tables of gates: one row each, and the only place where thresholds stand.
//!
//! This file has what every run is judged by; what hangs on evidence beside the records stands in
//! tables by subject: [`tokens`], [`server`], [`machine`], [`gpu`].

mod gpu;
mod machine;
mod server;
mod tokens;

use super::{Blame, Check, client, engine, instrument, joined, rows, workload};
use crate::stats::Percentile;

pub(super) use gpu::{CLOCK_SPREAD, THROTTLED_SAMPLES};
pub(super) use machine::{
    BEHIND, CLOCK_NS, CPU_SHARE, RETRANSMITTED, RUN_WAIT_SHARE, THROTTLED_SHARE,
};
pub(super) use server::PREFIX_HITS;
pub(super) use tokens::{COUNT_DIFFERENCE, EXACT_PROMPT};

/// What is fixed about a gate.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Its id.
    pub id: &'static str,
    /// Which raw files it needs.
    pub needs: &'static str,
    /// What it measures.
    pub measures: &'static str,
    /// Its threshold; none where there is no number, or where the run names it.
    pub threshold: Option<f64>,
    /// Unit of value and threshold.
    pub unit: &'static str,
    /// When it passes, in words.
    pub passes: &'static str,
    /// Why this threshold.
    pub why: &'static str,
    /// Whom it points at.
    pub blame: Blame,
    /// What to do.
    pub remedy: &'static str,
    /// How it judges.
    pub check: Check,
}

/// Share of planned requests that must end ok in a run at fixed load.
pub(super) const SUCCESS_RATE: f64 = 0.99;
/// Share of answers that must have exactly the length asked for.
pub(super) const EXACT_LENGTH: f64 = 0.95;
/// Dispatch lag of an open loop, p99, in milliseconds, where no limit allows more.
pub(super) const DISPATCH_LAG_MS: f64 = 1.0;
/// The share of the smallest TTFT or E2E limit that dispatch lag may take.
pub(super) const DISPATCH_LAG_SHARE: f64 = 0.1;
/// Dispatch lag at most, in milliseconds, and that of a closed loop.
pub(super) const DISPATCH_LAG_MOST_MS: f64 = 10.0;
/// Loop lag, p99 of a second, in milliseconds.
pub(super) const LOOP_LAG_MS: f64 = 10.0;
/// The share of a latency limit that the instrument's own error may be.
pub(super) const INSTRUMENT_SHARE: f64 = 0.1;
/// The share of a point's seconds whose loop lag must be below its limit.
pub(super) const CALM_SECONDS: Percentile = Percentile::P90;
/// Chance that a limit which does not hold passes for one that does.
pub(super) const CERTIFY_RISK: f64 = 0.05;

/// Every gate, in the order in which reports show them.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    [
        RECORDS,
        tokens::RULES,
        server::RULES,
        machine::RULES,
        gpu::RULES,
    ]
    .into_iter()
    .flatten()
}

/// Gates that every run has the evidence for.
const RECORDS: &[Rule] = &[
    Rule {
        id: "run_complete",
        needs: "manifest.json",
        measures: "points that ran to their own end",
        threshold: None,
        unit: "points",
        passes: "every planned point ran to the end it was given, and none was interrupted or ran \
                 out of prompts; else UNDECIDED",
        why: "points that are missing may be the ones that mattered",
        blame: Blame::Environment,
        remedy: "run it again to its end; what was measured is kept",
        check: Check::Run(engine::run_complete),
    },
    Rule {
        id: "raw_written",
        needs: "manifest.json",
        measures: "whether every write to raw/ succeeded",
        threshold: None,
        unit: "writes",
        passes: "the run ended without a failed write; UNDECIDED when loadgen itself was ended",
        why: "what could not be written is missing from every number, and nobody knows what it was",
        blame: Blame::Environment,
        remedy: "make room on the disk of the results directory, or name another one \
                 (--results-dir), and run again",
        check: Check::Run(rows::raw_written),
    },
    Rule {
        id: "rows_complete",
        needs: "manifest.json, requests.jsonl",
        measures: "records of this point, warm-up included",
        threshold: None,
        unit: "records",
        passes: "one record for each planned arrival, and one for each sequence number up to the \
                 highest where no number was planned; UNDECIDED when loadgen itself was ended",
        why: "a record that is lost takes its request out of every denominator: what is left \
              looks better than what was measured",
        blame: Blame::Environment,
        remedy: "requests.jsonl is not as the run left it: restore it (its hash is in \
                 manifest.json) or run again",
        check: Check::Point(rows::rows_complete),
    },
    Rule {
        id: "engine_alive",
        needs: "manifest.json",
        measures: "whether the arm and the engine behind it answered when the point was over",
        threshold: None,
        unit: "answers",
        passes: "the probe after the point got an answer; FAIL when it did not, or when the point \
                 ended because the engine was gone",
        why: "a process that died is no result about its speed",
        blame: Blame::Engine,
        remedy: "look at the engine's log, restart it and run again",
        check: Check::Point(engine::engine_alive),
    },
    Rule {
        id: "warmup",
        needs: "manifest.json, requests.jsonl",
        measures: "warm-up requests that ended ok",
        threshold: Some(1.0),
        unit: "requests",
        passes: "at least one warm-up request ended ok; UNDECIDED when none was planned",
        why: "first connections and a cold engine otherwise sit in the measured tail",
        blame: Blame::Workload,
        remedy: "plan warm-up requests (load.warmup), at least as many as the concurrency",
        check: Check::Point(workload::warmup),
    },
    Rule {
        id: "success_rate",
        needs: "requests.jsonl",
        measures: "ok / planned",
        threshold: Some(SUCCESS_RATE),
        unit: "1",
        passes: "at or above 0.99, or above the SLO's own success limit where that is lower; \
                 UNDECIDED when only an interruption kept it below",
        why: "at a fixed load that the engine is meant to carry, latencies of the survivors alone \
              flatter; an SLO that allows more failures says that they are a result",
        blame: Blame::Engine,
        remedy: "look at the errors by kind (most of them the client's own limits: it points at \
                 the client; most of them cut by the run's own end: at the workload); lower the \
                 load, or state success=… in the SLO if failures are what is being measured",
        check: Check::Point(engine::success_rate),
    },
    Rule {
        id: "timing_complete",
        needs: "requests.jsonl, manifest.json",
        measures: "ok answers whose stamps are all there, in order and inside their point",
        threshold: Some(1.0),
        unit: "1",
        passes: "all of them",
        why: "a missing or reordered stamp is a fault of the instrument, however rare",
        blame: Blame::Client,
        remedy: "report it with the named line of requests.jsonl: it is a fault of loadgen",
        check: Check::Point(client::timing_complete),
    },
    Rule {
        id: "output_length",
        needs: "plan.jsonl, requests.jsonl",
        measures: "ok answers with exactly the output tokens asked for, of those with a count",
        threshold: Some(EXACT_LENGTH),
        unit: "1",
        passes: "at or above 0.95; NOT_APPLICABLE to a replayed workload, whose lengths are caps",
        why: "E2E and throughput of arms that answer at different lengths cannot be compared",
        blame: Blame::Workload,
        remedy: "make the engine ignore its end token (request.body: '{\"ignore_eos\": true}' on \
                 vLLM and llama.cpp), or ask for fewer tokens",
        check: Check::Point(workload::output_length),
    },
    Rule {
        id: "token_availability",
        needs: "requests.jsonl",
        measures: "ok answers whose tokens the engine counted",
        threshold: Some(1.0),
        unit: "1",
        passes: "all of them; else UNDECIDED",
        why: "without a count TPOT and token rates are null, and events are not tokens",
        blame: Blame::Engine,
        remedy: "use an engine that honours stream_options.include_usage, and check that nothing \
                 on the path removes it",
        check: Check::Point(workload::token_availability),
    },
    Rule {
        id: "dispatch_lag",
        needs: "requests.jsonl",
        measures: "p99 of dispatched - intended (the maximum below 100 requests), from the end of \
                   the wait where load.over_limit held a request back; in a closed loop p90 of \
                   dispatched - slot free",
        threshold: None,
        unit: "ms",
        passes: "open loop: at or below 1 ms, or a tenth of the smallest TTFT or E2E limit of the \
                 SLO where that is more, 10 ms at most; closed loop: at or below 10 ms",
        why: "a later dispatch is another schedule than the planned one, and every latency from \
              the planned instant holds it: 1 ms is five times what a free core keeps at 1,000 \
              requests per second, a tenth of a limit does not decide whether it is met, and \
              from 10 ms on a request counts as late; in a closed loop no latency holds that \
              time, only the load is lower than its concurrency says, so one hiccup in ten is \
              borne",
        blame: Blame::Client,
        remedy: "give loadgen a free core, or spread the load over fewer requests per second",
        check: Check::Point(client::dispatch_lag),
    },
    Rule {
        id: "client_loop_lag",
        needs: "client_metrics.jsonl, manifest.json",
        measures: "p90 over the point's seconds of each second's p99 loop lag",
        threshold: Some(LOOP_LAG_MS),
        unit: "ms",
        passes: "at or below 10 ms; UNDECIDED without a sample near the point",
        why: "every read waits as long as the loop lags, so TTFT and ITL carry it; nine seconds \
              of ten, so that one hiccup of the machine does not void a run",
        blame: Blame::Client,
        remedy: "give loadgen a free core, away from engine and gateway, or lower the load",
        check: Check::Point(client::client_loop_lag),
    },
    Rule {
        id: "instrument_error",
        needs: "manifest.json",
        measures: "p99 (the maximum below 100 values) of the instrument's own error at the load of \
                   this run: TTFT against the ttft and e2e limits, ITL against the tpot limit; of \
                   the limit that it uses up most",
        threshold: None,
        unit: "ms",
        passes: "at or below 10 % of each latency limit; NOT_APPLICABLE without one; UNDECIDED \
                 when there is one and the error was not measured",
        why: "an error of a tenth of the limit can turn its verdict around; client and server \
              share the host's cores in the calibration, so the true error is smaller",
        blame: Blame::Client,
        remedy: "give loadgen free cores, or lower the load on one loadgen; loadgen calibrate \
                 tries it out; let calibration be on (calibration: {duration: 3s})",
        check: Check::Run(instrument::instrument_error),
    },
    Rule {
        id: "sample_size",
        needs: "config.resolved.yaml, requests.jsonl",
        measures: "chance of so few misses if the percentile did not keep its limit: P(B <= \
                   misses), B binomial (n, 1 - p), n the requests by their effective number; of \
                   the worst limit",
        threshold: Some(CERTIFY_RISK),
        unit: "probability",
        passes: "at or below 0.05 for each latency limit (without a miss 5 samples at p50, 59 at \
                 p95, 299 at p99; with one 93 at p95); else UNDECIDED; NOT_APPLICABLE when no \
                 latency limit is claimed or the limits are not met",
        why: "else the sample cannot show at 95 % confidence that the percentile keeps its limit",
        blame: Blame::Statistics,
        remedy: "measure more requests, or claim a lower percentile (at=p50)",
        check: Check::Point(workload::sample_size),
    },
    Rule {
        id: "join_complete",
        needs: "requests.jsonl, gateway_records.jsonl, manifest.json",
        measures: "answered gateway requests without exactly one gateway record, and records \
                   without a request",
        threshold: Some(0.0),
        unit: "requests",
        passes: "none, and all records are of this run's boot; NOT_APPLICABLE without a gateway \
                 arm or when no records were asked for; UNDECIDED when they were and are missing",
        why: "attribution over part of the requests may be over the wrong part",
        blame: Blame::Gateway,
        remedy: "enlarge the gateway's record ring (records.ring) or read its record file; give \
                 loadgen longer to wait (timeouts.records)",
        check: Check::Run(joined::join_complete),
    },
    Rule {
        id: "records_dropped",
        needs: "gateway_records.jsonl",
        measures: "records that the gateway says it lost",
        threshold: Some(0.0),
        unit: "records",
        passes: "none lost, or none of this run's missing",
        why: "lost records are the busiest moments",
        blame: Blame::Gateway,
        remedy: "enlarge records.ring in the gateway's configuration, or use a faster disk",
        check: Check::Run(joined::records_dropped),
    },
    Rule {
        id: "byte_identity",
        needs: "requests.jsonl, gateway_records.jsonl",
        measures: "answers whose bytes differ between engine, gateway and client",
        threshold: Some(0.0),
        unit: "answers",
        passes: "none; NOT_APPLICABLE when the gateway does not hash (records.hash)",
        why: "a gateway that changes bytes measures another answer than the engine gave",
        blame: Blame::Gateway,
        remedy: "report it with the named request id: it is a fault of the gateway",
        check: Check::Run(joined::byte_identity),
    },
];
