use std::path::Path;

use super::names::known;
use super::*;

fn counters(text: &str) -> Counters {
    read(&parse(text))
}

fn capture(path: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/captures");
    std::fs::read_to_string(folder.join(path)).unwrap()
}

#[test]
fn samples_keep_names_and_labels() {
    let m = parse(
        "# HELP a b\n# TYPE a counter\na 3\nb{x=\"1 2\",y=\"}\"} 4.5 1700000000\nc NaN\n\nd{} +Inf\n",
    );
    assert_eq!(m.len(), 2);
    assert_eq!(m["a"], 3.0);
    assert_eq!(m["b{x=\"1 2\",y=\"}\"}"], 4.5);
}

#[test]
fn an_exemplar_is_no_value() {
    let m = parse("a_bucket{le=\"1\"} 7 # {trace_id=\"x\"} 0.5\n");
    assert_eq!(m["a_bucket{le=\"1\"}"], 7.0);
}

#[test]
fn m33_old_names_and_new_names_say_the_same() {
    let old = counters(
        "vllm:gpu_cache_usage_perc{model_name=\"m\"} 0.25\n\
         vllm:gpu_prefix_cache_queries_total{model_name=\"m\"} 100\n\
         vllm:gpu_prefix_cache_hits_total{model_name=\"m\"} 40\n",
    );
    let new = counters(
        "vllm:kv_cache_usage_perc{model_name=\"m\"} 0.25\n\
         vllm:prefix_cache_queries_total{model_name=\"m\"} 100\n\
         vllm:prefix_cache_hits_total{model_name=\"m\"} 40\n",
    );
    assert_eq!(old, new);
    assert_eq!(
        (new.kv_usage, new.prefix_queries, new.prefix_hits),
        (Some(0.25), Some(100.0), Some(40.0))
    );
}

#[test]
fn m33_both_names_present_are_one_value_not_two() {
    let both = "vllm:gpu_cache_usage_perc{engine=\"0\"} 0.2\n\
         vllm:kv_cache_usage_perc{engine=\"0\"} 0.3\n\
         vllm:prefix_cache_hits_total{engine=\"0\"} 7\n\
         vllm:gpu_prefix_cache_hits_total{engine=\"0\"} 7\n\
         vllm:num_preemptions{engine=\"0\"} 5\n\
         vllm:num_preemptions_total{engine=\"0\"} 5\n";
    let c = counters(both);
    assert_eq!(
        (c.kv_usage, c.prefix_hits, c.preemptions),
        (Some(0.3), Some(7.0), Some(5.0))
    );
    let names = names_of(&parse(both));
    assert_eq!(names["kv_usage"], "vllm:kv_cache_usage_perc");
    assert_eq!(names["preemptions"], "vllm:num_preemptions_total");
    assert!(!names.contains_key("running"));
}

#[test]
fn m33_what_no_name_says_is_unknown_never_zero() {
    assert_eq!(counters("python_info{} 1\n"), Counters::default());
    let c = counters("vllm:num_requests_running{engine=\"0\"} 0\n");
    assert_eq!((c.running, c.waiting), (Some(0.0), None));
    // A rate of hits is no count of them, and a gauge of retracted requests no counter.
    let c = counters("vllm:gpu_prefix_cache_hit_rate 0.5\nsglang:num_retracted_reqs 3\n");
    assert_eq!(c, Counters::default());
    // Names that only begin alike are others.
    let c = counters("vllm:num_requests_waiting_by_reason{reason=\"capacity\"} 4\n");
    assert_eq!(c.waiting, None);
}

#[test]
fn m33_a_counter_is_found_with_and_without_its_ending_and_with_either_prefix() {
    for name in [
        "vllm:generation_tokens_total",
        "vllm:generation_tokens",
        "vllm_generation_tokens_total",
        "vllm_generation_tokens",
    ] {
        for labels in ["", "{model_name=\"m\"}"] {
            let c = counters(&format!("{name}{labels} 12\n"));
            assert_eq!(c.generation_tokens, Some(12.0), "{name}{labels}");
        }
    }
}

