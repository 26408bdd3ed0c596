//! Exact bytes with exact faults: what a scripted response sends, step by step.
//!
//! A script owns every byte of the response, its head included; nothing is added. Delays count
//! from the send of the step before (the first one from the request's last byte). Each write is
//! one send with `TCP_NODELAY`, so a delay between two writes keeps them apart for the reader.
//! The surprise: a connection survives its script unless a step closes or resets it, so stray
//! bytes on an idle connection are simply a delay and a write after the response's end.

use std::time::Duration;

use crate::clock::ns;
use crate::program::{After, Due, Program, Sends};

pub mod file;
pub(crate) mod stage;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Write(Vec<u8>),
    Delay(Duration),
    ShutdownWrite,
    Close,
    Reset,
    Hold,
}

/// A scripted response. Built by chaining, e.g.
/// `Script::new().head_sse().event(r#"{"choices":[]}"#).delay(d).rst()`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Script {
    steps: Vec<Step>,
}

impl Script {
    /// A script without steps: the request is read and never answered until the client leaves
    /// or sends another one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn with(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// These bytes, in one send.
    #[must_use]
    pub fn raw(self, bytes: impl AsRef<[u8]>) -> Self {
        self.with(Step::Write(bytes.as_ref().to_vec()))
    }

    /// Waits before the next step.
    #[must_use]
    pub fn delay(self, d: Duration) -> Self {
        self.with(Step::Delay(d))
    }

    /// These bytes in two sends, cut before byte `at`, `pause` apart.
    #[must_use]
    pub fn cut(self, bytes: impl AsRef<[u8]>, at: usize, pause: Duration) -> Self {
        let (a, b) = bytes.as_ref().split_at(at.min(bytes.as_ref().len()));
        self.raw(a).delay(pause).raw(b)
    }

    /// A response head: status line and `headers`, exactly as given.
    #[must_use]
    pub fn head(self, status: &str, headers: &[(&str, &str)]) -> Self {
        self.raw(head(status, headers))
    }

    /// The head of a chunked event stream.
    #[must_use]
    pub fn head_sse(self) -> Self {
        self.head(
            "200 OK",
            &[
                ("content-type", "text/event-stream; charset=utf-8"),
                ("transfer-encoding", "chunked"),
            ],
        )
    }

    /// A whole JSON answer with its content-length, in one send.
    #[must_use]
    pub fn json(self, status: &str, body: &str) -> Self {
        let length = body.len().to_string();
        let mut bytes = head(
            status,
            &[
                ("content-type", "application/json"),
                ("content-length", &length),
            ],
        );
        bytes.extend_from_slice(body.as_bytes());
        self.raw(bytes)
    }

    /// One HTTP chunk with this content.
    #[must_use]
    pub fn chunk(self, content: impl AsRef<[u8]>) -> Self {
        self.raw(chunk(content.as_ref()))
    }

    /// One event `data: <data>` in an HTTP chunk of its own.
    #[must_use]
    pub fn event(self, data: &str) -> Self {
        self.chunk(format!("data: {data}\n\n"))
    }

    /// `data: [DONE]` in an HTTP chunk of its own.
    #[must_use]
    pub fn done(self) -> Self {
        self.event("[DONE]")
    }

    /// The last HTTP chunk, which ends a chunked body.
    #[must_use]
    pub fn end(self) -> Self {
        self.raw("0\r\n\r\n")
    }

    /// FIN in our direction; reading goes on.
    #[must_use]
    pub fn shutdown_write(self) -> Self {
        self.with(Step::ShutdownWrite)
    }

    /// Closes the connection in good order (FIN).
    #[must_use]
    pub fn close(self) -> Self {
        self.with(Step::Close)
    }

    /// Closes the connection with RST.
    #[must_use]
    pub fn rst(self) -> Self {
        self.with(Step::Reset)
    }

    /// Silence until the client leaves.
    #[must_use]
    pub fn hold(self) -> Self {
        self.with(Step::Hold)
    }

