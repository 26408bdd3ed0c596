//! The address of an endpoint: a literal one, or what lookups of its name have said.
//!
//! Names are resolved here, without blocking and without the panic that pingora's own resolving
//! ends in. An answer older than the configured time is looked up again beside the requests, which
//! go on with the old one; only where it is [`TRUSTED`] times as old, or there is none, does a
//! request wait, and no longer than for a connect. While lookups fail the last answer stays good. Where a
//! name has several addresses (localhost: v6 and v4), a failed connect moves on to the next and
//! later requests begin there.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// After so many times the time for which an answer is fresh, a request waits for the new one
/// rather than use the old one.
const TRUSTED: u32 = 12;

/// Host and port of an endpoint.
#[derive(Debug)]
pub struct Address {
    host: Arc<str>,
    port: u16,
    /// After this an answer is asked for again.
    fresh: Duration,
    known: Arc<Known>,
}

/// What lookups of one name have said.
#[derive(Debug, Default)]
struct Known {
    answer: Mutex<Answer>,
    /// Held by the one lookup in progress.
    asking: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Default)]
struct Answer {
    /// When a lookup last ended, well or not.
    asked: Option<Instant>,
    addresses: Vec<SocketAddr>,
    /// Which of them to begin with.
    first: usize,
}

impl Address {
    /// An address, a v6 one without brackets, that is looked up again once it is `fresh` no more;
    /// nothing is looked up yet.
    #[must_use]
    pub fn new(host: &str, port: u16, fresh: Duration) -> Self {
        Self {
            host: host.into(),
            port,
            fresh,
            known: Arc::default(),
        }
    }

    /// The same address, with all that is known of it, under another time.
    #[must_use]
    pub fn with_fresh(&self, fresh: Duration) -> Self {
        Self {
            host: Arc::clone(&self.host),
            port: self.port,
            fresh,
            known: Arc::clone(&self.known),
        }
    }

    /// Whether it is this one.
    #[must_use]
    pub fn is(&self, host: &str, port: u16) -> bool {
        (&*self.host, self.port) == (host, port)
    }

    /// The value of a `Host` header towards it.
    #[must_use]
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Where to connect now, and of how many addresses that is one; waits at most `limit`.
    ///
    /// # Errors
    /// The lookup's error or its taking too long, when there is no older answer.
    pub async fn resolve(&self, limit: Duration) -> io::Result<(SocketAddr, usize)> {
        if let Ok(ip) = self.host.parse::<IpAddr>() {
            return Ok((SocketAddr::new(ip, self.port), 1));
        }
        let (age, found) = self.known.lock().pick();
        match found {
            Some(found) if age < self.fresh => return Ok(found),
            Some(found) if age < self.fresh.saturating_mul(TRUSTED) => {
                if let Ok(asking) = self.known.asking.clone().try_lock_owned() {
                    let lookup = self.lookup(tokio::time::Instant::now() + limit);
                    tokio::spawn(async move {
                        let _asking = asking;
                        if let Err(error) = lookup.await {
                            tracing::debug!(%error, "an engine's old address stays in use");
                        }
                    });
                }
                return Ok(found);
            }
            _ => {}
        }
        let told = self.ask(tokio::time::Instant::now() + limit).await;
        match (self.known.lock().pick().1, told) {
            (Some(found), _) => Ok(found),
            (None, Err(error)) => Err(error),
            (None, Ok(())) => Err(io::Error::new(io::ErrorKind::NotFound, "no address")),
        }
    }

    /// Looks the name up, unless another request does so meanwhile.
    async fn ask(&self, deadline: tokio::time::Instant) -> io::Result<()> {
        let _asking = tokio::time::timeout_at(deadline, self.known.asking.lock()).await?;
        match self.known.lock().pick() {
            (age, Some(_)) if age < self.fresh => return Ok(()),
            _ => {}
        }
        self.lookup(deadline).await
    }

