//! The data ports: an accept loop, and each connection's way from request to request.
//!
//! The loop is ours and not pingora's server, for three things that one can't do: it binds port 0
//! and says which port it got, it ends a drain with the last stream, and it puts its own stamped
//! stream under pingora's proxy. Each connection runs in one task: intake reads a request, the
//! proxy relays it, and a watchdog beside the proxy enforces the time limits.

mod doors;
pub mod egress;
mod leaving;
pub mod stamped;
pub mod track;
mod watchdog;

use std::os::fd::AsRawFd as _;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use inferscope_shared::clock::MonoNs;
use pingora::apps::{HttpServerApp as _, ReusedHttpStream};
use pingora::protocols::Stream;
use pingora::protocols::http::ServerSession;
use pingora::protocols::http::v1::server::HttpSession as ClientSession;
use pingora::proxy::HttpProxy;
use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

use crate::exchange::Exchange;
use crate::intake::{self, Envelope, Received};
use crate::proxy::Gateway;
use crate::server::workers::Workers;
use crate::server::{Current, Phase};
use doors::Inside;
use leaving::Watched;
use stamped::{OnFin, StampedStream};
use track::{Limit, Track};

pub use doors::Doors;

/// How long a connection may stay without a request.
const IDLE: Duration = Duration::from_secs(75);
/// How long a connection that is made during a drain has until its request begins.
const LATE_HEAD: Duration = Duration::from_secs(1);
/// How long the accept loop rests when the process is out of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

type ClientStream = StampedStream<TcpStream>;

/// What all connections of a listener share.
#[derive(Clone)]
pub struct Shared {
    /// The configuration in force and its parts.
    pub current: Current,
    /// How many are open.
    pub doors: Arc<Doors>,
    /// Each connection holds one made from this: the drain is over when the last one drops it.
    pub alive: mpsc::WeakSender<()>,
}

/// A connection that was let in, on its way to the thread that serves it.
#[derive(Debug)]
pub struct Arrival {
    tcp: std::net::TcpStream,
    on_fin: OnFin,
    /// Held while it lasts: its place among all connections, and what the end of a drain waits for.
    /// One that comes during a drain is not waited for, or the drain would not end while any come.
    held: (Inside, Option<mpsc::Sender<()>>),
}

/// One client's connection.
pub struct Connection {
    /// The configuration in force and its parts.
    pub current: Current,
    /// What its stream stamps.
    pub track: Arc<Track>,
    phase: watch::Receiver<Phase>,
    since: MonoNs,
    /// It came during a drain and has not been told so yet.
    late: bool,
    client: Option<Watched>,
}

