//! The end of a request: its record, and what the metrics count by it.
//!
//! Called once per request, after the last byte that will be written was written. What the relay
//! had not looked at yet is read here, so even an answer that was cut shows what it held.

use inferscope_shared::clock::MonoNs;
use inferscope_shared::record::SCHEMA_VERSION;
use inferscope_shared::record::gateway::{Extraction, GatewayRecord, Outcome, Usage, UsageSource};
use jiff::Timestamp;

use crate::admission::Spent;
use crate::exchange::Exchange;
use crate::fault::Cause;
use crate::relay;

/// Settles `exchange`.
pub fn settle(exchange: &mut Exchange) {
    let record = record(exchange, MonoNs::now());
    if let Some(permit) = exchange.permit.take() {
        permit.settle(spent(&record));
    }
    exchange.services.metrics.settled(&record);
    exchange.services.records.submit(record);
}

/// What the request cost, as far as the record can say.
fn spent(record: &GatewayRecord) -> Spent {
    Spent {
        answered: record.t_first_byte_ns.is_some() && record.status.is_some_and(|s| s < 400),
        prompt_tokens: record.usage.prompt_tokens,
        output_tokens: record.usage.completion_tokens,
        output_events: record.chunks.events.iter().sum(),
    }
}

/// The record of a request that ended at `now`.
fn record(exchange: &mut Exchange, now: MonoNs) -> GatewayRecord {
    let track = exchange.track.clone();
    let mut state = track.lock();
    state.watch.finish();
    let (delivery, watch) = (&state.delivery, &state.watch);
    let answer = watch.seen().answer();
    // An error event inside a good answer: its bytes went on, its outcome is the error's.
    if exchange.ending.is_none() && answer.error().is_some() && delivery.status() == Some(200) {
        exchange.ended(Outcome::UpstreamError, Cause::StreamError);
    }

    let times = &exchange.times;
    let origin = times.accept;
    let since = |at: Option<MonoNs>| at.map(|at| at.since(origin));
    let target = exchange.target.as_ref();
    let usage = answer.usage();
    GatewayRecord {
        schema_version: SCHEMA_VERSION,
        request_id: exchange.ids.request.clone(),
        client_request_id: exchange.ids.client.clone(),
        trace_id: Some(exchange.ids.trace.clone()),
        boot_id: exchange.services.boot_id.clone(),
        tenant: exchange.principal.as_ref().map(|p| p.tenant.clone()),
        key_id: exchange.principal.as_ref().map(|p| p.key_id.clone()),
        model: exchange.model.clone(),
        upstream_model: target
            .and_then(|t| t.upstream_model.clone())
            .or_else(|| target.and(exchange.model.clone())),
        pool: target.map(|t| t.pool.name.clone()),
        endpoint: exchange.endpoint.clone(),
        path: exchange.path.clone(),
        stream: exchange.stream,
        status: delivery.status(),
        outcome: exchange.ending.map_or(Outcome::Ok, |e| e.outcome),
        error_kind: exchange.ending.map(|e| e.cause.label().to_owned()),
        attempts: exchange.attempts,
        t_accept_ns: origin,
        t_accept_utc: Timestamp::try_from(times.accept_utc)
            .unwrap_or_default()
            .to_string(),
        t_head_ns: since(times.head),
        t_body_ns: since(times.body),
        t_auth_ns: since(times.auth),
        t_admitted_ns: since(times.admitted),
        t_routed_ns: since(times.routed),
        t_connected_ns: since(times.connected),
        conn_reused: exchange.conn_reused,
        t_request_sent_ns: since(state.request_sent),
        t_response_head_ns: since(times.response_head),
        t_first_byte_ns: since(watch.pieces().first().map(|p| p.read)),
        t_first_output_ns: since(watch.first_output()),
        t_last_output_ns: since(watch.last_output()),
        t_end_ns: now.since(origin),
        write_blocked_ns: delivery.write_blocked_ns(now),
        chunks: relay::chunks(origin, watch.pieces(), delivery.marks()),
        usage: Usage {
            prompt_tokens: usage.and_then(|u| u.prompt_tokens),
            completion_tokens: usage.and_then(|u| u.completion_tokens),
            cached_tokens: usage.and_then(|u| u.cached_tokens),
            source: usage.map_or(UsageSource::Unknown, |_| UsageSource::Usage),
        },
        finish_reason: answer.finish_reason().map(str::to_owned),
        extraction: match delivery.lost() {
            true => Extraction::Partial,
            false => watch.extraction(),
        },
        bytes_in: exchange.bytes_in,
        bytes_out: delivery.bytes(),
        sha256_upstream: watch.sha256(),
        sha256_downstream: delivery.sha256(),
    }
}