    /// Looks the name up until `deadline` and keeps what it is told.
    fn lookup(
        &self,
        deadline: tokio::time::Instant,
    ) -> impl Future<Output = io::Result<()>> + Send + use<> {
        let (host, port, known) = (self.host.clone(), self.port, self.known.clone());
        async move {
            let lookup = tokio::net::lookup_host((&*host, port));
            let told = tokio::time::timeout_at(deadline, lookup).await;
            let told = told.map_err(io::Error::from).flatten();
            let mut answer = known.lock();
            answer.asked = Some(Instant::now());
            answer.replace(told?.collect());
            Ok(())
        }
    }

    /// A connect to `address` failed: the next resolve begins with another one, if there is one.
    pub fn failed(&self, address: SocketAddr) {
        let mut answer = self.known.lock();
        // Many requests may have failed at the same address, and only the first moves on.
        if answer.addresses.get(answer.first) == Some(&address) {
            answer.first = (answer.first + 1) % answer.addresses.len();
        }
    }
}

impl Known {
    fn lock(&self) -> MutexGuard<'_, Answer> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Answer {
    /// The age of what is known, and the address to begin with beside their number.
    fn pick(&self) -> (Duration, Option<(SocketAddr, usize)>) {
        let age = self.asked.map_or(Duration::MAX, |at| at.elapsed());
        let first = self.addresses.get(self.first);
        (age, first.map(|&address| (address, self.addresses.len())))
    }

    /// New addresses; the one that served last stays the first if it is among them.
    fn replace(&mut self, addresses: Vec<SocketAddr>) {
        if addresses.is_empty() {
            return;
        }
        let serving = self.addresses.get(self.first).copied();
        self.first = addresses
            .iter()
            .position(|address| Some(*address) == serving)
            .unwrap_or(0);
        self.addresses = addresses;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(1);
    const FRESH: Duration = Duration::from_secs(5);

    /// A name that was looked up `age` ago.
    fn known(addresses: &[SocketAddr], age: Duration) -> Address {
        let address = Address::new("engine", 1, FRESH);
        *address.known.lock() = Answer {
            asked: Instant::now().checked_sub(age),
            addresses: addresses.to_vec(),
            first: 0,
        };
        address
    }

    #[test]
    fn a_host_header_brackets_version_6() {
        let authority = |host| Address::new(host, 8000, FRESH).authority();
        assert_eq!(authority("engine"), "engine:8000");
        assert_eq!(authority("::1"), "[::1]:8000");
    }

    #[tokio::test]
    async fn a_literal_needs_no_lookup_and_a_failed_connect_moves_on() {
        let (address, n) = Address::new("::1", 8000, FRESH)
            .resolve(LIMIT)
            .await
            .unwrap();
        assert_eq!((address.to_string().as_str(), n), ("[::1]:8000", 1));

        let (v6, v4) = ("[::1]:1".parse().unwrap(), "127.0.0.1:1".parse().unwrap());
        let two = known(&[v6, v4], Duration::ZERO);
        assert_eq!(two.resolve(LIMIT).await.unwrap(), (v6, 2));
        // Two requests fail at the same address.
        two.failed(v6);
        two.failed(v6);
        assert_eq!(two.resolve(LIMIT).await.unwrap(), (v4, 2));

        two.known.lock().replace(vec![v4, v6]);
        assert_eq!(two.resolve(LIMIT).await.unwrap(), (v4, 2), "it serves");
    }

    #[tokio::test]
    async fn an_old_answer_is_used_while_another_request_asks() {
        let old = "127.0.0.1:1".parse().unwrap();
        let address = known(&[old], FRESH);
        let asking = address.known.asking.clone().try_lock_owned().unwrap();
        assert_eq!(address.resolve(LIMIT).await.unwrap(), (old, 1));

        // One that is too old is waited for, in vain here, and then used all the same.
        let brief = Duration::from_millis(1);
        address.known.lock().asked = None;
        assert_eq!(address.resolve(brief).await.unwrap(), (old, 1));
        address.known.lock().addresses.clear();
        let error = address.resolve(brief).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(asking);
    }
}
