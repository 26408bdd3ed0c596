//! Rules about the engine's own counters.

use super::Rule;
use crate::gates::{Blame, Check, server};

/// Share of looked-up prompt tokens that may be in the prefix cache unasked.
pub(in crate::gates) const PREFIX_HITS: f64 = 0.01;

const WHY: &str = "two counts of one thing by two parties: where they differ, one of them measured \
                   something else";
const REMEDY: &str = "the engine at engine.url counted less than was answered: name the one that \
                      answers, give the gateway just one, or leave its counters out \
                      (telemetry.engine: off)";

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "engine_restart",
        needs: "server_metrics.jsonl",
        measures: "whether one engine process counted from before the point until after it",
        threshold: None,
        unit: "restarts",
        passes: "the start time is the same and no counter went back; NOT_APPLICABLE when the \
                 engine is not known or exposes no counters; UNDECIDED when it should",
        why: "a process that started anew has a cold cache, and part of the point had no engine",
        blame: Blame::Engine,
        remedy: "look at the engine's log for why it started anew, and run again",
        check: Check::Point(server::engine_restart),
    },
    Rule {
        id: "engine_requests",
        needs: "server_metrics.jsonl, requests.jsonl",
        measures: "requests that the engine counted beyond (below) those that the client can claim, \
                   warm-up included",
        threshold: Some(0.0),
        unit: "requests",
        passes: "none: at least the answers that ended ok, at most those and the ones that broke \
                 off (a refusal with 4xx is no request served)",
        why: WHY,
        blame: Blame::Engine,
        remedy: REMEDY,
        check: Check::Point(server::engine_requests),
    },
    Rule {
        id: "engine_prompt_tokens",
        needs: "server_metrics.jsonl, requests.jsonl, plan.jsonl",
        measures: "prompt tokens that the engine counted beyond (below) those that the client can \
                   claim, warm-up included",
        threshold: Some(0.0),
        unit: "tokens",
        passes: "none: at least the usage of answers that ended ok, at most that and the prompts of \
                 those that broke off",
        why: WHY,
        blame: Blame::Engine,
        remedy: REMEDY,
        check: Check::Point(server::engine_prompt_tokens),
    },
    Rule {
        id: "engine_output_tokens",
        needs: "server_metrics.jsonl, requests.jsonl, plan.jsonl",
        measures: "tokens that the engine generated beyond (below) those that the client can claim, \
                   warm-up included",
        threshold: Some(0.0),
        unit: "tokens",
        passes: "none: at least the usage of answers that ended ok, at most that and what those that \
                 broke off had asked for",
        why: WHY,
        blame: Blame::Engine,
        remedy: REMEDY,
        check: Check::Point(server::engine_output_tokens),
    },
    Rule {
        id: "prefix_hits",
        needs: "server_metrics.jsonl, config.resolved.yaml, manifest.json",
        measures: "prompt tokens found in the prefix cache beyond the chat template's, of those \
                   looked up",
        threshold: Some(PREFIX_HITS),
        unit: "1",
        passes: "at or below 0.01; NOT_APPLICABLE when repeats are asked for (prompts.salt: none, \
                 prompts.expect_prefix_hits, a workload) or the engine counts none; UNDECIDED when \
                 preempted requests may have hit what they left themselves",
        why: "prompts differ by run and arm, so a hit is what an earlier run, arm or client left: \
              TTFT then measures the cache; one in a hundred does not move a median",
        blame: Blame::Workload,
        remedy: "someone sent these prompts before: give each arm its own (prompts.salt: per_arm), \
                 restart the engine, or say that hits are wanted (prompts.expect_prefix_hits)",
        check: Check::Point(server::prefix_hits),
    },
];
