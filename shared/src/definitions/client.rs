//! What the client sees: latencies of single requests.
//!
//! "Origin" is `sent_start_ns` in a closed loop and `intended_ns` in an open one, so that waiting
//! inside the load generator is never hidden.

use super::{Definition, Source, Unit};

/// Time to first token.
pub const TTFT: Definition = Definition {
    symbol: "ttft_ms",
    name: "time to first token",
    formula: "first_output_ns - origin",
    unit: Unit::Milliseconds,
    start: "origin: sent_start_ns (closed loop) or intended_ns (open loop)",
    end: "arrival of the first event with non-empty output: text, reasoning, tool call or refusal",
    excludes: "role-only events, comments and usage don't end it; null without output; \
               answers that are not ok are left out and counted",
    source: Source::Client,
};

/// Time to first token without the load generator's own delay.
pub const TTFT_FROM_SENT: Definition = Definition {
    symbol: "ttft_from_sent_ms",
    name: "time to first token, from sending",
    formula: "first_output_ns - sent_start_ns",
    unit: Unit::Milliseconds,
    start: "sent_start_ns: the first write call of the request",
    end: TTFT.end,
    excludes: TTFT.excludes,
    source: Source::Client,
};

/// Time to the first event of any kind.
pub const FIRST_EVENT: Definition = Definition {
    symbol: "first_event_ms",
    name: "time to first event",
    formula: "first_event_ns - origin",
    unit: Unit::Milliseconds,
    start: TTFT.start,
    end: "arrival of the first event with data, the role-only one included",
    excludes: "comments; says how soon the engine opened the stream, not how soon it had a token",
    source: Source::Client,
};

/// Time per output token.
pub const TPOT: Definition = Definition {
    symbol: "tpot_ms",
    name: "time per output token",
    formula: "(last_output_ns - first_output_ns) / (completion_tokens - 1)",
    unit: Unit::Milliseconds,
    start: "arrival of the first event with output",
    end: "arrival of the last event with output",
    excludes: "null below 2 completion tokens and where the engine reported no count; the first \
               event may hold several tokens, all of them count",
    source: Source::Client,
};

/// Inter-token latency as events show it.
pub const ITL_EVENT: Definition = Definition {
    symbol: "itl_event_ms",
    name: "gap between output events",
    formula: "at_ns of an output event - at_ns of the output event before it",
    unit: Unit::Milliseconds,
    start: "arrival of an event with output",
    end: "arrival of the next one of the same answer",
    excludes: "events without output; events of one read have a gap of zero; an event is not a \
               token where the engine batches them",
    source: Source::Client,
};

/// Inter-token latency proper.
pub const ITL_TOKEN: Definition = Definition {
    symbol: "itl_token_ms",
    name: "inter-token latency",
    formula: "gap between output events / tokens of the later event, once for each of them",
    unit: Unit::Milliseconds,
    start: ITL_EVENT.start,
    end: ITL_EVENT.end,
    excludes: "null unless the tokens of every output event are known, or the answer has as many \
               output events as tokens",
    source: Source::Client,
};

/// The whole of a request.
pub const E2E: Definition = Definition {
    symbol: "e2e_ms",
    name: "end-to-end latency",
    formula: "(done_ns, or end_ns where done_missing) - origin",
    unit: Unit::Milliseconds,
    start: TTFT.start,
    end: "arrival of [DONE]; without one, the clean end of the body after a finish reason; for a \
          body in one piece, its last byte",
    excludes: "whatever the server sends after the end mark; answers that are not ok are left out \
               and counted",
    source: Source::Client,
};

/// The whole of a request without the load generator's own delay.
pub const E2E_FROM_SENT: Definition = Definition {
    symbol: "e2e_from_sent_ms",
    name: "end-to-end latency, from sending",
    formula: "(done_ns, or end_ns where done_missing) - sent_start_ns",
    unit: Unit::Milliseconds,
    start: TTFT_FROM_SENT.start,
    end: E2E.end,
    excludes: E2E.excludes,
    source: Source::Client,
};

/// How late the load generator itself was.
pub const DISPATCH_LAG: Definition = Definition {
    symbol: "dispatch_lag_ms",
    name: "dispatch lag",
    formula: "sent_start_ns - intended_ns",
    unit: Unit::Milliseconds,
    start: "intended_ns: the planned arrival (open loop), or the instant the slot came free \
            (closed loop)",
    end: "sent_start_ns: the first write call of the request",
    excludes: "arrivals that were never sent, which are counted as dropped; includes connecting",
    source: Source::Client,
};

/// Making the connection.
pub const CONNECT: Definition = Definition {
    symbol: "connect_ms",
    name: "connect time",
    formula: "(connect.tls_ns, else connect.tcp_ns) - connect.start_ns",
    unit: Unit::Milliseconds,
    start: "the connect call",
    end: "the connection ready for a request, TLS included where there is any",
    excludes: "requests on a reused connection, which have none",
    source: Source::Client,
};

/// Time to first token as the kernel saw it.
pub const TTFT_KERNEL: Definition = Definition {
    symbol: "ttft_kernel_ms",
    name: "time to first token, kernel arrival",
    formula: "first_output_rx_ns - origin",
    unit: Unit::Milliseconds,
    start: TTFT.start,
    end: "the kernel had the last byte of the first event with output",
    excludes: "answers where that is not exact: no usable stamp, or a read that went on behind the \
               event; limits are judged by ttft_ms, which is never the smaller one",
    source: Source::Client,
};

/// Gap between output events as the kernel saw them.
pub const ITL_EVENT_KERNEL: Definition = Definition {
    symbol: "itl_event_kernel_ms",
    name: "gap between output events, kernel arrival",
    formula: "(at_ns - rx_lag_ns) of an output event - the same of the output event before it",
    unit: Unit::Milliseconds,
    start: "the kernel had an event with output",
    end: "the kernel had the next one of the same answer",
    excludes: "gaps of which one end or both are not exact (rx_upper_bound, or no usable stamp)",
    source: Source::Client,
};

/// How long bytes lay in the kernel.
pub const READ_LAG: Definition = Definition {
    symbol: "read_lag_ms",
    name: "read lag",
    formula: "rx_lag_ns, once for each read that completed an event",
    unit: Unit::Milliseconds,
    start: "the kernel had the last segment of the read",
    end: "the read returned",
    excludes: "earlier segments of the same read, which waited longer; reads without a usable stamp",
    source: Source::Client,
};
