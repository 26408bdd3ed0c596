//! How far a run is: a bar on a terminal, plain lines elsewhere; always on stderr.
//!
//! Drawn by a thread of its own that looks at counters; the measuring thread does nothing for it.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::drive::{Gauges, lock, timer};

const LOOK_EVERY: Duration = Duration::from_millis(200);
const LINE_EVERY: Duration = Duration::from_secs(10);

/// The display of a run.
#[derive(Debug)]
pub struct Progress {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    gauges: Arc<Gauges>,
    total: u64,
    label: Mutex<String>,
    over: AtomicBool,
}

impl Shared {
    fn line(&self) -> String {
        let at = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        format!(
            "{}: {} of {} requests, {} in flight, {} not well",
            lock(&self.label),
            at(&self.gauges.settled),
            self.total,
            at(&self.gauges.in_flight),
            at(&self.gauges.failed)
        )
    }
}

impl Progress {
    /// Starts the display of a run of `total` requests at most.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(gauges: Arc<Gauges>, total: u64) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            gauges,
            total,
            label: Mutex::new("starting".to_owned()),
            over: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("progress".to_owned())
            .spawn(move || {
                timer::stand_back();
                if std::io::stderr().is_terminal() {
                    draw(&of_thread);
                } else {
                    write_lines(&of_thread);
                }
            })?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// A point begins.
    pub fn point(&self, id: &str) {
        id.clone_into(&mut lock(&self.shared.label));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn draw(shared: &Shared) {
    let bar = ProgressBar::new(shared.total);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} {eta}") {
        bar.set_style(style);
    }
    while !shared.over.load(Ordering::Relaxed) {
        let at = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        bar.set_position(at(&shared.gauges.settled));
        bar.set_message(format!(
            "{}, {} in flight, {} not well",
            lock(&shared.label),
            at(&shared.gauges.in_flight),
            at(&shared.gauges.failed)
        ));
        thread::park_timeout(LOOK_EVERY);
    }
    bar.finish_and_clear();
}

fn write_lines(shared: &Shared) {
    let mut label = String::new();
    let mut line_at = Instant::now();
    while !shared.over.load(Ordering::Relaxed) {
        let now = lock(&shared.label).clone();
        if now != label || Instant::now() >= line_at {
            eprintln!("{}", shared.line());
            label = now;
            line_at = Instant::now() + LINE_EVERY;
        }
        thread::park_timeout(LOOK_EVERY);
    }
    eprintln!("{}", shared.line());
}
