//! The one thread that sends paced bytes on time.
//!
//! It owns a heap of absolute CLOCK_MONOTONIC deadlines (ns), sleeps until shortly before the
//! earliest (timer slack 1 ns), spins the rest, stamps, renders and sends itself: nothing lies
//! between stamp and send. What a step contains belongs to its [`Program`], and when the tokens of
//! the timing model are ready to [`Batching`], whose events are deadlines like any other.
//! The surprise: a program whose client does not take the bytes is parked, its later deadlines
//! pass, and once the client has caught up the missed steps follow at once, truthfully stamped.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};

use crate::clock::{now_ns, ns};
use crate::line::{Line, Wake, lock};
use crate::program::{After, Due, End, Outcome, Program};

mod batching;

pub(crate) use batching::{Arrival, Batching};

/// Scheduling priority that the pacer asks for.
const PACER_NICE: i32 = -19;

struct Job {
    line: Arc<Line>,
    program: Box<dyn Program>,
    /// In the timing model.
    sequences: Range<u64>,
    parked: Option<After>,
    blocked: u32,
}

enum Command {
    Start(u64, Job, Option<Arrival>),
    Resume(u64),
    Abort(u64),
    Stop,
}

struct Inbox {
    commands: Mutex<Vec<Command>>,
    pending: AtomicBool,
    wake: Wake,
    ids: AtomicU64,
}

/// The handle on the pacer thread; dropping it stops the thread.
pub(crate) struct Pacer {
    inbox: Arc<Inbox>,
    thread: Option<JoinHandle<()>>,
}

impl Pacer {
    pub fn start(spin: Duration, batching: Option<Batching>) -> io::Result<Self> {
        let inbox = Arc::new(Inbox {
            commands: Mutex::new(Vec::new()),
            pending: AtomicBool::new(false),
            wake: Wake::new()?,
            ids: AtomicU64::new(0),
        });
        let mut pacing = Pacing {
            inbox: Arc::clone(&inbox),
            spin_ns: ns(spin),
            batching,
            jobs: HashMap::new(),
            due: BinaryHeap::new(),
            scratch: Vec::with_capacity(4096),
        };
        let thread = std::thread::Builder::new()
            .name("fake-pacer".into())
            .spawn(move || pacing.run())?;
        Ok(Self {
            inbox,
            thread: Some(thread),
        })
    }

    /// Hands a response over; its outcome arrives at `line`.
    pub fn submit(
        &self,
        line: &Arc<Line>,
        program: Box<dyn Program>,
        arrival: Option<Arrival>,
    ) -> u64 {
        let id = self.inbox.ids.fetch_add(1, Ordering::Relaxed);
        let line = Arc::clone(line);
        self.tell(Command::Start(
            id,
            Job {
                line,
                program,
                sequences: 0..0,
                parked: None,
                blocked: 0,
            },
            arrival,
        ));
        id
    }

    /// The backlog of a parked response is out.
    pub fn resume(&self, id: u64) {
        self.tell(Command::Resume(id));
    }

    /// The client is gone: nothing more is sent.
    pub fn abort(&self, id: u64) {
        self.tell(Command::Abort(id));
    }

    fn tell(&self, command: Command) {
        lock(&self.inbox.commands).push(command);
        self.inbox.pending.store(true, Ordering::Release);
        self.inbox.wake.notify();
    }
}

