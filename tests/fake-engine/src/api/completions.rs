//! Text completions as vLLM writes them: no role event, otherwise as chat.

use serde_json::json;

use super::chat::{fingerprint, finish, running_usage};
use crate::generate::{Events, Facts, Output, Wire};

pub(crate) struct Completions;

impl Wire for Completions {
    fn open(&self, _facts: &Facts, _events: &mut Events<'_>) {}

    fn output(&self, facts: &Facts, output: Output, events: &mut Events<'_>) {
        let finish = if output.last {
            format!(r#""{}""#, facts.ask.finish_reason())
        } else {
            "null".to_owned()
        };
        events.json(
            None,
            &format!(
                r#"{},"choices":[{{"index":{},"text":"{}","logprobs":null,"finish_reason":{finish},"stop_reason":null,"prompt_token_ids":null,"token_ids":null}}]{}{}"#,
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
                    "index": index, "text": facts.text(), "logprobs": null,
                    "finish_reason": facts.ask.finish_reason(), "stop_reason": null,
                    "token_ids": null, "prompt_logprobs": null, "prompt_token_ids": null,
                    "routed_experts": null
                })
            })
            .collect();
        format!(
            r#"{},"choices":{},"service_tier":null{},"usage":{},"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}}"#,
            common(facts),
            serde_json::Value::from(choices),
            fingerprint(true),
            facts.whole_usage(),
        )
    }
}

fn common(facts: &Facts) -> String {
    format!(
        r#"{{"id":"cmpl-{}","object":"text_completion","created":{},"model":{}"#,
        facts.id, facts.created, facts.model
    )
}
