//! Requests built ahead of time, in plan order, on a thread of their own.

use std::sync::Arc;
use std::thread;

use tokio::sync::{Mutex, mpsc};

use super::timer;
use crate::client::target::Target;
use crate::config::Resolved;
use crate::plan::Plan;
use crate::plan::body::{Builder, Prepared};

/// Requests that wait, built. Enough for any burst, and little memory at usual prompt lengths.
const AHEAD: usize = 256;

/// The requests of one point, in plan order; shared by all who issue them.
#[derive(Debug, Clone)]
pub struct Jobs(Arc<Mutex<mpsc::Receiver<Prepared>>>);

impl Jobs {
    /// The next request; none when the plan is used up.
    pub async fn next(&self) -> Option<Prepared> {
        self.0.lock().await.recv().await
    }

    /// Indices of all arrivals that nobody took.
    pub async fn rest(&self) -> Vec<usize> {
        let mut jobs = self.0.lock().await;
        let mut rest = Vec::new();
        while let Some(job) = jobs.recv().await {
            rest.push(job.index);
        }
        rest
    }
}

/// Starts building the requests of a point.
///
/// # Errors
/// When no thread can be started.
pub fn start(
    config: Arc<Resolved>,
    plan: Arc<Plan>,
    point: usize,
    target: Target,
    api_key: Option<String>,
) -> std::io::Result<Jobs> {
    let (sender, receiver) = mpsc::channel(AHEAD);
    thread::Builder::new()
        .name("feed".to_owned())
        .spawn(move || {
            timer::go_along();
            let builder = Builder::new(&config, &plan, target, api_key);
            let point = &plan.points[point];
            for (index, arrival) in point.arrivals.iter().enumerate() {
                // Checked in preflight: ids and keys are sendable header values.
                let Ok(job) = builder.build(point, index, arrival) else {
                    return;
                };
                if sender.blocking_send(job).is_err() {
                    return;
                }
            }
        })?;
    Ok(Jobs(Arc::new(Mutex::new(receiver))))
}
