//! Client against server, event by event, on a thread of its own.
//!
//! Does to each answer what the writer of a run does, so that it takes the machine's time alike,
//! and then subtracts: time to first token and gaps by the client's stamps minus the same by the
//! server's, which are inside the events (`fake.recv_mono_ns` in the first, `fake.sent_mono_ns` in
//! each). Both clocks are CLOCK_MONOTONIC of this host.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use inferscope_shared::record::delta;
use inferscope_shared::record::request::{EventKind, Events, Outcome, Phase};
use inferscope_shared::sse;
use serde::Deserialize;

use super::shape::Shape;
use crate::artifacts::manifest::{ErrorSummary, Instrument};
use crate::artifacts::writer::{Finished, Message};
use crate::client::fold;
use crate::client::kernel_clock::KernelClock;
use crate::config::Resolved;
use crate::drive::timer;
use crate::plan::Plan;

/// How often the kernel's clock is looked at when nothing comes in.
const TICK_EVERY: Duration = Duration::from_millis(500);

/// What was compared so far.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    ttft_ms: Vec<f64>,
    itl_ms: Vec<f64>,
    /// The same two on the kernel's receipt, where it is exact.
    ttft_kernel_ms: Vec<f64>,
    itl_kernel_ms: Vec<f64>,
    dispatch_ms: Vec<f64>,
    /// Server's stamps of all events, warm-up too.
    events_ns: Vec<u64>,
    /// Each request's first write and end, warm-up too.
    in_flight_ns: Vec<(u64, u64)>,
    /// First measured dispatch.
    from_ns: Option<u64>,
    /// Measured requests that ended otherwise than cut, and the first one's end in words.
    failure: Option<String>,
}

