//! Numbers out of samples: percentiles, their intervals, and how many samples they need.
//!
//! Everything works on exact values, never on buckets. Pure: no clock, no file, no unit of its
//! own (callers hand in milliseconds). Undefined is `None`, which becomes `null` in JSON; NaN and
//! infinity never leave this module.
//!
//! The surprise: a percentile that its sample cannot hold (p99 of ten values) is `None`, not the
//! maximum.

mod ecdf;
mod interval;
mod ordered;
mod percentile;
mod summary;

pub use ecdf::ecdf;
pub use interval::{certify_needed, chance_of_fewer, effective_size, order_interval};
pub use ordered::Ordered;
pub use percentile::{BadPercentile, Percentile};
pub use summary::{Intervals, Summary};