/// Accepts until the drain is over: while it lasts, new requests are told to go elsewhere.
pub async fn accept(listener: TcpListener, on_fin: OnFin, shared: Shared, workers: Arc<Workers>) {
    loop {
        let accepted = listener.accept().await;
        let Some(alive) = shared.alive.upgrade() else {
            return;
        };
        let alive = (!shared.current.get().draining()).then_some(alive);
        match accepted {
            Ok((tcp, peer)) => {
                let services = shared.current.get();
                match shared.doors.enter(peer.ip(), &services.config.connections) {
                    Ok(inside) => {
                        // It is registered with the runtime of its thread, not with this one.
                        match tcp.into_std() {
                            Ok(tcp) => workers.take(Arrival {
                                tcp,
                                on_fin,
                                held: (inside, alive),
                            }),
                            Err(error) => tracing::warn!(%error, "a connection is lost"),
                        }
                    }
                    Err(refusal) => {
                        services.metrics.turned_away();
                        doors::turn_away(&tcp, &refusal);
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves one connection to its end.
pub async fn serve(arrival: Arrival, current: Current, proxy: Arc<HttpProxy<Gateway>>) {
    let Arrival {
        tcp,
        on_fin,
        held: _held,
    } = arrival;
    let tcp = match TcpStream::from_std(tcp) {
        Ok(tcp) => tcp,
        Err(error) => {
            tracing::warn!(%error, "a connection cannot be served");
            return;
        }
    };
    // Without it a small event would wait for the acknowledgement of the one before.
    let _ = tcp.set_nodelay(true);
    if let Err(error) = notice_vanished(&tcp) {
        tracing::debug!(%error, "a client that vanishes will be noticed late");
    }
    let track = Arc::new(Track::default());
    let id = tcp.as_raw_fd();
    let watched = Watched::new(&tcp, on_fin);
    let client: ClientStream = StampedStream::new(tcp, id, on_fin, track.clone());
    let mut stream: Stream = Box::new(client);
    let mut connection = Connection {
        phase: current.get().phase.clone(),
        track,
        since: MonoNs::now(),
        late: current.get().draining(),
        current,
        // Without it only a connect goes on for a client that has left.
        client: watched
            .inspect_err(|error| tracing::warn!(%error, "out of descriptors"))
            .ok(),
    };
    loop {
        connection.track.begin();
        connection.since = MonoNs::now();
        let mut phase = connection.phase.clone();
        let received = tokio::select! {
            biased;
            received = intake::receive(stream, &mut connection) => received,
            // A request that is still coming in settles as it is dropped.
            _ = phase.wait_for(|p| *p == Phase::Cut) => return,
        };
        let reused = match received {
            Received::Closed => return,
            Received::Answered(stream) => Some(stream),
            Received::Ready(exchange, envelope, stream) => {
                relay(&proxy, exchange, &envelope, stream, &mut connection)
                    .await
                    .map(|reused| reused.consume().0)
            }
        };
        match reused {
            Some(next) => stream = next,
            None => return,
        }
    }
}

/// Lets the kernel find out that a client is no more without having said so: its connection fails
/// after a minute in which it answers no probe, or takes nothing of what was written.
fn notice_vanished(tcp: &TcpStream) -> rustix::io::Result<()> {
    sockopt::set_socket_keepalive(tcp, true)?;
    sockopt::set_tcp_keepidle(tcp, Duration::from_secs(30))?;
    sockopt::set_tcp_keepintvl(tcp, Duration::from_secs(10))?;
    sockopt::set_tcp_keepcnt(tcp, 3)?;
    sockopt::set_tcp_user_timeout(tcp, 60_000)
}

/// Gives a request to pingora's proxy, with the watchdog beside it.
async fn relay(
    proxy: &Arc<HttpProxy<Gateway>>,
    exchange: Box<Exchange>,
    envelope: &Envelope,
    stream: Stream,
    connection: &mut Connection,
) -> Option<ReusedHttpStream> {
    let has_body = !exchange.body.is_empty();
    let accept = exchange.times.accept;
    let limits = exchange.services.config.timeouts.clone();
    let mut session = ServerSession::new_http1(stream);
    session.set_pipelined_prefix(envelope.stand_in(has_body));
    session.set_connection_user_context(Some(exchange));
    connection.track.exchange();

    let track = connection.track.clone();
    // pingora's own shutdown signal stays unused: a drain is ours.
    let (_never, shutdown) = watch::channel(false);
    let mut serving = pin!(proxy.process_new_http(session, &shutdown));
    let mut watching = pin!(watchdog::wait(&track, accept, &limits));
    let mut cut = pin!(connection.phase.wait_for(|p| *p == Phase::Cut));
    let mut left = pin!(left_while_connecting(connection.client.as_ref(), &track));
    let mut armed = true;
    loop {
        tokio::select! {
            biased;
            reused = &mut serving => return reused,
            limit = &mut watching, if armed => {
                track.trip(limit);
                armed = false;
            }
            _ = &mut cut, if armed => {
                track.trip(Limit::Drain);
                armed = false;
            }
            () = &mut left => {
                // Dropped with the proxy, the exchange settles and the connect is given up.
                track.set_left();
                return None;
            }
        }
    }
}

async fn left_while_connecting(client: Option<&Watched>, track: &Track) {
    match client {
        Some(client) => client.left_while_connecting(track).await,
        None => std::future::pending().await,
    }
}

impl Envelope {
    /// A head for pingora's proxy that stands for the request we hold, and one byte of body for
    /// its body.
    fn stand_in(&self, has_body: bool) -> BytesMut {
        let version = if self.version < http::Version::HTTP_11 {
            "HTTP/1.0"
        } else {
            "HTTP/1.1"
        };
        let connection = if self.keep_alive {
            "keep-alive"
        } else {
            "close"
        };
        let body = if has_body {
            "content-length: 1\r\n\r\nx"
        } else {
            "\r\n"
        };
        let head = format!(
            "{} / {version}\r\nhost: gateway\r\nconnection: {connection}\r\n{body}",
            self.method
        );
        BytesMut::from(head.as_bytes())
    }
}

impl Connection {
    /// Ends when the next head is overdue: none began within the idle time (or at all, once a
    /// drain has begun), or one began and did not end in time.
    pub async fn no_head_in_time(&mut self) {
        let limit = self.current.get().config.timeouts.request_head;
        let since = self.since;
        let track = self.track.clone();
        let started = || track.lock().head_started;
        let overdue = async {
            loop {
                let due = started().map_or(since.plus(IDLE), |first| first.plus(limit));
                let now = MonoNs::now();
                if now >= due {
                    return;
                }
                // A head that begins meanwhile is due no later than the end of this sleep.
                let left = Duration::from_nanos(due.since(now));
                tokio::time::sleep(left.min(limit)).await;
            }
        };
        let idle_drain = async {
            let _ = self.phase.wait_for(|p| *p != Phase::Serving).await;
            if self.late {
                tokio::time::sleep(LATE_HEAD).await;
            }
            if started().is_some() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = overdue => {}
            () = idle_drain => {}
        }
    }

    /// The stream out of a session that has read its request, what the client sent after it put
    /// back.
    pub async fn release(&self, session: ClientSession) -> Option<Stream> {
        if !session.will_keepalive() {
            return Some(session.into_inner());
        }
        let (stream, ahead) = session.reuse().await.ok()??.into_parts();
        let mut client = stream.into_any().downcast::<ClientStream>().ok()?;
        client.unread(&ahead.unwrap_or_default());
        Some(client)
    }
}
