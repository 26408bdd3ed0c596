//! The newest records in memory, as the lines they are served as.
//!
//! Bounded by count and by bytes, whichever comes first: a long stream's record is hundreds of
//! times the size of a short one's.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::config::RecordsRing;

#[derive(Debug)]
struct Entry {
    client_request_id: Option<Box<str>>,
    line: Bytes,
}

/// See the module head.
#[derive(Debug)]
pub(super) struct Ring {
    entries: VecDeque<Entry>,
    bytes: usize,
    evicted: u64,
    max_records: usize,
    max_bytes: usize,
}

impl Ring {
    pub(super) fn new(config: &RecordsRing) -> Self {
        Self {
            entries: VecDeque::new(),
            bytes: 0,
            evicted: 0,
            max_records: config.max_records,
            max_bytes: config.max_bytes,
        }
    }

    /// Takes a line and lets old ones go until both bounds hold. A line over the bound by itself
    /// is let go at once.
    pub(super) fn push(&mut self, client_request_id: Option<&str>, line: Bytes) {
        self.bytes += line.len();
        self.entries.push_back(Entry {
            client_request_id: client_request_id.map(Into::into),
            line,
        });
        while self.entries.len() > self.max_records || self.bytes > self.max_bytes {
            let Some(oldest) = self.entries.pop_front() else {
                break;
            };
            self.bytes -= oldest.line.len();
            self.evicted += 1;
        }
    }

    /// The lines whose id begins with `prefix`, or all lines, oldest first; handles, not copies.
    pub(super) fn lines(&self, prefix: Option<&str>) -> Vec<Bytes> {
        let wanted = |entry: &&Entry| match (prefix, &entry.client_request_id) {
            (None, _) => true,
            (Some(prefix), Some(id)) => id.starts_with(prefix),
            (Some(_), None) => false,
        };
        let wanted = self.entries.iter().filter(wanted);
        wanted.map(|entry| entry.line.clone()).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) const fn evicted(&self) -> u64 {
        self.evicted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_bounds_hold_and_the_oldest_goes_first() {
        let mut ring = Ring::new(&RecordsRing {
            max_records: 3,
            max_bytes: 10,
        });
        for (id, line) in [("a", "1\n"), ("b", "2\n"), ("c", "3\n"), ("d", "4\n")] {
            ring.push(Some(id), Bytes::from(line));
        }
        assert_eq!(ring.lines(None), ["2\n", "3\n", "4\n"]);
        ring.push(None, Bytes::from("long one\n"));
        assert_eq!((ring.len(), ring.bytes(), ring.evicted()), (1, 9, 4));
        ring.push(None, Bytes::from("longer than all\n"));
        assert_eq!((ring.len(), ring.bytes(), ring.evicted()), (0, 0, 6));
    }
}
