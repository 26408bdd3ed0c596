//! Drives a plan: one point after the other, each request when the plan says.
//!
//! Owns the measuring thread. Everything on it is one small step per read; building requests
//! ([`feed`]), exact timing ([`timer`]), interpreting answers and writing files
//! ([`crate::artifacts::writer`]) have threads of their own. A point ends by itself: when its
//! requests or its time are used up, when a signal says so, when the engine is gone, or, whatever
//! its requests do, after `timeouts.point`.
//!
//! What was planned is never lost: sent requests are recorded whatever became of them, planned
//! ones that were not sent are recorded as dropped with the reason.

pub mod closed;
pub mod feed;
pub mod health;
pub mod lag;
pub mod open;
pub mod timer;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use inferscope_shared::clock::MonoNs;
use inferscope_shared::record::request::Phase;
use tokio::sync::{Notify, watch};

use crate::artifacts::manifest::StopReason;
use crate::artifacts::writer::{Finished, Sink};
use crate::client::connection::{Connection, Pool};
use crate::client::exchange::{self, Cut, Exchange, Limits};
use crate::client::target::Target;
use crate::config::Resolved;
use crate::plan::body::{self, Prepared};
use crate::plan::{Plan, Point};
use health::{Found, Health, Issue};

/// How long a peer gets to close a connection after its answer, before it counts as kept.
const SETTLE: Duration = Duration::from_millis(10);

/// Counters that other threads look at.
#[derive(Debug, Default)]
pub struct Gauges {
    /// Requests in flight now.
    pub in_flight: AtomicU64,
    /// Arrivals dealt with so far, dropped ones included.
    pub settled: AtomicU64,
    /// Of those, the ones that did not end well, as far as the transport shows.
    pub failed: AtomicU64,
}

/// What all points share.
#[derive(Debug)]
pub struct Session {
    /// The configuration.
    pub config: Arc<Resolved>,
    /// Where finished requests go.
    pub sink: Sink,
    /// Counters for progress and client metrics.
    pub gauges: Arc<Gauges>,
    /// A signal asked for the end.
    pub interrupt: watch::Receiver<bool>,
}

/// One arm's connections; kept over its points.
#[derive(Debug)]
pub struct Arm {
    /// Idle connections.
    pub pool: Mutex<Pool>,
    /// Asked whether the engine is still there.
    pub probe: health::Probe,
}

/// How a point went.
#[derive(Debug, Clone, Copy)]
pub struct PointEnd {
    /// Why it stopped issuing.
    pub stop_reason: StopReason,
    /// Measured arrivals that have a record, sent or not.
    pub planned: u64,
    /// Its first instant.
    pub start: MonoNs,
    /// Its last instant, drain included.
    pub end: MonoNs,
}

/// The state of one running point.
#[derive(Debug)]
pub(crate) struct Running {
    session: Arc<Session>,
    arm: Arc<Arm>,
    plan: Arc<Plan>,
    index: usize,
    limits: Limits,
    target: Target,
    connect_limit: Duration,
    health: Health,
    cut: watch::Sender<Cut>,
    /// Measured arrivals dealt with.
    measured: AtomicU64,
    /// First measured dispatch; zero = not yet.
    measured_from: AtomicU64,
    /// When a request last came to its end.
    freed_at: AtomicU64,
    /// Told of each end.
    freed: Notify,
}

impl Running {
    pub(crate) fn new(
        session: &Arc<Session>,
        arm: &Arc<Arm>,
        plan: &Arc<Plan>,
        index: usize,
    ) -> Arc<Self> {
        let timeouts = &session.config.timeouts;
        let pool = lock(&arm.pool);
        Arc::new(Self {
            session: Arc::clone(session),
            arm: Arc::clone(arm),
            plan: Arc::clone(plan),
            index,
            limits: Limits {
                first_byte: timeouts.first_byte,
                idle: timeouts.idle,
                total: timeouts.total,
                after_done: timeouts.after_done,
            },
            target: pool.target().clone(),
            connect_limit: pool.connect_limit(),
            health: Health::default(),
            cut: watch::channel(Cut::No).0,
            measured: AtomicU64::new(0),
            measured_from: AtomicU64::new(0),
            freed_at: AtomicU64::new(0),
            freed: Notify::new(),
        })
    }

    pub(crate) fn point(&self) -> &Point {
        &self.plan.points[self.index]
    }