impl Drop for Pacer {
    fn drop(&mut self) {
        self.tell(Command::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

enum Next {
    /// A step of that job.
    Send(u64),
    /// An event of the timing model.
    Batch,
}

struct Pacing {
    inbox: Arc<Inbox>,
    spin_ns: u64,
    batching: Option<Batching>,
    jobs: HashMap<u64, Job>,
    /// An aborted job leaves its entry behind; it is skipped when its time comes.
    due: BinaryHeap<Reverse<(u64, u64)>>,
    scratch: Vec<u8>,
}

impl Pacing {
    fn run(&mut self) {
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        // On Linux this is the calling thread's priority. Only the privileged may raise it;
        // for others the pacer is as late as its neighbours make it.
        let _ = rustix::process::setpriority_process(None, PACER_NICE);
        loop {
            if self.inbox.pending.swap(false, Ordering::AcqRel) && self.obey() {
                return;
            }
            let Some((deadline, what)) = self.next() else {
                self.sleep(None);
                continue;
            };
            let ahead = deadline.saturating_sub(now_ns());
            if ahead == 0 {
                match what {
                    Next::Send(id) => {
                        self.due.pop();
                        self.fire(id);
                    }
                    Next::Batch => self.advance(),
                }
            } else if ahead > self.spin_ns {
                self.sleep(Some(ahead - self.spin_ns));
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// What is due next. What is ready is sent before the timing model goes on.
    fn next(&self) -> Option<(u64, Next)> {
        let send = self
            .due
            .peek()
            .map(|&Reverse((at, id))| (at, Next::Send(id)));
        let event = self.batching.as_ref().and_then(Batching::next_event);
        match (send, event) {
            (Some((at, _)), Some(event)) if event < at => Some((event, Next::Batch)),
            (None, Some(event)) => Some((event, Next::Batch)),
            (send, _) => send,
        }
    }

    /// Lets the timing model go on; what it has ready becomes due.
    fn advance(&mut self) {
        let Some(batching) = &mut self.batching else {
            return;
        };
        let (jobs, due) = (&mut self.jobs, &mut self.due);
        batching.advance(|id, choice, at_ns| {
            let Some(job) = jobs.get_mut(&id) else { return };
            let waited = job.program.due() == Due::Waiting;
            job.program.token(choice, at_ns);
            if let (true, None, Due::At(at)) = (waited, job.parked, job.program.due()) {
                due.push(Reverse((at, id)));
            }
        });
    }

    fn sleep(&self, ns: Option<u64>) {
        let timeout = ns.map(|ns| Timespec {
            tv_sec: (ns / 1_000_000_000).cast_signed(),
            tv_nsec: (ns % 1_000_000_000).cast_signed(),
        });
        let _ = rustix::event::poll(
            &mut [PollFd::new(&self.inbox.wake, PollFlags::IN)],
            timeout.as_ref(),
        );
    }

    /// Carries out what the connections asked for; true on stop.
    fn obey(&mut self) -> bool {
        self.inbox.wake.clear();
        let commands = std::mem::take(&mut *lock(&self.inbox.commands));
        for command in commands {
            match command {
                Command::Start(id, job, arrival) => self.admit(id, job, arrival),
                Command::Abort(id) => {
                    if let Some(job) = self.jobs.remove(&id) {
                        self.cancel(job);
                    }
                }
                Command::Resume(id) => {
                    if let Some(mut job) = self.jobs.remove(&id) {
                        job.program.resumed(now_ns());
                        let after = job.parked.take().unwrap_or(After::Continue);
                        self.proceed(id, job, after);
                    }
                }
                Command::Stop => {
                    for (_, job) in self.jobs.drain() {
                        finish(job, End::Stopped, After::Close);
                    }
                    return true;
                }
            }
        }
        false
    }

    fn admit(&mut self, id: u64, mut job: Job, arrival: Option<Arrival>) {
        if let (Some(batching), Some(arrival)) = (&mut self.batching, arrival) {
            match batching.admit(id, arrival) {
                Ok(sequences) => job.sequences = sequences,
                // Refused before, by the context length; without tokens it would wait for ever.
                Err(_) => return finish(job, End::Stopped, After::Close),
            }
        }
        self.queue(id, job);
    }

    fn queue(&mut self, id: u64, job: Job) {
        match job.program.due() {
            Due::At(deadline) => {
                self.due.push(Reverse((deadline, id)));
                self.jobs.insert(id, job);
            }
            Due::Waiting => {
                self.jobs.insert(id, job);
            }
            Due::Never => finish(job, End::Done, After::Continue),
        }
    }

    /// The client is gone.
    fn cancel(&mut self, job: Job) {
        if let Some(batching) = &mut self.batching {
            batching.abort(job.sequences.clone());
        }
        finish(job, End::ClientGone, After::Close);
    }

    fn fire(&mut self, id: u64) {
        let Some(mut job) = self.jobs.remove(&id) else {
            return;
        };
        self.scratch.clear();
        let after = job.program.step(now_ns(), &mut self.scratch);
        match job.line.send(&self.scratch) {
            Ok(sent) if sent == self.scratch.len() => self.proceed(id, job, after),
            Ok(sent) => {
                job.parked = Some(after);
                job.blocked += 1;
                let line = Arc::clone(&job.line);
                self.jobs.insert(id, job);
                line.park(&self.scratch[sent..]);
            }
            Err(_) => self.cancel(job),
        }
    }

    fn proceed(&mut self, id: u64, job: Job, after: After) {
        match after {
            After::Continue => self.queue(id, job),
            After::ShutdownWrite => {
                let _ = job.line.stream.shutdown(std::net::Shutdown::Write);
                self.queue(id, job);
            }
            After::Close | After::Reset => finish(job, End::Done, after),
        }
    }
}

fn finish(job: Job, end: End, after: After) {
    let line = job.line;
    line.settle(Outcome {
        end,
        after,
        sends: job.program.into_sends(),
        blocked: job.blocked,
    });
}
