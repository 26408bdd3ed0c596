//! What the pacer plays: steps with deadlines, and how they ended.
//!
//! Deadlines and stamps are CLOCK_MONOTONIC ns. Generations and scripts are programs; the pacer
//! knows nothing of what they send.

/// What to do to the connection after a step's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    Continue,
    /// FIN, while reading goes on.
    ShutdownWrite,
    /// End the program and close.
    Close,
    /// End the program and close with RST.
    Reset,
}

/// When a program's next step is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    At(u64),
    /// Not before the timing model has a token for it.
    Waiting,
    /// It is over.
    Never,
}

/// What is sent on a connection, step by step.
pub(crate) trait Program: Send {
    /// When the next step is due.
    fn due(&self) -> Due;
    /// The timing model has the next token of that choice, ready at `at_ns`.
    fn token(&mut self, _choice: u64, _at_ns: u64) {}
    /// Appends the bytes of the step that is due. `now` is the stamp of this send.
    fn step(&mut self, now: u64, out: &mut Vec<u8>) -> After;
    /// The bytes of the last step have been taken at last, after a wait.
    fn resumed(&mut self, _now: u64) {}
    /// When what was sent.
    fn into_sends(self: Box<Self>) -> Sends;
}

/// Send stamps of one response, CLOCK_MONOTONIC ns.
#[derive(Debug, Default, Clone)]
pub(crate) struct Sends {
    /// One stamp per output step; the choices of a step share it.
    pub outputs: Vec<u64>,
    /// The send that carried the end of the response.
    pub done: Option<u64>,
    /// Output tokens rendered, all choices together.
    pub tokens: u64,
}

/// Why a response ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Everything was sent.
    Done,
    /// The client closed, half-closed or reset its connection first.
    ClientGone,
    /// A script ran to its end.
    Script,
    /// The fake engine was stopped.
    Stopped,
}

/// The result of one program.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub end: End,
    pub after: After,
    pub sends: Sends,
    /// How often the client's full receive window held up a step.
    pub blocked: u32,
}
