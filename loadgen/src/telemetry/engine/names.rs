//! Every engine's name of every counter, in one table.
//!
//! vLLM 0.6 to 0.32, llama.cpp's server, SGLang and TGI. A name stands here without `_total` and
//! with `:` behind the engine's prefix; the forms with `_total` and with `_` are looked for too,
//! because exposition libraries and proxies add the one and replace the other. Per counter the
//! first name that is exposed is used and the others are left alone.
//!
//! Counters and queue lengths are summed over label sets (several engines, several models). Shares
//! are not: a sum has no meaning and a mean hides the one that is full, so the largest is taken.

use std::collections::BTreeMap;

use super::Counters;

/// How the values of several label sets become one.
#[derive(Debug, Clone, Copy)]
enum Over {
    Sum,
    Largest,
}

struct Row {
    counter: &'static str,
    of: fn(&mut Counters) -> &mut Option<f64>,
    over: Over,
    /// Newest first. One with several parts is their sum, and needs them all.
    names: &'static [&'static [&'static str]],
}

/// Answers that were none, by the labels that engines give them.
const NO_ANSWER: [&str; 2] = ["finished_reason=\"abort\"", "finished_reason=\"error\""];

const TABLE: [Row; 10] = [
    Row {
        counter: "requests_success",
        of: |c| &mut c.requests_success,
        over: Over::Sum,
        names: &[
            &["vllm:request_success"],
            &["sglang:num_requests"],
            &["tgi_request_success"],
        ],
    },
    Row {
        counter: "prompt_tokens",
        of: |c| &mut c.prompt_tokens,
        over: Over::Sum,
        names: &[
            &["vllm:prompt_tokens"],
            // llama.cpp counts those found in the cache apart; versions that count only the
            // others don't say how many there were.
            &["llamacpp:prompt_tokens", "llamacpp:prompt_tokens_cached"],
            &["sglang:prompt_tokens"],
            &["tgi_request_input_length_sum"],
        ],
    },
    Row {
        counter: "generation_tokens",
        of: |c| &mut c.generation_tokens,
        over: Over::Sum,
        names: &[
            &["vllm:generation_tokens"],
            &["llamacpp:tokens_predicted"],
            &["sglang:generation_tokens"],
            &["tgi_request_generated_tokens_sum"],
        ],
    },
    Row {
        counter: "preemptions",
        of: |c| &mut c.preemptions,
        over: Over::Sum,
        names: &[
            &["vllm:num_preemptions"],
            // sglang:num_retracted_reqs without _total is a gauge of the last batch, no counter.
            &["sglang:num_retracted_requests_total"],
            &["sglang:num_retracted_reqs_total"],
        ],
    },
    Row {
        counter: "prefix_queries",
        of: |c| &mut c.prefix_queries,
        over: Over::Sum,
        names: &[
            &["vllm:prefix_cache_queries"],
            &["vllm:gpu_prefix_cache_queries"],
            &["llamacpp:prompt_tokens", "llamacpp:prompt_tokens_cached"],
            &["sglang:prompt_tokens"],
        ],
    },
    Row {
        counter: "prefix_hits",
        of: |c| &mut c.prefix_hits,
        over: Over::Sum,
        names: &[
            &["vllm:prefix_cache_hits"],
            &["vllm:gpu_prefix_cache_hits"],
            &["llamacpp:prompt_tokens_cached"],
            &["sglang:cached_tokens"],
        ],
    },
    Row {
        counter: "running",
        of: |c| &mut c.running,
        over: Over::Sum,
        names: &[
            &["vllm:num_requests_running"],
            &["llamacpp:requests_processing"],
            &["sglang:num_running_reqs"],
            &["tgi_batch_current_size"],
        ],
    },
    Row {
        counter: "waiting",
        of: |c| &mut c.waiting,
        over: Over::Sum,
        names: &[
            &["vllm:num_requests_waiting"],
            &["llamacpp:requests_deferred"],
            &["sglang:num_queue_reqs"],
            &["tgi_queue_size"],
        ],
    },
    Row {
        counter: "kv_usage",
        of: |c| &mut c.kv_usage,
        over: Over::Largest,
        names: &[
            &["vllm:kv_cache_usage_perc"],
            &["vllm:gpu_cache_usage_perc"],
            &["llamacpp:kv_cache_usage_ratio"],
            &["sglang:token_usage"],
        ],
    },
    Row {
        counter: "process_start",
        of: |c| &mut c.process_start,
        over: Over::Largest,
        names: &[&["process_start_time_seconds"]],
    },
];

/// Reads the samples of one exposition.
#[must_use]
pub fn read(samples: &BTreeMap<String, f64>) -> Counters {
    let mut counters = Counters::default();
    for row in &TABLE {
        *(row.of)(&mut counters) = used(row, samples).map(|(_, value)| value);
    }
    counters
}

/// The engine's own name of each counter that it exposes; parts of a sum are joined by ` + `.
#[must_use]
pub fn names_of(samples: &BTreeMap<String, f64>) -> BTreeMap<String, String> {
    TABLE
        .iter()
        .filter_map(|row| Some((row.counter.to_owned(), used(row, samples)?.0)))
        .collect()
}

/// Those of the samples that [`read`] looks at.
#[must_use]
pub fn known(samples: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let parts = TABLE.iter().flat_map(|row| row.names).copied().flatten();
    let mut kept = BTreeMap::new();
    for part in parts {
        if let Some(name) = exposed(part, samples) {
            kept.extend(under(&name, samples).map(|(key, value)| (key.clone(), value)));
        }
    }
    kept
}

/// The name that a counter is read from, and its value.
fn used(row: &Row, samples: &BTreeMap<String, f64>) -> Option<(String, f64)> {
    row.names.iter().find_map(|parts| {
        let parts: Option<Vec<(String, f64)>> = parts
            .iter()
            .map(|part| {
                let name = exposed(part, samples)?;
                let values = under(&name, samples)
                    .filter(|(key, _)| !NO_ANSWER.iter().any(|label| key.contains(label)))
                    .map(|(_, value)| value);
                let value = match row.over {
                    Over::Sum => values.reduce(|a, b| a + b),
                    Over::Largest => values.reduce(f64::max),
                };
                Some((name, value?))
            })
            .collect();
        let parts = parts?;
        let names: Vec<&str> = parts.iter().map(|(name, _)| name.as_str()).collect();
        Some((names.join(" + "), parts.iter().map(|(_, v)| v).sum()))
    })
}

/// The form of a name under which there are samples.
fn exposed(name: &str, samples: &BTreeMap<String, f64>) -> Option<String> {
    let plain = name.replace(':', "_");
    [
        format!("{name}_total"),
        format!("{plain}_total"),
        name.to_owned(),
        plain,
    ]
    .into_iter()
    .find(|form| under(form, samples).next().is_some())
}

/// The samples of exactly this name, whatever their labels.
fn under<'a>(
    name: &str,
    samples: &'a BTreeMap<String, f64>,
) -> impl Iterator<Item = (&'a String, f64)> {
    let labelled = format!("{name}{{");
    let plain = samples.get_key_value(name);
    plain
        .into_iter()
        .chain(
            samples
                .range(labelled.clone()..)
                .take_while(move |(key, _)| key.starts_with(&labelled)),
        )
        .map(|(key, value)| (key, *value))
}
