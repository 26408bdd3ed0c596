//! From a request to what the timing model generates: a sequence for each choice.
//!
//! A token is a word. The answer is known before it is given, so its blocks can be shared too:
//! a conversation that goes on finds its own last turn in the prefix cache, as with vLLM.

use super::intake::Ask;
use crate::generate::word;
use crate::model::{Content, Parameters, Request};

/// The sequences of a request, by choice. Their ids are still to be given.
pub(crate) fn of(ask: &Ask, parameters: &Parameters) -> Vec<Request> {
    let each = ask.choices / (ask.prompts.len() as u64).max(1);
    let salt = fnv(&ask.cache_salt);
    let tokens = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let mut all = Vec::new();
    for prompt in &ask.prompts {
        let mut prompt_tokens = 0;
        let words = prompt.split_whitespace().inspect(|_| prompt_tokens += 1);
        let answer = (0..ask.tokens).map(|i| word(i).trim_start());
        let content = Content::chain(salt, words.chain(answer).map(fnv), parameters.block_size, 0);
        for _ in 0..each {
            all.push(Request {
                id: 0,
                prompt_tokens: tokens(prompt_tokens),
                output_tokens: tokens(ask.tokens),
                content: content.clone(),
            });
        }
    }
    all
}

/// FNV-1a.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Endpoint, intake};
    use crate::config::Config;

    fn sequences(body: &str) -> Vec<Request> {
        let json = intake::json(body.as_bytes()).unwrap();
        let ask = Ask::read(Endpoint::Completions, &json, &Config::default()).unwrap();
        let parameters = Parameters {
            block_size: 2,
            ..Parameters::default()
        };
        of(&ask, &parameters)
    }

    #[test]
    fn each_choice_is_a_sequence_and_the_answer_belongs_to_its_content() {
        let all = sequences(r#"{"prompt":["a b c","d"],"n":2,"max_tokens":3}"#);
        let lengths: Vec<_> = all
            .iter()
            .map(|s| (s.prompt_tokens, s.output_tokens))
            .collect();
        assert_eq!(lengths, [(3, 3), (3, 3), (1, 3), (1, 3)]);
        assert_eq!(all[0].content, all[1].content);
        // The next turn: the answer's words are part of the prompt.
        let next = sequences(r#"{"prompt":"a b c river stone amber and","max_tokens":1}"#);
        assert_eq!(all[0].content.known[..3], next[0].content.known[..3]);
        let salted = sequences(r#"{"prompt":"a b c","max_tokens":3,"cache_salt":"x"}"#);
        assert_ne!(all[0].content.known[0], salted[0].content.known[0]);
    }
}
