//! The clocks of the fake engine.
//!
//! Everything that is paced or logged is CLOCK_MONOTONIC in integer nanoseconds, so that a client
//! on the same machine can compare its own stamps with ours. Wall time appears only where the wire
//! format wants it (`date:`, `created`).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// CLOCK_MONOTONIC now, in nanoseconds (a vDSO call).
#[must_use]
pub fn now_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    t.tv_sec.cast_unsigned() * 1_000_000_000 + t.tv_nsec.cast_unsigned()
}

/// A duration in nanoseconds, saturating after 584 years.
#[must_use]
pub fn ns(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

/// A time with its unit: `ns`, `us`, `ms`, `s` or `m`.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit_seconds = match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        _ => return Err(format!("{text:?} needs a unit: ns, us, ms, s or m")),
    };
    let number: f64 = number
        .parse()
        .map_err(|_| format!("{text:?} is no time; write for example 20ms"))?;
    Duration::try_from_secs_f64(number * unit_seconds).map_err(|_| format!("{text:?} is too long"))
}

/// Seconds since the Unix epoch.
#[must_use]
pub fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs())
}

/// `seconds` since the Unix epoch as an HTTP date (`Mon, 30 Nov 2026 23:35:11 GMT`).
#[must_use]
pub fn http_date(seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let mut year = 1970;
    let mut rest = days;
    loop {
        let length = if leap(year) { 366 } else { 365 };
        if rest < length {
            break;
        }
        rest -= length;
        year += 1;
    }
    let mut month = 0;
    for length in [
        31,
        if leap(year) { 29 } else { 28 },
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
    ] {
        if rest < length {
            break;
        }
        rest -= length;
        month += 1;
    }
    format!(
        "{}, {:02} {} {year} {:02}:{:02}:{:02} GMT",
        DAYS[(days % 7) as usize],
        rest + 1,
        MONTHS[month],
        second / 3_600,
        second / 60 % 60,
        second % 60
    )
}

const fn leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_dates() {
        assert_eq!(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(http_date(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(http_date(1_796_081_711), "Mon, 30 Nov 2026 23:35:11 GMT");
        assert_eq!(http_date(1_798_761_599), "Thu, 31 Dec 2026 23:59:59 GMT");
    }

    #[test]
    fn times_need_units() {
        assert_eq!(parse_duration("50us"), Ok(Duration::from_micros(50)));
        assert_eq!(parse_duration("0.05ms"), Ok(Duration::from_micros(50)));
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1_500)));
        for bad in ["20", "ms", "1h", "-1s", ""] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_clock_never_goes_back() {
        let first = now_ns();
        assert!(now_ns() >= first);
    }
}
