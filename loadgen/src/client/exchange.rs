//! Sends one request and collects bytes and stamps until the answer is over, whatever that takes.
//!
//! Here is the measuring loop's whole work per read: copy the piece, note its stamp, look for the
//! end mark. What the bytes mean is found out later ([`super::fold`]), except that a very long
//! answer is folded piecewise so that memory stays bounded.
//!
//! Nothing can hang: connect, first byte, silence, total time, and the time between the end mark
//! and the body's end each have a limit. [`watchdog`] keeps them.

mod end_mark;
mod watchdog;

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use inferscope_shared::clock::MonoNs;
use inferscope_shared::record::request::Connect;
use tokio::sync::watch;

use super::connection::{ConnectError, Connection};
use super::fold::Fold;
use super::io::{Arrival, Stamping};
use end_mark::EndMark;
use watchdog::Watchdog;

/// A body larger than this is folded while it is still coming.
const FOLD_AHEAD_BYTES: usize = 512 * 1024;

/// A body that is kept whole may have so many; no sound answer to a small question has more.
const WHOLE_BODY_BYTES: usize = 16 << 20;

/// Limits of one exchange.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// First write to first byte of the answer.
    pub first_byte: Duration,
    /// Silence inside the answer.
    pub idle: Duration,
    /// First write to end.
    pub total: Duration,
    /// End mark to end of body.
    pub after_done: Duration,
}

/// Why requests in flight are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cut {
    /// They are not.
    #[default]
    No,
    /// The drain budget of a point is used up.
    RunEnd,
    /// The time limit of a whole point.
    PointTimeout,
    /// A signal.
    Interrupted,
}

/// How the transport ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The body ended as its framing promised.
    Clean,
    /// The end mark came, the body's end did not within its budget; the connection was closed.
    AfterDone,
    /// Something broke, or a limit was reached.
    Broken {
        /// The record's `error_kind`.
        kind: &'static str,
        /// In words.
        message: String,
    },
    /// Cut by the run itself.
    Cut(Cut),
}

/// Bytes up to `end` had arrived with a read.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    /// The read.
    pub read: Arrival,
    /// End of the piece in [`Exchange::body`].
    pub end: usize,
}

/// Everything that one exchange left behind.
#[derive(Debug)]
pub struct Exchange {
    /// The connection's establishment.
    pub connect: Connect,
    /// Whether the kernel stamped its reads.
    pub stamping: Stamping,
    /// First write call.
    pub sent_start: Option<MonoNs>,
    /// Last write completion.
    pub sent_end: Option<MonoNs>,
    /// Read that completed the answer's head.
    pub head: Option<MonoNs>,
    /// Status of the answer.
    pub status: Option<u16>,
    /// Headers of the answer.
    pub headers: HeaderMap,
    /// Decoded body that is not folded yet.
    pub body: Vec<u8>,
    /// Its pieces.
    pub marks: Vec<Mark>,
    /// What was folded ahead.
    pub fold: Fold,
    /// End of the exchange.
    pub end: MonoNs,
    /// How it ended.
    pub ending: Ending,
}

impl Exchange {
    fn begin(connect: Connect, stamping: Stamping) -> Self {
        Self {
            connect,
            stamping,
            sent_start: None,
            sent_end: None,
            head: None,
            status: None,
            headers: HeaderMap::new(),
            body: Vec::new(),
            marks: Vec::new(),
            fold: Fold::default(),
            end: MonoNs(0),
            ending: Ending::Clean,
        }
    }

    /// An exchange that found no connection.
    #[must_use]
    pub fn unconnected(start: MonoNs, error: &ConnectError) -> Self {
        let mut exchange = Self::broken_off(error.kind(), error.to_string());
        exchange.connect.start_ns = Some(start);
        exchange
    }

    /// An exchange of which nothing but its end is known.
    #[must_use]
    pub fn broken_off(kind: &'static str, message: String) -> Self {
        let mut exchange = Self::begin(Connect::default(), Stamping::Off);
        exchange.end = MonoNs::now();
        exchange.ending = Ending::Broken { kind, message };
        exchange
    }

    /// Memory that it takes, roughly.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        size_of::<Self>()
            + self.body.capacity()
            + self.marks.capacity() * size_of::<Mark>()
            + self.fold.held_bytes()
    }

    /// Lets the answer go and keeps its stamps.
    pub fn let_go(&mut self, kind: &'static str, message: String) {
        self.body = Vec::new();
        self.marks = Vec::new();
        self.fold = Fold::default();
        self.ending = Ending::Broken { kind, message };
    }

    fn piece(&mut self, bytes: &[u8], read: Arrival) {
        self.body.extend_from_slice(bytes);
        self.marks.push(Mark {
            read,
            end: self.body.len(),
        });
    }

    /// Folds all pieces collected so far.
    pub fn fold_pieces(&mut self) {
        let mut from = 0;
        for mark in self.marks.drain(..) {
            self.fold.push(&self.body[from..mark.end], mark.read);
            from = mark.end;
        }
        self.body.clear();
    }
}

