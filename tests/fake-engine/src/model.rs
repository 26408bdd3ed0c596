//! The timing model: continuous batching as a pure state machine.
//!
//! Owns when each output token is ready: the waiting queue, the scheduler, KV-cache blocks and the
//! prefix cache, and what a step costs. It reads no clock and touches no socket: the pacer drives
//! it on real time, [`crate::simulate`] in virtual time, and both get the same tokens at the same
//! instants. Times are integer ns of whatever clock the arrivals use.
//!
//! A step costs `base + per_seq × sequences in the batch + per_prefill_token × prompt tokens`, and
//! its tokens are ready at its end. Arrivals join at the next start of a step.
//! The surprise: [`Model::advance`] does one thing at a time, a step's start or its end, so that
//! whoever drives can let arrivals in between a step's end and the next one's start.

use std::collections::VecDeque;
use std::time::Duration;

mod blocks;
pub mod closed_form;
mod schedule;
mod sequence;
#[cfg(test)]
mod tests;

use blocks::Blocks;
use schedule::Step;
pub use sequence::{Content, Request};
use sequence::{Slab, Slot};

/// Most tokens of a KV cache.
const MAX_TOKENS: u64 = 1 << 30;

/// What the modelled engine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters {
    /// What each step costs.
    pub step_base: Duration,
    /// What each sequence in a step's batch costs.
    pub step_per_seq: Duration,
    /// What each prompt token computed in a step costs.
    pub step_per_prefill_token: Duration,
    /// Most sequences that run at once.
    pub max_num_seqs: u32,
    /// Most tokens computed in a step, prompt and output together; longer prompts take several.
    pub max_num_batched_tokens: u32,
    /// Blocks of the KV cache.
    pub num_kv_blocks: u32,
    /// Tokens of a block.
    pub block_size: u32,
    /// Whether blocks of equal beginnings are shared.
    pub enable_prefix_caching: bool,
}

impl Default for Parameters {
    /// Much like a 7B model on one data-centre GPU.
    fn default() -> Self {
        Self {
            step_base: Duration::from_millis(8),
            step_per_seq: Duration::from_micros(100),
            step_per_prefill_token: Duration::from_micros(20),
            max_num_seqs: 64,
            max_num_batched_tokens: 2_048,
            num_kv_blocks: 4_096,
            block_size: 16,
            enable_prefix_caching: true,
        }
    }
}

/// Why there is no such engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// A count is zero.
    #[error("{0} must be at least 1")]
    Zero(&'static str),
    /// A step could not hold one token of each running sequence.
    #[error(
        "max_num_batched_tokens {tokens} is below max_num_seqs {seqs}: a step must hold a token of \
         each sequence; raise the one or lower the other"
    )]
    Budget {
        /// `max_num_batched_tokens`
        tokens: u32,
        /// `max_num_seqs`
        seqs: u32,
    },
    /// Time would stand still.
    #[error("step_base and step_per_seq are both 0: output would take no time; set one of them")]
    NoTime,
    /// More than block and token numbers can name.
    #[error(
        "{blocks} KV blocks of {size} tokens are too many; at most {max} blocks and {MAX_TOKENS} tokens",
        max = blocks::MAX_BLOCKS
    )]
    Blocks {
        /// `num_kv_blocks`
        blocks: u32,
        /// `block_size`
        size: u32,
    },
}

/// A request that the KV cache could never hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{tokens} prompt and output tokens do not fit into a KV cache of {capacity} tokens")]
pub struct TooLong {
    /// Prompt and output of the request.
    pub tokens: u64,
    /// All blocks together.
    pub capacity: u64,
}

impl Parameters {
    /// Tokens that the KV cache holds.
    #[must_use]
    pub fn kv_tokens(&self) -> u64 {
        u64::from(self.num_kv_blocks) * u64::from(self.block_size)
    }

    /// How long a step of so many sequences and prompt tokens takes, ns.
    #[must_use]
    pub fn step_ns(&self, sequences: u64, prefill_tokens: u64) -> u64 {
        let ns = crate::clock::ns;
        ns(self.step_base)
            .saturating_add(ns(self.step_per_seq).saturating_mul(sequences))
            .saturating_add(ns(self.step_per_prefill_token).saturating_mul(prefill_tokens))
    }

    /// Whether such an engine can be.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self) -> Result<(), ParameterError> {
        for (value, name) in [
            (self.max_num_seqs, "max_num_seqs"),
            (self.num_kv_blocks, "num_kv_blocks"),
            (self.block_size, "block_size"),
        ] {
            if value == 0 {
                return Err(ParameterError::Zero(name));
            }
        }
        if self.num_kv_blocks > blocks::MAX_BLOCKS || self.kv_tokens() > MAX_TOKENS {
            return Err(ParameterError::Blocks {
                blocks: self.num_kv_blocks,
                size: self.block_size,
            });
        }
        if self.max_num_batched_tokens < self.max_num_seqs {
            return Err(ParameterError::Budget {
                tokens: self.max_num_batched_tokens,
                seqs: self.max_num_seqs,
            });
        }
        if self.step_ns(1, 0) == 0 {
            return Err(ParameterError::NoTime);
        }
        Ok(())
    }
}

