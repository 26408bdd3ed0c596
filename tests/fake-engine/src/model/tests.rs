//! The model as a whole: what it promises for any parameters, and what it computes for known ones.

use proptest::prelude::*;

use super::closed_form::{LimitedBy, Shape, saturation};
use super::*;
use crate::simulate::{Clients, Planned, Run, run};

const MS: u64 = 1_000_000;

fn small() -> Parameters {
    Parameters {
        step_base: Duration::from_millis(10),
        step_per_seq: Duration::from_millis(1),
        step_per_prefill_token: Duration::from_micros(100),
        max_num_seqs: 4,
        max_num_batched_tokens: 32,
        num_kv_blocks: 16,
        block_size: 8,
        enable_prefix_caching: true,
    }
}

fn request(id: u64, prompt_tokens: u32, output_tokens: u32) -> Request {
    Request {
        id,
        prompt_tokens,
        output_tokens,
        content: Content::unique(id),
    }
}

/// Runs to the end; every token's id and instant in ms.
fn drain(model: &mut Model) -> Vec<(u64, u64)> {
    let mut out = Vec::new();
    while model.next_event().is_some() {
        model.advance(&mut out);
        assert!(model.blocks.free() <= model.parameters.num_kv_blocks);
    }
    out.iter().map(|t| (t.id, t.at_ns / MS)).collect()
}

#[test]
fn steps_cost_what_is_in_them_and_arrivals_join_at_the_next_start() {
    let mut model = Model::new(small()).unwrap();
    model.arrive(5 * MS, request(1, 10, 3)).unwrap();
    model.arrive(6 * MS, request(2, 20, 1)).unwrap();
    // 5: 10 + 1 + 1 prefill; 17: 10 + 2 + 2 prefill; 31: 10 + 1.
    assert_eq!(drain(&mut model), [(1, 17), (1, 31), (2, 31), (1, 42)]);
    assert_eq!(model.next_event(), None);
    model.arrive(40 * MS, request(3, 10, 1)).unwrap();
    assert_eq!(
        drain(&mut model),
        [(3, 54)],
        "it came before the last step's end"
    );
    model.arrive(99 * MS, request(4, 10, 1)).unwrap();
    assert_eq!(
        drain(&mut model),
        [(4, 111)],
        "an idle engine begins at once"
    );
}

#[test]
fn a_long_prompt_is_computed_in_chunks_beside_the_decodes() {
    let mut model = Model::new(small()).unwrap();
    model.arrive(0, request(1, 8, 4)).unwrap();
    model.arrive(MS, request(2, 50, 1)).unwrap();
    let mut out = Vec::new();
    let mut ends = Vec::new();
    while let Some(at) = model.next_event() {
        model.advance(&mut out);
        if model.step.is_none() {
            ends.push(at / 100_000);
        }
    }
    // 8 prompt tokens; then 31 of the long prompt beside a decode, and the 19 left beside another.
    assert_eq!(
        ends,
        [118, 118 + 151, 118 + 151 + 139, 118 + 151 + 139 + 110]
    );
    let last: Vec<u64> = out.iter().filter(|t| t.last).map(|t| t.id).collect();
    assert_eq!(last, [2, 1]);
}

#[test]
fn when_blocks_run_out_the_latest_is_preempted_and_computed_again() {
    let parameters = Parameters {
        num_kv_blocks: 4,
        enable_prefix_caching: false,
        ..small()
    };
    let mut model = Model::new(parameters).unwrap();
    model.arrive(0, request(1, 16, 10)).unwrap();
    model.arrive(0, request(2, 15, 6)).unwrap();
    let out = drain(&mut model);
    // Both prompts fill the cache. The first one's second token needs a third block.
    assert_eq!(model.counters().preemptions, 1);
    assert_eq!(out.iter().filter(|(id, _)| *id == 1).count(), 10);
    assert_eq!(out.iter().filter(|(id, _)| *id == 2).count(), 6);
    assert_eq!(
        out[..3],
        [(1, 15), (2, 15), (1, 26)],
        "31 prompt tokens, then alone"
    );
    let c = model.counters();
    assert_eq!((c.prompt_tokens, c.generation_tokens), (31, 16));
    assert_eq!(
        (model.running(), model.waiting(), model.kv_cache_usage()),
        (0, 0, 0.0)
    );
}

