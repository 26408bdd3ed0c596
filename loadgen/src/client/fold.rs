//! What the bytes of an answer mean: events, output, usage, hashes, and how it ended.
//!
//! Runs off the measuring thread. Each piece comes with the stamps of the read that brought it;
//! an event has those of the piece that completed it. The kernel's stamp is that of a read's last
//! segment, so it is exact only for an event with which its read ends. Framing and dialects are the shared
//! crate's, so that client and gateway cannot disagree about a first token.

use inferscope_shared::clock::MonoNs;
use inferscope_shared::openai::{self, StreamState, Usage};
use inferscope_shared::record::delta;
use inferscope_shared::record::request::{EventKind, Events, Outcome, TokensSource};
use inferscope_shared::sse;
use sha2::{Digest, Sha256};

use super::exchange::{Cut, Ending, Exchange};
use super::io::Arrival;
use super::kernel_clock::KernelClock;

/// Bytes of an answer that are kept to explain a failure.
const KEPT_BYTES: usize = 4 * 1024;

/// Characters of an error message in a record.
const MESSAGE_CHARS: usize = 200;

/// Answer so far.
#[derive(Debug)]
pub struct Fold {
    parser: sse::Parser,
    state: StreamState,
    hash: Sha256,
    bytes: u64,
    kept: Vec<u8>,
    reads: Vec<Arrival>,
    /// Indices of events behind which their read went on.
    inside: Vec<u32>,
    end_offset: Vec<u64>,
    kind: Vec<EventKind>,
    tokens: Vec<Option<u64>>,
    done: Option<MonoNs>,
}

impl Default for Fold {
    fn default() -> Self {
        Self {
            parser: sse::Parser::new(),
            state: StreamState::with_texts(),
            hash: Sha256::new(),
            bytes: 0,
            kept: Vec::new(),
            reads: Vec::new(),
            inside: Vec::new(),
            end_offset: Vec::new(),
            kind: Vec::new(),
            tokens: Vec::new(),
            done: None,
        }
    }
}

impl Fold {
    /// The output so far.
    #[must_use]
    pub fn texts(&self) -> Option<&openai::Texts> {
        self.state.texts()
    }

    /// Memory behind what was folded.
    pub(super) fn held_bytes(&self) -> usize {
        let texts = self.state.texts().into_iter().flat_map(|t| t.pieces());
        texts.map(str::len).sum::<usize>()
            + self.kept.capacity()
            + self.reads.capacity() * size_of::<Arrival>()
            + self.end_offset.capacity() * size_of::<u64>()
            + self.tokens.capacity() * size_of::<Option<u64>>()
    }

    /// Takes the next piece of the decoded body and the read that brought it.
    pub fn push(&mut self, bytes: &[u8], read: Arrival) {
        let before = self.bytes;
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        let keep = KEPT_BYTES.saturating_sub(self.kept.len()).min(bytes.len());
        self.kept.extend_from_slice(&bytes[..keep]);

        let Self {
            parser,
            state,
            reads,
            inside,
            end_offset,
            kind,
            tokens,
            done,
            ..
        } = self;
        parser.push(bytes, &mut |event| {
            went_on(inside, reads, read);
            let seen = state.absorb(&openai::chunk(&event));
            reads.push(read);
            end_offset.push(event.end_offset);
            kind.push(seen.kind);
            tokens.push(seen.tokens);
            if state.done() {
                done.get_or_insert(read.at);
            }
        });
        let end = end_offset.last().copied().unwrap_or(0);
        let rest = usize::try_from(end.saturating_sub(before)).unwrap_or(usize::MAX);
        let rest = bytes.get(rest..).unwrap_or_default();
        if rest.iter().any(|byte| !b"\r\n".contains(byte)) {
            went_on(inside, reads, read);
        }
    }

    fn first_output(&self) -> Option<usize> {
        self.kind.iter().position(|k| *k == EventKind::Output)
    }

