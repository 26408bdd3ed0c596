//! Where each record lies in its file, sorted by request id, in a fixed amount of memory.
//!
//! Ids end in a sequence number (`<run>.<point>.<seq>`). The key of an id is made of the two, so
//! that records of one point lie together in the order of their numbers, which is nearly the order
//! in which rows ask for them. Different ids may have one key; whoever looks one up compares the
//! id of the record itself.

use std::collections::{BTreeSet, HashSet};

use crate::stats::spill::{Log, Sorter, Spill};

/// An index while records go by.
#[derive(Debug)]
pub(super) struct IndexBuilder(Sorter<2>);

/// Places of records, and which of them a row has met.
#[derive(Debug)]
pub(super) struct Index {
    /// Key and offset, sorted by key; records of one key in the order of the file.
    places: Log<2>,
    /// A bit per place: met, or a duplicate that nobody is to meet.
    done: Vec<u64>,
    unmet: u64,
}

impl IndexBuilder {
    pub fn new(spill: &Spill) -> Self {
        Self(Sorter::new(spill))
    }

    /// A record of `id` that starts at `offset`.
    pub fn add(&mut self, id: &str, offset: u64) {
        self.0.push([key(id), offset]);
    }

    /// The index. `id_at` says whose record lies at an offset; `again` is told of each record
    /// whose id had been there before.
    pub fn finish<E>(
        self,
        mut id_at: impl FnMut(u64) -> Result<String, E>,
        mut again: impl FnMut(String),
    ) -> Result<Index, E> {
        let places = self.0.finish();
        let mut index = Index {
            done: vec![0; places.len().div_ceil(64)],
            unmet: places.len() as u64,
            places,
        };
        let mut before: Option<[u64; 2]> = None;
        let mut same: HashSet<String> = HashSet::new();
        let mut twice = Vec::new();
        for (place, [key, offset]) in index.places.iter().enumerate() {
            match before.replace([key, offset]) {
                Some([key_before, offset_before]) if key_before == key => {
                    if same.is_empty() {
                        same.insert(id_at(offset_before)?);
                    }
                    let id = id_at(offset)?;
                    if same.contains(&id) {
                        again(id);
                        twice.push(place);
                    } else {
                        same.insert(id);
                    }
                }
                _ => same.clear(),
            }
        }
        for place in twice {
            index.meet(place);
        }
        Ok(index)
    }
}

impl Index {
    /// Places and offsets at which the record of `id` may lie, in the order of the file.
    pub fn candidates(&self, id: &str) -> Vec<(usize, u64)> {
        let key = key(id);
        let first = self.places.lower_bound(key);
        (first..)
            .map_while(|place| match self.places.get(place) {
                Some([found, offset]) if found == key => Some((place, offset)),
                _ => None,
            })
            .collect()
    }

    /// Notes that a row has met the record at `place`; false when one had before.
    pub fn meet(&mut self, place: usize) -> bool {
        let (word, bit) = (place / 64, 1 << (place % 64));
        let new = self.done[word] & bit == 0;
        self.done[word] |= bit;
        self.unmet -= u64::from(new);
        new
    }

    /// Records that no row has met.
    pub fn unmet(&self) -> u64 {
        self.unmet
    }

    /// Offsets of the first `most` of them in the file.
    pub fn first_unmet(&self, most: usize) -> BTreeSet<u64> {
        let mut first = BTreeSet::new();
        if most == 0 || self.unmet == 0 {
            return first;
        }
        for (place, [_, offset]) in self.places.iter().enumerate() {
            if self.done[place / 64] & 1 << (place % 64) == 0 {
                first.insert(offset);
                if first.len() > most {
                    first.pop_last();
                }
            }
        }
        first
    }
}

/// A hash of what stands before the last dot, then the number behind it.
fn key(id: &str) -> u64 {
    let (before, number) = match id.rsplit_once('.') {
        Some((before, number)) => (before, number.parse::<u32>().ok()),
        None => (id, None),
    };
    match number {
        Some(number) => hash(before) << 32 | u64::from(number),
        None => hash(id),
    }
}

/// FNV-1a.
fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(ids: &[&str]) -> (Index, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        let spill = Spill::with_budget(vec![dir.path().to_path_buf()], 32);
        let mut builder = IndexBuilder::new(&spill);
        for (offset, id) in ids.iter().enumerate() {
            builder.add(id, offset as u64);
        }
        let mut twice = Vec::new();
        let id_at = |offset: u64| Ok::<_, ()>(ids[offset as usize].to_owned());
        let index = builder.finish(id_at, |id| twice.push(id)).unwrap();
        assert_eq!(spill.check(), Ok(()));
        (index, twice)
    }

    #[test]
    fn every_record_is_found_and_the_first_of_an_id_counts() {
        let all: Vec<String> = (0..300)
            .map(|i| format!("r.a.c1.{}", i * 7 % 300))
            .collect();
        let mut ids: Vec<&str> = all.iter().map(String::as_str).collect();
        ids.extend(["r.a.c1.17", "odd", "r.b.c1.17"]);
        let (mut index, twice) = index(&ids);
        assert_eq!(twice, ["r.a.c1.17"]);
        for (offset, id) in ids.iter().enumerate().filter(|(offset, _)| *offset != 300) {
            let (place, found) = index.candidates(id)[0];
            assert_eq!(found, offset as u64);
            if !(2..4).contains(&offset) {
                assert!(index.meet(place) && !index.meet(place));
            }
        }
        assert_eq!(index.unmet(), 2);
        assert_eq!(index.first_unmet(5).into_iter().collect::<Vec<_>>(), [2, 3]);
        assert_eq!(index.first_unmet(1).into_iter().collect::<Vec<_>>(), [2]);
        assert!(index.candidates("r.a.c1.300").is_empty());
    }

    #[test]
    fn ids_that_share_a_key_are_not_taken_for_each_other() {
        // A number that does not fit 32 bits is part of the text.
        assert_ne!(key("r.4294967296"), key("r.0"));
        // Leading zeros make another id with the same key.
        let (index, twice) = index(&["r.7", "r.07", "r.7"]);
        assert_eq!(index.candidates("r.07").len(), 3);
        assert_eq!((twice, index.unmet()), (vec!["r.7".to_owned()], 2));
    }
}
