//! Values that may depend on those before them.

use inferscope_shared::clock::MonoNs;

use super::moments::{LagOne, Sum};
use super::spill::{Sorter, Spill};
use super::{Sorted, Summary, Values};

/// One value per request, with the instant of its dispatch. A queue makes a slow request follow
/// a slow one, so intervals count the values by their effective number in that order.
#[derive(Debug)]
pub struct Ordered {
    /// Dispatch and value.
    rows: Sorter<2>,
    sum: Sum,
    spill: Spill,
}

/// The values of an [`Ordered`], sorted.
#[derive(Debug)]
pub struct Distribution {
    /// The values.
    pub sorted: Sorted,
    /// How many independent values they are worth ([`LagOne::effective`]).
    pub effective: f64,
}

impl Ordered {
    /// None yet.
    #[must_use]
    pub fn new(spill: &Spill) -> Self {
        Self {
            rows: Sorter::new(spill),
            sum: Sum::default(),
            spill: spill.clone(),
        }
    }

    /// Adds a request's value, if it has one that is finite.
    pub fn extend(&mut self, dispatched: Option<MonoNs>, value: Option<f64>) {
        if let Some(value) = value.filter(|v| v.is_finite()) {
            self.sum.add(value);
            let at = dispatched.map_or(0, |at| at.0.saturating_add(1));
            self.rows.push([at, value.to_bits()]);
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Sorts them, first by dispatch, for their effective number.
    #[must_use]
    pub fn finish(self) -> Distribution {
        let mut lag = LagOne::new(self.sum.mean().unwrap_or(0.0));
        let mut values = Values::new(&self.spill);
        self.rows.each(|[_, bits]| {
            let value = f64::from_bits(bits);
            lag.add(value);
            values.extend([value]);
        });
        Distribution {
            sorted: values.sorted(),
            effective: lag.effective(),
        }
    }

    /// Describes them; intervals by their effective number.
    #[must_use]
    pub fn summary(self) -> Summary {
        self.finish().summary()
    }
}

impl Distribution {
    /// Describes the values; intervals by their effective number, rounded down.
    #[must_use]
    pub fn summary(&self) -> Summary {
        self.sorted.summary(self.effective.floor() as usize)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stats::ecdf;

    #[test]
    fn a_drift_widens_the_interval_whatever_the_order_of_the_rows() {
        let spill = Spill::never();
        let (mut drift, mut mixed) = (Ordered::new(&spill), Ordered::new(&spill));
        for i in 0..400_u32 {
            // Rows come in an order of their own: ends, not dispatches.
            let row = (i * 37) % 400;
            drift.extend(Some(MonoNs(row.into())), Some(f64::from(row / 100)));
            mixed.extend(Some(MonoNs(row.into())), Some(f64::from(row * 149 % 400)));
        }
        assert_eq!(mixed.finish().effective, 400.0);
        let drift = drift.finish();
        assert!(drift.effective < 20.0);
        let independent = drift.sorted.summary(400).ci95.p50.unwrap();
        let widened = drift.summary().ci95.p50;
        assert!(
            widened.is_none_or(|[low, high]| low < independent[0] || high > independent[1]),
            "{widened:?} against {independent:?}"
        );
    }

    /// Numbers as bits, so that equal means equal.
    fn bits(rows: &[(Option<u64>, f64)], spill: &Spill) -> (String, u64, Vec<(u64, u64)>) {
        let mut all = Ordered::new(spill);
        for (at, value) in rows {
            all.extend(at.map(MonoNs), Some(*value));
        }
        let series = all.finish();
        let curve = ecdf(&series.sorted, 20).into_iter();
        (
            // The shortest text that reads back as the same number.
            format!("{:?}", series.summary()),
            series.effective.to_bits(),
            curve.map(|(v, s)| (v.to_bits(), s.to_bits())).collect(),
        )
    }

    proptest! {
        #[test]
        fn what_was_spilled_is_summed_up_to_the_same_bits(
            rows in prop::collection::vec(
                (prop::option::of(0_u64..1_000), prop_oneof![-1e3..1e9_f64, 0.0..10.0_f64]),
                0..700,
            ),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let spill = Spill::with_budget(vec![dir.path().to_path_buf()], 256);
            let spilled = bits(&rows, &spill);
            prop_assert_eq!(&spilled, &bits(&rows, &Spill::never()));
            prop_assert!(rows.len() < 64 || spill.spilled_bytes() > 0);
            prop_assert_eq!(spill.check(), Ok(()));
        }
    }
}
