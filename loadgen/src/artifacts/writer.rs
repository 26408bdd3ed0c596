//! The thread that turns finished exchanges into lines on disk.
//!
//! Interpreting an answer costs more than reading it, so it happens here and not on the
//! measuring thread, as does converting the kernel's stamps. Lines are flushed at least every half
//! second: a run that is killed keeps all requests that had finished by then. A disk that cannot be written ends the run with an error
//! but never stops the measurement, and one that is too slow never makes it wait: answers wait for
//! the disk in a bounded amount of memory, and one that finds no room there is let go and recorded
//! as failed by the client (`writer_backlog`).

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use inferscope_shared::clock::MonoNs;
use inferscope_shared::record::SCHEMA_VERSION;
use inferscope_shared::record::request::{Connect, Events, Outcome, RequestRecord, TokensSource};
use serde::Serialize;

use super::layout::RunDir;
use crate::calibration::shape::Observed;
use crate::client::exchange::Exchange;
use crate::client::fold;
use crate::client::kernel_clock::{KernelClock, KernelClockReport};
use crate::config::{ArmKind, Resolved};
use crate::drive::lag::ClientMetrics;
use crate::drive::timer;
use crate::plan::{Plan, body};
use crate::token_check::KeptTexts;

const FLUSH_EVERY: Duration = Duration::from_millis(500);

/// Bytes of answers that may wait for the disk.
const BACKLOG_BYTES: u64 = 256 << 20;

/// `error_kind` of an answer that found no room to wait in.
pub const BACKLOG: &str = "writer_backlog";

/// An exchange that is over.
#[derive(Debug)]
pub struct Finished {
    /// Index of the point in the plan.
    pub point: usize,
    /// Index of the arrival in the point.
    pub arrival: usize,
    /// `x-request-id` as sent.
    pub request_id: String,
    /// `traceparent` as sent.
    pub traceparent: String,
    /// When the plan wanted it; closed loop: when its slot came free.
    pub intended: MonoNs,
    /// When the limit of requests in flight let it go, if that held it back.
    pub released: Option<MonoNs>,
    /// When the measuring thread took it up.
    pub dispatched: MonoNs,
    /// What came of it.
    pub exchange: Box<Exchange>,
}

/// What a sink hands over.
pub(crate) enum Message {
    Finished {
        finished: Finished,
        room: Room,
    },
    Dropped {
        point: usize,
        arrival: usize,
        intended: Option<MonoNs>,
        reason: &'static str,
    },
    ClientMetrics(ClientMetrics),
    End,
}

/// A sink, and what takes its messages instead of a [`Writer`].
pub(crate) fn channel() -> (Sink, Receiver<Message>) {
    let (sender, receiver) = mpsc::channel();
    let backlog = Arc::new(Backlog {
        bytes: AtomicU64::new(0),
        most: BACKLOG_BYTES,
    });
    (Sink { sender, backlog }, receiver)
}

/// Hands evidence to the writer; never blocks.
#[derive(Debug, Clone)]
pub struct Sink {
    sender: Sender<Message>,
    backlog: Arc<Backlog>,
}

/// Answers that wait for the disk.
#[derive(Debug)]
struct Backlog {
    bytes: AtomicU64,
    most: u64,
}

/// What an answer takes in the backlog; free again when dropped.
pub(crate) struct Room {
    backlog: Arc<Backlog>,
    bytes: u64,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.backlog.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Message")
    }
}

impl Sink {
    /// A request that was sent.
    pub fn finished(&self, mut finished: Finished) {
        let held = |exchange: &Exchange| exchange.held_bytes() as u64;
        let mut bytes = held(&finished.exchange);
        let waiting = self.backlog.bytes.load(Ordering::Relaxed);
        if waiting.saturating_add(bytes) > self.backlog.most {
            finished.exchange.let_go(
                BACKLOG,
                "answers came faster than the disk takes them, and too many waited".to_owned(),
            );
            bytes = held(&finished.exchange);
        }
        self.backlog.bytes.fetch_add(bytes, Ordering::Relaxed);
        let backlog = Arc::clone(&self.backlog);
        let room = Room { backlog, bytes };
        self.send(Message::Finished { finished, room });
    }