#[test]
fn a_shared_beginning_is_computed_once_and_the_last_token_always() {
    let mut model = Model::new(small()).unwrap();
    let same = |id| Request {
        content: Content::chain(7, 0..24, 8, id),
        ..request(id, 16, 1)
    };
    model.arrive(0, same(1)).unwrap();
    drain(&mut model);
    model.arrive(100 * MS, same(2)).unwrap();
    drain(&mut model);
    let c = model.counters();
    assert_eq!((c.prefix_cache_queries, c.prefix_cache_hits), (32, 8));
    assert_eq!(c.prompt_tokens, 32, "cached tokens are prompt tokens too");
    // Two more at once share even what is computed in their own step.
    let other = |id| Request {
        content: Content::chain(8, 0..24, 8, id),
        ..request(id, 20, 1)
    };
    model.arrive(200 * MS, other(3)).unwrap();
    model.arrive(200 * MS, other(4)).unwrap();
    let begun = model.counters().prefix_cache_hits;
    drain(&mut model);
    assert_eq!(model.counters().prefix_cache_hits - begun, 16);
}

#[test]
fn an_aborted_request_leaves_at_once_from_wherever_it_is() {
    let mut model = Model::new(Parameters {
        max_num_seqs: 1,
        ..small()
    })
    .unwrap();
    for (id, at) in [(1, 0), (2, 0), (3, 500)] {
        model.arrive(at * MS, request(id, 16, 5)).unwrap();
    }
    let mut out = Vec::new();
    model.advance(&mut out);
    assert_eq!((model.running(), model.waiting()), (1, 2));
    model.abort(1);
    model.abort(3);
    model.abort(9);
    assert_eq!((model.running(), model.waiting()), (0, 1));
    assert_eq!(model.kv_cache_usage(), 0.0);
    // The step goes on to its end, 10 + 1 + 1.6, without a token.
    assert_eq!(model.next_event(), Some(12_600_000));
    assert!(drain(&mut model).iter().all(|(id, _)| *id == 2));
    assert_eq!(model.blocks.users(), 0);
}

#[test]
fn what_cannot_be_is_refused() {
    let with = |change: fn(&mut Parameters)| {
        let mut p = small();
        change(&mut p);
        p.check().unwrap_err().to_string()
    };
    assert!(with(|p| p.block_size = 0).contains("block_size must be"));
    assert!(with(|p| p.max_num_batched_tokens = 3).contains("below max_num_seqs 4"));
    assert!(with(|p| p.num_kv_blocks = u32::MAX).contains("too many"));
    let still = with(|p| (p.step_base, p.step_per_seq) = (Duration::ZERO, Duration::ZERO));
    assert!(still.contains("no time"));
    let mut model = Model::new(small()).unwrap();
    let error = model.arrive(0, request(1, 100, 29)).unwrap_err();
    assert_eq!((error.tokens, error.capacity), (129, 128));
}

fn alike(n: usize, prompt_tokens: u32, output_tokens: u32) -> Vec<Planned> {
    (0..n)
        .map(|i| Planned {
            at_ns: 0,
            prompt_tokens,
            output_tokens,
            measured: i >= n / 4,
        })
        .collect()
}

fn overloaded(parameters: Parameters, n: usize, prompt: u32, output: u32, prefix: u32) -> Run {
    let clients = Clients::Closed {
        concurrency: 4 * parameters.max_num_seqs,
        turnaround_ns: 0,
        stagger_ns: 0,
    };
    run(parameters, &alike(n, prompt, output), clients, prefix).unwrap()
}

