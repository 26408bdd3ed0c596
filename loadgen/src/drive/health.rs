//! Whether the engine is still there, and whether requests may be issued.
//!
//! A row of failures is a suspicion; a probe settles it. While connections break, a closed loop
//! holds back until then, because its slots would burn the whole plan in milliseconds; an open
//! loop goes on, because its times are not negotiable. A row of 502 to 504 holds nobody back: an
//! overloaded server may answer so, and that is a result.
//!
//! Only who refuses, resets or cannot be reached is gone. A server that does not answer in time
//! may be busy, and is given the benefit of the doubt.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use http::Method;
use inferscope_shared::clock::MonoNs;
use tokio::sync::watch;

use crate::artifacts::manifest::StopReason;
use crate::client::connection::CLIENT_LIMIT;
use crate::client::exchange::{Ending, Exchange};
use crate::client::simple::{self, Cause};
use crate::client::target::Target;

/// Failures in a row that raise a suspicion.
const SUSPICIOUS: u32 = 5;

/// Between two probes that only error statuses asked for: a probe is load too.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// Time for one probe.
const PROBE_LIMIT: Duration = Duration::from_secs(2);

/// Time for a slow server to answer a probe after a point.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Whether requests may be issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Issue {
    /// Yes.
    #[default]
    Go,
    /// Not before a probe has settled a suspicion.
    Hold,
    /// No more.
    Stop(StopReason),
}

/// The state of one point's issuing.
#[derive(Debug)]
pub struct Health {
    failures: AtomicU32,
    /// A probe is under way.
    suspected: AtomicBool,
    /// When the last one ended.
    settled_at: AtomicU64,
    issue: watch::Sender<Issue>,
    suspicions: watch::Sender<()>,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            failures: AtomicU32::new(0),
            suspected: AtomicBool::new(false),
            settled_at: AtomicU64::new(0),
            issue: watch::channel(Issue::Go).0,
            suspicions: watch::channel(()).0,
        }
    }
}

impl Health {
    /// Looks at how an exchange ended; returns whether it went well as far as HTTP shows.
    pub fn note(&self, exchange: &Exchange) -> bool {
        let broken = match &exchange.ending {
            // Neither tells anything about the server.
            Ending::Broken { kind, .. } if *kind == CLIENT_LIMIT || *kind == "client_panic" => {
                return false;
            }
            Ending::Broken { kind, .. } => {
                !kind.ends_with("_timeout") && *kind != "malformed_response"
            }
            _ => false,
        };
        let unavailable = matches!(exchange.status, Some(502..=504));
        if broken || unavailable {
            let row = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
            if row >= SUSPICIOUS {
                self.suspect(broken);
            }
        } else {
            self.failures.store(0, Ordering::Relaxed);
        }
        exchange.status == Some(200) && matches!(exchange.ending, Ending::Clean | Ending::AfterDone)
    }

    /// Asks for a probe, and holds requests back until it has answered if connections break.
    fn suspect(&self, broken: bool) {
        let quiet_until = MonoNs(self.settled_at.load(Ordering::Relaxed)).plus(PROBE_EVERY);
        if !broken && MonoNs::now() < quiet_until {
            return;
        }
        if broken {
            self.issue.send_if_modified(|issue| {
                let open = *issue == Issue::Go;
                if open {
                    *issue = Issue::Hold;
                }
                open
            });
        }
        if !self.suspected.swap(true, Ordering::Relaxed) {
            self.suspicions.send_replace(());
        }
    }

    /// A suspicion could not be confirmed.
    pub fn cleared(&self) {
        self.failures.store(0, Ordering::Relaxed);
        self.settled_at.store(MonoNs::now().0, Ordering::Relaxed);
        self.suspected.store(false, Ordering::Relaxed);
        self.issue.send_if_modified(|issue| {
            let held = *issue == Issue::Hold;
            if held {
                *issue = Issue::Go;
            }
            held
        });
    }

    /// Decides whether requests may be issued; the first stop stays.
    pub fn set(&self, new: Issue) {
        self.issue.send_if_modified(|issue| {
            let open = !matches!(issue, Issue::Stop(_));
            if open {
                *issue = new;
            }
            open
        });
    }

    /// Why no more may be issued, if so.
    #[must_use]
    pub fn stopped(&self) -> Option<StopReason> {
        match *self.issue.borrow() {
            Issue::Stop(reason) => Some(reason),
            Issue::Go | Issue::Hold => None,
        }
    }

    /// Waits while requests are held back; then whether issuing has stopped.
    pub async fn may_issue(&self) -> Option<StopReason> {
        if *self.issue.borrow() == Issue::Hold {
            let mut issue = self.issue.subscribe();
            // The sender lives as long as `self`.
            let _ = issue.wait_for(|i| *i != Issue::Hold).await;
        }
        self.stopped()
    }

    /// Resolves when issuing has stopped.
    pub async fn until_stopped(&self) -> StopReason {
        let mut issue = self.issue.subscribe();
        // The sender lives as long as `self`.
        let _ = issue.wait_for(|i| matches!(i, Issue::Stop(_))).await;
        self.stopped().unwrap_or(StopReason::Interrupted)
    }

    /// Changes with each suspicion.
    #[must_use]
    pub fn suspicions(&self) -> watch::Receiver<()> {
        self.suspicions.subscribe()
    }
}

