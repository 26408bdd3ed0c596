//! Output tokens that each arrival asked for, from `plan.jsonl`.

use std::collections::HashMap;

use crate::stats::spill::{Log, Spill};

/// Tokens by point and sequence number.
#[derive(Debug)]
pub struct Asked {
    spill: Spill,
    points: HashMap<String, Log<1>>,
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
    pub fn push(&mut self, point_id: &str, seq: u64, tokens: u64) -> bool {
        if !self.points.contains_key(point_id) {
            let log = Log::new(&self.spill);
            self.points.insert(point_id.to_owned(), log);
        }
        let Some(log) = self.points.get_mut(point_id) else {
            return false;
        };
        let next = log.len() as u64 == seq;
        if next {
            log.push([tokens]);
        }
        next
    }

    /// What an arrival asked for.
    #[must_use]
    pub fn get(&self, point_id: &str, seq: u64) -> Option<u64> {
        let index = usize::try_from(seq).ok()?;
        self.points.get(point_id)?.get(index).map(|[tokens]| tokens)
    }
}