#[test]
fn m33_counters_are_summed_over_engines_and_shares_are_not() {
    let c = counters(
        "vllm:prompt_tokens_total{engine=\"0\"} 10\nvllm:prompt_tokens_total{engine=\"1\"} 20\n\
         vllm:num_requests_waiting{engine=\"0\"} 1\nvllm:num_requests_waiting{engine=\"1\"} 2\n\
         vllm:kv_cache_usage_perc{engine=\"0\"} 0.1\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.9\n",
    );
    assert_eq!(
        (c.prompt_tokens, c.waiting, c.kv_usage),
        (Some(30.0), Some(3.0), Some(0.9))
    );
}

#[test]
fn aborted_requests_are_no_answers() {
    let c = counters(
        "vllm:request_success_total{finished_reason=\"stop\"} 2\n\
         vllm:request_success_total{finished_reason=\"length\"} 32\n\
         vllm:request_success_total{finished_reason=\"abort\"} 9\n\
         vllm:request_success_total{finished_reason=\"error\"} 1\n",
    );
    assert_eq!(c.requests_success, Some(34.0));
}

#[test]
fn m33_a_real_vllm_says_all_of_it() {
    let samples = parse(&capture("vllm/get_metrics.txt"));
    let c = read(&samples);
    let wanted = Counters {
        requests_success: Some(34.0),
        prompt_tokens: Some(675.0),
        generation_tokens: Some(447.0),
        preemptions: Some(0.0),
        prefix_queries: Some(675.0),
        prefix_hits: Some(0.0),
        running: Some(0.0),
        waiting: Some(0.0),
        kv_usage: Some(0.0),
        process_start: Some(1_796_081_634.44),
    };
    assert_eq!(c, wanted);
    let few = known(&samples);
    assert_eq!(read(&few), c, "what is kept is what is read");
    assert!(few.len() < 20, "{}", few.len());
}

#[test]
fn m33_a_real_llama_cpp_says_some_of_it() {
    let c = counters(&capture("xllamacpp/get_metrics.raw"));
    let wanted = Counters {
        prompt_tokens: Some(89.0 + 1373.0),
        generation_tokens: Some(1131.0),
        prefix_queries: Some(89.0 + 1373.0),
        prefix_hits: Some(1373.0),
        running: Some(0.0),
        waiting: Some(0.0),
        ..Counters::default()
    };
    assert_eq!(c, wanted);
}

#[test]
fn m33_sglang_and_tgi_have_names_of_their_own() {
    let c = counters(
        "sglang:prompt_tokens_total{model_name=\"m\"} 100\n\
         sglang:cached_tokens_total{model_name=\"m\",cache_source=\"device\"} 30\n\
         sglang:cached_tokens_total{model_name=\"m\",cache_source=\"host\"} 5\n\
         sglang:generation_tokens_total{model_name=\"m\"} 50\n\
         sglang:num_requests_total{model_name=\"m\"} 4\n\
         sglang:num_running_reqs{model_name=\"m\"} 2\n\
         sglang:num_queue_reqs{model_name=\"m\"} 1\n\
         sglang:token_usage{model_name=\"m\"} 0.28\n",
    );
    let wanted = Counters {
        requests_success: Some(4.0),
        prompt_tokens: Some(100.0),
        generation_tokens: Some(50.0),
        prefix_queries: Some(100.0),
        prefix_hits: Some(35.0),
        running: Some(2.0),
        waiting: Some(1.0),
        kv_usage: Some(0.28),
        ..Counters::default()
    };
    assert_eq!(c, wanted);
    let c = counters(
        "tgi_request_success{method=\"generate_stream\"} 6\ntgi_queue_size 3\n\
         tgi_batch_current_size 8\ntgi_request_input_length_sum 640\n\
         tgi_request_generated_tokens_sum 320\ntgi_request_generated_tokens_count 6\n",
    );
    let wanted = Counters {
        requests_success: Some(6.0),
        prompt_tokens: Some(640.0),
        generation_tokens: Some(320.0),
        running: Some(8.0),
        waiting: Some(3.0),
        ..Counters::default()
    };
    assert_eq!(c, wanted);
}
