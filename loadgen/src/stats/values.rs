//! A distribution while it is collected, and sorted.

use super::spill::{Log, Sorter, Spill};
use super::{Percentile, Summary};

/// Values in no order. Those that are not finite are left out.
#[derive(Debug)]
pub struct Values(Sorter<1>);

impl Values {
    /// None yet.
    #[must_use]
    pub fn new(spill: &Spill) -> Self {
        Self(Sorter::new(spill))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The values, sorted.
    #[must_use]
    pub fn sorted(self) -> Sorted {
        Sorted(self.0.finish())
    }
}

impl Extend<f64> for Values {
    fn extend<T: IntoIterator<Item = f64>>(&mut self, values: T) {
        let finite = values.into_iter().filter(|v| v.is_finite());
        finite.for_each(|value| self.0.push([to_word(value)]));
    }
}

/// Values in rising order.
#[derive(Debug)]
pub struct Sorted(Log<1>);

impl Sorted {
    /// Sorts values in memory.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut all = Values::new(&Spill::never());
        all.extend(values);
        all.sorted()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value at `index`, from 0.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<f64> {
        self.0.get(index).map(|[word]| from_word(word))
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = f64> + '_ {
        self.0.iter().map(|[word]| from_word(word))
    }

    /// The value of nearest rank, whatever the number of values; `None` of none.
    #[must_use]
    pub fn nearest(&self, p: Percentile) -> Option<f64> {
        self.get(p.rank(self.len()).checked_sub(1)?)
    }

    /// The value of nearest rank, if there are enough values to tell it from the maximum.
    #[must_use]
    pub fn estimate(&self, p: Percentile) -> Option<f64> {
        (self.len() >= p.values_needed())
            .then(|| self.nearest(p))
            .flatten()
    }

    /// Describes them, of which only `groups` are independent of each other
    /// ([`Summary::of_sorted`]).
    #[must_use]
    pub fn summary(&self, groups: usize) -> Summary {
        Summary::of_sorted(self, groups)
    }
}

/// A number whose order among words is the value's among values ([`f64::total_cmp`]).
pub(crate) fn to_word(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits >> 63 == 0 {
        bits | 1 << 63
    } else {
        !bits
    }
}

/// The inverse of [`to_word`].
fn from_word(word: u64) -> f64 {
    f64::from_bits(if word >> 63 == 1 {
        word & !(1 << 63)
    } else {
        !word
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn words_are_ordered_as_values_are(a in any::<f64>(), b in any::<f64>()) {
            prop_assert_eq!(to_word(a).cmp(&to_word(b)), a.total_cmp(&b));
            prop_assert_eq!(from_word(to_word(a)).to_bits(), a.to_bits());
        }
    }
}