    fn last_output(&self) -> Option<usize> {
        self.kind.iter().rposition(|k| *k == EventKind::Output)
    }
}

/// `read` brought more than the latest event, if it was the one that completed it.
fn went_on(inside: &mut Vec<u32>, reads: &[Arrival], read: Arrival) {
    let Some(latest) = reads.last().filter(|latest| latest.at == read.at) else {
        return;
    };
    debug_assert_eq!(latest.kernel, read.kernel);
    let index = u32::try_from(reads.len() - 1).unwrap_or(u32::MAX);
    if inside.last() != Some(&index) {
        inside.push(index);
    }
}

/// An exchange in the terms of the request record.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "each field is one of the request record")]
pub struct Reading {
    pub outcome: Outcome,
    pub error_kind: Option<String>,
    pub error_message: Option<String>,
    pub first_event_ns: Option<MonoNs>,
    pub first_output_ns: Option<MonoNs>,
    pub last_output_ns: Option<MonoNs>,
    pub first_output_rx_ns: Option<MonoNs>,
    pub first_output_rx_exact: bool,
    pub last_output_rx_ns: Option<MonoNs>,
    pub last_output_rx_exact: bool,
    pub done_ns: Option<MonoNs>,
    pub prompt_tokens: Option<u64>,
    pub completion_tokens: Option<u64>,
    pub tokens_source: TokensSource,
    pub finish_reason: Option<String>,
    pub done_missing: bool,
    pub body_bytes: u64,
    pub body_sha256: Option<String>,
    pub text_sha256: Option<String>,
    pub events: Events,
}

/// Reads a finished exchange; `clock` converts the kernel's stamps.
#[must_use]
pub fn read(exchange: &mut Exchange, clock: &KernelClock) -> Reading {
    exchange.fold_pieces();
    let verdict = judge(exchange);
    let fold = &exchange.fold;
    let rx_lag_ns = clock.lags(exchange.stamping, &fold.reads);
    let at: Vec<u64> = fold.reads.iter().map(|read| read.at.0).collect();
    let read_at = |index: usize| MonoNs(at[index]);
    let received = |index: usize| {
        let lag = rx_lag_ns.get(index).copied().flatten()?;
        Some(MonoNs(at[index].saturating_sub(lag)))
    };
    let exact = |index: usize| {
        let inside = u32::try_from(index).is_ok_and(|i| fold.inside.binary_search(&i).is_ok());
        received(index).is_some() && !inside
    };
    let (first, last) = (fold.first_output(), fold.last_output());
    let origin = exchange.sent_start.map_or(0, |t| t.0);
    let answered = exchange.status == Some(200);
    let usage = fold.state.usage().unwrap_or_default();
    let usage = if answered { usage } else { Usage::default() };
    let (outcome, error) = match verdict {
        Ok(()) => (Outcome::Ok, None),
        Err((outcome, kind, message)) => (outcome, Some((kind, message))),
    };
    let (error_kind, error_message) = error.unzip();
    Reading {
        outcome,
        error_kind,
        error_message: error_message.map(|m| excerpt(&m)),
        first_event_ns: at.first().copied().map(MonoNs),
        first_output_ns: first.map(read_at),
        last_output_ns: last.map(read_at),
        first_output_rx_ns: first.and_then(received),
        first_output_rx_exact: first.is_some_and(exact),
        last_output_rx_ns: last.and_then(received),
        last_output_rx_exact: last.is_some_and(exact),
        done_ns: fold.done,
        prompt_tokens: usage.prompt_tokens,
        completion_tokens: usage.completion_tokens,
        tokens_source: if usage.completion_tokens.is_some() {
            TokensSource::Usage
        } else {
            TokensSource::Unknown
        },
        finish_reason: fold.state.finish_reason().map(str::to_owned),
        done_missing: outcome == Outcome::Ok && fold.done.is_none(),
        body_bytes: fold.bytes,
        body_sha256: exchange
            .status
            .map(|_| hex::encode(fold.hash.clone().finalize())),
        text_sha256: fold.state.texts().filter(|_| answered).map(|texts| {
            let mut hash = Sha256::new();
            texts.pieces().for_each(|piece| hash.update(piece));
            hex::encode(hash.finalize())
        }),
        events: Events {
            at_ns: delta::encode(origin, &at),
            end_offset: delta::encode(0, &fold.end_offset),
            kind: fold.kind.clone(),
            tokens: fold.tokens.clone(),
            rx_upper_bound: if rx_lag_ns.is_empty() {
                Vec::new()
            } else {
                fold.inside.clone()
            },
            rx_lag_ns,
        },
    }
}

