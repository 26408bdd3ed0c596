//! The time that a point's rates refer to.

use inferscope_shared::clock::MonoNs;

use crate::stats::spill::{Log, Spill};

/// Instants that a window is made of, collected as records go by.
#[derive(Debug)]
pub struct Instants {
    /// First dispatch of a measured request.
    first_dispatch: Option<MonoNs>,
    /// Last dispatch of any request.
    last_dispatch: Option<MonoNs>,
    /// Last planned arrival among measured ones.
    last_planned: Option<MonoNs>,
    /// Ends of all requests.
    ends: Log<1>,
}

impl Instants {
    /// None yet.
    #[must_use]
    pub fn new(spill: &Spill) -> Self {
        Self {
            first_dispatch: None,
            last_dispatch: None,
            last_planned: None,
            ends: Log::new(spill),
        }
    }

    /// A request that was sent.
    pub fn sent(&mut self, measured: bool, dispatched: Option<MonoNs>, end: Option<MonoNs>) {
        if let Some(at) = dispatched {
            if measured {
                self.first_dispatch = Some(self.first_dispatch.map_or(at, |t| t.min(at)));
            }
            self.last_dispatch = self.last_dispatch.max(Some(at));
        }
        if let Some(end) = end {
            self.ends.push([end.0]);
        }
    }

    /// A measured arrival, sent or not.
    pub fn planned(&mut self, intended: Option<MonoNs>) {
        self.last_planned = self.last_planned.max(intended);
    }

    /// Start and end of the window. In a closed loop requests in flight fall below the target
    /// when one ends and none is sent in its place: the first end after the last dispatch.
    #[must_use]
    pub fn window(&self, open_loop: bool) -> Option<(MonoNs, MonoNs)> {
        let start = self.first_dispatch?;
        let end = if open_loop {
            self.last_planned?
        } else {
            let last = self.last_dispatch?;
            let ends = self.ends.iter().map(|[end]| MonoNs(end));
            ends.filter(|&e| e > last).min()?
        };
        (end > start).then_some((start, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(t: u64) -> Option<MonoNs> {
        Some(MonoNs(t))
    }

    #[test]
    fn a_closed_loop_ends_when_a_slot_stays_empty() {
        let mut instants = Instants::new(&Spill::never());
        instants.sent(false, at(0), at(10));
        for (dispatched, end) in [(10, 20), (12, 30), (20, 28), (28, 41)] {
            instants.planned(at(dispatched));
            instants.sent(true, at(dispatched), at(end));
        }
        assert_eq!(instants.window(false), Some((MonoNs(10), MonoNs(30))));
    }

    #[test]
    fn an_open_loop_ends_with_its_last_planned_arrival_even_if_that_was_dropped() {
        let mut instants = Instants::new(&Spill::never());
        instants.planned(at(100));
        instants.sent(true, at(101), at(900));
        instants.planned(at(200));
        assert_eq!(instants.window(true), Some((MonoNs(101), MonoNs(200))));
    }

    #[test]
    fn m21_nothing_sent_or_no_time_is_no_window() {
        let mut instants = Instants::new(&Spill::never());
        assert_eq!(instants.window(false), None);
        instants.planned(at(100));
        assert_eq!(instants.window(true), None);
        instants.sent(true, at(100), at(100));
        assert_eq!(instants.window(true), None);
        assert_eq!(instants.window(false), None);
    }
}
