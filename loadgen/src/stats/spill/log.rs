//! Items in the order in which they came, found again by their index.

use std::cell::RefCell;

use super::{Cursor, Run, Spill, WORD, grow};

/// Bytes around an index that are kept once read: who looks one item up looks at its neighbours
/// next.
const PAGE_BYTES: usize = 8 << 10;

/// A series that grows at its end.
#[derive(Debug)]
pub struct Log<const K: usize> {
    spill: Spill,
    /// What is on disk: index of the first item, and where.
    runs: Vec<(usize, Run)>,
    on_disk: usize,
    tail: Vec<[u64; K]>,
    page: RefCell<Page<K>>,
}

#[derive(Debug)]
struct Page<const K: usize> {
    first: usize,
    items: Vec<[u64; K]>,
}

impl<const K: usize> Log<K> {
    /// An empty series.
    #[must_use]
    pub fn new(spill: &Spill) -> Self {
        Self::of(spill.join(), Vec::new())
    }

    /// A series of these items, in memory.
    pub(super) fn of(spill: Spill, tail: Vec<[u64; K]>) -> Self {
        Self {
            spill,
            runs: Vec::new(),
            on_disk: 0,
            tail,
            page: RefCell::new(Page {
                first: 0,
                items: Vec::new(),
            }),
        }
    }

    /// Adds an item at the end.
    pub fn push(&mut self, item: [u64; K]) {
        let share = self.spill.share(K);
        if self.tail.len() >= share {
            self.flush();
        }
        grow(&mut self.tail, share);
        self.tail.push(item);
    }

    /// Puts what is in memory on disk.
    pub(super) fn flush(&mut self) {
        let Some(run) = self.spill.append(&self.tail) else {
            self.tail.clear();
            return;
        };
        match self.runs.last_mut() {
            Some((_, last)) if last.offset + (last.items * K * WORD) as u64 == run.offset => {
                last.items += run.items;
            }
            _ => self.runs.push((self.on_disk, run)),
        }
        self.on_disk += run.items;
        self.tail.clear();
    }

    /// The one run that everything lies in, memory given back; `None` if it is in several.
    pub(super) fn into_run(mut self) -> Option<Run> {
        self.flush();
        match self.runs[..] {
            [(_, run)] => Some(run),
            _ => None,
        }
    }

    /// How many items there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.on_disk + self.tail.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The item at `index`.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<[u64; K]> {
        if let Some(in_tail) = index.checked_sub(self.on_disk) {
            return self.tail.get(in_tail).copied();
        }
        let mut page = self.page.borrow_mut();
        if index < page.first || index >= page.first + page.items.len() {
            let (first, run) = self.runs[self.runs.partition_point(|(f, _)| *f <= index) - 1];
            let per_page = PAGE_BYTES / (K * WORD);
            let skipped = (index - first) / per_page * per_page;
            let count = per_page.min(run.items - skipped);
            page.first = first + skipped;
            let offset = run.offset + (skipped * K * WORD) as u64;
            self.spill.read(offset, count, &mut page.items);
        }
        page.items.get(index - page.first).copied()
    }

    /// All items in order.
    pub fn iter(&self) -> impl Iterator<Item = [u64; K]> + '_ {
        let on_disk = self.runs.iter();
        on_disk
            .flat_map(|(_, run)| Cursor::new(&self.spill, *run))
            .chain(self.tail.iter().copied())
    }

    /// Index of the first item whose first word is not below `key`, in a series sorted by it.
    #[must_use]
    pub fn lower_bound(&self, key: u64) -> usize {
        let below = |index: usize| self.get(index).is_some_and(|item| item[0] < key);
        let (mut low, mut high) = (0, self.len());
        // Most keys lie where the last one lay.
        let near = {
            let page = self.page.borrow();
            (page.first, page.first + page.items.len())
        };
        if near.0 < near.1 && below(near.0) && !below(near.1 - 1) {
            (low, high) = (near.0 + 1, near.1 - 1);
        }
        while low < high {
            let middle = usize::midpoint(low, high);
            if below(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}
