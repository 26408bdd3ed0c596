//! The exact server of a calibration: loadgen itself, started again as `loadgen exact-server`.
//!
//! A process of its own, because its threads must not share a scheduler or an allocator with what
//! is being measured. It says where it listens in one line of JSON and ends with its standard
//! input, so it outlives nobody; the parent ends it in any case.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use inferscope_fake_engine::{Config, FakeEngine};
use serde_json::{Value, json};

use crate::client::open_files;
use crate::drive::timer;

/// Name of the hidden subcommand.
pub const SUBCOMMAND: &str = "exact-server";

/// The model that it serves.
pub const MODEL: &str = "exact";

/// Time for the child to say where it listens.
const READY_LIMIT: Duration = Duration::from_secs(10);

/// This program, even when its file was replaced since it started.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// A running exact server; gone when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    url: String,
}

impl Server {
    /// Starts it; waits until it listens.
    ///
    /// # Errors
    /// In words: it cannot be started, or does not get ready in time.
    pub fn start(ttft: Duration, itl: Duration) -> Result<Self, String> {
        let child = Command::new(THIS_PROGRAM)
            .arg0("loadgen")
            .arg(SUBCOMMAND)
            .args(["--ttft-ns", &ttft.as_nanos().to_string()])
            .args(["--itl-ns", &itl.as_nanos().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| format!("the exact server cannot be started ({e})"))?;
        let mut server = Self {
            child,
            url: String::new(),
        };
        let out = server.child.stdout.take();
        let (say, hear) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            if let Some(out) = out {
                let _ = BufReader::new(out).read_line(&mut line);
            }
            let _ = say.send(line);
        });
        let line = hear
            .recv_timeout(READY_LIMIT)
            .map_err(|_| format!("the exact server was not ready within {READY_LIMIT:?}"))?;
        let ready: Value = serde_json::from_str(&line)
            .map_err(|_| "the exact server ended before it was ready".to_owned())?;
        match (ready["listen"].as_str(), ready["error"].as_str()) {
            (Some(addr), _) => server.url = format!("http://{addr}"),
            (None, why) => {
                return Err(format!(
                    "the exact server failed ({})",
                    why.unwrap_or("no reason given")
                ));
            }
        }
        Ok(server)
    }

    /// Its base URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the child does: serves until its standard input ends.
///
/// # Errors
/// When it cannot listen or its parent cannot be told.
pub fn serve(ttft: Duration, itl: Duration) -> io::Result<()> {
    // A parent that measures goes first; the server is no part of the client.
    timer::go_along();
    open_files::raise();
    let mut out = io::stdout();
    let engine = FakeEngine::start(Config {
        models: vec![MODEL.to_owned()],
        ttft,
        itl,
        max_model_len: u64::from(u32::MAX),
        record_requests: 0,
        record_body_bytes: 0,
        ..Config::default()
    })
    .inspect_err(|e| {
        let _ = writeln!(out, "{}", json!({"error": e.to_string()}));
    })?;
    let ready = json!({"ready": true, "listen": engine.addr().to_string()});
    writeln!(out, "{ready}")?;
    out.flush()?;
    let _ = io::stdin().read_to_end(&mut Vec::new());
    drop(engine);
    Ok(())
}
