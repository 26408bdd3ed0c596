//! Which words are one token each, by the engine's own tokenizer.
//!
//! Asks `/tokenize` the way the engine's own kind is asked (vLLM, or llama.cpp with its chat
//! template applied first). A word is used if four of it make four tokens more than the template
//! alone; then any sequence of such words is as many tokens as words, which three prompts of the
//! real length are counted to confirm. Where nobody can be asked the length is an estimate, and
//! the manifest says so.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::prompts::{CANDIDATES, MIN_WORDS, Vocabulary};
use crate::artifacts::manifest::Calibration;
use crate::client::simple;
use crate::client::target::Target;
use crate::config::{Endpoint, Resolved};

const LIMIT: Duration = Duration::from_secs(10);

/// An engine that can count tokens, and how it is asked.
#[derive(Debug)]
pub struct Tokenizer<'a> {
    target: &'a Target,
    api_key: Option<&'a str>,
    model: &'a str,
    endpoint: Endpoint,
    dialect: Dialect,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Dialect {
    Vllm,
    /// What the chat template puts before and after a prompt.
    Llamacpp {
        before: String,
        after: String,
    },
}

/// Finds the words to write prompts with.
pub async fn calibrate(
    config: &Resolved,
    target: &Target,
    api_key: Option<&str>,
) -> (Vocabulary, Calibration) {
    match try_calibrate(config, target, api_key).await {
        Ok(found) => found,
        Err(note) => (
            Vocabulary::assumed(),
            Calibration {
                prompt_tokens: "estimated".to_owned(),
                exact: false,
                template_tokens: None,
                note: Some(note),
                ..Calibration::default()
            },
        ),
    }
}

async fn try_calibrate(
    config: &Resolved,
    target: &Target,
    api_key: Option<&str>,
) -> Result<(Vocabulary, Calibration), String> {
    let tokenizer = Tokenizer::find(config, target, api_key).await?;
    let mut counts = Vec::with_capacity(CANDIDATES.len());
    for word in CANDIDATES {
        counts.push((word, tokenizer.count(&[word; 4].join(" ")).await?));
    }
    let least = counts.iter().map(|&(_, n)| n).min().unwrap_or(0);
    let template_tokens = least
        .checked_sub(4)
        .ok_or("/tokenize counts fewer tokens than words")?;
    let words: Vec<&'static str> = counts
        .into_iter()
        .filter(|&(_, n)| n == least)
        .map(|(word, _)| word)
        .collect();
    if words.len() < MIN_WORDS {
        return Err(format!(
            "only {} of {} words are one token each",
            words.len(),
            CANDIDATES.len()
        ));
    }
    let vocabulary = Vocabulary::calibrated(words, template_tokens);
    let wanted = config.prompts.input_tokens;
    if let Ok(count) = vocabulary.words_for(wanted) {
        for seed in 1..=3 {
            let got = tokenizer
                .count(&vocabulary.text(count, &[seed; 32], 0, 1))
                .await?;
            if got != wanted {
                return Err(format!(
                    "a prompt meant to be {wanted} tokens counts {got}: words are not independent for this tokenizer"
                ));
            }
        }
    }
    let calibration = Calibration {
        prompt_tokens: tokenizer.name().to_owned(),
        exact: true,
        template_tokens: Some(template_tokens),
        note: None,
        ..Calibration::default()
    };
    Ok((vocabulary, calibration))
}

impl<'a> Tokenizer<'a> {
    /// Tries the known dialects.
    ///
    /// # Errors
    /// What each of them was answered.
    pub async fn find(
        config: &'a Resolved,
        target: &'a Target,
        api_key: Option<&'a str>,
    ) -> Result<Self, String> {
        let mut tokenizer = Self {
            target,
            api_key,
            model: &config.request.model,
            endpoint: config.request.endpoint,
            dialect: Dialect::Vllm,
        };
        let Err(vllm) = tokenizer.count("time").await else {
            return Ok(tokenizer);
        };
        tokenizer.dialect = Dialect::Llamacpp {
            before: String::new(),
            after: String::new(),
        };
        if tokenizer.endpoint == Endpoint::Chat {
            tokenizer.dialect = tokenizer
                .llamacpp_template()
                .await
                .map_err(|llamacpp| format!("no tokenizer at {target}: {vllm}; {llamacpp}"))?;
        }
        tokenizer
            .count("time")
            .await
            .map_err(|llamacpp| format!("no tokenizer at {target}: {vllm}; {llamacpp}"))?;
        Ok(tokenizer)
    }

    /// As in the manifest.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.dialect {
            Dialect::Vllm => "vllm_tokenize",
            Dialect::Llamacpp { .. } => "llamacpp_tokenize",
        }
    }

    /// What llama.cpp's chat template makes of a prompt.
    async fn llamacpp_template(&self) -> Result<Dialect, String> {
        const MARK: &str = "PROMPT-GOES-HERE";
        let body = json!({"messages": [{"role": "user", "content": MARK}]});
        let answer = self.ask("/apply-template", &body).await?;
        let prompt = answer["prompt"]
            .as_str()
            .ok_or("/apply-template gives no prompt")?;
        let (before, after) = prompt
            .split_once(MARK)
            .ok_or("/apply-template changes the prompt's text")?;
        Ok(Dialect::Llamacpp {
            before: before.to_owned(),
            after: after.to_owned(),
        })
    }

    /// Tokens of a prompt as the engine will see it.
    async fn count(&self, prompt: &str) -> Result<u64, String> {
        let body = match (&self.dialect, self.endpoint) {
            (Dialect::Vllm, Endpoint::Chat) => json!({
                "model": self.model,
                "messages": [{"role": "user", "content": prompt}],
                "add_generation_prompt": true,
            }),
            (Dialect::Vllm, Endpoint::Completions) => {
                json!({"model": self.model, "prompt": prompt})
            }
            (Dialect::Llamacpp { before, after }, _) => json!({
                "content": format!("{before}{prompt}{after}"),
                "add_special": true,
                "parse_special": true,
            }),
        };
        self.counted(&body).await
    }

    /// Tokens of a bare text, without any that a template would add.
    ///
    /// # Errors
    /// What the engine answered instead of a count.
    pub async fn count_text(&self, text: &str) -> Result<u64, String> {
        let body = match self.dialect {
            Dialect::Vllm => json!({
                "model": self.model, "prompt": text, "add_special_tokens": false,
            }),
            Dialect::Llamacpp { .. } => json!({
                "content": text, "add_special": false, "parse_special": false,
            }),
        };
        self.counted(&body).await
    }

    async fn counted(&self, body: &Value) -> Result<u64, String> {
        let answer = self.ask("/tokenize", body).await?;
        let count = match self.dialect {
            Dialect::Vllm => answer["count"].as_u64(),
            Dialect::Llamacpp { .. } => answer["tokens"].as_array().map(|t| t.len() as u64),
        };
        count.ok_or_else(|| "/tokenize answers without a count".to_owned())
    }

    async fn ask(&self, path: &str, body: &Value) -> Result<Value, String> {
        let full = self.target.path(path);
        let answer = simple::ask(
            self.target,
            Method::POST,
            &full,
            self.api_key,
            Some(body),
            LIMIT,
        )
        .await
        .map_err(|e| format!("{path}: {e}"))?;
        if answer.status != 200 {
            return Err(format!("{path} answers {}", answer.status));
        }
        serde_json::from_slice(&answer.body).map_err(|_| format!("{path} answers no JSON"))
    }
}