    /// When measured requests are no longer issued, once the first one was.
    fn time_limit(&self) -> Option<MonoNs> {
        let from = self.measured_from.load(Ordering::Relaxed);
        let duration = self.session.config.load.duration?;
        (from != 0).then(|| MonoNs(from).plus(duration))
    }

    /// Counts a request as in flight, from before its task is there until it has its record.
    /// `released` is when the limit of requests in flight let it go, if that held it back.
    fn take_up(
        self: &Arc<Self>,
        index: usize,
        intended: MonoNs,
        released: Option<MonoNs>,
    ) -> InFlight {
        self.session
            .gauges
            .in_flight
            .fetch_add(1, Ordering::Relaxed);
        InFlight {
            running: Arc::clone(self),
            index,
            intended,
            released,
            taken: MonoNs::now(),
            recorded: false,
        }
    }

    /// Sends one request, hands what came of it to the sink, and keeps the connection.
    async fn send(&self, job: Prepared, in_flight: InFlight) {
        let arrival = &self.point().arrivals[job.index];
        let dispatched = MonoNs::now();
        if arrival.phase == Phase::Measure && self.measured_from.load(Ordering::Relaxed) == 0 {
            self.measured_from.store(dispatched.0, Ordering::Relaxed);
        }
        let reuse = self.session.config.load.reuse;
        let kept = reuse.then(|| lock(&self.arm.pool).take()).flatten();
        let connection = match kept {
            Some(connection) => Ok(connection),
            None => {
                let stamps = self.session.config.client.kernel_stamps;
                Connection::open(&self.target, self.connect_limit, stamps).await
            }
        };
        let (exchange, connection) = match connection {
            Ok(connection) => {
                let mut cut = self.cut.subscribe();
                exchange::run(connection, job.request, &self.limits, true, &mut cut).await
            }
            Err(error) => (Exchange::unconnected(dispatched, &error), None),
        };
        in_flight.record(job.request_id, job.traceparent, dispatched, exchange);
        if let Some(connection) = connection.filter(|_| reuse) {
            self.keep(connection).await;
        }
    }

    /// Puts a connection back, once it is known that the peer leaves them open.
    async fn keep(&self, mut connection: Connection) {
        let known = lock(&self.arm.pool).peer_keeps();
        let kept = match known {
            Some(kept) => kept,
            None => {
                let kept = connection.stays_open(SETTLE).await;
                lock(&self.arm.pool).peer_kept(kept);
                kept
            }
        };
        if kept {
            lock(&self.arm.pool).put(connection);
        }
    }

