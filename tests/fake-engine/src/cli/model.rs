//! The timing model's flags, named as vLLM names them where it has the same.

use std::time::Duration;

use clap::Args;
use inferscope_fake_engine::model::closed_form::{Saturation, Shape};
use inferscope_fake_engine::model::{ParameterError, Parameters};
use inferscope_fake_engine::parse_duration;

/// Lengths that all requests have.
#[derive(Debug, Args)]
pub struct LengthArgs {
    /// Tokens of each prompt
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub input_tokens: u32,
    /// Tokens of each answer
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub output_tokens: u32,
    /// Tokens with which all prompts begin alike
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub prefix_tokens: u32,
}

impl LengthArgs {
    /// A request of these lengths.
    pub fn shape(&self) -> Shape {
        Shape {
            prompt_tokens: self.input_tokens,
            cached_tokens: self.prefix_tokens.min(self.input_tokens),
            output_tokens: self.output_tokens,
        }
    }
}

#[derive(Debug, Default, PartialEq, Args)]
#[command(next_help_heading = "Timing model")]
pub struct ModelArgs {
    /// What each step costs [default: 8ms]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    step_base: Option<Duration>,
    /// What each sequence in a step costs [default: 100us]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    step_per_seq: Option<Duration>,
    /// What each prompt token computed in a step costs [default: 20us]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    step_per_prefill_token: Option<Duration>,
    /// Most sequences that run at once [default: 64]
    #[arg(long, value_name = "N")]
    max_num_seqs: Option<u32>,
    /// Most tokens of a step, prompt and output together [default: 2048]
    #[arg(long, value_name = "N")]
    max_num_batched_tokens: Option<u32>,
    /// Blocks of the KV cache [default: 4096]
    #[arg(long, value_name = "N")]
    num_kv_blocks: Option<u32>,
    /// Tokens of a block [default: 16]
    #[arg(long, value_name = "N")]
    block_size: Option<u32>,
    /// Share no blocks between prompts that begin alike
    #[arg(long)]
    no_enable_prefix_caching: bool,
}

impl ModelArgs {
    /// Whether any of the flags was set.
    pub fn given(&self) -> bool {
        *self != Self::default()
    }

    /// The engine that the flags describe.
    ///
    /// # Errors
    /// When there is none.
    pub fn parameters(&self) -> Result<Parameters, ParameterError> {
        let d = Parameters::default();
        let parameters = Parameters {
            step_base: self.step_base.unwrap_or(d.step_base),
            step_per_seq: self.step_per_seq.unwrap_or(d.step_per_seq),
            step_per_prefill_token: self
                .step_per_prefill_token
                .unwrap_or(d.step_per_prefill_token),
            max_num_seqs: self.max_num_seqs.unwrap_or(d.max_num_seqs),
            max_num_batched_tokens: self
                .max_num_batched_tokens
                .unwrap_or(d.max_num_batched_tokens),
            num_kv_blocks: self.num_kv_blocks.unwrap_or(d.num_kv_blocks),
            block_size: self.block_size.unwrap_or(d.block_size),
            enable_prefix_caching: !self.no_enable_prefix_caching,
        };
        parameters.check()?;
        Ok(parameters)
    }
}

/// The engine in a line.
pub fn engine_line(p: &Parameters) -> String {
    format!(
        "a step costs {:?} + {:?} per sequence + {:?} per prompt token; {} sequences, {} tokens per \
         step, {} blocks of {}, prefix cache {}",
        p.step_base,
        p.step_per_seq,
        p.step_per_prefill_token,
        p.max_num_seqs,
        p.max_num_batched_tokens,
        p.num_kv_blocks,
        p.block_size,
        if p.enable_prefix_caching { "on" } else { "off" },
    )
}

/// Saturation in a line.
pub fn saturation_line(s: &Saturation) -> String {
    use inferscope_fake_engine::model::closed_form::LimitedBy;
    let limit = match s.limited_by {
        LimitedBy::MaxNumSeqs => "limited by max_num_seqs",
        LimitedBy::MaxNumBatchedTokens => "limited by max_num_batched_tokens",
        LimitedBy::NumKvBlocks => "at most: limited by num_kv_blocks, recomputation not counted",
    };
    format!(
        "{:.3} requests/s, {:.1} output tokens/s, batch {:.1}, step {:.3} ms ({limit})",
        s.requests_per_s,
        s.output_tokens_per_s,
        s.batch,
        s.step_seconds * 1e3
    )
}