/// Sends `request` over `connection`. Returns what came of it, and the connection if it can
/// carry another request. With `fold_ahead` a long body is folded as it comes, else it is kept
/// whole, up to 16 MiB.
pub async fn run(
    mut connection: Connection,
    request: http::Request<Full<Bytes>>,
    limits: &Limits,
    fold_ahead: bool,
    cut: &mut watch::Receiver<Cut>,
) -> (Exchange, Option<Connection>) {
    connection.stamps.reset();
    let mut exchange = Exchange::begin(connection.connect, connection.stamping);
    let mut watchdog = Watchdog::start(limits);
    let cut = async {
        match cut.wait_for(|c| *c != Cut::No).await {
            Ok(cut) => *cut,
            Err(_) => Cut::RunEnd,
        }
    };
    // Asked outside of the task's count of turns: see [`watchdog`].
    let mut cut = pin!(tokio::task::unconstrained(cut));
    let mut driver = Driver::default();

    let result = converse(
        &mut connection,
        &mut driver,
        request,
        &mut exchange,
        &mut watchdog,
        cut.as_mut(),
        fold_ahead,
    )
    .await;
    exchange.end = MonoNs::now();
    exchange.sent_start = connection.stamps.first_write();
    exchange.sent_end = connection.stamps.last_write();
    let reusable = matches!(result, Ending::Clean) && !driver.ended && is_idle(&mut connection);
    exchange.ending = result;
    (exchange, reusable.then_some(connection))
}

/// Lets the driver settle after the body's end; true when it is ready for another request.
fn is_idle(connection: &mut Connection) -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    Pin::new(&mut connection.driver).poll(&mut cx).is_pending() && connection.sender.is_ready()
}

async fn converse(
    connection: &mut Connection,
    driver: &mut Driver,
    request: http::Request<Full<Bytes>>,
    exchange: &mut Exchange,
    watchdog: &mut Watchdog,
    mut cut: Pin<&mut impl Future<Output = Cut>>,
    fold_ahead: bool,
) -> Ending {
    let stamps = std::sync::Arc::clone(&connection.stamps);
    let mut interrupted = |cx: &mut Context<'_>, watchdog: &mut Watchdog, reading: bool| {
        if let Poll::Ready(why) = cut.as_mut().poll(cx) {
            return Some(Ending::Cut(why));
        }
        let last_read = stamps.last_read();
        watchdog.poll(cx, if reading { last_read } else { None })
    };

    let answer = {
        let mut answer = pin!(connection.sender.send_request(request));
        poll_fn(|cx| {
            driver.poll(&mut connection.driver, cx);
            if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
                return Poll::Ready(answer.map_err(|e| broken(&e, driver, "before_response")));
            }
            interrupted(cx, watchdog, false).map_or(Poll::Pending, |e| Poll::Ready(Err(e)))
        })
        .await
    };
    let (head, mut body): (_, Incoming) = match answer {
        Ok(answer) => answer.into_parts(),
        Err(ending) => return ending,
    };
    let stamps = std::sync::Arc::clone(&connection.stamps);
    exchange.head = stamps.last_read();
    exchange.status = Some(head.status.as_u16());
    exchange.headers = head.headers;

    let mut end_mark = EndMark::default();
    // Connection and body wake each other for every frame, though both are polled here anyway.
    // So the body's wakes go nowhere, and neither do those of a turn after which the connection
    // is polled once more; else each read would run the task a second time for nothing.
    poll_fn(|cx| {
        let mut nowhere = Context::from_waker(Waker::noop());
        let mut first = true;
        loop {
            let waker = if first { Waker::noop() } else { cx.waker() };
            driver.poll(&mut connection.driver, &mut Context::from_waker(waker));
            match Pin::new(&mut body).poll_frame(&mut nowhere) {
                Poll::Ready(Some(Ok(frame))) => {
                    if let Some(bytes) = frame.data_ref() {
                        let read = stamps.last_arrival();
                        exchange.piece(bytes, read);
                        if end_mark.completes(&exchange.body) {
                            watchdog.done(read.at);
                        }
                        if fold_ahead && exchange.body.len() > FOLD_AHEAD_BYTES {
                            end_mark.forget(&exchange.body);
                            exchange.fold_pieces();
                        }
                        if !fold_ahead && exchange.body.len() > WHOLE_BODY_BYTES {
                            return Poll::Ready(too_large());
                        }
                    }
                }
                Poll::Ready(Some(Err(e))) => {
                    return Poll::Ready(if end_mark.seen {
                        Ending::AfterDone
                    } else {
                        broken(&e, driver, "body")
                    });
                }
                Poll::Ready(None) => return Poll::Ready(Ending::Clean),
                Poll::Pending if first => {}
                Poll::Pending => {
                    return match interrupted(cx, watchdog, true) {
                        None => Poll::Pending,
                        // The answer is whole; only its framing's end was still awaited.
                        Some(Ending::Cut(_)) if end_mark.seen => Poll::Ready(Ending::AfterDone),
                        Some(ending) => Poll::Ready(ending),
                    };
                }
            }
            first = false;
        }
    })
    .await
}

fn too_large() -> Ending {
    Ending::Broken {
        kind: "too_large",
        message: format!(
            "the answer is larger than {} MiB; ask another server, or for less",
            WHOLE_BODY_BYTES >> 20
        ),
    }
}

/// Polls hyper's connection until it ends, and remembers how.
#[derive(Default)]
struct Driver {
    ended: bool,
    error: Option<String>,
}

impl Driver {
    fn poll(
        &mut self,
        connection: &mut (impl Future<Output = Result<(), hyper::Error>> + Unpin),
        cx: &mut Context<'_>,
    ) {
        if self.ended {
            return;
        }
        if let Poll::Ready(end) = Pin::new(connection).poll(cx) {
            self.ended = true;
            self.error = end.err().map(|e| explain(&e));
        }
    }
}

/// hyper's message with its cause.
fn explain(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

fn broken(error: &hyper::Error, driver: &Driver, place: &str) -> Ending {
    let message = match &driver.error {
        Some(cause) if !error.is_parse() => cause.clone(),
        _ => explain(error),
    };
    let kind = if error.is_parse() {
        "malformed_response"
    } else if place == "before_response" {
        "closed_before_response"
    } else if message.contains("reset") {
        "reset"
    } else {
        "truncated"
    };
    Ending::Broken { kind, message }
}

#[cfg(test)]
pub(crate) mod tests;
