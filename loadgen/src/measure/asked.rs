//! What each arrival asked for, from `plan.jsonl`.

use std::collections::HashMap;

use crate::reconcile::Lengths;
use crate::stats::spill::{Log, Spill};

/// A gap in the numbers that is larger is a fault of the file.
const MOST_SHARDS: u64 = 1 << 20;

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

    /// The point's next arrival; false when it does not follow the last one. Numbers in between
    /// are other shards' arrivals.
    pub fn push(&mut self, point_id: &str, seq: u64, lengths: Lengths) -> bool {
        if !self.points.contains_key(point_id) {
            let log = Log::new(&self.spill);
            self.points.insert(point_id.to_owned(), log);
        }
        let Some(log) = self.points.get_mut(point_id) else {
            return false;
        };
        let last = log.len() as u64;
        let next = (last..last.saturating_add(MOST_SHARDS)).contains(&seq);
        if next {
            for _ in last..seq {
                log.push([0, 0]);
            }
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