/// Starts comparing what comes in; ends with [`Message::End`] or the last sink.
///
/// # Errors
/// When no thread can be started.
pub(crate) fn start(
    messages: Receiver<Message>,
    config: &Resolved,
    plan: Arc<Plan>,
) -> std::io::Result<JoinHandle<Result<Comparison, String>>> {
    let clock = KernelClock::start(config.client.kernel_stamps);
    thread::Builder::new()
        .name("compare".to_owned())
        .spawn(move || {
            timer::stand_back();
            let mut comparison = Comparison::default();
            loop {
                match messages.recv_timeout(TICK_EVERY) {
                    Ok(Message::Finished { finished, .. }) => {
                        comparison.push(finished, &plan, &clock);
                    }
                    Ok(Message::Dropped { .. } | Message::ClientMetrics(_)) => {}
                    Err(RecvTimeoutError::Timeout) => clock.tick(),
                    Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            if comparison.ttft_ms.is_empty() {
                let why = comparison.failure.as_deref().unwrap_or("none was finished");
                return Err(format!("no answer of the exact server to compare: {why}"));
            }
            Ok(comparison)
        })
}

/// The part of an event that the exact server adds.
#[derive(Deserialize)]
struct Stamped {
    fake: Stamps,
}

#[derive(Deserialize, Clone, Copy)]
struct Stamps {
    sent_mono_ns: u64,
    recv_mono_ns: Option<u64>,
}

impl Comparison {
    fn push(&mut self, finished: Finished, plan: &Plan, clock: &KernelClock) {
        let mut exchange = finished.exchange;
        let stamps = server_stamps(&exchange.body);
        let reading = fold::read(&mut exchange, clock);
        let Some(sent) = exchange.sent_start else {
            self.failure.get_or_insert_with(|| {
                let kind = reading.error_kind.as_deref().unwrap_or("not sent");
                format!("{kind}: {}", reading.error_message.unwrap_or_default())
            });
            return;
        };
        self.in_flight_ns.push((sent.0, exchange.end.0));
        self.events_ns
            .extend(stamps.iter().flatten().map(|s| s.sent_mono_ns));
        if plan.points[finished.point].arrivals[finished.arrival].phase != Phase::Measure {
            return;
        }
        let from = self.from_ns.get_or_insert(sent.0);
        *from = sent.0.min(*from);
        self.dispatch_ms.push(ms(gap(finished.intended.0, sent.0)));
        if reading.outcome != Outcome::Ok {
            if reading.outcome == Outcome::Failed {
                let kind = reading.error_kind.as_deref().unwrap_or_default();
                let message = reading.error_message.as_deref().unwrap_or_default();
                self.failure
                    .get_or_insert_with(|| format!("{kind}: {message}"));
            }
            return;
        }
        let outputs = outputs(sent.0, &reading.events, &stamps);
        let received = stamps.iter().flatten().find_map(|s| s.recv_mono_ns);
        let (Some(first), Some(received)) = (outputs.first(), received) else {
            self.failure
                .get_or_insert_with(|| "an answer without the server's stamps".to_owned());
            return;
        };
        let server_ttft = gap(received, first.sent);
        self.ttft_ms.push(ms(gap(sent.0, first.read) - server_ttft));
        if let Some(arrived) = first.arrived {
            self.ttft_kernel_ms
                .push(ms(gap(sent.0, arrived) - server_ttft));
        }
        for pair in outputs.windows(2) {
            let (a, b) = (pair[0], pair[1]);
            let server = gap(a.sent, b.sent);
            self.itl_ms.push(ms(gap(a.read, b.read) - server).abs());
            if let (Some(from), Some(to)) = (a.arrived, b.arrived) {
                self.itl_kernel_ms.push(ms(gap(from, to) - server).abs());
            }
        }
    }

    /// The figures.
    #[must_use]
    pub fn instrument(mut self, shape: &Shape) -> Instrument {
        let from = self.from_ns.unwrap_or(0);
        let length = shape.duration.as_nanos() as f64;
        let to = from.saturating_add(length as u64);
        let events = self.events_ns.iter();
        let events = events.filter(|at| (from..to).contains(*at)).count();
        let in_flight: u64 = self
            .in_flight_ns
            .iter()
            .map(|&(start, end)| end.min(to).saturating_sub(start.max(from)))
            .sum();
        Instrument {
            point_id: None,
            load: shape.load,
            streams: in_flight as f64 / length,
            events_per_s: events as f64 * 1e9 / length,
            server_ttft_ms: shape.ttft.as_secs_f64() * 1e3,
            server_itl_ms: shape.itl.as_secs_f64() * 1e3,
            output_events: shape.outputs,
            seconds: shape.duration.as_secs_f64(),
            requests: self.ttft_ms.len() as u64,
            ttft_error_ms: ErrorSummary::of(&mut self.ttft_ms),
            itl_error_ms: ErrorSummary::of(&mut self.itl_ms),
            ttft_kernel_error_ms: ErrorSummary::of(&mut self.ttft_kernel_ms),
            itl_kernel_error_ms: ErrorSummary::of(&mut self.itl_kernel_ms),
            dispatch_error_ms: ErrorSummary::of(&mut self.dispatch_ms),
        }
    }
}

/// An output event on both sides.
#[derive(Clone, Copy)]
struct Output {
    /// The server's stamp.
    sent: u64,
    /// The kernel's receipt, where it is exact.
    arrived: Option<u64>,
    /// The client's read.
    read: u64,
}

fn outputs(origin: u64, events: &Events, stamps: &[Option<Stamps>]) -> Vec<Output> {
    let at = delta::decode(origin, &events.at_ns);
    let of = |index: usize| {
        let read = *at.get(index)?;
        let sent = stamps.get(index)?.as_ref()?.sent_mono_ns;
        let inside =
            u32::try_from(index).is_ok_and(|i| events.rx_upper_bound.binary_search(&i).is_ok());
        let lag = events.rx_lag_ns.get(index).copied().flatten();
        Some(Output {
            sent,
            arrived: lag.filter(|_| !inside).map(|lag| read.saturating_sub(lag)),
            read,
        })
    };
    let kinds = events.kind.iter().enumerate();
    kinds
        .filter(|(_, kind)| **kind == EventKind::Output)
        .filter_map(|(index, _)| of(index))
        .collect()
}

/// From one instant to another, in nanoseconds.
fn gap(from: u64, to: u64) -> f64 {
    to as f64 - from as f64
}

fn ms(ns: f64) -> f64 {
    ns / 1e6
}

/// The server's stamps, an entry per event; none for the end mark.
fn server_stamps(body: &[u8]) -> Vec<Option<Stamps>> {
    let mut stamps = Vec::new();
    sse::Parser::new().push(body, &mut |event| {
        let stamped: Option<Stamped> = serde_json::from_slice(event.data).ok();
        stamps.push(stamped.map(|s| s.fake));
    });
    stamps
}
