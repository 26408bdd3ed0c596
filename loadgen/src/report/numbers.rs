//! Numbers as people read them.

use crate::stats::Summary;

/// What stands for "not defined".
pub const NONE: &str = "–";

/// A value with as many digits as say something: three to four figures.
#[must_use]
pub fn short(value: f64) -> String {
    let size = value.abs();
    if size >= 1000.0 {
        format!("{value:.0}")
    } else if size >= 100.0 {
        format!("{value:.1}")
    } else if size >= 1.0 || size == 0.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}

/// A value or the sign for none.
#[must_use]
pub fn or_none(value: Option<f64>) -> String {
    value.map_or_else(|| NONE.to_owned(), short)
}

/// A value with its interval: `52.1 [51.9, 52.6]`.
#[must_use]
pub fn with_interval(value: Option<f64>, interval: Option<[f64; 2]>) -> String {
    match (value, interval) {
        (Some(v), Some([low, high])) => format!("{} [{}, {}]", short(v), short(low), short(high)),
        (value, _) => or_none(value),
    }
}

/// A median with its interval.
#[must_use]
pub fn median(summary: &Summary) -> String {
    with_interval(summary.p50, summary.ci95.p50)
}

/// A share as a percentage.
#[must_use]
pub fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| NONE.to_owned(), |s| format!("{:.1} %", s * 100.0))
}

/// A difference with its sign.
#[must_use]
pub fn signed(value: Option<f64>) -> String {
    value.map_or_else(
        || NONE.to_owned(),
        |v| format!("{}{}", if v > 0.0 { "+" } else { "" }, short(v)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_none_is_no_zero() {
        let texts: Vec<String> = [0.0, 0.01234, 1.234, 12.345, 123.45, 12_345.6, -0.5]
            .into_iter()
            .map(short)
            .collect();
        assert_eq!(
            texts,
            ["0.00", "0.012", "1.23", "12.35", "123.5", "12346", "-0.500"]
        );
        assert_eq!(or_none(None), "–");
        assert_eq!(percent(Some(0.995)), "99.5 %");
        assert_eq!(signed(Some(0.25)), "+0.250");
        assert_eq!(
            with_interval(Some(5.0), Some([4.0, 6.0])),
            "5.00 [4.00, 6.00]"
        );
    }
}
