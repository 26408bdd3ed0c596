//! What each round asks, in which order.
//!
//! A round makes every experiment once. The order of the lengths turns from round to round, so
//! that no length is always asked first; the repeated prompt follows its first asking at once.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Lengths between the shortest and the longest prompt, both included.
const LEVELS: u64 = 4;

/// What a request was sent for.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Experiment {
    /// The first request of all, in no number.
    Opening,
    /// A prompt never sent before, alone.
    Cold,
    /// The prompt of the request before, once more.
    Warm,
    /// A prompt never sent before, answered in one piece.
    Whole,
    /// Several prompts never sent before, at once.
    Parallel,
}

/// One step of a round: a request, or several at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub experiment: Experiment,
    /// Prompt's length.
    pub tokens: u64,
    /// Requests at once.
    pub at_once: u32,
}

/// Lengths to ask, evenly spread.
pub(super) fn lengths((short, long): (u64, u64)) -> Vec<u64> {
    (0..LEVELS)
        .map(|i| short + (long - short) * i / (LEVELS - 1))
        .collect()
}

/// The steps of a round.
pub(super) fn round(number: u32, lengths: &[u64], at_once: u32) -> Vec<Step> {
    let (Some(&short), Some(&long)) = (lengths.first(), lengths.last()) else {
        return Vec::new();
    };
    let step = |experiment, tokens, at_once| Step {
        experiment,
        tokens,
        at_once,
    };
    let mut turned = lengths.to_vec();
    turned.rotate_left(number as usize % lengths.len());
    let mut steps = Vec::new();
    for tokens in turned {
        steps.push(step(Experiment::Cold, tokens, 1));
        if tokens == long {
            steps.push(step(Experiment::Warm, tokens, 1));
        }
    }
    steps.push(step(Experiment::Whole, short, 1));
    if at_once > 1 {
        steps.push(step(Experiment::Parallel, short, at_once));
    }
    steps
}

/// Requests that a probe of so many rounds sends, the opening one included.
pub(super) fn total(rounds: u32, at_once: u32) -> u64 {
    let parallel = if at_once > 1 { u64::from(at_once) } else { 0 };
    1 + u64::from(rounds) * (LEVELS + 2 + parallel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_makes_every_experiment_once_and_turns_the_lengths() {
        let lengths = lengths((64, 512));
        assert_eq!(lengths, [64, 213, 362, 512]);
        let mut firsts = Vec::new();
        for number in 0..4 {
            let steps = round(number, &lengths, 4);
            firsts.push(steps[0].tokens);
            let sent: u32 = steps.iter().map(|s| s.at_once).sum();
            assert_eq!(u64::from(sent), total(1, 4) - 1);
            let warm = steps
                .iter()
                .position(|s| s.experiment == Experiment::Warm)
                .unwrap();
            assert_eq!(steps[warm - 1].experiment, Experiment::Cold);
            assert_eq!(steps[warm - 1].tokens, 512);
        }
        firsts.sort_unstable();
        assert_eq!(firsts, lengths);
        assert!(round(0, &lengths, 1).iter().all(|s| s.at_once == 1));
    }
}
