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

/// Asks the kernel not to round this thread's sleeps. Failing only makes them end later.
pub fn be_exact() {
    let _ = thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Lets this thread go first whenever several want a core: a client that waits for one shows its
/// own delay as the server's. Takes a privilege; without it things stay as they are, and the lag
/// that is measured says how they were.
pub fn go_first() {
    let _ = rustix::process::setpriority_process(None, -10);
}

/// Work that the measuring thread waits for, but no measurement: as any other thread.
pub fn go_along() {
    let _ = rustix::process::setpriority_process(None, 0);
}

/// Lets all others go first.
pub fn stand_back() {
    let _ = rustix::process::setpriority_process(None, 5);
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
}
