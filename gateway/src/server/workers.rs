//! The threads that relay: one per core, each with a runtime and a pool of engine connections of its
//! own.
//!
//! A connection is given to a thread and stays there, with the connections to engines that serve it.
//! So an event that comes in is read, passed on and written by one thread that wakes for it: on a
//! runtime whose threads share their work it would mostly wake one thread by another, and at a few
//! microseconds of work per event those wakings cost more than the work.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use pingora::proxy::{HttpProxy, http_proxy};
use pingora::server::configuration::ServerConf;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

use super::{Current, DROP};
use crate::listener::{self, Arrival};
use crate::proxy::Gateway;

/// Idle connections to engines that all threads keep together.
const KEPT_CONNECTIONS: usize = 1024;

/// See the module head. Dropped, they drop what still runs on them.
#[derive(Debug)]
pub struct Workers {
    arrivals: Vec<mpsc::UnboundedSender<Arrival>>,
    threads: Vec<JoinHandle<()>>,
    turn: AtomicUsize,
}

impl Workers {
    /// One thread per core that the process may use.
    ///
    /// # Errors
    /// The process is out of threads or descriptors.
    pub fn start(current: &Current) -> io::Result<Self> {
        let count = thread::available_parallelism().map_or(1, usize::from);
        let mut workers = Self {
            arrivals: Vec::new(),
            threads: Vec::new(),
            turn: AtomicUsize::new(0),
        };
        for i in 0..count {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let (sender, arrivals) = mpsc::unbounded_channel();
            let current = current.clone();
            let proxy = proxy(count);
            let thread = thread::Builder::new()
                .name(format!("relay-{i}"))
                .spawn(move || work(runtime, current, &proxy, arrivals))?;
            workers.arrivals.push(sender);
            workers.threads.push(thread);
        }
        Ok(workers)
    }

    /// Gives a connection to the thread whose turn it is.
    pub fn take(&self, arrival: Arrival) {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let worker = &self.arrivals[turn % self.arrivals.len().max(1)];
        if worker.send(arrival).is_err() {
            tracing::error!("a relaying thread has ended before its time");
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.arrivals.clear();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn work(
    runtime: Runtime,
    current: Current,
    proxy: &Arc<HttpProxy<Gateway>>,
    mut arrivals: mpsc::UnboundedReceiver<Arrival>,
) {
    runtime.block_on(async {
        while let Some(arrival) = arrivals.recv().await {
            tokio::spawn(listener::serve(arrival, current.clone(), proxy.clone()));
        }
    });
    // Here what still runs is dropped, and settles as it goes; a lookup that hangs is not waited for.
    runtime.shutdown_timeout(DROP);
}

/// pingora's proxy around ours, for one of `count` threads. It reads no configuration file and runs
/// on our runtime.
fn proxy(count: usize) -> Arc<HttpProxy<Gateway>> {
    let conf = ServerConf {
        upstream_keepalive_pool_size: KEPT_CONNECTIONS.div_ceil(count),
        ..ServerConf::default()
    };
    Arc::new(http_proxy(&Arc::new(conf), Gateway))
}
