//! Requests, and what the engine knows of one while it has it.
//!
//! The surprise: a sequence is known by its slot, and a slot is used again with the memory of
//! its predecessor's block list.

use std::ops::{Index, IndexMut};
use std::sync::Arc;

use super::blocks::Block;

/// What a sequence's tokens are, block by block: equal hashes are equal beginnings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Hash of everything up to the end of block i, of prompt and output.
    pub known: Arc<[u64]>,
    /// Makes the hashes of the blocks after those, which no request with another number shares.
    pub own: u64,
}

impl Content {
    /// A content that begins like no other.
    #[must_use]
    pub fn unique(own: u64) -> Self {
        Self {
            known: Arc::default(),
            own,
        }
    }

    /// Chains `tokens` into block hashes; `salt` keeps apart who must not share.
    #[must_use]
    pub fn chain(salt: u64, tokens: impl Iterator<Item = u64>, block_size: u32, own: u64) -> Self {
        let mut known = Vec::new();
        let (mut hash, mut filled) = (mix(salt), 0);
        for token in tokens {
            hash = mix(hash ^ token);
            filled += 1;
            if filled == block_size {
                known.push(hash);
                filled = 0;
            }
        }
        Self {
            known: known.into(),
            own,
        }
    }

    pub(super) fn hash(&self, block: usize) -> u64 {
        match self.known.get(block) {
            Some(&hash) => hash,
            None => mix(mix(self.own) ^ block as u64),
        }
    }
}

/// A bijection that spreads every bit (the finaliser of SplitMix64, Steele et al. 2014).
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// One sequence to generate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The caller's number for it, in use by no other request of the same model.
    pub id: u64,
    /// Tokens of its prompt; 0 counts as 1.
    pub prompt_tokens: u32,
    /// Tokens to generate; 0 counts as 1.
    pub output_tokens: u32,
    /// What it can share with others.
    pub content: Content,
}

/// A request in the engine.
#[derive(Debug)]
pub(super) struct Sequence {
    pub request: Request,
    pub arrived_ns: u64,
    /// Output tokens so far.
    pub generated: u32,
    /// Tokens whose keys and values are in its blocks, planned ones included.
    pub computed: u32,
    /// Leading blocks that can be found by others.
    pub remembered: usize,
    pub blocks: Vec<Block>,
    /// Whether it has been looked up in the prefix cache.
    pub looked_up: bool,
}

impl Sequence {
    /// Prompt and output so far: what must be computed before the next token.
    pub const fn tokens(&self) -> u32 {
        self.request.prompt_tokens + self.generated
    }
}

/// Place of a sequence in the slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot(u32);

/// The sequences of an engine.
#[derive(Debug, Default)]
pub(super) struct Slab {
    entries: Vec<Sequence>,
    vacant: Vec<Slot>,
}

impl Slab {
    pub fn insert(&mut self, mut request: Request, arrived_ns: u64) -> Slot {
        request.prompt_tokens = request.prompt_tokens.max(1);
        request.output_tokens = request.output_tokens.max(1);
        let mut sequence = Sequence {
            request,
            arrived_ns,
            generated: 0,
            computed: 0,
            remembered: 0,
            blocks: Vec::new(),
            looked_up: false,
        };
        if let Some(slot) = self.vacant.pop() {
            sequence.blocks = std::mem::take(&mut self[slot].blocks);
            self[slot] = sequence;
            slot
        } else {
            self.entries.push(sequence);
            Slot((self.entries.len() - 1) as u32)
        }
    }

    /// Frees the slot of a sequence that has given its blocks back.
    pub fn remove(&mut self, slot: Slot) {
        self.vacant.push(slot);
    }
}

impl Index<Slot> for Slab {
    type Output = Sequence;

    fn index(&self, slot: Slot) -> &Sequence {
        &self.entries[slot.0 as usize]
    }
}

impl IndexMut<Slot> for Slab {
    fn index_mut(&mut self, slot: Slot) -> &mut Sequence {
        &mut self.entries[slot.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_beginnings_share_hashes_up_to_the_first_difference() {
        let chain =
            |salt, tokens: &[u64], own| Content::chain(salt, tokens.iter().copied(), 2, own);
        let a = chain(0, &[1, 2, 3, 4, 5], 10);
        let b = chain(0, &[1, 2, 3, 9, 5], 11);
        assert_eq!((a.known.len(), a.hash(0)), (2, b.hash(0)));
        assert_ne!(a.hash(1), b.hash(1));
        assert_ne!(
            a.hash(2),
            b.hash(2),
            "beyond what is known nothing is shared"
        );
        assert_ne!(a.hash(0), chain(1, &[1, 2], 10).hash(0), "another salt");
        assert_ne!(Content::unique(1).hash(0), Content::unique(2).hash(0));
    }
}