    /// Counts an arrival that has its record.
    fn settle(&self, index: usize, went_well: bool) {
        let gauges = &self.session.gauges;
        gauges.settled.fetch_add(1, Ordering::Relaxed);
        gauges
            .failed
            .fetch_add(u64::from(!went_well), Ordering::Relaxed);
        if self.point().arrivals[index].phase == Phase::Measure {
            self.measured.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Records the arrivals that nobody took up, as owed to `stop`.
    fn drop_rest(&self, jobs: &feed::Jobs, stop: StopReason, at: impl Fn(usize) -> Option<MonoNs>) {
        for index in jobs.rest() {
            self.drop_arrival(index, at(index), dropped_by(stop));
        }
    }

    /// Records an arrival that is never sent.
    fn drop_arrival(&self, index: usize, intended: Option<MonoNs>, reason: &'static str) {
        self.settle(index, false);
        self.session
            .sink
            .dropped(self.index, index, intended, reason);
    }

    /// Watches over a point while `work` issues requests; ends issuing when something says so,
    /// and cuts what is in flight when its time is up.
    async fn watch_over(self: &Arc<Self>, work: impl Future<Output = StopReason>) -> StopReason {
        let mut work = std::pin::pin!(work);
        let mut interrupt = self.session.interrupt.clone();
        let mut suspicions = self.health.suspicions();
        let mut overruled = None;
        let mut interrupted = false;
        let mut drained = false;
        let limit = tokio::time::sleep(self.session.config.timeouts.point);
        let mut limit = std::pin::pin!(limit);
        loop {
            tokio::select! {
                stop = &mut work => return overruled.unwrap_or(stop),
                Ok(_) = interrupt.wait_for(|i| *i), if !interrupted => {
                    interrupted = true;
                    overruled = Some(StopReason::Interrupted);
                    self.health.set(Issue::Stop(StopReason::Interrupted));
                    self.cut.send_replace(Cut::Interrupted);
                }
                Ok(()) = suspicions.changed() => {
                    tokio::spawn(Arc::clone(self).settle_suspicion());
                }
                () = self.drain_is_over(), if !drained => {
                    drained = true;
                    // Whoever is held back must not begin once the others are cut.
                    self.health.set(Issue::Stop(StopReason::Duration));
                    self.cut.send_replace(Cut::RunEnd);
                }
                () = &mut limit, if overruled.is_none() => {
                    overruled = Some(StopReason::PointTimeout);
                    self.health.set(Issue::Stop(StopReason::PointTimeout));
                    self.cut.send_replace(Cut::PointTimeout);
                }
            }
        }
    }

    /// Asks whether the engine is still there, beside everything else that goes on.
    async fn settle_suspicion(self: Arc<Self>) {
        match self.arm.probe.ask().await {
            Found::Gone(_) => self.health.set(Issue::Stop(StopReason::EngineGone)),
            Found::Alive | Found::Unclear(_) => self.health.cleared(),
        }
    }

    /// Resolves when the drain budget after the time limit is used up; never without a limit.
    async fn drain_is_over(&self) {
        let limit = loop {
            if let Some(limit) = self.time_limit() {
                break limit;
            }
            if self.session.config.load.duration.is_none() {
                return std::future::pending().await;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        let end = limit.plus(self.session.config.timeouts.drain);
        let rest = end.since(MonoNs::now());
        tokio::time::sleep(Duration::from_nanos(rest)).await;
    }
}

/// A request that was taken up. Whatever becomes of its task, dropping this leaves a record.
#[derive(Debug)]
pub(crate) struct InFlight {
    running: Arc<Running>,
    index: usize,
    intended: MonoNs,
    released: Option<MonoNs>,
    taken: MonoNs,
    recorded: bool,
}

impl InFlight {
    /// Hands over what came of the request; it is in flight no longer.
    fn record(
        mut self,
        request_id: String,
        traceparent: String,
        dispatched: MonoNs,
        exchange: Exchange,
    ) {
        self.hand_over(request_id, traceparent, dispatched, exchange);
    }

    fn hand_over(
        &mut self,
        request_id: String,
        traceparent: String,
        dispatched: MonoNs,
        exchange: Exchange,
    ) {
        self.recorded = true;
        let running = &self.running;
        let went_well = running.health.note(&exchange);
        running.settle(self.index, went_well);
        running.session.sink.finished(Finished {
            point: running.index,
            arrival: self.index,
            request_id,
            traceparent,
            intended: self.intended,
            released: self.released,
            dispatched,
            exchange: Box::new(exchange),
        });
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if !self.recorded {
            let seq = self.running.point().arrivals[self.index].seq;
            let config = &self.running.session.config;
            let id = body::request_id(&config.run_id, &self.running.point().id, seq);
            let traceparent = body::traceparent(&id);
            let exchange = Exchange::broken_off(
                "client_panic",
                "the task of this request failed; report it with the text on standard error"
                    .to_owned(),
            );
            self.hand_over(id, traceparent, self.taken, exchange);
        }
        let running = &self.running;
        running.freed_at.store(MonoNs::now().0, Ordering::Relaxed);
        let gauges = &running.session.gauges;
        gauges.in_flight.fetch_sub(1, Ordering::Relaxed);
        running.freed.notify_one();
    }
}

/// Why an arrival is not sent any more, by what stopped its point.
fn dropped_by(stop: StopReason) -> &'static str {
    match stop {
        StopReason::EngineGone => "engine_gone",
        StopReason::Interrupted => "interrupted",
        StopReason::Duration => "duration",
        StopReason::PointTimeout => "point_timeout",
        // The thread that builds requests ended before its plan did.
        StopReason::Requests | StopReason::PoolExhausted => "not_built",
    }
}

/// Runs one point to its end.
pub async fn run_point(
    session: &Arc<Session>,
    arm: &Arc<Arm>,
    plan: &Arc<Plan>,
    index: usize,
    jobs: feed::Jobs,
) -> PointEnd {
    let running = Running::new(session, arm, plan, index);
    let start = MonoNs::now();
    let stop_reason = if running.point().load.is_open() {
        running.watch_over(open::run(&running, jobs)).await
    } else {
        running.watch_over(closed::run(&running, jobs)).await
    };
    PointEnd {
        stop_reason,
        planned: running.measured.load(Ordering::Relaxed),
        start,
        end: MonoNs::now(),
    }
}

/// A poisoned lock only means that another task panicked; the pool in it is still a pool.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
