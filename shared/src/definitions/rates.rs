//! What a load point achieved: rates and shares over its window.
//!
//! The window runs from the first measured dispatch to the instant when requests in flight first
//! fall below the target (closed loop), or to the last planned arrival (open loop).

use super::{Definition, Source, Unit};

const WINDOW: &str = "first measured dispatch";
const WINDOW_END: &str = "requests in flight first below target (closed loop), or last planned \
                          arrival (open loop)";

/// Completed requests.
pub const REQUESTS: Definition = Definition {
    symbol: "requests_per_s",
    name: "request throughput",
    formula: "requests that ended ok inside the window (closed loop), or measured requests that \
              ended ok (open loop) / window",
    unit: Unit::RequestsPerSecond,
    start: WINDOW,
    end: WINDOW_END,
    excludes: "in a closed loop answers that ended before or after the window, whatever their \
               phase; in an open loop the warm-up; failed, incomplete and dropped requests",
    source: Source::Client,
};

/// Completed tokens.
pub const OUTPUT_TOKENS: Definition = Definition {
    symbol: "output_tokens_per_s",
    name: "output token throughput",
    formula: "completion_tokens of the requests counted by requests_per_s / window",
    unit: Unit::TokensPerSecond,
    start: WINDOW,
    end: WINDOW_END,
    excludes: "what requests_per_s excludes; null when one of those counted has no exact token \
               count",
    source: Source::Client,
};

/// Requests that kept every promise.
pub const GOODPUT: Definition = Definition {
    symbol: "goodput.requests_per_s",
    name: "goodput",
    formula: "the requests counted by requests_per_s that lie within the limits of TTFT, TPOT and \
              E2E / window",
    unit: Unit::RequestsPerSecond,
    start: WINDOW,
    end: WINDOW_END,
    excludes: "a limit is kept when value <= limit, and when it does not apply (TPOT of one \
               token); a value that is missing for another reason and a late request of an open loop \
               are misses; zero when the success rate misses its limit; absent without limits",
    source: Source::Client,
};

/// The share of requests that kept every promise.
pub const GOODPUT_FRACTION: Definition = Definition {
    symbol: "goodput.fraction",
    name: "goodput share",
    formula: "ok requests within the limits of TTFT, TPOT and E2E / planned",
    unit: Unit::Fraction,
    start: "all planned arrivals of the window",
    end: "those within every limit",
    excludes: "nothing leaves the denominator: failed, incomplete, dropped and (open loop) late \
               requests are misses",
    source: Source::Client,
};

/// The share of requests answered whole.
pub const SUCCESS_RATE: Definition = Definition {
    symbol: "success_rate",
    name: "success rate",
    formula: "ok / planned, where planned = sent + dropped and sent = ok + failed + incomplete",
    unit: Unit::Fraction,
    start: "all planned arrivals of the window",
    end: "those answered whole",
    excludes: "nothing leaves the denominator; null without a planned arrival",
    source: Source::Client,
};
