//! The limits of an exchange, watched by one timer: first byte, silence, end mark to end of body,
//! and the whole. It is re-armed when it fires too early, not on each read.
//!
//! The surprise: the runtime lets a task that always finds something to read have only so many
//! turns, and then its timers say "not yet" as well. So this one is asked outside of that count,
//! or an answer that comes faster than it can be read would never meet a limit.

use std::future::Future as _;
use std::pin::{Pin, pin};
use std::task::Context;
use std::time::Duration;

use inferscope_shared::clock::MonoNs;
use tokio::task::unconstrained;
use tokio::time::{Instant, Sleep};

use super::{Ending, Limits};

/// One timer for all limits of an exchange.
pub(super) struct Watchdog {
    limits: Limits,
    start: MonoNs,
    done: Option<MonoNs>,
    timer: Pin<Box<Sleep>>,
}

impl Watchdog {
    pub(super) fn start(limits: &Limits) -> Self {
        Self {
            limits: *limits,
            start: MonoNs::now(),
            done: None,
            timer: Box::pin(tokio::time::sleep(
                limits.first_byte.min(limits.idle).min(limits.total),
            )),
        }
    }

    /// The end mark came.
    pub(super) fn done(&mut self, at: MonoNs) {
        self.done = Some(at);
        self.timer
            .as_mut()
            .reset(Instant::now() + self.limits.after_done);
    }

    /// The earliest limit and how the exchange ends there.
    fn due(&self, last_read: Option<MonoNs>) -> (MonoNs, &'static str) {
        let silence = match (self.done, last_read) {
            (Some(at), _) => (at.plus(self.limits.after_done), "after_done"),
            (None, Some(at)) => (at.plus(self.limits.idle), "idle_timeout"),
            (None, None) => (
                self.start.plus(self.limits.first_byte),
                "first_byte_timeout",
            ),
        };
        let total = (self.start.plus(self.limits.total), "total_timeout");
        if total.0 < silence.0 { total } else { silence }
    }

    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        last_read: Option<MonoNs>,
    ) -> Option<Ending> {
        while pin!(unconstrained(self.timer.as_mut())).poll(cx).is_ready() {
            let now = MonoNs::now();
            let (due, kind) = self.due(last_read);
            if due > now {
                let rest = Duration::from_nanos(due.since(now));
                self.timer.as_mut().reset(Instant::now() + rest);
                continue;
            }
            return Some(if self.done.is_some() {
                Ending::AfterDone
            } else {
                let limit = match kind {
                    "idle_timeout" => self.limits.idle,
                    "first_byte_timeout" => self.limits.first_byte,
                    _ => self.limits.total,
                };
                Ending::Broken {
                    kind,
                    message: format!("limit of {limit:?} reached"),
                }
            });
        }
        None
    }
}
