//! Whether the engine is still there, and whether requests may be issued.
//!
//! A row of transport failures (or gateway errors) is a suspicion; a probe settles it. Until then
//! a closed loop holds back, because its slots would burn the whole plan in milliseconds; an open
//! loop goes on, because its times are not negotiable.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::Method;
use tokio::sync::watch;

use crate::artifacts::manifest::StopReason;
use crate::client::exchange::{Ending, Exchange};
use crate::client::simple;
use crate::client::target::Target;

/// Failures in a row that raise a suspicion.
const SUSPICIOUS: u32 = 5;

/// Time for a probe.
const PROBE_LIMIT: Duration = Duration::from_secs(2);

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
    issue: watch::Sender<Issue>,
    suspicions: watch::Sender<()>,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            failures: AtomicU32::new(0),
            issue: watch::channel(Issue::Go).0,
            suspicions: watch::channel(()).0,
        }
    }
}

impl Health {
    /// Looks at how an exchange ended; returns whether it went well as far as HTTP shows.
    pub fn note(&self, exchange: &Exchange) -> bool {
        let broken = matches!(
            &exchange.ending,
            Ending::Broken { kind, .. } if !kind.ends_with("_timeout") && *kind != "malformed_response"
        );
        let unavailable = matches!(exchange.status, Some(502..=504));
        if broken || unavailable {
            let row = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
            if row >= SUSPICIOUS && *self.issue.borrow() == Issue::Go {
                self.issue.send_replace(Issue::Hold);
                self.suspicions.send_replace(());
            }
        } else {
            self.failures.store(0, Ordering::Relaxed);
        }
        exchange.status == Some(200) && matches!(exchange.ending, Ending::Clean | Ending::AfterDone)
    }

    /// A suspicion turned out wrong.
    pub fn cleared(&self) {
        self.failures.store(0, Ordering::Relaxed);
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

impl Probe {
    /// Asks the arm, then the engine behind it, for the list of models.
    ///
    /// # Errors
    /// In words, when one of them gives no answer or a gateway says that its engine gives none.
    pub async fn is_alive(&self) -> Result<(), String> {
        for (target, key) in [
            (Some(&self.arm), self.api_key.as_deref()),
            (self.engine.as_ref(), self.engine_key.as_deref()),
        ] {
            let Some(target) = target else { continue };
            let path = target.path("/v1/models");
            match simple::ask(target, Method::GET, &path, key, None, PROBE_LIMIT).await {
                Ok(answer) if !matches!(answer.status, 502..=504) => {}
                Ok(answer) => {
                    return Err(format!(
                        "{target} answers /v1/models with {}",
                        answer.status
                    ));
                }
                Err(e) => return Err(format!("{target} gives no answer: {e}")),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use inferscope_shared::clock::MonoNs;

    use super::*;
    use crate::client::connection::ConnectError;

    fn refused() -> Exchange {
        let error = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        Exchange::unconnected(MonoNs(1), &ConnectError::Io(error))
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