    /// Every byte that the script sends, in order.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut all = Vec::new();
        for step in &self.steps {
            if let Step::Write(bytes) = step {
                all.extend_from_slice(bytes);
            }
        }
        all
    }
}

/// A response head, ended by its empty line.
#[must_use]
pub fn head(status: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut out = format!("HTTP/1.1 {status}\r\n");
    for (name, value) in headers {
        out.push_str(name);
        out.push_str(": ");
        out.push_str(value);
        out.push_str("\r\n");
    }
    out.push_str("\r\n");
    out.into_bytes()
}

/// One HTTP/1.1 chunk.
#[must_use]
pub fn chunk(content: &[u8]) -> Vec<u8> {
    let mut out = format!("{:x}\r\n", content.len()).into_bytes();
    out.extend_from_slice(content);
    out.extend_from_slice(b"\r\n");
    out
}

/// A script as it plays on one connection.
pub(crate) struct Play {
    script: Script,
    at: usize,
    due: Option<u64>,
    sends: Sends,
}

impl Play {
    pub fn new(script: Script, start_ns: u64) -> Self {
        let mut play = Self {
            script,
            at: 0,
            due: None,
            sends: Sends::default(),
        };
        play.aim(start_ns);
        play
    }

    /// Sets the deadline of the next step that is not a delay.
    fn aim(&mut self, from_ns: u64) {
        let mut due = from_ns;
        while let Some(Step::Delay(d)) = self.script.steps.get(self.at) {
            due = due.saturating_add(ns(*d));
            self.at += 1;
        }
        self.due = match self.script.steps.get(self.at) {
            Some(Step::Hold) => Some(u64::MAX),
            Some(_) => Some(due),
            // A delay at the end keeps the connection busy that long.
            None => (due > from_ns).then_some(due),
        };
    }
}

impl Program for Play {
    fn due(&self) -> Due {
        self.due.map_or(Due::Never, Due::At)
    }

    fn step(&mut self, now: u64, out: &mut Vec<u8>) -> After {
        let after = match self.script.steps.get(self.at) {
            Some(Step::Write(bytes)) => {
                out.extend_from_slice(bytes);
                self.sends.outputs.push(now);
                self.sends.done = Some(now);
                After::Continue
            }
            Some(Step::ShutdownWrite) => After::ShutdownWrite,
            Some(Step::Close) => After::Close,
            Some(Step::Reset) => After::Reset,
            Some(Step::Delay(_) | Step::Hold) | None => After::Continue,
        };
        self.at += 1;
        self.aim(now);
        after
    }

    fn resumed(&mut self, now: u64) {
        let planned = self.due.unwrap_or(now);
        self.due = self.due.map(|_| planned.max(now));
    }

    fn into_sends(self: Box<Self>) -> Sends {
        self.sends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_play_sends_each_write_alone_and_delays_count_from_the_send_before() {
        let ms = Duration::from_millis;
        let mut play = Play::new(
            Script::new()
                .delay(ms(5))
                .raw("a")
                .delay(ms(1))
                .delay(ms(2))
                .raw("b")
                .rst(),
            1_000,
        );
        let mut out = Vec::new();
        assert_eq!(play.due(), Due::At(5_001_000));
        assert_eq!(play.step(6_000_000, &mut out), After::Continue);
        assert_eq!(play.due(), Due::At(9_000_000));
        assert_eq!(play.step(9_000_100, &mut out), After::Continue);
        assert_eq!(out, b"ab");
        assert_eq!(play.due(), Due::At(9_000_100));
        assert_eq!(play.step(9_000_200, &mut out), After::Reset);
    }

    #[test]
    fn helpers_frame_as_http_wants() {
        let script = Script::new().head_sse().event("x").done().end();
        let text = String::from_utf8(script.bytes()).unwrap();
        assert_eq!(
            text,
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
             transfer-encoding: chunked\r\n\r\n9\r\ndata: x\n\n\r\ne\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
        );
    }
}