type Fault = (Outcome, String, String);

/// How the exchange ended: first what the HTTP head says, then what the stream says, then what
/// the transport says.
fn judge(exchange: &Exchange) -> Result<(), Fault> {
    let failed = |kind: &str, message: String| Err((Outcome::Failed, kind.to_owned(), message));
    let incomplete =
        |kind: &str, message: &str| Err((Outcome::Incomplete, kind.to_owned(), message.to_owned()));
    let fold = &exchange.fold;
    let state = &fold.state;

    let Some(status) = exchange.status else {
        return match &exchange.ending {
            Ending::Cut(cut) => incomplete(cut_kind(*cut), "cut before the answer began"),
            Ending::Broken { kind, message } => failed(kind, message.clone()),
            Ending::Clean | Ending::AfterDone => failed("no_answer", "no answer".to_owned()),
        };
    };
    if status != 200 {
        return failed(&format!("http_{status}"), what_came(exchange, status));
    }
    let encoding = header(exchange, "content-encoding");
    if !matches!(encoding, "" | "identity") {
        let message = format!("answer is encoded as {encoding} although identity was asked for");
        return failed("content_encoding", message);
    }
    if let Some(error) = state.error() {
        return failed("stream_error", error.message.to_string());
    }
    let transport_ended_well = matches!(exchange.ending, Ending::Clean | Ending::AfterDone);
    if transport_ended_well
        && fold.reads.is_empty()
        && !header(exchange, "content-type").starts_with("text/event-stream")
    {
        return failed("not_a_stream", what_came(exchange, status));
    }
    match &exchange.ending {
        Ending::Broken { kind, message } => failed(kind, message.clone()),
        Ending::Cut(cut) if !state.done() => {
            incomplete(cut_kind(*cut), "cut while the answer was coming")
        }
        _ if state.finished() => Ok(()),
        _ if fold.reads.is_empty() => incomplete("empty_stream", "stream ended without an event"),
        _ => incomplete("no_finish_reason", "stream ended without a finish reason"),
    }
}

fn cut_kind(cut: Cut) -> &'static str {
    match cut {
        Cut::Interrupted => "interrupted",
        Cut::PointTimeout => "point_timeout",
        Cut::RunEnd | Cut::No => "run_end",
    }
}

fn header<'a>(exchange: &'a Exchange, name: &str) -> &'a str {
    exchange
        .headers
        .get(name)
        .and_then(|v| v.to_str().ok())
        .unwrap_or_default()
}

/// Status, content type, and the engine's own message or the first characters of the body.
fn what_came(exchange: &Exchange, status: u16) -> String {
    let kept = &exchange.fold.kept;
    let said = match openai::body(kept) {
        openai::Chunk::Error(error) => error.message.to_string(),
        _ => String::from_utf8_lossy(kept).into_owned(),
    };
    let content_type = header(exchange, "content-type");
    format!("status {status}, {content_type}: {said}")
}

/// At most [`MESSAGE_CHARS`] characters, control characters escaped.
#[must_use]
pub fn excerpt(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars().take(MESSAGE_CHARS) {
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests;
