//! Reading with stamps, and waiting for the client and the pacer at once.
//!
//! `first_ns` and `last_ns` are CLOCK_MONOTONIC stamps taken right after the read that brought
//! the first and the latest byte of the request in hand.

use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::Flow;
use crate::clock::{now_ns, ns};
use crate::line::Line;
use crate::pacer::Pacer;
use crate::program::Outcome;
use crate::recorder::ClosedBy;

/// One read's size.
const READ: usize = 64 << 10;
/// Bytes taken in for the next request while an answer runs.
const READ_AHEAD: usize = 64 << 10;

/// The reading side of a connection.
pub(super) struct Socket<'a> {
    pub line: &'a Arc<Line>,
    /// Read, not yet used.
    pub buffer: Vec<u8>,
    pub first_ns: u64,
    pub last_ns: u64,
    scratch: Vec<u8>,
    tolerate_fin: bool,
    fin: bool,
}

enum Read {
    Bytes,
    Nothing,
    Fin,
}

impl<'a> Socket<'a> {
    pub fn new(line: &'a Arc<Line>, tolerate_fin: bool) -> Self {
        Self {
            line,
            buffer: Vec::new(),
            first_ns: 0,
            last_ns: 0,
            scratch: vec![0; READ],
            tolerate_fin,
            fin: false,
        }
    }

    /// The request in hand is complete: what is buffered beyond belongs to the next one.
    pub fn begin_next(&mut self) {
        self.first_ns = if self.buffer.is_empty() {
            0
        } else {
            self.last_ns
        };
    }

    /// Waits for bytes, at most for `limit`.
    pub fn fill(&mut self, limit: Option<Duration>) -> Flow<()> {
        let until = limit.map(|limit| now_ns().saturating_add(ns(limit)));
        loop {
            if self.fin {
                return Err(ClosedBy::ClientFin);
            }
            match self.read() {
                Ok(Read::Bytes) => return Ok(()),
                Ok(Read::Fin) => return Err(ClosedBy::ClientFin),
                Err(_) => return Err(ClosedBy::ClientReset),
                Ok(Read::Nothing) => {}
            }
            let left = until.map(|until| until.saturating_sub(now_ns()));
            if left == Some(0) {
                return Err(ClosedBy::Engine);
            }
            self.poll(PollFlags::IN, left);
        }
    }

    fn read(&mut self) -> io::Result<Read> {
        match rustix::net::recv(
            &self.line.stream,
            &mut self.scratch[..],
            RecvFlags::DONTWAIT,
        ) {
            Ok((_, 0)) => Ok(Read::Fin),
            Ok((_, n)) => {
                self.last_ns = now_ns();
                if self.buffer.is_empty() && self.first_ns == 0 {
                    self.first_ns = self.last_ns;
                }
                self.buffer.extend_from_slice(&self.scratch[..n]);
                Ok(Read::Bytes)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(Read::Nothing),
            Err(e) => Err(e.into()),
        }
    }

    fn poll(&self, interest: PollFlags, left_ns: Option<u64>) -> PollFlags {
        let timeout = left_ns.map(|ns| Timespec {
            tv_sec: (ns / 1_000_000_000).cast_signed(),
            tv_nsec: (ns % 1_000_000_000).cast_signed(),
        });
        let mut fds = [PollFd::new(&self.line.stream, interest)];
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) => fds[0].revents(),
            Err(_) => PollFlags::empty(),
        }
    }

    /// Sends all, waiting for the client where it must.
    pub fn send_all(&mut self, bytes: &[u8]) -> Flow<()> {
        let mut done = 0;
        while done < bytes.len() {
            match self.line.send(&bytes[done..]) {
                Ok(0) => {
                    self.poll(PollFlags::OUT, None);
                }
                Ok(n) => done += n,
                Err(_) => return Err(ClosedBy::ClientReset),
            }
        }
        Ok(())
    }

    /// Waits until the pacer is done with a response, helping where the socket was full. Tells
    /// the pacer when the client leaves and returns who ended the connection, if someone did.
    pub fn watch(&mut self, pacer: &Pacer, job: u64) -> (Outcome, Option<ClosedBy>) {
        let mut left = None;
        loop {
            if let Some(outcome) = self.line.outcome() {
                return (outcome, left);
            }
            let (socket, woken) = self.poll_both(left.is_some());
            if woken {
                self.line.wake.clear();
            }
            if left.is_some() || socket.is_empty() {
                continue;
            }
            left = self.attend(pacer, job, socket);
            if left.is_some() {
                pacer.abort(job);
            }
        }
    }

    fn poll_both(&self, left: bool) -> (PollFlags, bool) {
        let mut interest = PollFlags::empty();
        if !self.fin {
            interest |= PollFlags::RDHUP;
            if self.buffer.len() < READ_AHEAD {
                interest |= PollFlags::IN;
            }
        }
        if self.line.has_backlog() {
            interest |= PollFlags::OUT;
        }
        let mut fds = [
            PollFd::new(&self.line.wake, PollFlags::IN),
            PollFd::from_borrowed_fd(self.line.stream.as_fd(), interest),
        ];
        // A client that left would report so again and again.
        let watched = if left { &mut fds[..1] } else { &mut fds[..] };
        if rustix::event::poll(watched, None).is_err() {
            return (PollFlags::empty(), false);
        }
        (fds[1].revents(), !fds[0].revents().is_empty())
    }

    /// What the socket has to tell; who ended the connection, if that.
    fn attend(&mut self, pacer: &Pacer, job: u64, seen: PollFlags) -> Option<ClosedBy> {
        if seen.contains(PollFlags::IN) {
            match self.read() {
                Ok(Read::Bytes | Read::Nothing) => {}
                Ok(Read::Fin) if self.tolerate_fin => self.fin = true,
                Ok(Read::Fin) => return Some(ClosedBy::ClientFin),
                Err(_) => return Some(ClosedBy::ClientReset),
            }
        } else if seen.contains(PollFlags::RDHUP) {
            if !self.tolerate_fin {
                return Some(ClosedBy::ClientFin);
            }
            self.fin = true;
        }
        if seen.intersects(PollFlags::ERR | PollFlags::HUP) {
            return Some(ClosedBy::ClientReset);
        }
        if seen.contains(PollFlags::OUT) && self.line.has_backlog() {
            match self.line.drain() {
                Ok(true) => pacer.resume(job),
                Ok(false) => {}
                Err(_) => return Some(ClosedBy::ClientReset),
            }
        }
        None
    }

    /// Reads away what the client still sends after our FIN, for a while.
    pub fn linger(&mut self, limit: Duration) -> ClosedBy {
        let _ = self.line.stream.shutdown(std::net::Shutdown::Write);
        let until = now_ns().saturating_add(ns(limit));
        while let Some(left) = until.checked_sub(now_ns()) {
            self.buffer.clear();
            if self.fill(Some(Duration::from_nanos(left))).is_err() {
                break;
            }
        }
        ClosedBy::Engine
    }

    /// Takes what lies unread, since closing over it would turn our FIN into a reset.
    pub fn discard_unread(&mut self) {
        while matches!(self.read(), Ok(Read::Bytes)) {
            self.buffer.clear();
        }
    }

    /// Makes the close a reset.
    pub fn reset_on_close(&self) {
        let _ = rustix::net::sockopt::set_socket_linger(&self.line.stream, Some(Duration::ZERO));
    }
}
