//! Inference request bodies: validation in vLLM's words, and what of them matters here.
//!
//! Unknown fields are ignored, sampling parameters have no effect, `ignore_eos` is always true.
//! A token is a word between white space; chat templates add none.

use serde_json::Value;

use super::Endpoint;
use super::refusal::{bad, invalid, missing, shape};
use crate::config::Config;
use crate::http::Reply;

/// How many words of a prompt make its prefix for the pretended prefix cache.
const PREFIX_WORDS: usize = 64;
/// Most choices of a prompt; vLLM's limit.
const MAX_N: u64 = 16_384;

/// An inference request that can be answered.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub endpoint: Endpoint,
    /// Index into the served models.
    pub model: usize,
    pub stream: bool,
    pub include_usage: bool,
    pub continuous_usage: bool,
    /// Number of choices: `n` times the prompts.
    pub choices: u64,
    /// Output tokens per choice.
    pub tokens: u64,
    /// Whether the request itself set that number.
    pub limited: bool,
    /// Of all prompts together.
    pub prompt_tokens: u64,
    /// The prompts' texts; choice i belongs to prompt `i / (choices / prompts)`.
    pub prompts: Vec<String>,
    /// Keeps apart whose prompts must not share a cache.
    pub cache_salt: String,
}

impl Ask {
    pub const fn finish_reason(&self) -> &'static str {
        if self.limited { "length" } else { "stop" }
    }

    /// The prompts' beginning, by which the exact mode knows them again.
    pub fn prompt_prefix(&self) -> String {
        let words = self.prompts.iter().flat_map(|text| text.split_whitespace());
        words.take(PREFIX_WORDS).collect::<Vec<_>>().join(" ")
    }

    /// Reads a request.
    ///
    /// # Errors
    /// vLLM's answer to a request that it can't serve.
    pub fn read(endpoint: Endpoint, body: &Value, config: &Config) -> Result<Self, Reply> {
        let prompts = match endpoint {
            Endpoint::Chat => vec![messages(body)?],
            Endpoint::Completions => prompts(body)?,
            Endpoint::Responses => vec![input(body)?],
        };
        let limit = match endpoint {
            Endpoint::Chat => {
                positive(body, "max_completion_tokens")?.or(positive(body, "max_tokens")?)
            }
            Endpoint::Completions => positive(body, "max_tokens")?,
            Endpoint::Responses => positive(body, "max_output_tokens")?,
        };
        let n = positive(body, "n")?.unwrap_or(1);
        if n > MAX_N {
            return Err(bad("n", &format!("n must be at most {MAX_N}, got {n}.")));
        }
        let model = model(body, config)?;
        let tokens = limit.unwrap_or(config.output_tokens).max(1);
        let prompt_tokens = prompts.iter().map(|text| count_tokens(text)).sum::<u64>();
        if prompt_tokens.saturating_add(tokens) > config.max_model_len {
            return Err(bad(
                "input_tokens",
                &format!(
                    "This model's maximum context length is {} tokens. However, you requested \
                     {tokens} output tokens and your prompt contains {prompt_tokens} input tokens.",
                    config.max_model_len
                ),
            ));
        }
        let options = body.get("stream_options");
        let option = |name| {
            options
                .and_then(|o| o.get(name))
                .and_then(Value::as_bool)
                .unwrap_or(false)
        };
        let stream = body.get("stream").and_then(Value::as_bool).unwrap_or(false);
        if !stream && options.is_some_and(|o| !o.is_null()) {
            return Err(bad(
                "stream_options",
                "Stream options can only be defined when `stream=True`.",
            ));
        }
        Ok(Self {
            endpoint,
            model,
            stream,
            include_usage: option("include_usage"),
            continuous_usage: option("include_usage") && option("continuous_usage_stats"),
            choices: match endpoint {
                Endpoint::Responses => 1,
                Endpoint::Chat | Endpoint::Completions => n * prompts.len() as u64,
            },
            tokens,
            limited: limit.is_some(),
            prompt_tokens,
            prompts,
            cache_salt: body
                .get("cache_salt")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
        })
    }
}

/// The body as JSON.
///
/// # Errors
/// vLLM's answer to a body that is none.
pub(crate) fn json(body: &[u8]) -> Result<Value, Reply> {
    if body.is_empty() {
        return Err(missing("body", "None"));
    }
    serde_json::from_slice(body).map_err(|e| {
        // The loc is a byte offset; ours is that of the line's column.
        invalid(
            &format!("body.{}", e.column().saturating_sub(1)),
            &format!(
                "'type': 'json_invalid', 'loc': 'body.{}', 'msg': 'JSON decode error', \
                 'input': '<dict of 0 items>', 'ctx': {{'error': 'Expecting value'}}",
                e.column().saturating_sub(1)
            ),
        )
    })
}

/// The script that a request asks for by its model.
pub(crate) fn script_name(body: &Value) -> Option<&str> {
    body.get("model")?.as_str()?.strip_prefix("script:")
}

