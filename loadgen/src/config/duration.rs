//! Durations in serialised settings, as people write them; the spelling is
//! [`inferscope_shared::units`]'.

use std::time::Duration;

use inferscope_shared::units;
use serde::Serializer;

/// For `#[serde(with = "duration")]`.
///
/// # Errors
/// The serializer's.
pub fn serialize<S: Serializer>(d: &Duration, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(&units::format_duration(*d))
}

/// For `#[serde(with = "duration::optional")]`.
pub mod optional {
    use super::{Duration, Serializer};

    /// Writes null for none.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(d: &Option<Duration>, s: S) -> Result<S::Ok, S::Error> {
        match d {
            Some(d) => super::serialize(d, s),
            None => s.serialize_none(),
        }
    }
}
