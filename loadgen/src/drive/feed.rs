//! Requests built ahead of time, in plan order, on a thread of their own.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tokio::sync::{Mutex, mpsc};

use super::timer;
use crate::client::target::Target;
use crate::config::Resolved;
use crate::plan::Plan;
use crate::plan::body::{Builder, Prepared};

/// Requests that wait, built: enough for any burst.
const AHEAD: usize = 256;

/// Memory for them; very long prompts wait in smaller number.
const AHEAD_BYTES: usize = 256 << 20;

/// Of a synthetic prompt, at most.
const BYTES_PER_TOKEN: usize = 16;

/// The requests of one point, in plan order; shared by all who issue them.
#[derive(Debug, Clone)]
pub struct Jobs(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    built: Mutex<mpsc::Receiver<Prepared>>,
    taken: AtomicUsize,
    all: usize,
}

impl Jobs {
    fn new(built: mpsc::Receiver<Prepared>, all: usize) -> Self {
        Self(Arc::new(Shared {
            built: Mutex::new(built),
            taken: AtomicUsize::new(0),
            all,
        }))
    }

    /// The next request; none when the plan is used up.
    pub async fn next(&self) -> Option<Prepared> {
        let job = self.0.built.lock().await.recv().await?;
        self.0.taken.store(job.index + 1, Ordering::Relaxed);
        Some(job)
    }

    /// Indices of all arrivals that nobody took; final once nobody asks for more.
    #[must_use]
    pub fn rest(&self) -> Range<usize> {
        self.0.taken.load(Ordering::Relaxed)..self.0.all
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
    let all = plan.points[point].arrivals.len();
    let tokens = usize::try_from(config.prompts.input_tokens).unwrap_or(usize::MAX);
    let ahead = (AHEAD_BYTES / tokens.saturating_mul(BYTES_PER_TOKEN)).clamp(1, AHEAD);
    let (sender, receiver) = mpsc::channel(ahead);
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
    Ok(Jobs::new(receiver, all))
}
