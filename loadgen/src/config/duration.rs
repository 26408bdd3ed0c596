//! Durations as people write them: `200ms`, `5s`, `2m`, `1h`, `50us`; a bare number has no unit
//! and is refused.

use std::time::Duration;

use serde::Serializer;

/// Reads `1.5s`, `200ms` and the like.
///
/// # Errors
/// A sentence that names the text and the units.
pub fn parse(text: &str) -> Result<Duration, String> {
    let refuse = || {
        format!(
            "\"{text}\" is not a duration; write a number with us, ms, s, m, h or d, like 200ms"
        )
    };
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .ok_or_else(refuse)?;
    let (number, unit) = text.split_at(split);
    let number: f64 = number.parse().map_err(|_| refuse())?;
    let unit_seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return Err(refuse()),
    };
    let nanos = (number * unit_seconds * 1e9).round();
    if nanos > 1e18 {
        return Err(format!("\"{text}\" is longer than 30 years"));
    }
    Ok(Duration::from_nanos(nanos as u64))
}

/// The shortest spelling that [`parse`] reads back to the same value (to the microsecond).
#[must_use]
pub fn format(d: Duration) -> String {
    let us = d.as_micros();
    if us == 0 {
        "0s".to_owned()
    } else if us.is_multiple_of(1_000_000) {
        format!("{}s", us / 1_000_000)
    } else if us.is_multiple_of(1_000) {
        format!("{}ms", us / 1_000)
    } else {
        format!("{us}us")
    }
}

/// For `#[serde(with = "duration")]`.
///
/// # Errors
/// The serializer's.
pub fn serialize<S: Serializer>(d: &Duration, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(&format(*d))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        for text in ["0s", "200ms", "5s", "120s", "50us", "1500ms"] {
            assert_eq!(format(parse(text).unwrap()), text);
        }
        assert_eq!(parse("1.5s").unwrap(), Duration::from_millis(1500));
        assert_eq!(parse("2m").unwrap(), Duration::from_secs(120));
    }

    #[test]
    fn a_number_without_a_unit_is_refused() {
        for text in ["5", "", "s", "5 s", "-1s", "1e3s", "5w", "1.2.3s"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
