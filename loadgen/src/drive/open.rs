//! Open loop: each request at its planned instant, whatever became of those before it.
//!
//! A thread with an exact timer ([`super::timer`]) announces each arrival; the measuring thread
//! dispatches it. The schedule is absolute and never re-anchored: a request that is announced or
//! dispatched late is late, and says so. An arrival above the limit of requests in flight is
//! dropped and recorded, never queued.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use inferscope_shared::clock::MonoNs;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::feed::Jobs;
use super::{Running, timer};
use crate::artifacts::manifest::StopReason;

/// From the decision to start to the first arrival: time to build the first requests.
const LEAD_NS: u64 = 20_000_000;

pub(crate) async fn run(running: &Arc<Running>, jobs: Jobs) -> StopReason {
    let start = MonoNs::now().plus_ns(LEAD_NS);
    let at: Vec<MonoNs> = running
        .point()
        .arrivals
        .iter()
        .map(|a| start.plus_ns(a.offset_ns.unwrap_or(0)))
        .collect();
    let Ok(mut due) = announce(at.clone()) else {
        running.drop_rest(&jobs, StopReason::Interrupted, |index| Some(at[index]));
        return StopReason::Interrupted;
    };
    let limit = u64::from(running.session.config.load.max_in_flight);
    let mut set = JoinSet::new();
    let mut stopped = None;
    while stopped.is_none() {
        tokio::select! {
            biased;
            reason = running.health.until_stopped() => stopped = Some(reason),
            next = due.recv() => {
                let Some(index) = next else { break };
                let Some(job) = jobs.next().await else { break };
                if running.session.gauges.in_flight.load(Ordering::Relaxed) >= limit {
                    running.drop_arrival(index, Some(at[index]), "max_in_flight");
                    continue;
                }
                // Counted here: tasks begin only when this one waits.
                let in_flight = running.take_up(index, at[index]);
                let running = Arc::clone(running);
                set.spawn(async move { running.send(job, in_flight).await });
                while set.try_join_next().is_some() {}
            }
        }
    }
    drop(due);
    let reason = stopped.unwrap_or(StopReason::Requests);
    running.drop_rest(&jobs, reason, |index| Some(at[index]));
    while set.join_next().await.is_some() {}
    stopped.unwrap_or(if running.session.config.load.duration.is_some() {
        ended_by(running)
    } else {
        StopReason::Requests
    })
}

/// Which of the two limits cut the schedule when it was planned.
fn ended_by(running: &Running) -> StopReason {
    let planned = running.point().planned.unwrap_or(0);
    match running.session.config.load.requests {
        Some(n) if planned >= n => StopReason::Requests,
        _ => StopReason::Duration,
    }
}

/// Starts the thread that announces each index at its instant.
fn announce(at: Vec<MonoNs>) -> std::io::Result<mpsc::UnboundedReceiver<usize>> {
    let (sender, receiver) = mpsc::unbounded_channel();
    thread::Builder::new()
        .name("schedule".to_owned())
        .spawn(move || {
            timer::be_exact();
            for (index, at) in at.into_iter().enumerate() {
                timer::sleep_until(at);
                if sender.send(index).is_err() {
                    return;
                }
            }
        })?;
    Ok(receiver)
}