/// Where KV isn't the limit the closed form neglects only rounding: prompts that a step's end
/// cuts by chance, and the first and last clients of a finite run. Observed within 0.6 %.
#[test]
fn at_overload_virtual_time_agrees_with_the_closed_form() {
    use LimitedBy::{MaxNumBatchedTokens, MaxNumSeqs};
    for (seqs, tokens, prompt, output, prefix, limit) in [
        (64, 2_048, 128, 64, 0, MaxNumSeqs),
        (64, 2_048, 512, 128, 0, MaxNumSeqs),
        (64, 2_048, 1_024, 64, 0, MaxNumSeqs),
        (64, 2_048, 3_000, 128, 0, MaxNumSeqs),
        (64, 2_048, 1_024, 16, 800, MaxNumSeqs),
        (8, 64, 100, 50, 0, MaxNumSeqs),
        (1, 64, 100, 5, 0, MaxNumSeqs),
        (64, 2_048, 1_024, 16, 0, MaxNumBatchedTokens),
        (64, 2_048, 3_000, 20, 0, MaxNumBatchedTokens),
        (8, 64, 100, 5, 0, MaxNumBatchedTokens),
        (64, 2_048, 64, 1, 0, MaxNumBatchedTokens),
    ] {
        let parameters = Parameters {
            max_num_seqs: seqs,
            max_num_batched_tokens: tokens,
            num_kv_blocks: 65_536,
            ..Parameters::default()
        };
        let shape = Shape {
            prompt_tokens: prompt,
            cached_tokens: prefix / 16 * 16,
            output_tokens: output,
        };
        let form = saturation(&parameters, shape);
        let summary = overloaded(parameters, 6_000, prompt, output, prefix).summary();
        let what = format!("{parameters:?} {shape:?}");
        assert_eq!(form.limited_by, limit, "{what}");
        for (found, expected, tolerance) in [
            (summary.requests_per_s.unwrap(), form.requests_per_s, 0.01),
            (
                summary.output_tokens_per_s.unwrap(),
                form.output_tokens_per_s,
                0.01,
            ),
            (summary.mean_batch.unwrap(), form.batch, 0.04),
        ] {
            let ratio = found / expected;
            assert!((ratio - 1.0).abs() <= tolerance, "{ratio} for {what}");
        }
    }
}

/// Where KV is the limit the closed form counts neither the recomputation after preemptions nor
/// the blocks that stand empty because the next request doesn't fit: it is an upper bound. The
/// batch was observed within 5 % of it, throughput up to 12 % below.
#[test]
fn where_kv_is_the_limit_the_closed_form_bounds_from_above() {
    for (blocks, cache, prompt, output) in [
        (1_024, true, 256, 256),
        (1_024, false, 256, 256),
        (1_024, true, 128, 512),
        (512, false, 256, 64),
        (512, false, 1_000, 30),
    ] {
        let parameters = Parameters {
            num_kv_blocks: blocks,
            enable_prefix_caching: cache,
            ..Parameters::default()
        };
        let shape = Shape {
            prompt_tokens: prompt,
            cached_tokens: 0,
            output_tokens: output,
        };
        let form = saturation(&parameters, shape);
        let summary = overloaded(parameters, 3_000, prompt, output, 0).summary();
        assert_eq!(form.limited_by, LimitedBy::NumKvBlocks);
        assert!(summary.preemptions > 0);
        let batch = summary.mean_batch.unwrap() / form.batch;
        let rate = summary.requests_per_s.unwrap() / form.requests_per_s;
        let what = format!("batch {batch}, rate {rate} of {form:?}");
        assert!((0.93..=1.0).contains(&batch), "{what}");
        assert!((0.86..=1.0).contains(&rate), "{what}");
    }
}

#[test]
fn a_million_requests_take_no_time_but_the_computers() {
    const REQUESTS: usize = 1_000_000;
    let parameters = Parameters::default();
    let mut plan = alike(REQUESTS, 64, 8);
    for (i, planned) in plan.iter_mut().enumerate() {
        planned.at_ns = i as u64 * 4 * MS;
    }
    let run = run(parameters, &plan, Clients::Open, 32).unwrap();
    assert_eq!(run.counters.generation_tokens, 8 * REQUESTS as u64);
    assert_eq!(run.counters.prompt_tokens, 64 * REQUESTS as u64);
    assert!(run.outcomes.iter().all(|o| o.output_tokens == 8));
    let hits = run.summary().prefix_hit_share.unwrap();
    assert!((hits - 0.5).abs() < 1e-5, "{hits}");
}

fn parameters() -> impl Strategy<Value = Parameters> {
    (1_u32..6, 0_u32..40, 8_u32..40, 1_u32..9, any::<bool>()).prop_map(
        |(max_num_seqs, more, num_kv_blocks, block_size, enable_prefix_caching)| Parameters {
            max_num_seqs,
            max_num_batched_tokens: max_num_seqs + more,
            num_kv_blocks,
            block_size,
            enable_prefix_caching,
            ..small()
        },
    )
}

