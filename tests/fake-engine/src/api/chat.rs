//! Chat completions as vLLM writes them: role event, one token per event, finish in the last one.

use serde_json::json;

use crate::generate::{Events, Facts, Output, Wire};

pub(crate) struct Chat;

impl Wire for Chat {
    fn open(&self, facts: &Facts, events: &mut Events<'_>) {
        for choice in 0..facts.ask.choices {
            events.json(
                None,
                &format!(
                    r#"{},"choices":[{{"index":{choice},"delta":{{"role":"assistant","content":""}},"logprobs":null,"finish_reason":null}}]{},"prompt_token_ids":null,"prompt_text":null"#,
                    common(facts),
                    running_usage(facts, 0)
                ),
            );
        }
    }

    fn output(&self, facts: &Facts, output: Output, events: &mut Events<'_>) {
        let finish = if output.last {
            format!(r#""{}","stop_reason":null"#, facts.ask.finish_reason())
        } else {
            "null".to_owned()
        };
        events.json(
            None,
            &format!(
                r#"{},"choices":[{{"index":{},"delta":{{"content":"{}"}},"logprobs":null,"finish_reason":{finish},"token_ids":null}}]{}{}"#,
                common(facts),
                output.choice,
                output.token,
                running_usage(facts, output.tokens),
                fingerprint(output.last && !facts.ask.include_usage),
            ),
        );
    }

    fn close(&self, facts: &Facts, events: &mut Events<'_>) {
        finish(&common(facts), facts, events);
    }

    fn whole(&self, facts: &Facts) -> String {
        let choices: Vec<_> = (0..facts.ask.choices)
            .map(|index| {
                json!({
                    "index": index,
                    "message": {
                        "role": "assistant", "content": facts.text(), "refusal": null,
                        "annotations": null, "audio": null, "function_call": null, "reasoning": null
                    },
                    "logprobs": null,
                    "finish_reason": facts.ask.finish_reason(),
                    "stop_reason": null,
                    "token_ids": null,
                    "routed_experts": null
                })
            })
            .collect();
        format!(
            r#"{{"id":"chatcmpl-{}","object":"chat.completion","created":{},"model":{},"choices":{},"service_tier":null{},"usage":{},"prompt_logprobs":null,"prompt_token_ids":null,"prompt_text":null,"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}}"#,
            facts.id,
            facts.created,
            facts.model,
            serde_json::Value::from(choices),
            fingerprint(true),
            facts.whole_usage(),
        )
    }
}

fn common(facts: &Facts) -> String {
    format!(
        r#"{{"id":"chatcmpl-{}","object":"chat.completion.chunk","created":{},"model":{}"#,
        facts.id, facts.created, facts.model
    )
}

/// The usage event, if it was asked for, and `[DONE]`. `common` opens every JSON event.
pub(super) fn finish(common: &str, facts: &Facts, events: &mut Events<'_>) {
    if facts.ask.include_usage {
        let usage = facts.usage(facts.ask.tokens * facts.ask.choices, "");
        events.json(
            None,
            &format!(
                r#"{common},"choices":[],"usage":{usage}{}"#,
                fingerprint(true)
            ),
        );
    }
    events.done();
}

/// The usage key of every event under `continuous_usage_stats`.
pub(super) fn running_usage(facts: &Facts, tokens: u64) -> String {
    if facts.ask.continuous_usage {
        format!(
            r#","usage":{}"#,
            facts.usage(tokens, r#","completion_tokens_details":null"#)
        )
    } else {
        String::new()
    }
}

/// The fingerprint key, which vLLM puts into the last JSON event.
pub(super) const fn fingerprint(wanted: bool) -> &'static str {
    if wanted {
        r#","system_fingerprint":"inferscope-fake-engine""#
    } else {
        ""
    }
}
