//! A command line without what is secret in it.
//!
//! What follows a flag named for a secret, what looks like a key wherever it stands, credentials in
//! URLs, and such names inside JSON. `--max-num-batched-tokens` and `--tokenizer` are none: a name
//! is taken apart at its dashes and only whole parts count.

use serde_json::Value;

/// Stands for what was taken out.
pub const HIDDEN: &str = "…";

const NAMES: [&str; 13] = [
    "key",
    "keys",
    "apikey",
    "token",
    "password",
    "passwd",
    "pass",
    "secret",
    "secrets",
    "credential",
    "credentials",
    "auth",
    "pat",
];

/// How keys of well-known services begin.
const BEGINNINGS: [&str; 8] = [
    "hf_",
    "sk-",
    "sk_",
    "ghp_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "AKIA",
];

/// Characters behind a beginning that make a key of it.
const KEY_CHARS: usize = 8;

/// The words of a command line with everything secret replaced.
#[must_use]
pub fn hide(words: &[String]) -> Vec<String> {
    let mut follows = false;
    words
        .iter()
        .map(|word| {
            let is_flag = word.starts_with('-') && word.len() > 1;
            if !is_flag {
                return if follows {
                    HIDDEN.to_owned()
                } else {
                    hide_word(word)
                };
            }
            match word.split_once('=') {
                Some((name, value)) => {
                    follows = false;
                    let value = if is_secret(name) {
                        HIDDEN.to_owned()
                    } else {
                        hide_word(value)
                    };
                    format!("{name}={value}")
                }
                None => {
                    follows = is_secret(word);
                    hide_word(word)
                }
            }
        })
        .collect()
}

/// A single text without what looks like a key or holds one.
#[must_use]
pub fn hide_word(word: &str) -> String {
    if let Some((name, _)) = word.split_once('=')
        && is_secret(name)
        && !name.contains(['/', ' ', '{'])
    {
        return format!("{name}={HIDDEN}");
    }
    if let Ok(mut value @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(word) {
        hide_json(&mut value);
        return value.to_string();
    }
    if looks_secret(word) || word.to_ascii_lowercase().contains("bearer ") {
        return HIDDEN.to_owned();
    }
    match (word.find("://"), word.rfind('@')) {
        (Some(scheme), Some(at)) if at > scheme => {
            format!("{}://{HIDDEN}@{}", &word[..scheme], &word[at + 1..])
        }
        _ => word.to_owned(),
    }
}

fn hide_json(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (name, value) in map.iter_mut() {
                if is_secret(name) {
                    *value = Value::from(HIDDEN);
                } else {
                    hide_json(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(hide_json),
        Value::String(text) => *text = hide_word(text),
        _ => {}
    }
}

/// Whether a flag, variable or field is named for a secret.
fn is_secret(name: &str) -> bool {
    name.to_ascii_lowercase()
        .split(|c: char| !c.is_ascii_alphanumeric())
        .any(|part| NAMES.contains(&part))
}

fn looks_secret(word: &str) -> bool {
    BEGINNINGS.iter().any(|beginning| {
        word.match_indices(beginning).any(|(at, _)| {
            let starts = !word[..at].ends_with(|c: char| c.is_ascii_alphanumeric());
            let rest = &word[at + beginning.len()..];
            let chars = rest
                .chars()
                .take_while(|c| c.is_ascii_alphanumeric() || "-_".contains(*c));
            starts && chars.count() >= KEY_CHARS
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_secret_is_gone_and_the_rest_is_as_it_was() {
        for (line, hidden) in [
            (
                "vllm serve m --api-key abc def --port 8000",
                "vllm serve m --api-key … … --port 8000",
            ),
            (
                "x --hf-token=abc --dtype=auto",
                "x --hf-token=… --dtype=auto",
            ),
            (
                "x --max-num-batched-tokens 8192 --tokenizer t",
                "x --max-num-batched-tokens 8192 --tokenizer t",
            ),
            ("HF_TOKEN=abc x hf_0123456789abcdef", "HF_TOKEN=… x …"),
            (
                "x sk-0123456789abcdef --model risk-assessment-large",
                "x … --model risk-assessment-large",
            ),
            ("x --otlp http://u:p@h:1/v1", "x --otlp http://…@h:1/v1"),
            (
                "x --kv {\"auth\":{\"a\":1},\"n\":2}",
                "x --kv {\"auth\":\"…\",\"n\":2}",
            ),
            ("x --db_password p -v", "x --db_password … -v"),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(hide(&words).join(" "), hidden, "{line}");
        }
        assert_eq!(hide_word("Authorization: Bearer abc"), HIDDEN);
    }
}