/// An output token that is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// The request's own number.
    pub id: u64,
    /// When, ns.
    pub at_ns: u64,
    /// Whether it is the request's last.
    pub last: bool,
}

/// What has happened so far, under the names that vLLM's metrics have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Steps completed.
    pub steps: u64,
    /// Sequences in all their batches together.
    pub batched_sequences: u64,
    /// Running sequences that lost their blocks and began again.
    pub preemptions: u64,
    /// Prompt tokens looked up in the prefix cache, once per request.
    pub prefix_cache_queries: u64,
    /// Those found there.
    pub prefix_cache_hits: u64,
    /// Prompt tokens of requests whose first token is out.
    pub prompt_tokens: u64,
    /// Output tokens.
    pub generation_tokens: u64,
}

/// The modelled engine.
#[derive(Debug)]
pub struct Model {
    parameters: Parameters,
    blocks: Blocks,
    sequences: Slab,
    /// Not yet seen by the scheduler, by arrival.
    arrivals: VecDeque<Slot>,
    waiting: VecDeque<Slot>,
    /// In the order in which they began.
    running: Vec<Slot>,
    step: Option<Step>,
    /// The batch of the last step, kept for its memory.
    spare: Vec<(Slot, u32)>,
    /// When the last step ended.
    free_at_ns: u64,
    counters: Counters,
}

impl Model {
    /// An idle engine with an empty cache.
    ///
    /// # Errors
    /// See [`Parameters::check`].
    pub fn new(parameters: Parameters) -> Result<Self, ParameterError> {
        parameters.check()?;
        Ok(Self {
            parameters,
            blocks: Blocks::new(parameters.num_kv_blocks),
            sequences: Slab::default(),
            arrivals: VecDeque::new(),
            waiting: VecDeque::new(),
            running: Vec::new(),
            step: None,
            spare: Vec::new(),
            free_at_ns: 0,
            counters: Counters::default(),
        })
    }

    /// A request arrives at `at_ns`: in the past, now or later, in any order.
    ///
    /// # Errors
    /// When the KV cache could never hold it.
    pub fn arrive(&mut self, at_ns: u64, request: Request) -> Result<(), TooLong> {
        let tokens = u64::from(request.prompt_tokens) + u64::from(request.output_tokens);
        let capacity = self.parameters.kv_tokens();
        if tokens > capacity {
            return Err(TooLong { tokens, capacity });
        }
        let slot = self.sequences.insert(request, at_ns);
        let sequences = &self.sequences;
        let later = |&s: &Slot| sequences[s].arrived_ns > at_ns;
        if self.arrivals.back().is_some_and(later) {
            let place = self
                .arrivals
                .partition_point(|&s| sequences[s].arrived_ns <= at_ns);
            self.arrivals.insert(place, slot);
        } else {
            self.arrivals.push_back(slot);
        }
        Ok(())
    }

    /// The request's client is gone. A step that computes it runs on to its end.
    pub fn abort(&mut self, id: u64) {
        let sequences = &self.sequences;
        let is = |s: &Slot| sequences[*s].request.id == id;
        let queued = |queue: &mut VecDeque<Slot>| {
            let place = queue.iter().position(is)?;
            queue.remove(place)
        };
        let slot = queued(&mut self.arrivals)
            .or_else(|| queued(&mut self.waiting))
            .or_else(|| {
                let place = self.running.iter().position(is)?;
                Some(self.running.remove(place))
            });
        if let Some(slot) = slot {
            if let Some(step) = &mut self.step {
                step.batch.retain(|&(s, _)| s != slot);
            }
            self.release(slot);
            self.sequences.remove(slot);
        }
    }

    /// When [`Model::advance`] has something to do, ns; `None` while there is no request.
    #[must_use]
    pub fn next_event(&self) -> Option<u64> {
        if let Some(step) = &self.step {
            return Some(step.ends_ns);
        }
        if self.running.is_empty() && self.waiting.is_empty() {
            let first = *self.arrivals.front()?;
            return Some(self.free_at_ns.max(self.sequences[first].arrived_ns));
        }
        Some(self.free_at_ns)
    }

    /// Carries out the next event: a step's start, or its end, whose tokens are appended.
    pub fn advance(&mut self, out: &mut Vec<Token>) {
        if let Some(step) = self.step.take() {
            self.finish(step, out);
        } else if let Some(now) = self.next_event() {
            self.step = Some(self.plan(now));
        }
    }

    /// Sequences running.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Requests waiting, preempted ones and arrivals that no step has seen yet among them.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len() + self.arrivals.len()
    }

    /// Share of the KV cache's blocks in use; cached blocks that nobody uses are free.
    #[must_use]
    pub fn kv_cache_usage(&self) -> f64 {
        1.0 - f64::from(self.blocks.free()) / f64::from(self.parameters.num_kv_blocks)
    }

    /// What has happened so far.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// What the engine is.
    #[must_use]
    pub const fn parameters(&self) -> &Parameters {
        &self.parameters
    }
}
