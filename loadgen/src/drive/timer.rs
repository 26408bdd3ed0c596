//! Sleeping to an exact instant.
//!
//! The kernel may round a sleep up by 50 µs and the async runtime's timers tick at 1 ms; neither
//! will do for dispatching. A thread of its own asks for the smallest slack and sleeps until an
//! absolute instant; what must be exact to the microsecond is awaited by whoever acts on it
//! ([`super::open`]), since a wake-up in between would cost more than the sleep's own error.

use std::num::NonZeroU64;

use inferscope_shared::clock::MonoNs;
use rustix::thread::{self, ClockId};
use rustix::time::Timespec;
use thread_priority::{
    NormalThreadSchedulePolicy, RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id, thread_schedule_policy,
};

/// Asks the kernel not to round this thread's sleeps. Failing only makes them end later.
pub fn be_exact() {
    let _ = thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Lets this thread and those that it starts go first whenever several want a core: a client that
/// waits for one shows its own delay as the server's. A higher priority alone does not do: the
/// scheduler lets whoever has a core keep it for some milliseconds, so the thread enters the
/// real-time class, at its lowest priority. Both take a privilege; without it things stay as they
/// are, and the lag that is measured says how they were.
pub fn go_first() {
    let _ = rustix::process::setpriority_process(None, -10);
    let fifo = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, fifo);
}

/// Work that the measuring thread waits for, but no measurement: as any other thread.
pub fn go_along() {
    leave_real_time();
    let _ = rustix::process::setpriority_process(None, 0);
}

/// Lets all others go first.
pub fn stand_back() {
    leave_real_time();
    let _ = rustix::process::setpriority_process(None, 5);
}

/// The priority that comes with it is the caller's to set; the highest is asked for, because one
/// that was lowered could not be raised again without a privilege.
fn leave_real_time() {
    if let Ok(ThreadSchedulePolicy::Realtime(_)) = thread_schedule_policy() {
        let other = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other);
        let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Max, other);
    }
}

/// Returns at `at`, not before; some microseconds later on a quiet machine.
pub fn nap_until(at: MonoNs) {
    let request = Timespec {
        tv_sec: i64::try_from(at.0 / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: (at.0 % 1_000_000_000) as _,
    };
    while MonoNs::now() < at {
        // Interrupted by a signal: the loop goes on.
        let _ = thread::clock_nanosleep_absolute(ClockId::Monotonic, &request);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_never_ends_early() {
        be_exact();
        for _ in 0..20 {
            let at = MonoNs::now().plus_ns(300_000);
            nap_until(at);
            assert!(MonoNs::now() >= at);
        }
    }

    #[test]
    fn whoever_goes_first_takes_its_threads_along_until_they_say_otherwise() {
        let class = || thread_schedule_policy().unwrap();
        let at_first = class();
        // With or without the privilege: started threads do as their parent, and can step back.
        let led = std::thread::spawn(move || {
            go_first();
            let first = class();
            let child = std::thread::spawn(class).join().unwrap();
            let steps = std::thread::spawn(move || {
                go_along();
                let along = class();
                stand_back();
                (along, class())
            });
            let steps = steps.join().unwrap();
            go_along();
            (first, child, steps, class())
        });
        let (first, child, steps, last) = led.join().unwrap();
        assert_eq!(child, first);
        assert_eq!(steps, (at_first, at_first));
        assert_eq!((last, class()), (at_first, at_first));
    }
}
