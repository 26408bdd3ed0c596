//! What probes say of an endpoint: well, or not, after so many of one kind in a row.
//!
//! Before the first probe an endpoint counts as well, so that a gateway serves from its start; the
//! first one decides alone, for nothing else is known. From then on a single lost probe changes
//! nothing. Pure: it is told what was seen.

use crate::config::HealthConfig;

/// See the module head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Health {
    /// None before the first probe.
    well: Option<bool>,
    /// Probes in a row that say otherwise.
    against: u32,
}

/// What a probe changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Nothing.
    None,
    /// The endpoint is well again, or for the first time.
    Well,
    /// It is not well any more.
    Unwell,
}

impl Health {
    /// Whether requests may go there.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.well.unwrap_or(true)
    }

    /// A probe ended, `good` or not.
    pub fn probed(&mut self, good: bool, config: &HealthConfig) -> Turn {
        let needed = match self.well {
            None => 1,
            Some(well) if well == good => {
                self.against = 0;
                return Turn::None;
            }
            Some(true) => config.unhealthy_after,
            Some(false) => config.healthy_after,
        };
        self.against += 1;
        if self.against < needed {
            return Turn::None;
        }
        let was_well = self.is_well();
        *self = Self {
            well: Some(good),
            against: 0,
        };
        match (was_well, good) {
            (true, true) => Turn::None,
            (_, true) => Turn::Well,
            (_, false) => Turn::Unwell,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: bool = true;
    const BAD: bool = false;

    fn probed(health: &mut Health, probes: &[bool]) -> Vec<Turn> {
        let config = HealthConfig {
            healthy_after: 2,
            unhealthy_after: 3,
            ..HealthConfig::default()
        };
        let turn = |good: &bool| health.probed(*good, &config);
        probes.iter().map(turn).collect()
    }

    #[test]
    fn the_first_probe_decides_alone() {
        let mut health = Health::default();
        assert!(health.is_well());
        assert_eq!(probed(&mut health, &[BAD]), [Turn::Unwell]);
        assert!(!health.is_well());

        let mut health = Health::default();
        assert_eq!(probed(&mut health, &[GOOD]), [Turn::None]);
        assert!(health.is_well());
    }

    #[test]
    fn later_only_so_many_in_a_row_change_anything() {
        use Turn::{None, Unwell, Well};
        let mut health = Health::default();
        let probes = [GOOD, BAD, BAD, GOOD, BAD, BAD, BAD];
        let turns = [None, None, None, None, None, None, Unwell];
        assert_eq!(probed(&mut health, &probes), turns);
        let probes = [BAD, GOOD, BAD, GOOD, GOOD];
        assert_eq!(probed(&mut health, &probes), [None, None, None, None, Well]);
    }
}
