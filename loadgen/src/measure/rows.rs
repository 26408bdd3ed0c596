//! Which sequence numbers a point's records have.

use std::collections::BTreeMap;

/// The records of a point, of whatever phase. Numbers lie close together, so a few ranges hold
/// all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rows {
    /// First and last number of each range; no two touch.
    ranges: BTreeMap<u64, u64>,
    found: u64,
    /// Records whose sequence number had been there before.
    pub repeated: u64,
}

impl Rows {
    /// Takes a record; false when its number had been there before.
    pub fn add(&mut self, seq: u64) -> bool {
        let before = self.at_or_below(seq);
        if before.is_some_and(|(_, last)| last >= seq) {
            self.repeated += 1;
            return false;
        }
        self.found += 1;
        let first = match before {
            Some((first, last)) if last.checked_add(1) == Some(seq) => first,
            _ => seq,
        };
        let after = seq.checked_add(1).and_then(|it| self.ranges.remove(&it));
        self.ranges.insert(first, after.unwrap_or(seq));
        true
    }

    /// Whether there is a record with this number.
    #[must_use]
    pub fn contains(&self, seq: u64) -> bool {
        self.at_or_below(seq).is_some_and(|(_, last)| last >= seq)
    }

    fn at_or_below(&self, seq: u64) -> Option<(u64, u64)> {
        let range = self.ranges.range(..=seq).next_back();
        range.map(|(&first, &last)| (first, last))
    }

    /// Records with a sequence number of their own.
    #[must_use]
    pub fn found(&self) -> u64 {
        self.found
    }

    /// Records that the highest sequence number says there must be at least.
    #[must_use]
    pub fn at_least(&self) -> u64 {
        let last = self.ranges.last_key_value();
        last.map_or(0, |(_, last)| last.saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rows_in_about_their_order_are_one_range() {
        let mut rows = Rows::default();
        (0..10_000_u64).for_each(|i| assert!(rows.add(i ^ 3)));
        assert_eq!((rows.found(), rows.at_least()), (10_000, 10_000));
        assert_eq!(rows.ranges.len(), 1);
        assert!(rows.add(u64::MAX) && !rows.add(u64::MAX));
        assert_eq!((rows.repeated, rows.at_least()), (1, u64::MAX));
    }

    proptest! {
        #[test]
        fn ranges_count_as_a_set_does(seqs in prop::collection::vec(0_u64..60, 0..120)) {
            let mut rows = Rows::default();
            let mut set = HashSet::new();
            let mut repeated = 0;
            for seq in seqs {
                let new = set.insert(seq);
                prop_assert_eq!(rows.add(seq), new);
                repeated += u64::from(!new);
            }
            prop_assert_eq!((rows.found(), rows.repeated), (set.len() as u64, repeated));
            prop_assert!((0..60).all(|seq| rows.contains(seq) == set.contains(&seq)));
            prop_assert_eq!(rows.at_least(), set.iter().max().map_or(0, |m| m + 1));
        }
    }
}