/// Words between white space.
pub(crate) fn count_tokens(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

/// All the text of chat messages or response items.
pub(crate) fn text_of(items: &[Value]) -> String {
    let mut all = String::new();
    let mut push = |text: &str| {
        all.push_str(text);
        all.push('\n');
    };
    for item in items {
        match item.get("content") {
            Some(Value::String(text)) => push(text),
            Some(Value::Array(parts)) => parts
                .iter()
                .filter_map(|p| p.get("text").and_then(Value::as_str))
                .for_each(&mut push),
            _ => {}
        }
    }
    all
}

fn messages(body: &Value) -> Result<String, Reply> {
    match body.get("messages") {
        Some(Value::Array(items)) if items.is_empty() => Err(Reply::error(
            400,
            "BadRequestError",
            None,
            "Cannot apply chat template to an empty conversation. Provide at least one message.",
        )),
        Some(Value::Array(items)) => Ok(text_of(items)),
        Some(_) => Err(bad("messages", "messages must be a list.")),
        None => Err(missing("body.messages", &shape(body))),
    }
}

/// The prompts' texts; a token id counts as a word.
fn prompts(body: &Value) -> Result<Vec<String>, Reply> {
    let ids = |list: &[Value]| list.iter().map(|id| format!("{id} ")).collect::<String>();
    match body.get("prompt") {
        Some(Value::String(text)) => Ok(vec![text.clone()]),
        Some(Value::Array(list)) if list.first().is_some_and(Value::is_number) => {
            Ok(vec![ids(list)])
        }
        Some(Value::Array(list)) if !list.is_empty() => list
            .iter()
            .map(|prompt| match prompt {
                Value::String(text) => Ok(text.clone()),
                Value::Array(list) => Ok(ids(list)),
                _ => Err(bad("prompt", "prompt must be text or token ids.")),
            })
            .collect(),
        Some(_) => Err(bad("prompt", "prompt must be text or token ids.")),
        None => Err(missing("body.prompt", &shape(body))),
    }
}

fn input(body: &Value) -> Result<String, Reply> {
    match body.get("input") {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(items)) => Ok(text_of(items)),
        Some(_) => Err(bad("input", "input must be text or a list of items.")),
        None => Err(missing("body.input", &shape(body))),
    }
}

fn model(body: &Value, config: &Config) -> Result<usize, Reply> {
    let Some(name) = body.get("model").filter(|m| !m.is_null()) else {
        return Ok(0);
    };
    let name = name.as_str().unwrap_or_default();
    config.models.iter().position(|m| m == name).ok_or_else(|| {
        Reply::error(
            404,
            "NotFoundError",
            Some("model"),
            &format!(
                "The model `{name}` does not exist. Valid aliases: {}.",
                config.models.join(", ")
            ),
        )
    })
}

fn positive(body: &Value, name: &str) -> Result<Option<u64>, Reply> {
    let Some(value) = body.get(name).filter(|v| !v.is_null()) else {
        return Ok(None);
    };
    match value.as_i64() {
        Some(n) if n > 0 => Ok(Some(n.cast_unsigned())),
        Some(n) => Err(bad(
            name,
            &format!("{name} must be at least 1, got {n}. (parameter={name}, value={n})"),
        )),
        None => Err(invalid(
            &format!("body.{name}"),
            &format!(
                "'type': 'int_parsing', 'loc': 'body.{name}', 'msg': 'Input should be a valid \
                 integer', 'input': {value}"
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(endpoint: Endpoint, text: &str) -> Result<Ask, (u16, String)> {
        json(text.as_bytes())
            .and_then(|body| Ask::read(endpoint, &body, &Config::default()))
            .map_err(|r| (r.status, String::from_utf8(r.body).unwrap()))
    }

    #[test]
    fn prompts_are_counted_in_words_wherever_they_stand() {
        let chat = r#"{"messages":[{"role":"system","content":"a b"},{"role":"user","content":[{"type":"text","text":"c  d\ne"}]}],"n":2}"#;
        let ask = read(Endpoint::Chat, chat).unwrap();
        assert_eq!((ask.prompt_tokens, ask.choices, ask.tokens), (5, 2, 16));
        assert_eq!(ask.finish_reason(), "stop");
        let ask = read(
            Endpoint::Completions,
            r#"{"prompt":["a b","c"],"max_tokens":3}"#,
        )
        .unwrap();
        assert_eq!((ask.prompt_tokens, ask.choices, ask.tokens), (3, 2, 3));
        assert_eq!(ask.finish_reason(), "length");
        let ask = read(Endpoint::Completions, r#"{"prompt":[5,6,7]}"#).unwrap();
        assert_eq!((ask.prompt_tokens, ask.choices), (3, 1));
    }

    #[test]
    fn refusals_speak_as_vllm_does() {
        let chat = |rest: &str| {
            let body = format!(r#"{{"messages":[{{"role":"user","content":"x"}}]{rest}}}"#);
            read(Endpoint::Chat, &body).unwrap_err()
        };
        let zero = r#"{"error":{"message":"max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)","type":"BadRequestError","param":"max_tokens","code":400}}"#;
        let (status, body) = chat(r#","max_tokens":0"#);
        let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!((status, parse(&body)), (400, parse(zero)));
        assert_eq!(chat(r#","model":"no-such-model""#).0, 404);
        assert_eq!(chat(r#","max_tokens":"abc""#).0, 400);
        assert_eq!(chat(r#","max_tokens":1048577"#).0, 400);
        assert_eq!(chat(r#","n":16385"#).0, 400);
        assert_eq!(chat(r#","stream_options":{"include_usage":true}"#).0, 400);
        for body in ["", "{", "{}", r#"{"messages":[]}"#, r#"{"messages":5}"#] {
            assert_eq!(read(Endpoint::Chat, body).unwrap_err().0, 400, "{body}");
        }
    }
}
