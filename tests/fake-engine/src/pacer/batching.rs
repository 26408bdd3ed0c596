//! The timing model on the pacer's thread: whose sequences it runs, and what it shows.
//!
//! The model's clock is CLOCK_MONOTONIC: a request arrives when its last byte was received, even
//! if the pacer hears of it later, and a step ends when the model says so, even if the pacer is
//! late for it. So nothing the host does moves the model's schedule, except that a request the
//! pacer hears of after a step's start waits for the next.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::metrics::ModelMetrics;
use crate::model::{Model, ParameterError, Parameters, Request, Token, TooLong};

/// What a response needs of the timing model.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub at_ns: u64,
    /// By choice; ids are given here.
    pub sequences: Vec<Request>,
}

/// Whose a sequence is.
#[derive(Debug, Clone, Copy)]
struct Owner {
    job: u64,
    choice: u64,
}

/// The model and its bookkeeping.
#[derive(Debug)]
pub(crate) struct Batching {
    model: Model,
    metrics: Arc<ModelMetrics>,
    owners: HashMap<u64, Owner>,
    next_id: u64,
    tokens: Vec<Token>,
}

impl Batching {
    /// An idle engine that shows its state in `metrics`.
    ///
    /// # Errors
    /// When there is no such engine.
    pub fn new(
        parameters: Parameters,
        metrics: &Arc<ModelMetrics>,
    ) -> Result<Self, ParameterError> {
        Ok(Self {
            model: Model::new(parameters)?,
            metrics: Arc::clone(metrics),
            owners: HashMap::new(),
            next_id: 0,
            tokens: Vec::new(),
        })
    }

    /// Takes a job's sequences in; returns their ids.
    ///
    /// # Errors
    /// When one of them is longer than the KV cache.
    pub fn admit(&mut self, job: u64, arrival: Arrival) -> Result<Range<u64>, TooLong> {
        let first = self.next_id;
        for (choice, mut sequence) in (0_u64..).zip(arrival.sequences) {
            sequence.id = self.next_id;
            if let Err(error) = self.model.arrive(arrival.at_ns, sequence) {
                self.abort(first..self.next_id);
                return Err(error);
            }
            self.owners.insert(self.next_id, Owner { job, choice });
            self.next_id += 1;
        }
        self.metrics.modelled(&self.model);
        Ok(first..self.next_id)
    }

    /// Takes away those of the sequences that still run or wait.
    pub fn abort(&mut self, sequences: Range<u64>) {
        for id in sequences {
            if self.owners.remove(&id).is_some() {
                self.model.abort(id);
            }
        }
        self.metrics.modelled(&self.model);
    }

    pub fn next_event(&self) -> Option<u64> {
        self.model.next_event()
    }

    /// Carries out the model's next event; `ready` gets job, choice and instant of each token.
    pub fn advance(&mut self, mut ready: impl FnMut(u64, u64, u64)) {
        self.model.advance(&mut self.tokens);
        for token in self.tokens.drain(..) {
            let owner = if token.last {
                self.owners.remove(&token.id)
            } else {
                self.owners.get(&token.id).copied()
            };
            if let Some(owner) = owner {
                ready(owner.job, owner.choice, token.at_ns);
            }
        }
        self.metrics.modelled(&self.model);
    }
}
