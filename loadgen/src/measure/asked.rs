//! What each arrival asked for, from `plan.jsonl`.

use std::collections::HashMap;

use crate::reconcile::Lengths;
use crate::stats::spill::{Log, Spill};

/// Lengths by point and sequence number.
#[derive(Debug)]
pub struct Asked {
    spill: Spill,
    points: HashMap<String, Log<2>>,
}

impl Asked {
    /// None yet.
    #[must_use]
    pub fn new(spill: &Spill) -> Self {
        Self {
            spill: spill.clone(),
            points: HashMap::new(),
        }
    }

    /// The point's next arrival; false when it is not the one after its last one.
    pub fn push(&mut self, point_id: &str, seq: u64, lengths: Lengths) -> bool {
        if !self.points.contains_key(point_id) {
            let log = Log::new(&self.spill);
            self.points.insert(point_id.to_owned(), log);
        }
        let Some(log) = self.points.get_mut(point_id) else {
            return false;
        };
        let next = log.len() as u64 == seq;
        if next {
            // No request has no tokens, so zero stands for a number that is not known.
            let known = |n: Option<u64>| n.unwrap_or(0);
            log.push([lengths.prompt_tokens, lengths.output_tokens].map(known));
        }
        next
    }

    /// What an arrival asked for.
    #[must_use]
    pub fn get(&self, point_id: &str, seq: u64) -> Lengths {
        let lengths = usize::try_from(seq)
            .ok()
            .and_then(|index| self.points.get(point_id)?.get(index));
        let [prompt_tokens, output_tokens] = lengths
            .unwrap_or_default()
            .map(|n: u64| Some(n).filter(|&n| n > 0));
        Lengths {
            prompt_tokens,
            output_tokens,
        }
    }
}
