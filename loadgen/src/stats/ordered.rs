//! Values that may depend on those before them.

use inferscope_shared::clock::MonoNs;

use super::{Summary, effective_size};

/// One value per request, with the instant of its dispatch. A queue makes a slow request follow
/// a slow one, so intervals count the values by their effective number in that order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ordered(Vec<(Option<MonoNs>, f64)>);

impl Ordered {
    /// Adds a request's value, if it has one that is finite.
    pub fn extend(&mut self, dispatched: Option<MonoNs>, value: Option<f64>) {
        let value = value.filter(|v| v.is_finite());
        self.0.extend(value.map(|v| (dispatched, v)));
    }

    /// The values, in no order.
    pub fn values(&self) -> impl Iterator<Item = f64> {
        self.0.iter().map(|(_, v)| *v)
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

    /// The number of independent values that they are worth ([`effective_size`]).
    #[must_use]
    pub fn effective(&mut self) -> f64 {
        self.0.sort_by_key(|(at, _)| *at);
        effective_size(&self.values().collect::<Vec<_>>())
    }

    /// Describes them; intervals by their effective number, rounded down.
    #[must_use]
    pub fn summary(mut self) -> Summary {
        let independent = self.effective().floor() as usize;
        Summary::of_groups(self.values().collect(), independent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drift_widens_the_interval_whatever_the_order_of_the_rows() {
        let mut drift = Ordered::default();
        let mut mixed = Ordered::default();
        for i in 0..400_u32 {
            // Rows come in an order of their own: ends, not dispatches.
            let row = (i * 37) % 400;
            drift.extend(Some(MonoNs(row.into())), Some(f64::from(row / 100)));
            mixed.extend(Some(MonoNs(row.into())), Some(f64::from(row * 149 % 400)));
        }
        assert_eq!(mixed.effective(), 400.0);
        assert!(drift.effective() < 20.0);
        let independent = Summary::of(drift.values().collect()).ci95.p50.unwrap();
        let widened = drift.summary().ci95.p50;
        assert!(
            widened.is_none_or(|[low, high]| low < independent[0] || high > independent[1]),
            "{widened:?} against {independent:?}"
        );
    }
}
