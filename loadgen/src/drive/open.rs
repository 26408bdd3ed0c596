//! Open loop: each request at its planned instant, whatever became of those before it.
//!
//! A thread with an exact timer ([`super::timer`]) wakes the measuring thread a little before each
//! arrival ([`EARLY_NS`]). The measuring thread takes the request out of the feed and looks after its
//! streams without sleeping until the instant has come, so that no wake-up lies between the
//! instant and the first write. The schedule is absolute and never re-anchored: a request that is
//! dispatched late is late, and says so.
//!
//! An arrival above the limit of requests in flight is dropped and recorded, or waits its turn:
//! as [`OverLimit`] says. Whoever waits keeps its planned instant and is sent in plan order.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use inferscope_shared::clock::MonoNs;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::feed::Jobs;
use super::{Running, dropped_by, timer};
use crate::artifacts::manifest::StopReason;
use crate::config::OverLimit;

/// From the decision to start to the first arrival: time to build the first requests.
const LEAD_NS: u64 = 20_000_000;

/// How long before an instant the measuring thread is woken: longer than it takes to wake the timer's
/// thread and then the measuring one, on a machine that is not overloaded.
const EARLY_NS: u64 = 150_000;

pub(crate) async fn run(running: &Arc<Running>, jobs: Jobs) -> StopReason {
    let start = MonoNs::now().plus_ns(LEAD_NS);
    let at: Vec<MonoNs> = running
        .point()
        .arrivals
        .iter()
        .map(|a| start.plus_ns(a.offset_ns.unwrap_or(0)))
        .collect();
    let at: Arc<[MonoNs]> = at.into();
    let Ok(bell) = Bell::start(Arc::clone(&at)) else {
        running.drop_rest(&jobs, StopReason::Interrupted, |index| Some(at[index]));
        return StopReason::Interrupted;
    };
    let load = &running.session.config.load;
    let mut limit = Limit {
        most: u64::from(load.max_in_flight),
        held_until: MonoNs(0),
    };
    let mut set = JoinSet::new();
    let mut stopped = None;
    for index in 0..at.len() {
        if let Err(reason) = bell.before(running, index).await {
            stopped = Some(reason);
            break;
        }
        let Some(job) = jobs.next().await else {
            break;
        };
        await_instant(at[index]).await;
        if limit.reached(running) {
            if load.over_limit == OverLimit::Drop {
                running.drop_arrival(index, Some(at[index]), "max_in_flight");
                continue;
            }
            if let Err(reason) = limit.wait(running).await {
                running.drop_arrival(index, Some(at[index]), dropped_by(reason));
                stopped = Some(reason);
                break;
            }
        }
        // Counted here: tasks begin only when this one waits.
        let taken = running.take_up(index, at[index], limit.held(at[index]));
        let running = Arc::clone(running);
        set.spawn(async move { running.send(job, taken).await });
        while set.try_join_next().is_some() {}
    }
    drop(bell);
    let reason = stopped.unwrap_or(StopReason::Requests);
    running.drop_rest(&jobs, reason, |index| Some(at[index]));
    while set.join_next().await.is_some() {}
    stopped.unwrap_or(if load.duration.is_some() {
        ended_by(running)
    } else {
        StopReason::Requests
    })
}

/// The limit of requests in flight, for those who wait for it.
struct Limit {
    most: u64,
    /// When the last arrival that waited could go on. Those planned before were behind it.
    held_until: MonoNs,
}

impl Limit {
    fn reached(&self, running: &Running) -> bool {
        running.session.gauges.in_flight.load(Ordering::Relaxed) >= self.most
    }

    /// Waits until a request may be sent, or says why none may be any more.
    async fn wait(&mut self, running: &Running) -> Result<(), StopReason> {
        while self.reached(running) {
            tokio::select! {
                biased;
                reason = running.health.until_stopped() => return Err(reason),
                () = running.freed.notified() => {}
            }
        }
        self.held_until = MonoNs(running.freed_at.load(Ordering::Relaxed));
        Ok(())
    }

    /// When an arrival planned for `at` could be sent, if it was held back.
    fn held(&self, at: MonoNs) -> Option<MonoNs> {
        Some(self.held_until).filter(|&until| until > at)
    }
}

/// Returns at `at`. Until then the runtime is polled without sleeping, so reads of other streams
/// are taken, and stamped, as they come.
async fn await_instant(at: MonoNs) {
    while MonoNs::now() < at {
        tokio::task::yield_now().await;
    }
}

/// Which of the two limits cut the schedule when it was planned.
fn ended_by(running: &Running) -> StopReason {
    let planned = running.point().planned.unwrap_or(0);
    match running.session.config.load.requests {
        Some(n) if planned >= n => StopReason::Requests,
        _ => StopReason::Duration,
    }
}

/// Wakes the measuring thread shortly before each instant. A thread that is awake anyway looks at
/// the schedule itself: in a burst nobody waits for the other thread to get a core.
struct Bell {
    shared: Arc<Shared>,
}

struct Shared {
    at: Arc<[MonoNs]>,
    /// The arrival that is waited for; past the last one, nobody waits any more.
    next: AtomicUsize,
    rung: Notify,
}

impl Bell {
    fn start(at: Arc<[MonoNs]>) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            at,
            next: AtomicUsize::new(0),
            rung: Notify::new(),
        });
        let bell = Self {
            shared: Arc::clone(&shared),
        };
        thread::Builder::new()
            .name("schedule".to_owned())
            .spawn(move || {
                timer::be_exact();
                let mut index = 0;
                while let Some(at) = shared.at.get(index) {
                    timer::nap_until(early(*at));
                    shared.rung.notify_one();
                    index = shared.next.load(Ordering::Relaxed).max(index + 1);
                }
            })?;
        Ok(bell)
    }

    /// Returns shortly before an arrival's instant, or says why none may be sent any more.
    async fn before(&self, running: &Running, index: usize) -> Result<(), StopReason> {
        self.shared.next.store(index, Ordering::Relaxed);
        while MonoNs::now() < early(self.shared.at[index]) {
            tokio::select! {
                biased;
                reason = running.health.until_stopped() => return Err(reason),
                () = self.shared.rung.notified() => {}
            }
        }
        running.health.stopped().map_or(Ok(()), Err)
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.shared
            .next
            .store(self.shared.at.len(), Ordering::Relaxed);
    }
}

/// When to be awake for something at `at`.
fn early(at: MonoNs) -> MonoNs {
    MonoNs(at.0.saturating_sub(EARLY_NS))
}
