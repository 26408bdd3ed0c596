//! Asks one thing and notes what came of it.
//!
//! Each request goes over a connection of its own, so that connecting is seen each time and no
//! request depends on what the one before left behind. The answer's bytes are kept and read when
//! it is over: nothing is parsed while times are taken.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use inferscope_shared::clock::MonoNs;
use inferscope_shared::openai::{self, StreamState, Usage};
use inferscope_shared::record::delta;
use inferscope_shared::record::request::{EventKind, Outcome};
use inferscope_shared::sse;
use serde_json::Value;
use tokio::sync::watch;

use super::row::Row;
use super::schedule::Experiment;
use crate::client::connection::Connection;
use crate::client::exchange::{self, Cut, Ending, Exchange, Limits};
use crate::client::fold::{self, Reading};
use crate::client::kernel_clock::KernelClock;
use crate::client::target::Target;
use crate::config::{Endpoint, KernelStamps};
use crate::plan::body;

/// What an answer's framing may take after its end mark.
const AFTER_DONE: Duration = Duration::from_secs(1);

/// How long a connection is watched after an answer, to see whether it is closed.
const SETTLE: Duration = Duration::from_millis(10);

/// How this engine is asked.
#[derive(Debug, Clone)]
pub(super) struct Asker {
    pub target: Target,
    pub key: Option<String>,
    pub model: String,
    pub endpoint: Endpoint,
    /// It takes `stream_options`.
    pub usage: bool,
    /// It takes `ignore_eos`.
    pub ignore_eos: bool,
    pub output_tokens: u64,
    pub timeout: Duration,
    /// Start of the probe.
    pub origin: MonoNs,
    /// First part of every request id.
    pub id: String,
    /// Converts the kernel's stamps.
    pub clock: Arc<KernelClock>,
}

/// One request to make.
#[derive(Debug, Clone)]
pub(super) struct Order {
    pub seq: u32,
    pub experiment: Experiment,
    pub round: u32,
    pub tokens: u64,
    pub prompt: String,
}

impl Asker {
    /// Sends the request and waits for its end, for the time limit at most.
    pub async fn ask(&self, order: Order, mut cut: watch::Receiver<Cut>) -> Row {
        let limits = Limits {
            first_byte: self.timeout,
            idle: self.timeout,
            total: self.timeout,
            after_done: AFTER_DONE,
        };
        self.clock.tick();
        let start = MonoNs::now();
        let request = match self.request(&order) {
            Ok(request) => request,
            Err(e) => {
                let mut exchange = Exchange::broken_off("request", e.to_string());
                return self.row(&order, start, &mut exchange, false);
            }
        };
        let (mut exchange, kept) =
            match Connection::open(&self.target, self.timeout, KernelStamps::Auto).await {
                Ok(connection) => {
                    exchange::run(connection, request, &limits, false, &mut cut).await
                }
                Err(e) => (Exchange::unconnected(start, &e), None),
            };
        // Some engines close right behind the answer's end.
        let kept = match kept {
            Some(mut connection) => connection.stays_open(SETTLE).await,
            None => false,
        };
        self.row(&order, start, &mut exchange, kept)
    }

    fn request(&self, order: &Order) -> Result<Request<Full<Bytes>>, http::Error> {
        let stream = order.experiment != Experiment::Whole;
        let mut content = body::question(
            self.endpoint,
            &self.model,
            &order.prompt,
            self.output_tokens,
        );
        content.insert("stream".into(), stream.into());
        if !stream || !self.usage {
            content.remove("stream_options");
        }
        if self.ignore_eos {
            content.insert("ignore_eos".into(), true.into());
        }
        let id = format!("{}.{}", self.id, order.seq);
        let mut request = Request::post(self.target.path(body::path(self.endpoint)))
            .header("host", self.target.host_header())
            .header("user-agent", body::USER_AGENT)
            .header(
                "accept",
                if stream {
                    "text/event-stream"
                } else {
                    "application/json"
                },
            )
            .header("accept-encoding", "identity")
            .header("content-type", "application/json")
            .header("traceparent", body::traceparent(&id))
            .header("x-request-id", id);
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        request.body(Full::new(Bytes::from(Value::Object(content).to_string())))
    }

