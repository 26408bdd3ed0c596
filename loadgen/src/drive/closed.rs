//! Closed loop: N slots, each of which sends its next request when its last one has ended.
//!
//! Warm-up and measurement are one sequence: a slot goes from one to the other without waiting
//! for the others, so the load never drains in between. Slots may start staggered.

use std::sync::Arc;
use std::time::Duration;

use inferscope_shared::clock::MonoNs;
use inferscope_shared::record::request::Phase;
use tokio::task::JoinSet;

use super::Running;
use super::feed::Jobs;
use crate::artifacts::manifest::StopReason;

pub(crate) async fn run(running: &Arc<Running>, jobs: Jobs) -> StopReason {
    let slots = running.point().load.value.unwrap_or(1.0) as u32;
    let stagger = running.session.config.load.stagger;
    let mut set = JoinSet::new();
    for slot in 0..slots {
        let delay = stagger.mul_f64(f64::from(slot) / f64::from(slots));
        set.spawn(drive_slot(Arc::clone(running), jobs.clone(), delay));
    }
    let mut reason = StopReason::Requests;
    while let Some(end) = set.join_next().await {
        match end {
            Ok(StopReason::Requests) => {}
            Ok(other) => reason = other,
            // The request that failed has its record; its slot goes on, or the load would sink.
            Err(_) => {
                set.spawn(drive_slot(
                    Arc::clone(running),
                    jobs.clone(),
                    Duration::ZERO,
                ));
            }
        }
    }
    match (reason, running.point().planned) {
        // Time alone limits it, and there was more time than requests.
        (StopReason::Requests, None) => StopReason::PoolExhausted,
        // What was not issued in time was not planned: the first limit reached ends the plan.
        (StopReason::Duration, _) | (_, None) => reason,
        (_, Some(_)) => {
            running.drop_rest(&jobs, reason, |_| None);
            reason
        }
    }
}

async fn drive_slot(running: Arc<Running>, jobs: Jobs, delay: Duration) -> StopReason {
    if !delay.is_zero() {
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            reason = running.health.until_stopped() => return reason,
        }
    }
    loop {
        if let Some(reason) = running.health.may_issue().await {
            return reason;
        }
        if running.time_limit().is_some_and(|t| MonoNs::now() >= t) {
            return StopReason::Duration;
        }
        let free = MonoNs::now();
        let Some(job) = jobs.next().await else {
            return StopReason::Requests;
        };
        debug_assert_ne!(running.point().arrivals[job.index].phase, Phase::Drain);
        let in_flight = running.take_up(job.index, free, None);
        running.send(job, in_flight).await;
    }
}
