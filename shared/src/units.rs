//! Quantities as people write them in configuration and on command lines, one spelling for all.
//!
//! Durations: a number with `us`, `ms`, `s`, `m`, `h` or `d`. Sizes: a number with `B`, `KB`, `MB`,
//! `GB` (powers of 1,000) or `KiB`, `MiB`, `GiB` (powers of 1,024). A bare number has no unit and
//! is refused, except `0`.

use std::time::Duration;

const DURATIONS: [(&str, f64); 6] = [
    ("us", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3_600e9),
    ("d", 86_400e9),
];
const SIZES: [(&str, u64); 7] = [
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];
/// Longest duration taken (a hundred years): more is a slip of the keyboard.
const MAX_DURATION_NS: f64 = 36_525.0 * 86_400e9;

/// Reads `1.5s`, `200ms` and the like.
///
/// # Errors
/// A sentence that names the text and the accepted units.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let refuse = || {
        format!(
            "\"{text}\" is not a duration: write a number with us, ms, s, m, h or d, such as 200ms"
        )
    };
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let (number, unit) = split(text).ok_or_else(refuse)?;
    let (_, ns) = DURATIONS
        .iter()
        .find(|(name, _)| *name == unit)
        .ok_or_else(refuse)?;
    let total = (number * ns).round();
    if total > MAX_DURATION_NS {
        return Err(format!("\"{text}\" is more than a hundred years"));
    }
    Ok(Duration::from_nanos(total as u64))
}

/// The shortest spelling that [`parse_duration`] reads back, to the microsecond.
#[must_use]
pub fn format_duration(d: Duration) -> String {
    let us = d.as_micros();
    if us.is_multiple_of(1_000_000) {
        format!("{}s", us / 1_000_000)
    } else if us.is_multiple_of(1_000) {
        format!("{}ms", us / 1_000)
    } else {
        format!("{us}us")
    }
}

/// Reads `32MiB`, `1GB` and the like into bytes.
///
/// # Errors
/// A sentence that names the text and the accepted units.
pub fn parse_size_bytes(text: &str) -> Result<u64, String> {
    let refuse = || {
        format!(
            "\"{text}\" is not a size: write a number with B, KB, MB, GB, KiB, MiB or GiB, such as 32MiB"
        )
    };
    if text == "0" {
        return Ok(0);
    }
    let (number, unit) = split(text).ok_or_else(refuse)?;
    let (_, bytes) = SIZES
        .iter()
        .find(|(name, _)| *name == unit)
        .ok_or_else(refuse)?;
    let total = (number * *bytes as f64).round();
    if total > (1_u64 << 53) as f64 {
        return Err(format!("\"{text}\" is more than 8 PiB"));
    }
    Ok(total as u64)
}

/// A non-negative number and the unit right behind it.
fn split(text: &str) -> Option<(f64, &str)> {
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(at);
    Some((number.parse().ok()?, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_known_unit() {
        assert_eq!(parse_duration("200ms"), Ok(Duration::from_millis(200)));
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1_500)));
        assert_eq!(parse_duration("0.05ms"), Ok(Duration::from_micros(50)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        for bad in [
            "", "5", "5 s", "-5s", "5sec", "s", "1.2.3s", "1e3s", "200000d", "NaNs",
        ] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_tell_thousands_from_1024() {
        assert_eq!(parse_size_bytes("32MiB"), Ok(32 << 20));
        assert_eq!(parse_size_bytes("1.5KB"), Ok(1_500));
        assert_eq!(parse_size_bytes("0"), Ok(0));
        for bad in ["", "32", "32mb", "MiB", "99999999999GiB"] {
            assert!(parse_size_bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_formatted_duration_reads_back() {
        for us in [0, 1, 50, 999, 1_000, 1_500, 1_000_000, 90_000_000] {
            let d = Duration::from_micros(us);
            assert_eq!(parse_duration(&format_duration(d)), Ok(d));
        }
    }
}
