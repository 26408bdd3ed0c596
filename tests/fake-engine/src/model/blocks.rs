//! KV-cache blocks: free ones in the order in which they are to be taken, and what they hold.
//!
//! A block is in use while somebody refers to it. A block that nobody refers to is free but keeps
//! its content, until it is the least recently freed one and its place is needed; found by the
//! hash of its content before that, it is taken back into use.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Highest number of blocks.
pub(super) const MAX_BLOCKS: u32 = 1 << 24;

/// Number of a block.
pub(super) type Block = u32;

#[derive(Debug, Clone, Copy)]
struct Entry {
    users: u32,
    hash: Option<u64>,
    /// Neighbours in the ring of free blocks; only while free.
    before: Block,
    after: Block,
}

/// All blocks of a KV cache.
#[derive(Debug)]
pub(super) struct Blocks {
    /// The last one is no block: it is where the ring of free blocks begins and ends.
    entries: Vec<Entry>,
    free: u32,
    cached: HashMap<u64, Block, BuildHasherDefault<AsIs>>,
}

impl Blocks {
    /// `count` free blocks, none of them holding anything.
    pub fn new(count: u32) -> Self {
        let ring = count + 1;
        let entries = (0..ring)
            .map(|i| Entry {
                users: 0,
                hash: None,
                before: (i + ring - 1) % ring,
                after: (i + 1) % ring,
            })
            .collect();
        Self {
            entries,
            free: count,
            cached: HashMap::default(),
        }
    }

    pub const fn free(&self) -> u32 {
        self.free
    }

    /// The block that holds the content with that hash.
    pub fn find(&self, hash: u64) -> Option<Block> {
        self.cached.get(&hash).copied()
    }

    pub fn in_use(&self, block: Block) -> bool {
        self.entries[block as usize].users > 0
    }

    /// One more user of a block that holds something.
    pub fn share(&mut self, block: Block) {
        if !self.in_use(block) {
            self.unlink(block);
        }
        self.entries[block as usize].users += 1;
    }

    /// Takes the least recently freed block, whose content is forgotten.
    pub fn take(&mut self) -> Option<Block> {
        if self.free == 0 {
            return None;
        }
        let block = self.entries[self.ring()].after;
        self.unlink(block);
        let entry = &mut self.entries[block as usize];
        entry.users = 1;
        if let Some(hash) = entry.hash.take() {
            self.cached.remove(&hash);
        }
        Some(block)
    }

    /// One user less. Without users the block is free, and the last free one to be taken.
    pub fn give_back(&mut self, block: Block) {
        let ring = self.ring();
        let last = self.entries[ring].before;
        let entry = &mut self.entries[block as usize];
        entry.users -= 1;
        if entry.users == 0 {
            (entry.before, entry.after) = (last, ring as Block);
            self.entries[last as usize].after = block;
            self.entries[ring].before = block;
            self.free += 1;
        }
    }

    /// The block's content can be found from now on, unless another block has the same.
    pub fn remember(&mut self, block: Block, hash: u64) {
        let entry = &mut self.entries[block as usize];
        if entry.hash.is_none() && !self.cached.contains_key(&hash) {
            entry.hash = Some(hash);
            self.cached.insert(hash, block);
        }
    }

    fn ring(&self) -> usize {
        self.entries.len() - 1
    }

    fn unlink(&mut self, block: Block) {
        let Entry { before, after, .. } = self.entries[block as usize];
        self.entries[before as usize].after = after;
        self.entries[after as usize].before = before;
        self.free -= 1;
    }

    /// Users of all blocks together.
    #[cfg(test)]
    pub fn users(&self) -> u64 {
        self.entries.iter().map(|e| u64::from(e.users)).sum()
    }
}

/// Content hashes are spread well enough to be used as they are.
#[derive(Debug, Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_freed_block_goes_first_and_takes_its_content_along() {
        let mut blocks = Blocks::new(3);
        let all: Vec<_> = std::iter::from_fn(|| blocks.take()).collect();
        assert_eq!(all, [0, 1, 2]);
        for (block, hash) in [(0, 70), (1, 71), (2, 72)] {
            blocks.remember(block, hash);
        }
        for block in [1, 0, 2] {
            blocks.give_back(block);
        }
        assert_eq!((blocks.free(), blocks.find(70)), (3, Some(0)));
        blocks.share(0);
        assert_eq!((blocks.take(), blocks.find(71)), (Some(1), None));
        assert_eq!((blocks.take(), blocks.find(72)), (Some(2), None));
        assert_eq!((blocks.take(), blocks.find(70)), (None, Some(0)));
    }

    #[test]
    fn a_shared_block_is_free_after_its_last_user() {
        let mut blocks = Blocks::new(1);
        let block = blocks.take().unwrap();
        blocks.remember(block, 5);
        blocks.share(block);
        blocks.give_back(block);
        assert_eq!((blocks.free(), blocks.users()), (0, 1));
        blocks.give_back(block);
        assert_eq!((blocks.free(), blocks.users()), (1, 0));
    }

    #[test]
    fn of_two_blocks_with_the_same_content_the_first_is_found() {
        let mut blocks = Blocks::new(2);
        for _ in 0..2 {
            let block = blocks.take().unwrap();
            blocks.remember(block, 9);
        }
        assert_eq!(blocks.find(9), Some(0));
        blocks.give_back(1);
        assert_eq!((blocks.take(), blocks.find(9)), (Some(1), Some(0)));
    }
}