    /// An arrival that was not.
    pub fn dropped(
        &self,
        point: usize,
        arrival: usize,
        intended: Option<MonoNs>,
        reason: &'static str,
    ) {
        self.send(Message::Dropped {
            point,
            arrival,
            intended,
            reason,
        });
    }

    /// A second of the client's own state.
    pub fn client_metrics(&self, mut line: ClientMetrics) {
        line.writer_backlog_bytes = self.backlog.bytes.load(Ordering::Relaxed);
        self.send(Message::ClientMetrics(line));
    }

    /// Nothing more comes, from whatever sink.
    pub(crate) fn end(&self) {
        self.send(Message::End);
    }

    /// The writer outlives all sinks; if it is gone all the same, [`Writer::finish`] says why.
    fn send(&self, message: Message) {
        let _ = self.sender.send(message);
    }
}

/// The writing thread.
#[derive(Debug)]
pub struct Writer {
    sink: Sink,
    clock: Arc<KernelClock>,
    thread: JoinHandle<(KeptTexts, io::Result<Vec<Observed>>)>,
}

/// What the writing thread leaves.
#[derive(Debug)]
pub struct Written {
    /// What each point's answers were like, or the first write that failed.
    pub result: io::Result<Vec<Observed>>,
    /// What became of the kernel's stamps.
    pub kernel_clock: KernelClockReport,
    /// Texts of some answers.
    pub kept: KeptTexts,
}

impl Writer {
    /// Creates the files and starts the thread.
    ///
    /// # Errors
    /// When a file exists already or cannot be created, or no thread can be started.
    pub fn start(run: &RunDir, config: Arc<Resolved>, plan: Arc<Plan>) -> io::Result<Self> {
        let (sink, receiver) = channel();
        let mut files = Files {
            requests: BufWriter::new(File::create_new(run.requests())?),
            client_metrics: BufWriter::new(File::create_new(run.client_metrics())?),
        };
        let clock = Arc::new(KernelClock::start(config.client.kernel_stamps));
        let thread = thread::Builder::new().name("writer".to_owned()).spawn({
            let clock = Arc::clone(&clock);
            move || {
                timer::stand_back();
                let mut kept = KeptTexts::default();
                let written = files.write_all(&receiver, &config, &plan, &clock, &mut kept);
                (kept, written)
            }
        })?;
        Ok(Self {
            sink,
            clock,
            thread,
        })
    }

    /// Where evidence goes in.
    #[must_use]
    pub fn sink(&self) -> Sink {
        self.sink.clone()
    }

    /// Writes everything handed in so far and ends. With what each point's answers were like or
    /// the first write that failed; what became of the kernel's stamps can be told either way.
    pub fn finish(self) -> Written {
        self.sink.end();
        let (kept, result) = self.thread.join().unwrap_or_else(|_| {
            let failed = io::Error::other("the writing thread failed");
            (KeptTexts::default(), Err(failed))
        });
        Written {
            result,
            kernel_clock: self.clock.report(),
            kept,
        }
    }
}

struct Files {
    requests: BufWriter<File>,
    client_metrics: BufWriter<File>,
}

