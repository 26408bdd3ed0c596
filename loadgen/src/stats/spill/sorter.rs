//! Items in the order of their first word, whatever order they came in.
//!
//! A merge sort: full buffers are sorted and written as runs, runs are merged. Items with the
//! same first word stay in the order in which they came, so that a series gives the same whether
//! it was spilled or not.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::{Cursor, Log, Run, Spill, grow};

/// Runs that are merged at once; more are merged in several passes.
const FAN_IN: usize = 64;

/// A series that is sorted when it is whole.
#[derive(Debug)]
pub struct Sorter<const K: usize> {
    spill: Spill,
    runs: Vec<Run>,
    on_disk: usize,
    buffer: Vec<[u64; K]>,
}

impl<const K: usize> Sorter<K> {
    /// An empty series.
    #[must_use]
    pub fn new(spill: &Spill) -> Self {
        Self {
            spill: spill.join(),
            runs: Vec::new(),
            on_disk: 0,
            buffer: Vec::new(),
        }
    }

    /// Adds an item.
    pub fn push(&mut self, item: [u64; K]) {
        let share = self.spill.share(K);
        if self.buffer.len() >= share {
            self.flush();
        }
        grow(&mut self.buffer, share);
        self.buffer.push(item);
    }

    /// How many items there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.on_disk + self.buffer.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn sort(&mut self) {
        if K == 1 {
            self.buffer.sort_unstable();
        } else {
            self.buffer.sort_by_key(|item| item[0]);
        }
    }

    fn flush(&mut self) {
        self.sort();
        if let Some(run) = self.spill.append(&self.buffer) {
            self.runs.push(run);
        }
        self.on_disk += self.buffer.len();
        self.buffer.clear();
    }

    /// Hands over every item in order.
    pub fn each(mut self, mut take: impl FnMut([u64; K])) {
        if self.runs.is_empty() {
            self.sort();
            self.buffer.into_iter().for_each(take);
            return;
        }
        self.flush();
        self.buffer = Vec::new();
        while self.runs.len() > FAN_IN {
            let mut longer = Vec::new();
            for group in self.runs.chunks(FAN_IN) {
                let mut out = Log::<K>::new(&self.spill);
                merge(&self.spill, group, |item| out.push(item));
                longer.extend(out.into_run());
            }
            self.runs = longer;
        }
        merge(&self.spill, &self.runs, &mut take);
    }

    /// The sorted series.
    #[must_use]
    pub fn finish(mut self) -> Log<K> {
        if self.runs.is_empty() {
            self.sort();
            return Log::of(self.spill, self.buffer);
        }
        let mut sorted = Log::new(&self.spill);
        self.each(|item| sorted.push(item));
        sorted
    }
}

fn merge<const K: usize>(spill: &Spill, runs: &[Run], mut take: impl FnMut([u64; K])) {
    let mut cursors: Vec<Cursor<K>> = runs.iter().map(|run| Cursor::new(spill, *run)).collect();
    let mut heads = vec![[0; K]; cursors.len()];
    let mut heap = BinaryHeap::with_capacity(cursors.len());
    for (index, cursor) in cursors.iter_mut().enumerate() {
        if let Some(item) = cursor.next() {
            heads[index] = item;
            heap.push(Reverse((item[0], index)));
        }
    }
    while let Some(mut least) = heap.peek_mut() {
        let Reverse((_, index)) = *least;
        take(heads[index]);
        match cursors[index].next() {
            Some(item) => {
                heads[index] = item;
                *least = Reverse((item[0], index));
            }
            None => {
                PeekMut::pop(least);
            }
        }
    }
}
