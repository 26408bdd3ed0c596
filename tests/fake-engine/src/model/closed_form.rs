//! What the model does at saturation, worked out on paper.
//!
//! All requests alike: `P` prompt tokens of which `P' = P − cached` must be computed, `O` output
//! tokens, the waiting queue never empty. With `N` = max_num_seqs, `M` = max_num_batched_tokens:
//!
//! 1. **Steps of a request.** The last step of its prefill gives the first token and each later
//!    step one more. While the others decode, `F = M − (N − 1)` tokens of a step are left, so
//!    prefill takes `K = ⌈P'/F⌉` steps, and the request runs for `S = K + O − 1`.
//! 2. **Requests per step.** With all sequences running, `N/S`. But a step computes no more than
//!    `M` tokens and a request needs `P' + O − 1` of them, so at most `M / (P' + O − 1)`. The
//!    smaller one is `ρ`.
//! 3. **Batch.** `B = N` where sequences are the limit. Where tokens are, requests wait for
//!    prefill outside of the batch: `ρ(O − 1)` sequences decode and, since prompts are packed into
//!    the tokens left, `F' = M − ρ(O − 1)`, one more prompt than they hold is cut by a step's end:
//!    `B = ρ(O − 1) + F'/P' + 1`.
//! 4. **Step time** `T = base + per_seq·B + per_prefill_token·ρP'`, and so `ρ/T` requests and
//!    `ρO/T` output tokens per second.
//! 5. **KV cache.** A sequence holds `⌈tokens/block_size⌉` blocks, growing as it runs: `h` on
//!    average over its `S` steps. Blocks of a cached prefix are held once for all. The cache
//!    carries `blocks/h` sequences; where that is below `N` it takes the place of `N`. This
//!    counts no recomputation: the scheduler lets requests begin as soon as their prompt fits,
//!    and when the cache runs full the latest is preempted and computed again. With a prefix
//!    cache most of what it lost is found again; without one the true throughput is lower.

use super::Parameters;

/// What keeps throughput from growing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitedBy {
    /// `max_num_seqs`
    MaxNumSeqs,
    /// `max_num_batched_tokens`
    MaxNumBatchedTokens,
    /// `num_kv_blocks`
    NumKvBlocks,
}

/// Steady state with a queue that is never empty.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Saturation {
    /// Requests completed per second.
    pub requests_per_s: f64,
    /// Output tokens per second.
    pub output_tokens_per_s: f64,
    /// Mean sequences in a step.
    pub batch: f64,
    /// Mean length of a step.
    pub step_seconds: f64,
    /// Why not more.
    pub limited_by: LimitedBy,
}

/// Requests that are all alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Tokens of each prompt.
    pub prompt_tokens: u32,
    /// Of these, the ones in the prefix cache.
    pub cached_tokens: u32,
    /// Tokens of each answer.
    pub output_tokens: u32,
}

/// Saturation under requests of one shape.
#[must_use]
pub fn saturation(parameters: &Parameters, shape: Shape) -> Saturation {
    let seqs = f64::from(parameters.max_num_seqs);
    let budget = f64::from(parameters.max_num_batched_tokens);
    let computed = f64::from(
        shape
            .prompt_tokens
            .saturating_sub(shape.cached_tokens)
            .max(1),
    );
    let decodes = f64::from(shape.output_tokens.max(1)) - 1.0;
    let carried = carried_by_kv(parameters, shape);
    let slots = seqs.min(carried);

    let steps = prefill_steps(parameters, shape) + decodes;
    let by_slots = slots / steps;
    let by_tokens = budget / (computed + decodes);
    let (per_step, batch, limited_by) = if by_tokens < by_slots {
        let decoding = by_tokens * decodes;
        let batch = (decoding + (budget - decoding) / computed + 1.0).min(slots);
        (by_tokens, batch, LimitedBy::MaxNumBatchedTokens)
    } else if carried < seqs {
        (by_slots, slots, LimitedBy::NumKvBlocks)
    } else {
        (by_slots, slots, LimitedBy::MaxNumSeqs)
    };
    let step_seconds = parameters.step_base.as_secs_f64()
        + parameters.step_per_seq.as_secs_f64() * batch
        + parameters.step_per_prefill_token.as_secs_f64() * per_step * computed;
    let requests_per_s = per_step / step_seconds;
    Saturation {
        requests_per_s,
        output_tokens_per_s: requests_per_s * (decodes + 1.0),
        batch,
        step_seconds,
        limited_by,
    }
}

/// Steps in which a prompt is computed while everyone else decodes: `K`.
fn prefill_steps(parameters: &Parameters, shape: Shape) -> f64 {
    f64::from(prefill_chunks(parameters, shape))
}

fn prefill_chunks(parameters: &Parameters, shape: Shape) -> u32 {
    let left = parameters.max_num_batched_tokens - (parameters.max_num_seqs - 1);
    let computed = shape.prompt_tokens.saturating_sub(shape.cached_tokens);
    computed.max(1).div_ceil(left)
}

/// Sequences that the KV cache carries at once: `blocks / h`.
fn carried_by_kv(parameters: &Parameters, shape: Shape) -> f64 {
    let size = parameters.block_size;
    let left = parameters.max_num_batched_tokens - (parameters.max_num_seqs - 1);
    let shared = shape.cached_tokens / size;
    let blocks = |tokens: u32| u64::from(tokens.div_ceil(size).saturating_sub(shared));
    let chunks = prefill_chunks(parameters, shape);
    let prefill = (1..=chunks).map(|k| {
        blocks(
            shape
                .prompt_tokens
                .min(shape.cached_tokens + k.saturating_mul(left)),
        )
    });
    let decode = (1..shape.output_tokens).map(|j| blocks(shape.prompt_tokens + j));
    let held: u64 = prefill.chain(decode).sum();
    let steps = u64::from(chunks) + u64::from(shape.output_tokens.max(1)) - 1;
    let free = f64::from(parameters.num_kv_blocks.saturating_sub(shared));
    if held == 0 {
        f64::INFINITY
    } else {
        free * steps as f64 / held as f64
    }
}