#[derive(Debug, Clone)]
struct Deed {
    at_ms: u64,
    prompt: u32,
    output: u32,
    /// With which others it shares a beginning.
    group: u64,
    /// Its client leaves after so many events of the engine.
    leaves: Option<usize>,
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let leaves = prop_oneof![3 => Just(None), 1 => (0_usize..60).prop_map(Some)];
    let deed = (0_u64..300, 1_u32..40, 1_u32..20, 0_u64..3, leaves);
    let deed = deed.prop_map(|(at_ms, prompt, output, group, leaves)| Deed {
        at_ms,
        prompt,
        output,
        group,
        leaves,
    });
    prop::collection::vec(deed, 1..40)
}

/// Plays the deeds; the tokens, and the blocks' sanity at each event.
fn play(parameters: Parameters, deeds: &[Deed]) -> (Vec<Token>, Counters) {
    let mut model = Model::new(parameters).unwrap();
    let mut fits = Vec::new();
    for (i, deed) in deeds.iter().enumerate() {
        let tokens = u64::from(deed.prompt + deed.output);
        let content = Content::chain(deed.group, 0..tokens, parameters.block_size, i as u64);
        let arrived = model.arrive(
            deed.at_ms * MS,
            Request {
                content,
                ..request(i as u64, deed.prompt, deed.output)
            },
        );
        assert_eq!(arrived.is_ok(), tokens <= parameters.kv_tokens());
        fits.push(arrived.is_ok());
    }
    let (mut out, mut events, mut before) = (Vec::new(), 0, 0);
    while let Some(at) = model.next_event() {
        assert!(at >= before, "time never goes back");
        before = at;
        for (i, _) in deeds
            .iter()
            .enumerate()
            .filter(|(_, d)| d.leaves == Some(events))
        {
            model.abort(i as u64);
        }
        model.advance(&mut out);
        events += 1;
        assert!(events < 200_000, "no progress");
        assert!(model.running() <= parameters.max_num_seqs as usize);
        let held: usize = model
            .running
            .iter()
            .map(|&slot| model.sequences[slot].blocks.len())
            .sum();
        assert_eq!(model.blocks.users(), held as u64, "every use has its user");
        let used = parameters.num_kv_blocks - model.blocks.free();
        assert!(used as usize <= held, "a shared block is used once");
        if !parameters.enable_prefix_caching {
            assert_eq!(used as usize, held);
        }
        if let Some(step) = &model.step {
            let tokens: u32 = step.batch.iter().map(|(_, tokens)| tokens).sum();
            assert!(tokens <= parameters.max_num_batched_tokens);
        }
    }
    assert_eq!((model.running(), model.waiting()), (0, 0));
    assert_eq!(
        (model.blocks.users(), model.blocks.free()),
        (0, parameters.num_kv_blocks)
    );
    for (i, deed) in deeds.iter().enumerate() {
        let of = |t: &&Token| t.id == i as u64;
        let tokens = out.iter().filter(of).count();
        let ended = out.iter().filter(of).any(|t| t.last);
        if ended {
            assert_eq!(tokens, deed.output as usize, "exactly its tokens");
        } else {
            assert!(!fits[i] || deed.leaves.is_some(), "request {i} never ended");
            assert!(tokens < deed.output as usize);
        }
    }
    (out, model.counters())
}

proptest! {
    #[test]
    fn blocks_balance_and_every_request_ends_with_its_tokens(
        parameters in parameters(), deeds in deeds()
    ) {
        prop_assert_eq!(play(parameters, &deeds), play(parameters, &deeds));
    }

    #[test]
    fn first_come_is_first_served_without_preemption(deeds in deeds()) {
        let deeds: Vec<Deed> = deeds.into_iter().map(|d| Deed { leaves: None, ..d }).collect();
        let parameters = Parameters { num_kv_blocks: 4_096, ..small() };
        let (out, counters) = play(parameters, &deeds);
        prop_assert_eq!(counters.preemptions, 0);
        let first = |id: usize| out.iter().find(|t| t.id == id as u64).map(|t| t.at_ns);
        for (i, a) in deeds.iter().enumerate() {
            for (j, b) in deeds.iter().enumerate() {
                if a.at_ms < b.at_ms {
                    prop_assert!(first(i) <= first(j));
                }
            }
        }
    }
}
