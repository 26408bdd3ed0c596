//! The timing model in virtual time: a whole run without waiting for any of it.
//!
//! Owns the drivers (arrivals on a schedule, or a number of clients that each wait for their
//! answer) and what a run's numbers are. Definitions are loadgen's: TTFT from the arrival, TPOT
//! over the gaps between outputs, and rates over its windows. What the engine does is the
//! [`model`](crate::model)'s. Times are ns from the run's start.
//! The surprise: a client of a closed loop sends again at the earliest 1 ns after its answer, so
//! its next request never joins the step that starts as its last one ends; no real client's does.

use std::collections::VecDeque;
use std::sync::Arc;

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, Exp1};

use crate::model::{Content, Counters, Model, ParameterError, Parameters, Request, Token, TooLong};

pub mod capacity;
mod slo;
mod summary;

pub use slo::{Slo, SloError};
pub use summary::{Latency, Summary};

/// One request of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// When it arrives; without meaning in a closed loop.
    pub at_ns: u64,
    /// Tokens of its prompt.
    pub prompt_tokens: u32,
    /// Tokens of its answer.
    pub output_tokens: u32,
    /// Whether it counts, or warms up.
    pub measured: bool,
}

/// Who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clients {
    /// Nobody waits for anything: the schedule decides.
    Open,
    /// So many clients, each with one request at a time.
    Closed {
        /// How many.
        concurrency: u32,
        /// From the end of an answer to its client's next request.
        turnaround_ns: u64,
        /// Over which the first requests of all clients are spread.
        stagger_ns: u64,
    },
}

/// How a request went, ns from the run's start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// It arrived.
    pub arrived_ns: u64,
    /// Its first token was ready.
    pub first_ns: u64,
    /// Its last token was ready.
    pub last_ns: u64,
    /// Its tokens.
    pub output_tokens: u32,
    /// Whether it counts.
    pub measured: bool,
}

/// A run that is over.
#[derive(Debug, Clone)]
pub struct Run {
    /// In the order planned.
    pub outcomes: Vec<Outcome>,
    /// What the engine counted.
    pub counters: Counters,
    open: bool,
}

/// Why there was no run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SimulationError {
    /// No such engine.
    #[error(transparent)]
    Parameters(#[from] ParameterError),
    /// A request that it cannot hold.
    #[error(transparent)]
    TooLong(#[from] TooLong),
}

/// Runs `plan` against an engine. Every prompt begins with the same `prefix_tokens`.
///
/// # Errors
/// When there is no such engine, or a request does not fit into its KV cache.
pub fn run(
    parameters: Parameters,
    plan: &[Planned],
    clients: Clients,
    prefix_tokens: u32,
) -> Result<Run, SimulationError> {
    let mut driver = Driver {
        model: Model::new(parameters)?,
        plan,
        prefix: prefix(&parameters, prefix_tokens),
        outcomes: plan
            .iter()
            .map(|p| Outcome {
                measured: p.measured,
                ..Outcome::default()
            })
            .collect(),
        clients,
        next: 0,
    };
    driver.run()?;
    Ok(Run {
        counters: driver.model.counters(),
        outcomes: driver.outcomes,
        open: clients == Clients::Open,
    })
}

/// Arrivals of a Poisson process at one per second, in seconds; the first is at zero.
pub fn unit_poisson(seed: u64) -> impl Iterator<Item = f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut at = 0.0;
    std::iter::from_fn(move || {
        let this = at;
        let gap: f64 = Exp1.sample(&mut rng);
        at += gap;
        Some(this)
    })
}

fn prefix(parameters: &Parameters, tokens: u32) -> Arc<[u64]> {
    let tokens = (0..u64::from(tokens)).map(|i| i + 1);
    Content::chain(0, tokens, parameters.block_size, 0).known
}

struct Driver<'a> {
    model: Model,
    plan: &'a [Planned],
    prefix: Arc<[u64]>,
    outcomes: Vec<Outcome>,
    clients: Clients,
    /// Of the plan, the next to be sent.
    next: usize,
}

impl Driver<'_> {
    fn run(&mut self) -> Result<(), TooLong> {
        // Arrivals that wait for nothing: the schedule, or each client's first.
        let mut known: VecDeque<u64> = match self.clients {
            Clients::Open => self.plan.iter().map(|p| p.at_ns).collect(),
            Clients::Closed {
                concurrency,
                stagger_ns,
                ..
            } => (0..u64::from(concurrency))
                .map(|i| stagger_ns * i / u64::from(concurrency))
                .take(self.plan.len())
                .collect(),
        };
        let mut tokens = Vec::new();
        loop {
            let event = self.model.next_event();
            match (event, known.front()) {
                (None, None) => return Ok(()),
                (event, Some(&at)) if event.is_none_or(|event| at <= event) => {
                    known.pop_front();
                    self.send(at)?;
                }
                _ => {
                    self.model.advance(&mut tokens);
                    self.note(&mut tokens)?;
                }
            }
        }
    }

    /// Sends the next request of the plan, if there is one.
    fn send(&mut self, at_ns: u64) -> Result<(), TooLong> {
        let Some(planned) = self.plan.get(self.next) else {
            return Ok(());
        };
        let id = self.next as u64;
        self.outcomes[self.next].arrived_ns = at_ns;
        self.next += 1;
        self.model.arrive(
            at_ns,
            Request {
                id,
                prompt_tokens: planned.prompt_tokens,
                output_tokens: planned.output_tokens,
                content: Content {
                    known: Arc::clone(&self.prefix),
                    own: id,
                },
            },
        )
    }

    fn note(&mut self, tokens: &mut Vec<Token>) -> Result<(), TooLong> {
        for token in tokens.drain(..) {
            let outcome = &mut self.outcomes[token.id as usize];
            if outcome.output_tokens == 0 {
                outcome.first_ns = token.at_ns;
            }
            outcome.output_tokens += 1;
            if token.last {
                outcome.last_ns = token.at_ns;
                if let Clients::Closed { turnaround_ns, .. } = self.clients {
                    self.send(token.at_ns.saturating_add(turnaround_ns.max(1)))?;
                }
            }
        }
        Ok(())
    }
}
