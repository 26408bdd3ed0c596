//! Requests built ahead of time, in plan order, on a thread of their own.
//!
//! They are handed over in small lots: waking the building thread costs the measuring one some
//! microseconds, and so once a lot.

use std::collections::VecDeque;
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

/// Requests of a lot at most; a lot is a small part of those that wait.
const LOT: usize = 32;

/// Memory for them; very long prompts wait in smaller number.
const AHEAD_BYTES: usize = 256 << 20;

/// Of a synthetic prompt, at most.
const BYTES_PER_TOKEN: usize = 16;

/// The requests of one point, in plan order; shared by all who issue them.
#[derive(Debug, Clone)]
pub struct Jobs(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    built: Mutex<Built>,
    taken: AtomicUsize,
    all: usize,
}

#[derive(Debug)]
struct Built {
    lot: VecDeque<Prepared>,
    lots: mpsc::Receiver<VecDeque<Prepared>>,
}

impl Jobs {
    fn new(lots: mpsc::Receiver<VecDeque<Prepared>>, all: usize) -> Self {
        Self(Arc::new(Shared {
            built: Mutex::new(Built {
                lot: VecDeque::new(),
                lots,
            }),
            taken: AtomicUsize::new(0),
            all,
        }))
    }

    /// The next request; none when the plan is used up.
    pub async fn next(&self) -> Option<Prepared> {
        let mut built = self.0.built.lock().await;
        if built.lot.is_empty() {
            built.lot = built.lots.recv().await?;
        }
        let job = built.lot.pop_front()?;
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
    let lot = (ahead / 8).clamp(1, LOT);
    let (sender, receiver) = mpsc::channel(ahead / lot);
    thread::Builder::new()
        .name("feed".to_owned())
        .spawn(move || {
            timer::go_along();
            let builder = Builder::new(&config, &plan, target, api_key);
            let point = &plan.points[point];
            let mut built = VecDeque::with_capacity(lot);
            for (index, arrival) in point.arrivals.iter().enumerate() {
                // Checked in preflight: ids and keys are sendable header values.
                let Ok(job) = builder.build(point, index, arrival) else {
                    break;
                };
                built.push_back(job);
                if built.len() == lot && sender.blocking_send(std::mem::take(&mut built)).is_err() {
                    return;
                }
            }
            if !built.is_empty() {
                let _ = sender.blocking_send(built);
            }
        })?;
    Ok(Jobs::new(receiver, all))
}
