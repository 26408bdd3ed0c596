//! One connection as the pacer and the connection's own thread share it.
//!
//! The connection thread reads; whoever holds the turn writes: the pacer while a response is being
//! paced, the connection thread otherwise. The socket stays in blocking mode and every send asks
//! for `MSG_DONTWAIT`, so neither thread can be held up by a client that stops reading.
//! The surprise: bytes the kernel did not take wait in `backlog`, and while they do the turn
//! belongs to the connection thread.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::EventfdFlags;
use rustix::net::SendFlags;

use crate::program::Outcome;

/// A lock that outlives a panic of another thread: our guarded values are never half written.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A wake-up that can be polled beside sockets.
#[derive(Debug)]
pub(crate) struct Wake(OwnedFd);

impl Wake {
    pub fn new() -> io::Result<Self> {
        Ok(Self(rustix::event::eventfd(
            0,
            EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC,
        )?))
    }

    /// Makes the descriptor readable. Fails only when it already is, which is as good.
    pub fn notify(&self) {
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Takes all notifications so far.
    pub fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0_u8; 8]);
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The shared half of a connection.
#[derive(Debug)]
pub(crate) struct Line {
    pub stream: TcpStream,
    /// Signalled when there is a backlog or an outcome.
    pub wake: Wake,
    backlog: Mutex<Vec<u8>>,
    outcome: Mutex<Option<Outcome>>,
}

impl Line {
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            wake: Wake::new()?,
            backlog: Mutex::new(Vec::new()),
            outcome: Mutex::new(None),
        })
    }

    /// Sends without waiting; returns how many bytes the kernel took.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < bytes.len() {
            match rustix::net::send(
                &self.stream,
                &bytes[done..],
                SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
            ) {
                Ok(n) => done += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => break,
                Err(e) => return Err(e.into()),
            }
        }
        Ok(done)
    }

    /// Leaves `rest` to the connection thread.
    pub fn park(&self, rest: &[u8]) {
        lock(&self.backlog).extend_from_slice(rest);
        self.wake.notify();
    }

    /// Whether bytes wait for the socket.
    pub fn has_backlog(&self) -> bool {
        !lock(&self.backlog).is_empty()
    }

    /// Sends what of the backlog the socket takes; true when nothing is left.
    pub fn drain(&self) -> io::Result<bool> {
        let mut backlog = lock(&self.backlog);
        let sent = self.send(&backlog)?;
        backlog.drain(..sent);
        Ok(backlog.is_empty())
    }

    /// The pacer's last word on a response.
    pub fn settle(&self, outcome: Outcome) {
        *lock(&self.outcome) = Some(outcome);
        self.wake.notify();
    }

    /// Takes the outcome, once there is one.
    pub fn outcome(&self) -> Option<Outcome> {
        lock(&self.outcome).take()
    }
}
