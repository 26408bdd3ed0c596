//! Synthetic prompts: words that are one token each, drawn by a seeded generator.
//!
//! Prompts of equal length in words are equal in tokens, whatever the draw, because only words
//! that the engine's tokenizer keeps whole are used (see [`super::calibrate`]). Without a
//! tokenizer the same words are used and the length is an estimate, which the manifest says.
//!
//! With prompts salted per arm, the first word comes from a part of the vocabulary that belongs
//! to the arm alone: no prefix cache can carry even one token from one arm to the other.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Short common words; most tokenizers keep each one whole behind a blank.
pub const CANDIDATES: [&str; 128] = [
    "time",
    "year",
    "people",
    "way",
    "day",
    "man",
    "thing",
    "woman",
    "life",
    "child",
    "world",
    "school",
    "state",
    "family",
    "student",
    "group",
    "country",
    "problem",
    "hand",
    "part",
    "place",
    "case",
    "week",
    "company",
    "system",
    "program",
    "question",
    "work",
    "government",
    "number",
    "night",
    "point",
    "home",
    "water",
    "room",
    "mother",
    "area",
    "money",
    "story",
    "fact",
    "month",
    "lot",
    "right",
    "study",
    "book",
    "eye",
    "job",
    "word",
    "business",
    "issue",
    "side",
    "kind",
    "head",
    "house",
    "service",
    "friend",
    "father",
    "power",
    "hour",
    "game",
    "line",
    "end",
    "member",
    "law",
    "car",
    "city",
    "community",
    "name",
    "president",
    "team",
    "minute",
    "idea",
    "body",
    "information",
    "back",
    "parent",
    "face",
    "others",
    "level",
    "office",
    "door",
    "health",
    "person",
    "art",
    "war",
    "history",
    "party",
    "result",
    "change",
    "morning",
    "reason",
    "research",
    "girl",
    "guy",
    "moment",
    "air",
    "teacher",
    "force",
    "education",
    "food",
    "value",
    "land",
    "light",
    "paper",
    "space",
    "ground",
    "form",
    "event",
    "table",
    "need",
    "plan",
    "road",
    "rate",
    "field",
    "type",
    "order",
    "south",
    "north",
    "figure",
    "street",
    "image",
    "color",
    "record",
    "wall",
    "test",
    "model",
    "data",
    "list",
];

/// Fewest words that make a useful vocabulary: 8 words then carry 40 bits.
pub const MIN_WORDS: usize = 32;

/// Words to draw from, and what they weigh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vocabulary {
    words: Vec<&'static str>,
    template_tokens: u64,
}

impl Vocabulary {
    /// All candidates, for an engine whose tokenizer cannot be asked.
    #[must_use]
    pub fn assumed() -> Self {
        Self {
            words: CANDIDATES.to_vec(),
            template_tokens: 0,
        }
    }

    /// Words found to be one token each, and the tokens that surround a prompt.
    #[must_use]
    pub fn calibrated(words: Vec<&'static str>, template_tokens: u64) -> Self {
        Self {
            words,
            template_tokens,
        }
    }

    /// Tokens that the chat template adds.
    #[must_use]
    pub fn template_tokens(&self) -> u64 {
        self.template_tokens
    }

    /// Words for a prompt of `tokens` tokens.
    ///
    /// # Errors
    /// A sentence, when the template alone is longer.
    pub fn words_for(&self, tokens: u64) -> Result<u64, String> {
        match tokens.checked_sub(self.template_tokens) {
            Some(words) if words > 0 => Ok(words),
            _ => Err(format!(
                "prompts.input_tokens {tokens}: the chat template alone takes {} tokens; ask for at least {}",
                self.template_tokens,
                self.template_tokens.saturating_add(1)
            )),
        }
    }

    /// A prompt of `count` words. Its first word is one that only arm `arm` of `arms` begins with.
    #[must_use]
    pub fn text(&self, count: u64, seed: &[u8; 32], arm: usize, arms: usize) -> String {
        let mut rng = ChaCha8Rng::from_seed(*seed);
        let mut text = String::with_capacity(usize::try_from(count).unwrap_or(0).saturating_mul(7));
        for i in 0..count {
            let mut index = rng.random_range(0..self.words.len());
            if i == 0 {
                let own = self.words.len() / arms;
                index = arm % arms * own + index % own;
            } else {
                text.push(' ');
            }
            text.push_str(self.words[index]);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_has_its_words_and_comes_back_with_its_seed() {
        let v = Vocabulary::assumed();
        let text = v.text(50, &[1; 32], 0, 1);
        assert_eq!(text.split(' ').count(), 50);
        assert_eq!(text, v.text(50, &[1; 32], 0, 1));
        assert_ne!(text, v.text(50, &[2; 32], 0, 1));
    }

    #[test]
    fn m24_arms_never_share_a_first_word() {
        let v = Vocabulary::assumed();
        let firsts = |arm| {
            (0..200_u8)
                .map(|s| v.text(1, &[s; 32], arm, 2))
                .collect::<std::collections::BTreeSet<_>>()
        };
        assert!(firsts(0).is_disjoint(&firsts(1)));
        assert!(firsts(0).len() > 30);
    }

    #[test]
    fn a_length_below_the_template_is_refused() {
        let v = Vocabulary::calibrated(CANDIDATES.to_vec(), 31);
        assert_eq!(v.words_for(128), Ok(97));
        assert!(v.words_for(31).unwrap_err().contains("at least 32"));
    }
}