impl Files {
    fn write_all(
        &mut self,
        messages: &Receiver<Message>,
        config: &Resolved,
        plan: &Plan,
        clock: &KernelClock,
        kept: &mut KeptTexts,
    ) -> io::Result<Vec<Observed>> {
        let mut observed = vec![Observed::default(); plan.points.len()];
        let mut flush_at = Instant::now() + FLUSH_EVERY;
        loop {
            let rest = flush_at.saturating_duration_since(Instant::now());
            match messages.recv_timeout(rest) {
                Ok(Message::Finished { finished, room }) => {
                    drop(room);
                    let point = finished.point;
                    let record = record(finished, config, plan, clock, kept);
                    observed[point].push(&record);
                    line(&mut self.requests, &record)?;
                }
                Ok(Message::Dropped {
                    point,
                    arrival,
                    intended,
                    reason,
                }) => {
                    let record = dropped(config, plan, point, arrival, intended, reason);
                    line(&mut self.requests, &record)?;
                }
                Ok(Message::ClientMetrics(metrics)) => line(&mut self.client_metrics, &metrics)?,
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => {
                    self.flush()?;
                    return Ok(observed);
                }
            }
            if Instant::now() >= flush_at {
                self.flush()?;
                clock.tick();
                flush_at = Instant::now() + FLUSH_EVERY;
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.requests.flush()?;
        self.client_metrics.flush()
    }
}

fn line(file: &mut BufWriter<File>, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *file, value)?;
    file.write_all(b"\n")
}

/// The record of an exchange.
fn record(
    finished: Finished,
    config: &Resolved,
    plan: &Plan,
    clock: &KernelClock,
    kept: &mut KeptTexts,
) -> RequestRecord {
    let mut exchange = finished.exchange;
    let reading = fold::read(&mut exchange, clock);
    let point = &plan.points[finished.point];
    let late_ns = u64::try_from(config.timeouts.late.as_nanos()).unwrap_or(u64::MAX);
    let arm = &config.arms[point.arm];
    let record = RequestRecord {
        request_id: finished.request_id,
        gateway_request_id: exchange
            .headers
            .get("x-request-id")
            .filter(|_| arm.kind == ArmKind::Gateway)
            .and_then(|v| v.to_str().ok())
            .map(str::to_owned),
        traceparent: Some(finished.traceparent),
        intended_ns: Some(finished.intended),
        released_ns: finished.released,
        dispatched_ns: Some(finished.dispatched),
        connect: exchange.connect,
        sent_start_ns: exchange.sent_start,
        sent_end_ns: exchange.sent_end,
        head_ns: exchange.head,
        first_event_ns: reading.first_event_ns,
        first_output_ns: reading.first_output_ns,
        last_output_ns: reading.last_output_ns,
        first_output_rx_ns: reading.first_output_rx_ns,
        first_output_rx_exact: reading.first_output_rx_exact,
        last_output_rx_ns: reading.last_output_rx_ns,
        last_output_rx_exact: reading.last_output_rx_exact,
        done_ns: reading.done_ns,
        end_ns: Some(exchange.end),
        status: exchange.status,
        outcome: reading.outcome,
        error_kind: reading.error_kind,
        error_message: reading.error_message,
        late: point.load.is_open() && finished.dispatched.since(finished.intended) > late_ns,
        prompt_tokens: reading.prompt_tokens,
        completion_tokens: reading.completion_tokens,
        tokens_source: reading.tokens_source,
        finish_reason: reading.finish_reason,
        done_missing: reading.done_missing,
        body_bytes: reading.body_bytes,
        body_sha256: reading.body_sha256,
        text_sha256: reading.text_sha256,
        events: reading.events,
        ..dropped(
            config,
            plan,
            finished.point,
            finished.arrival,
            None,
            "not_sent",
        )
    };
    kept.offer(finished.point, &record, exchange.fold.texts());
    record
}

/// The record of an arrival that was never sent.
fn dropped(
    config: &Resolved,
    plan: &Plan,
    point: usize,
    arrival: usize,
    intended: Option<MonoNs>,
    reason: &str,
) -> RequestRecord {
    let point = &plan.points[point];
    let arrival = &point.arrivals[arrival];
    RequestRecord {
        schema_version: SCHEMA_VERSION,
        run_id: config.run_id.clone(),
        point_id: point.id.clone(),
        arm: config.arms[point.arm].name.clone(),
        phase: arrival.phase,
        block: point.block,
        seq: arrival.seq,
        request_id: body::request_id(&config.run_id, &point.id, arrival.seq),
        gateway_request_id: None,
        traceparent: None,
        intended_ns: intended,
        released_ns: None,
        dispatched_ns: None,
        connect: Connect::default(),
        sent_start_ns: None,
        sent_end_ns: None,
        head_ns: None,
        first_event_ns: None,
        first_output_ns: None,
        last_output_ns: None,
        first_output_rx_ns: None,
        first_output_rx_exact: false,
        last_output_rx_ns: None,
        last_output_rx_exact: false,
        done_ns: None,
        end_ns: None,
        status: None,
        outcome: Outcome::Dropped,
        error_kind: Some(reason.to_owned()),
        error_message: None,
        late: false,
        prompt_tokens: None,
        completion_tokens: None,
        tokens_source: TokensSource::Unknown,
        finish_reason: None,
        done_missing: false,
        body_bytes: 0,
        body_sha256: None,
        text_sha256: None,
        events: Events::default(),
    }
}

#[cfg(test)]
mod tests;