    fn row(&self, order: &Order, start: MonoNs, exchange: &mut Exchange, kept: bool) -> Row {
        let from_origin = |at: MonoNs| ms(at, self.origin);
        let sent = exchange.sent_start;
        let from_sent = |at: Option<MonoNs>| Some(ms(at?, sent?));
        let connect = exchange.connect;
        let mut row = Row {
            seq: order.seq,
            experiment: order.experiment,
            round: order.round,
            asked_tokens: order.tokens,
            stream_asked: order.experiment != Experiment::Whole,
            streamed: false,
            start_ms: from_origin(start),
            sent_ms: sent.map(from_origin),
            end_ms: from_origin(exchange.end),
            connect_ms: connect
                .tcp_ns
                .zip(connect.start_ns)
                .map(|(to, from)| ms(to, from)),
            upload_ms: from_sent(exchange.sent_end),
            head_ms: from_sent(exchange.head),
            first_event_ms: None,
            ttft_ms: None,
            last_output_ms: None,
            e2e_ms: None,
            status: exchange.status,
            outcome: Outcome::Failed,
            error_kind: None,
            error_message: None,
            prompt_tokens: None,
            completion_tokens: None,
            cached_tokens: None,
            finish_reason: None,
            output_ms: Vec::new(),
            output_reads: 0,
            read_lag_ms: Vec::new(),
            kept,
            life: None,
        };
        let whole = exchange.status == Some(200)
            && exchange.ending == Ending::Clean
            && !content_type(exchange).starts_with("text/event-stream");
        if whole {
            let (answer, usage) = Whole::read(&exchange.body);
            if let Some(Whole { finish_reason }) = answer {
                row.outcome = Outcome::Ok;
                row.finish_reason = finish_reason;
                row.e2e_ms = from_sent(Some(exchange.end));
                set_usage(&mut row, usage);
                return row;
            }
        } else {
            row.cached_tokens = stream_usage(&exchange.body).cached_tokens;
        }
        let reading = fold::read(exchange, &self.clock);
        row.streamed = !reading.events.at_ns.is_empty();
        row.first_event_ms = from_sent(reading.first_event_ns);
        row.ttft_ms = from_sent(reading.first_output_ns);
        row.last_output_ms = from_sent(reading.last_output_ns);
        if reading.outcome == Outcome::Ok {
            row.e2e_ms = from_sent(reading.done_ns.or(Some(exchange.end)));
        }
        let reads = outputs(&reading, sent.unwrap_or(start));
        row.output_ms = reads
            .iter()
            .map(|&at| ms(at, sent.unwrap_or(start)))
            .collect();
        let mut distinct = reads;
        distinct.dedup();
        row.output_reads = distinct.len() as u64;
        row.read_lag_ms = reading
            .events
            .rx_lag_ns
            .iter()
            .filter_map(|lag| lag.map(|ns| ns as f64 / 1e6))
            .collect();
        row.prompt_tokens = reading.prompt_tokens;
        row.completion_tokens = reading.completion_tokens;
        row.outcome = reading.outcome;
        row.error_kind = reading.error_kind;
        row.error_message = reading.error_message;
        row.finish_reason = reading.finish_reason;
        row
    }
}

/// Milliseconds from one instant to a later one.
fn ms(at: MonoNs, from: MonoNs) -> f64 {
    at.signed_since(from) as f64 / 1e6
}

fn content_type(exchange: &Exchange) -> &str {
    exchange
        .headers
        .get("content-type")
        .and_then(|v| v.to_str().ok())
        .unwrap_or_default()
}

/// Reads that brought output, one for each event.
fn outputs(reading: &Reading, sent: MonoNs) -> Vec<MonoNs> {
    delta::decode(sent.0, &reading.events.at_ns)
        .into_iter()
        .zip(&reading.events.kind)
        .filter(|(_, kind)| **kind == EventKind::Output)
        .map(|(at, _)| MonoNs(at))
        .collect()
}

fn set_usage(row: &mut Row, usage: Usage) {
    row.prompt_tokens = usage.prompt_tokens;
    row.completion_tokens = usage.completion_tokens;
    row.cached_tokens = usage.cached_tokens;
}

/// An answer in one piece.
struct Whole {
    finish_reason: Option<String>,
}

impl Whole {
    /// Reads a body; none where it is no finished answer.
    fn read(bytes: &[u8]) -> (Option<Self>, Usage) {
        let chunk = openai::body(bytes);
        let mut state = StreamState::new();
        state.absorb(&chunk);
        let usage = state.usage().unwrap_or_default();
        let whole = (state.error().is_none() && state.finished()).then(|| Self {
            finish_reason: state.finish_reason().map(str::to_owned),
        });
        (whole, usage)
    }
}

/// What a stream says about tokens, those from the cache included.
fn stream_usage(body: &[u8]) -> Usage {
    let mut state = StreamState::new();
    sse::Parser::new().push(body, &mut |event| {
        state.absorb(&openai::chunk(&event));
    });
    state.usage().unwrap_or_default()
}
