//! Starting and stopping: the listener, its threads, and the handle that a test holds.
//!
//! Stopping is complete: when [`Handle`]'s drop returns, every thread has been joined and every
//! socket closed. Running answers are cut.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};

use crate::config::Config;
use crate::conn;
use crate::engine::Engine;
use crate::line::{Line, Wake, lock};
use crate::recorder::{Counts, RecordedConnection, RecordedRequest};
use crate::script::Script;

const BACKLOG: i32 = 4096;
const CONNECTION_STACK: usize = 512 << 10;
/// Pause after a failed accept (out of descriptors), milliseconds.
const ACCEPT_PAUSE_MS: i64 = 20;

/// The fake engine; see [`FakeEngine::start`].
#[derive(Debug, Clone, Copy)]
pub struct FakeEngine;

impl FakeEngine {
    /// Starts an engine that runs until its handle is dropped.
    ///
    /// # Errors
    /// When it can't listen, can't open its log, or has no model to serve.
    pub fn start(config: Config) -> io::Result<Handle> {
        let listen = config.listen;
        let listener = TcpListener::bind(listen)
            .map_err(|e| io::Error::new(e.kind(), format!("listen {listen}: {e}")))?;
        rustix::net::listen(&listener, BACKLOG)?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let engine = Arc::new(Engine::new(config)?);
        let shared = Arc::new(Shared {
            stop: Wake::new()?,
            open: Mutex::new(Some(HashMap::new())),
        });
        let accepting = Accepting {
            listener,
            engine: Arc::clone(&engine),
            shared: Arc::clone(&shared),
            threads: Vec::new(),
        };
        let thread = std::thread::Builder::new()
            .name("fake-accept".into())
            .spawn(move || accepting.run())?;
        Ok(Handle {
            addr,
            engine,
            shared,
            thread: Some(thread),
        })
    }
}

struct Shared {
    stop: Wake,
    /// The open connections; `None` once stopping.
    open: Mutex<Option<HashMap<u64, Weak<Line>>>>,
}

/// A running fake engine. Dropping it stops the engine.
pub struct Handle {
    addr: SocketAddr,
    engine: Arc<Engine>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle")
            .field("addr", &self.addr)
            .finish_non_exhaustive()
    }
}

impl Handle {
    /// Where it listens.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Its base URL, e.g. `http://127.0.0.1:41000`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Adds a script for model `script:<name>`, after those that the name already has.
    pub fn add_script(&self, name: &str, script: Script) {
        self.engine.stage.add(name, script);
    }

    /// The latest requests, oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.engine.recorder.requests()
    }

    /// All connections so far, oldest first.
    #[must_use]
    pub fn connections(&self) -> Vec<RecordedConnection> {
        self.engine.recorder.connections()
    }

    /// The counts right now.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.engine.recorder.counts()
    }

    /// Waits until the counts satisfy `holds`, at most for `limit`; true when they do.
    #[must_use]
    pub fn wait(&self, limit: Duration, holds: impl Fn(&Counts) -> bool) -> bool {
        self.engine.recorder.wait(limit, holds)
    }

    /// The text of `/metrics`.
    #[must_use]
    pub fn metrics(&self) -> String {
        self.engine.metrics.render()
    }

    /// Stops the engine, as dropping does.
    pub fn stop(self) {}
}

impl Drop for Handle {
    fn drop(&mut self) {
        let open = lock(&self.shared.open).take().unwrap_or_default();
        for line in open.into_values().filter_map(|line| line.upgrade()) {
            let _ = line.stream.shutdown(std::net::Shutdown::Both);
        }
        self.shared.stop.notify();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Accepting {
    listener: TcpListener,
    engine: Arc<Engine>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Accepting {
    fn run(mut self) {
        loop {
            let mut fds = [
                PollFd::new(&self.listener, PollFlags::IN),
                PollFd::new(&self.shared.stop, PollFlags::IN),
            ];
            let _ = rustix::event::poll(&mut fds, None);
            if !fds[1].revents().is_empty() {
                break;
            }
            loop {
                match self.listener.accept() {
                    Ok((stream, peer)) => {
                        if let Err(e) = self.begin(stream, peer) {
                            eprintln!("fake-engine: connection from {peer} dropped: {e}");
                        }
                    }
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                    Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => {}
                    Err(e) => {
                        eprintln!("fake-engine: accept: {e}");
                        self.pause();
                        break;
                    }
                }
            }
        }
        for thread in self.threads {
            let _ = thread.join();
        }
    }

    fn begin(&mut self, stream: std::net::TcpStream, peer: SocketAddr) -> io::Result<()> {
        let line = Arc::new(Line::new(stream)?);
        let id = self.engine.recorder.opened(peer);
        match &mut *lock(&self.shared.open) {
            Some(open) => open.insert(id, Arc::downgrade(&line)),
            None => return Ok(()),
        };
        let (engine, shared) = (Arc::clone(&self.engine), Arc::clone(&self.shared));
        let thread = std::thread::Builder::new()
            .name("fake-conn".into())
            .stack_size(CONNECTION_STACK)
            .spawn(move || {
                conn::serve(&engine, &line, id);
                if let Some(open) = &mut *lock(&shared.open) {
                    open.remove(&id);
                }
            })?;
        if self.threads.len() >= 64 && self.threads.len().is_power_of_two() {
            self.threads.retain(|thread| !thread.is_finished());
        }
        self.threads.push(thread);
        Ok(())
    }

    fn pause(&self) {
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: ACCEPT_PAUSE_MS * 1_000_000,
        };
        let mut fds = [PollFd::new(&self.shared.stop, PollFlags::IN)];
        let _ = rustix::event::poll(&mut fds, Some(&timeout));
    }
}
