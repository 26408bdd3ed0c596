//! Tokens of a day and of a month, in UTC.
//!
//! What a request may cost counts from its reservation on, and belongs to the day and month of
//! that: one that ends after midnight settles in the day it began in, if that is still the day.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use serde::{Deserialize, Serialize};

/// Seconds of a day; UTC has no other ones here.
const DAY_SECONDS: u64 = 86_400;

/// Today, this month, and how long they last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Calendar {
    /// Such as `2026-12-01`.
    pub day: String,
    /// Such as `2026-12`.
    pub month: String,
    /// Until midnight UTC.
    pub day_left: Duration,
    /// Until the month ends.
    pub month_left: Duration,
}

impl Calendar {
    /// The calendar at `now`, a time of day in UTC.
    #[must_use]
    pub fn at(now: DateTime) -> Self {
        let seconds = |n: i8| u64::from(n.unsigned_abs());
        let gone = seconds(now.hour()) * 3_600 + seconds(now.minute()) * 60 + seconds(now.second());
        let day_left = DAY_SECONDS - gone;
        let days_left = seconds(now.date().days_in_month() - now.day());
        Self {
            day: now.date().to_string(),
            month: now.strftime("%Y-%m").to_string(),
            day_left: Duration::from_secs(day_left),
            month_left: Duration::from_secs(day_left + days_left * DAY_SECONDS),
        }
    }

    /// The calendar now.
    #[must_use]
    pub fn now() -> Self {
        Self::at(Offset::UTC.to_datetime(Timestamp::now()))
    }
}

/// Tokens used in one stretch of the calendar.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// Which day or month.
    pub period: String,
    /// Tokens, reserved ones included.
    pub tokens: u64,
}

impl Used {
    /// Tokens used in `period`.
    #[must_use]
    pub fn within(&self, period: &str) -> u64 {
        if self.period == period {
            self.tokens
        } else {
            0
        }
    }

    /// Adds `tokens` to `period`, which is the present one.
    pub fn add(&mut self, period: &str, tokens: u64) {
        if self.period != period {
            period.clone_into(&mut self.period);
            self.tokens = 0;
        }
        self.tokens = self.tokens.saturating_add(tokens);
    }

    /// Takes `tokens` out of `period` again, unless it is over.
    pub fn sub(&mut self, period: &str, tokens: u64) {
        if self.period == period {
            self.tokens = self.tokens.saturating_sub(tokens);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_and_a_month_end_at_midnight_utc() {
        let at = |text: &str| Calendar::at(text.parse().unwrap());
        let calendar = at("2026-12-31T23:59:30");
        assert_eq!(
            (calendar.day.as_str(), calendar.month.as_str()),
            ("2026-12-31", "2026-12")
        );
        assert_eq!(calendar.day_left, Duration::from_secs(30));
        assert_eq!(calendar.month_left, Duration::from_secs(30));
        let calendar = at("2026-02-01T00:00:00");
        assert_eq!(calendar.month_left, Duration::from_secs(28 * 86_400));
    }

    #[test]
    fn a_new_day_begins_at_zero_and_what_belongs_to_the_old_one_stays_there() {
        let mut used = Used::default();
        used.add("d1", 10);
        used.sub("d1", 4);
        assert_eq!(used.within("d1"), 6);
        assert_eq!(used.within("d2"), 0);
        used.add("d2", 3);
        used.sub("d1", 6);
        assert_eq!(used.within("d2"), 3);
    }
}
