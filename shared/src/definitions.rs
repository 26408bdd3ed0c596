//! Every number that a report may show, defined once: what it is called, how it is computed, from
//! where to where, and what it leaves out.
//!
//! Reports take names and units from here and `docs/methodology.md` is checked against it, so a
//! definition can't say one thing and the text another. What is plain arithmetic is computed here
//! too ([`arithmetic`]); how many samples a percentile needs is the load generator's business.
//!
//! Intervals are CLOCK_MONOTONIC nanoseconds in records and milliseconds in results.

pub mod arithmetic;
mod client;
mod gateway;
mod rates;

pub use client::{
    CONNECT, DISPATCH_LAG, E2E, E2E_FROM_SENT, FIRST_EVENT, ITL_EVENT, ITL_EVENT_KERNEL, ITL_TOKEN,
    READ_LAG, TPOT, TTFT, TTFT_FROM_SENT, TTFT_KERNEL,
};
pub use gateway::{
    GATEWAY_CONNECT, GATEWAY_DELIVERY, GATEWAY_PREFILL, GATEWAY_QUEUE, GATEWAY_RELAY,
    GATEWAY_WRITE_BLOCKED,
};
pub use rates::{GOODPUT, GOODPUT_FRACTION, OUTPUT_TOKENS, REQUESTS, SUCCESS_RATE};

/// One metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Definition {
    /// Its key in results, unit included: `ttft_ms`.
    pub symbol: &'static str,
    /// Its name for people: "time to first token".
    pub name: &'static str,
    /// How it is computed, in terms of the fields of the records.
    pub formula: &'static str,
    /// What its value counts.
    pub unit: Unit,
    /// The instant or amount it starts from.
    pub start: &'static str,
    /// The instant or amount it ends with.
    pub end: &'static str,
    /// What it leaves out, and when it is null.
    pub excludes: &'static str,
    /// Whose clock or count it is.
    pub source: Source,
}

/// The unit of a metric's value in results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Milliseconds.
    Milliseconds,
    /// Requests per second.
    RequestsPerSecond,
    /// Tokens per second.
    TokensPerSecond,
    /// A share between 0 and 1.
    Fraction,
}

impl Unit {
    /// The unit as printed.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Milliseconds => "ms",
            Self::RequestsPerSecond => "requests/s",
            Self::TokensPerSecond => "tokens/s",
            Self::Fraction => "a share of 1",
        }
    }
}

/// Where the values of a metric come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The load generator's stamps.
    Client,
    /// The gateway's stamps.
    Gateway,
    /// Stamps of both, of one boot.
    Joined,
}

impl Source {
    /// The source as printed.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Client => "requests.jsonl",
            Self::Gateway => "gateway_records.jsonl",
            Self::Joined => "requests.jsonl joined with gateway_records.jsonl",
        }
    }
}

/// All metrics, in the order in which reports show them.
pub const ALL: &[Definition] = &[
    TTFT,
    TTFT_FROM_SENT,
    FIRST_EVENT,
    TPOT,
    ITL_EVENT,
    ITL_TOKEN,
    E2E,
    E2E_FROM_SENT,
    DISPATCH_LAG,
    CONNECT,
    TTFT_KERNEL,
    ITL_EVENT_KERNEL,
    READ_LAG,
    REQUESTS,
    OUTPUT_TOKENS,
    GOODPUT,
    GOODPUT_FRACTION,
    SUCCESS_RATE,
    GATEWAY_QUEUE,
    GATEWAY_CONNECT,
    GATEWAY_PREFILL,
    GATEWAY_RELAY,
    GATEWAY_DELIVERY,
    GATEWAY_WRITE_BLOCKED,
];

/// The metric with this symbol.
#[must_use]
pub fn by_symbol(symbol: &str) -> Option<&'static Definition> {
    ALL.iter().find(|it| it.symbol == symbol)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_metric_has_its_own_symbol_and_its_unit_in_it() {
        let symbols: BTreeSet<_> = ALL.iter().map(|it| it.symbol).collect();
        assert_eq!(symbols.len(), ALL.len());
        for it in ALL {
            let suffix = match it.unit {
                Unit::Milliseconds => "_ms",
                Unit::RequestsPerSecond | Unit::TokensPerSecond => "_per_s",
                Unit::Fraction => "",
            };
            assert!(it.symbol.ends_with(suffix), "{}", it.symbol);
            for text in [it.name, it.formula, it.start, it.end, it.excludes] {
                assert!(!text.is_empty(), "{} has an empty part", it.symbol);
            }
            assert_eq!(by_symbol(it.symbol), Some(it));
        }
        assert_eq!(by_symbol("ttft"), None);
    }
}
