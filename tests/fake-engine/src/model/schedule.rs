//! What goes into a step, and what comes out of it.
//!
//! As vLLM's V1 scheduler does: running sequences first, in the order in which they began, then
//! waiting ones, first come first served, until tokens, sequences or blocks run out; a prompt
//! longer than what is left of the step's tokens is cut. A running sequence that finds no free
//! block takes those of the one that began last, which goes back to the head of the queue and
//! computes everything again; in such a step nobody new begins.
//! The surprise: blocks are remembered in the prefix cache when they are planned, as there, so
//! two equal prompts share blocks even within one step.

use super::sequence::Slot;
use super::{Model, Token};

/// A step being computed.
#[derive(Debug)]
pub(super) struct Step {
    pub ends_ns: u64,
    /// Who takes part, with how many tokens.
    pub batch: Vec<(Slot, u32)>,
}

impl Model {
    /// Forms the batch of a step that starts `now`.
    pub(super) fn plan(&mut self, now: u64) -> Step {
        while let Some(&slot) = self.arrivals.front()
            && self.sequences[slot].arrived_ns <= now
        {
            self.arrivals.pop_front();
            self.waiting.push_back(slot);
        }
        let mut batch = std::mem::take(&mut self.spare);
        batch.clear();
        let mut budget = self.parameters.max_num_batched_tokens;
        let mut prefill = 0;
        let preempted = self.plan_running(&mut batch, &mut budget, &mut prefill);
        if !preempted {
            self.plan_waiting(&mut batch, &mut budget, &mut prefill);
        }
        let cost = self.parameters.step_ns(batch.len() as u64, prefill);
        Step {
            ends_ns: now.saturating_add(cost),
            batch,
        }
    }

    /// Returns whether a sequence was preempted.
    fn plan_running(
        &mut self,
        batch: &mut Vec<(Slot, u32)>,
        budget: &mut u32,
        prefill: &mut u64,
    ) -> bool {
        let mut preempted = false;
        let mut next = 0;
        while next < self.running.len() && *budget > 0 {
            let slot = self.running[next];
            let sequence = &self.sequences[slot];
            let missing = sequence.tokens() - sequence.computed;
            let decodes = missing == 1 && sequence.generated > 0;
            let tokens = missing.min(*budget);
            while !self.extend(slot, tokens) {
                preempted = true;
                self.preempt();
                if next == self.running.len() {
                    return true;
                }
            }
            if !decodes {
                *prefill += u64::from(tokens);
            }
            *budget -= tokens;
            batch.push((slot, tokens));
            next += 1;
        }
        preempted
    }

    fn plan_waiting(&mut self, batch: &mut Vec<(Slot, u32)>, budget: &mut u32, prefill: &mut u64) {
        while *budget > 0
            && self.running.len() < self.parameters.max_num_seqs as usize
            && let Some(&slot) = self.waiting.front()
        {
            let found = self.look_up(slot);
            let tokens = (self.sequences[slot].tokens() - found).min(*budget);
            if !self.begin(slot, found, tokens) {
                return;
            }
            self.waiting.pop_front();
            self.running.push(slot);
            *prefill += u64::from(tokens);
            *budget -= tokens;
            batch.push((slot, tokens));
        }
    }

    /// Leading tokens of a waiting sequence that are in the cache: whole blocks, and never all,
    /// because the last token must be computed to know the next.
    fn look_up(&self, slot: Slot) -> u32 {
        if !self.parameters.enable_prefix_caching {
            return 0;
        }
        let sequence = &self.sequences[slot];
        let most = (sequence.tokens() - 1) / self.parameters.block_size;
        let content = &sequence.request.content;
        let found = (0..most).take_while(|&i| self.blocks.find(content.hash(i as usize)).is_some());
        found.count() as u32 * self.parameters.block_size
    }