/// Asks a server whether it is there.
#[derive(Debug, Clone)]
pub struct Probe {
    /// The arm itself.
    pub arm: Target,
    /// The engine behind it, where known.
    pub engine: Option<Target>,
    /// Key for the arm.
    pub api_key: Option<String>,
    /// Key for the engine.
    pub engine_key: Option<String>,
}

/// What a probe found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// All answered.
    Alive,
    /// One of them is gone; in words.
    Gone(String),
    /// One of them gave no clear answer; in words.
    Unclear(String),
}

impl Probe {
    /// Asks the arm and the engine behind it once for the list of models.
    pub async fn ask(&self) -> Found {
        self.ask_within(PROBE_LIMIT).await.0
    }

    /// Asks until there is a clear answer; who only is slow gets `patience` to give one.
    pub async fn insist(&self, patience: Duration) -> Found {
        let give_up = MonoNs::now().plus(patience);
        loop {
            let rest = Duration::from_nanos(give_up.since(MonoNs::now()));
            let (found, slow) = self.ask_within(PROBE_LIMIT.min(rest)).await;
            if !slow || MonoNs::now().plus(PROBE_LIMIT) > give_up {
                return found;
            }
        }
    }

    /// The finding, and whether time was all that was missing.
    async fn ask_within(&self, limit: Duration) -> (Found, bool) {
        let mut found = Found::Alive;
        let mut slow = false;
        for (target, key) in [
            (Some(&self.arm), self.api_key.as_deref()),
            (self.engine.as_ref(), self.engine_key.as_deref()),
        ] {
            let Some(target) = target else { continue };
            let path = target.path("/v1/models");
            match simple::ask(target, Method::GET, &path, key, None, limit).await {
                Ok(answer) if !matches!(answer.status, 502..=504) => {}
                Ok(answer) => {
                    let status = answer.status;
                    found = Found::Unclear(format!("{target} answers /v1/models with {status}"));
                }
                Err(e) => {
                    let words = format!("{target} gives no answer: {e}");
                    if e.cause == Cause::Gone {
                        return (Found::Gone(words), false);
                    }
                    slow |= e.cause == Cause::Slow;
                    found = Found::Unclear(words);
                }
            }
        }
        (found, slow)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use rustix::io::Errno;

    use super::*;
    use crate::client::connection::ConnectError;
    use crate::client::simple::tests::{ok, server};

    fn unconnected(errno: Errno) -> Exchange {
        Exchange::unconnected(MonoNs(1), &ConnectError::Io(errno.into()))
    }

    fn refused() -> Exchange {
        unconnected(Errno::CONNREFUSED)
    }

    fn probe(arm: Target) -> Probe {
        Probe {
            arm,
            engine: None,
            api_key: None,
            engine_key: None,
        }
    }

    #[tokio::test]
    async fn only_who_is_not_there_is_gone() {
        // Connections wait in the backlog for an answer that never comes.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        let busy = probe(Target::parse(&url).unwrap());
        let (found, slow) = busy.ask_within(Duration::from_millis(50)).await;
        assert!(matches!(found, Found::Unclear(_)) && slow, "{found:?}");
        let found = busy.insist(Duration::from_millis(50)).await;
        assert!(matches!(found, Found::Unclear(_)), "{found:?}");

        assert_eq!(probe(server(ok(""))).ask().await, Found::Alive);
        let full = server("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n");
        let found = probe(full).ask().await;
        assert!(matches!(&found, Found::Unclear(why) if why.contains("503")));
        let found = probe(server("")).ask().await;
        assert!(matches!(found, Found::Gone(_)), "{found:?}");
    }

    #[test]
    fn error_statuses_ask_for_a_probe_and_hold_nobody_back() {
        let health = Health::default();
        let mut suspicions = health.suspicions();
        let mut overloaded = refused();
        overloaded.status = Some(503);
        overloaded.ending = Ending::Clean;
        for _ in 0..SUSPICIOUS {
            assert!(!health.note(&overloaded));
        }
        assert!(suspicions.has_changed().unwrap());
        assert_eq!(*health.issue.borrow(), Issue::Go);
        suspicions.mark_unchanged();
        health.cleared();
        for _ in 0..SUSPICIOUS {
            health.note(&overloaded);
        }
        assert!(!suspicions.has_changed().unwrap(), "one probe a second");
    }

    #[test]
    fn the_clients_own_limits_raise_no_suspicion() {
        let health = Health::default();
        let suspicions = health.suspicions();
        for _ in 0..2 * SUSPICIOUS {
            assert!(!health.note(&unconnected(Errno::MFILE)));
        }
        assert!(!suspicions.has_changed().unwrap());
        assert_eq!(*health.issue.borrow(), Issue::Go);
    }

    #[test]
    fn a_row_of_failures_holds_back_and_a_success_ends_the_row() {
        let health = Health::default();
        let mut good = refused();
        good.status = Some(200);
        good.ending = Ending::Clean;
        for _ in 0..4 {
            assert!(!health.note(&refused()));
        }
        assert!(health.note(&good));
        for _ in 0..4 {
            health.note(&refused());
        }
        assert_eq!(*health.issue.borrow(), Issue::Go);
        health.note(&refused());
        assert_eq!(*health.issue.borrow(), Issue::Hold);
        health.cleared();
        assert_eq!(*health.issue.borrow(), Issue::Go);
    }

    #[test]
    fn the_first_stop_stays() {
        let health = Health::default();
        health.set(Issue::Stop(StopReason::EngineGone));
        health.set(Issue::Stop(StopReason::Interrupted));
        health.cleared();
        assert_eq!(health.stopped(), Some(StopReason::EngineGone));
    }
}
