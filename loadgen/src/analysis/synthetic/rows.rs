//! Rows of the fake run and the gateway's records of them.

use inferscope_shared::clock::MonoNs;
use inferscope_shared::record::gateway::{
    Chunks, Extraction, GatewayRecord, Outcome as GatewayOutcome, Usage, UsageSource,
};
use inferscope_shared::record::request::{
    Connect, EventKind, Events, Outcome, Phase, RequestRecord, TokensSource,
};

use super::{BOOT, MS, RUN};

/// From the kernel's receipt of a read to the read.
const RX_LAG: u64 = 20_000;

/// An ok answer that was sent at `sent_ms`: first output 50 ms later, five outputs 10 ms apart,
/// five tokens, `[DONE]` with the last one.
pub(crate) fn row(point: &str, seq: u64, sent_ms: u64) -> RequestRecord {
    let arm = point.split('.').next().unwrap_or_default();
    let sent = MonoNs(sent_ms * MS);
    let at = |ms: u64| Some(sent.plus_ns(ms * MS));
    RequestRecord {
        schema_version: 1,
        run_id: RUN.to_owned(),
        point_id: point.to_owned(),
        arm: arm.to_owned(),
        phase: Phase::Measure,
        block: 0,
        seq,
        request_id: format!("{RUN}.{point}.{seq}"),
        gateway_request_id: None,
        traceparent: None,
        intended_ns: Some(sent),
        released_ns: None,
        dispatched_ns: Some(sent),
        connect: Connect {
            reused: true,
            ..Connect::default()
        },
        sent_start_ns: Some(sent),
        sent_end_ns: Some(sent),
        head_ns: at(5),
        first_event_ns: at(5),
        first_output_ns: at(50),
        last_output_ns: at(90),
        first_output_rx_ns: Some(sent.plus_ns(50 * MS - RX_LAG)),
        first_output_rx_exact: true,
        last_output_rx_ns: Some(sent.plus_ns(90 * MS - RX_LAG)),
        last_output_rx_exact: false,
        done_ns: at(90),
        end_ns: at(91),
        status: Some(200),
        outcome: Outcome::Ok,
        error_kind: None,
        error_message: None,
        late: false,
        prompt_tokens: Some(8),
        completion_tokens: Some(5),
        tokens_source: TokensSource::Usage,
        finish_reason: Some("length".to_owned()),
        done_missing: false,
        body_bytes: 700,
        body_sha256: Some("aa".to_owned()),
        text_sha256: None,
        events: Events {
            at_ns: vec![5 * MS, 45 * MS, 10 * MS, 10 * MS, 10 * MS, 10 * MS, 0],
            end_offset: vec![100; 7],
            kind: vec![
                EventKind::Empty,
                EventKind::Output,
                EventKind::Output,
                EventKind::Output,
                EventKind::Output,
                EventKind::Output,
                EventKind::Done,
            ],
            tokens: vec![None; 7],
            rx_lag_ns: vec![Some(RX_LAG); 7],
            rx_upper_bound: vec![5],
        },
    }
}

/// A row that did not end ok; `after_ms` from sending to its end.
pub(crate) fn broken(
    mut row: RequestRecord,
    outcome: Outcome,
    kind: &str,
    status: Option<u16>,
    after_ms: u64,
) -> RequestRecord {
    let sent = row.sent_start_ns.unwrap_or(MonoNs(0));
    row.outcome = outcome;
    row.error_kind = Some(kind.to_owned());
    row.status = status;
    row.end_ns = Some(sent.plus_ns(after_ms * MS));
    row.first_event_ns = None;
    row.first_output_ns = None;
    row.last_output_ns = None;
    (row.first_output_rx_ns, row.last_output_rx_ns) = (None, None);
    (row.first_output_rx_exact, row.last_output_rx_exact) = (false, false);
    row.done_ns = None;
    row.finish_reason = None;
    row.completion_tokens = None;
    row.tokens_source = TokensSource::Unknown;
    row.events = Events::default();
    if outcome == Outcome::Dropped {
        row.sent_start_ns = None;
        row.sent_end_ns = None;
        row.dispatched_ns = None;
        row.head_ns = None;
        row.end_ns = None;
        row.status = None;
    }
    row
}

/// The gateway's record of a row: accepted 200 µs after sending, each event read 300 µs and
/// written 100 µs before the client has it; the last two events in one piece.
pub(crate) fn record(row: &RequestRecord) -> GatewayRecord {
    const US: u64 = 1_000;
    let sent = row.sent_start_ns.unwrap_or(MonoNs(0));
    let accept = sent.plus_ns(200 * US);
    let read_first = 5 * MS - 300 * US - 200 * US;
    GatewayRecord {
        schema_version: 1,
        request_id: format!("g-{}", row.seq),
        client_request_id: Some(row.request_id.clone()),
        trace_id: None,
        boot_id: BOOT.to_owned(),
        tenant: None,
        key_id: None,
        model: Some("m".to_owned()),
        upstream_model: Some("m".to_owned()),
        pool: Some("default".to_owned()),
        endpoint: Some("e1".to_owned()),
        path: "/v1/chat/completions".to_owned(),
        stream: true,
        status: Some(200),
        outcome: GatewayOutcome::Ok,
        error_kind: None,
        attempts: 1,
        t_accept_ns: accept,
        t_accept_utc: "2026-01-01T00:00:00Z".to_owned(),
        t_head_ns: Some(10 * US),
        t_auth_ns: Some(20 * US),
        t_body_ns: Some(30 * US),
        t_admitted_ns: Some(40 * US),
        t_routed_ns: Some(50 * US),
        t_connected_ns: Some(60 * US),
        conn_reused: Some(true),
        t_request_sent_ns: Some(100 * US),
        t_response_head_ns: Some(4 * MS),
        t_first_byte_ns: Some(read_first),
        t_first_output_ns: Some(read_first + 45 * MS),
        t_last_output_ns: Some(read_first + 85 * MS),
        t_end_ns: 91 * MS,
        write_blocked_ns: 0,
        chunks: Chunks {
            read_ns: vec![read_first, 45 * MS, 10 * MS, 10 * MS, 10 * MS, 10 * MS],
            written_ns: vec![
                read_first + 200 * US,
                45 * MS,
                10 * MS,
                10 * MS,
                10 * MS,
                10 * MS,
            ],
            end_offset: vec![100, 100, 100, 100, 100, 200],
            events: vec![1, 1, 1, 1, 1, 2],
        },
        usage: Usage {
            prompt_tokens: Some(8),
            completion_tokens: Some(5),
            cached_tokens: None,
            source: UsageSource::Usage,
        },
        finish_reason: Some("length".to_owned()),
        extraction: Extraction::Complete,
        bytes_in: 100,
        bytes_out: 700,
        sha256_upstream: Some("aa".to_owned()),
        sha256_downstream: Some("aa".to_owned()),
    }
}