    /// Gives a waiting sequence the `found` tokens that are cached and blocks for `tokens` more.
    fn begin(&mut self, slot: Slot, found: u32, tokens: u32) -> bool {
        let size = self.parameters.block_size;
        let sequence = &mut self.sequences[slot];
        let hits = (found / size) as usize;
        let idle_hits = (0..hits)
            .filter_map(|i| self.blocks.find(sequence.request.content.hash(i)))
            .filter(|&block| !self.blocks.in_use(block))
            .count() as u32;
        if (found + tokens).div_ceil(size) - hits as u32 + idle_hits > self.blocks.free() {
            return false;
        }
        for i in 0..hits {
            if let Some(block) = self.blocks.find(sequence.request.content.hash(i)) {
                self.blocks.share(block);
                sequence.blocks.push(block);
            }
        }
        sequence.remembered = hits;
        sequence.computed = found;
        if !std::mem::replace(&mut sequence.looked_up, true)
            && self.parameters.enable_prefix_caching
        {
            self.counters.prefix_cache_queries += u64::from(sequence.request.prompt_tokens);
            self.counters.prefix_cache_hits += u64::from(found);
        }
        self.extend(slot, tokens)
    }

    /// Plans `tokens` more of a sequence, if there are blocks for them.
    fn extend(&mut self, slot: Slot, tokens: u32) -> bool {
        let size = self.parameters.block_size;
        let sequence = &mut self.sequences[slot];
        let computed = sequence.computed + tokens;
        let held = sequence.blocks.len();
        let needed = (computed.div_ceil(size) as usize).saturating_sub(held);
        if needed > self.blocks.free() as usize {
            return false;
        }
        let taken = std::iter::from_fn(|| self.blocks.take()).take(needed);
        sequence.blocks.extend(taken);
        sequence.computed = computed;
        if self.parameters.enable_prefix_caching {
            let full = (computed / size) as usize;
            while sequence.remembered < full {
                let at = sequence.remembered;
                self.blocks
                    .remember(sequence.blocks[at], sequence.request.content.hash(at));
                sequence.remembered += 1;
            }
        }
        true
    }

    /// Sends the sequence that began last back to the head of the queue.
    fn preempt(&mut self) {
        if let Some(slot) = self.running.pop() {
            self.release(slot);
            self.counters.preemptions += 1;
            self.waiting.push_front(slot);
        }
    }

    /// Takes a sequence's blocks away, the last one first: what comes late in a sequence is of
    /// use to fewer others and goes first.
    pub(super) fn release(&mut self, slot: Slot) {
        let sequence = &mut self.sequences[slot];
        while let Some(block) = sequence.blocks.pop() {
            self.blocks.give_back(block);
        }
        sequence.computed = 0;
        sequence.remembered = 0;
    }

    /// The step is over: whoever has nothing left to compute has a token.
    pub(super) fn finish(&mut self, step: Step, out: &mut Vec<Token>) {
        let at_ns = step.ends_ns;
        self.free_at_ns = at_ns;
        self.counters.steps += 1;
        self.counters.batched_sequences += step.batch.len() as u64;
        let mut done = false;
        for &(slot, _) in &step.batch {
            let sequence = &mut self.sequences[slot];
            if sequence.computed < sequence.tokens() {
                continue;
            }
            if sequence.generated == 0 {
                self.counters.prompt_tokens += u64::from(sequence.request.prompt_tokens);
            }
            sequence.generated += 1;
            self.counters.generation_tokens += 1;
            let last = sequence.generated == sequence.request.output_tokens;
            out.push(Token {
                id: sequence.request.id,
                at_ns,
                last,
            });
            if last {
                done = true;
                self.release(slot);
            }
        }
        if done {
            let sequences = &mut self.sequences;
            self.running.retain(|&slot| {
                let over = sequences[slot].generated == sequences[slot].request.output_tokens;
                if over {
                    sequences.remove(slot);
                }
                !over
            });
        }
        self.spare = step.batch;
    }
}
