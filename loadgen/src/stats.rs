//! Numbers out of samples: percentiles, their intervals, and how many samples they need.
//!
//! Everything works on exact values, never on buckets, in a fixed amount of memory: long series
//! are sorted on disk ([`spill`]). Pure otherwise: no clock, no unit of its own (callers hand in
//! milliseconds). Undefined is `None`, which becomes `null` in JSON; NaN and infinity never leave
//! this module.
//!
//! The surprise: a percentile that its sample cannot hold (p99 of ten values) is `None`, not the
//! maximum.

mod ecdf;
mod interval;
mod moments;
mod ordered;
mod percentile;
pub mod spill;
mod summary;
mod values;

pub use ecdf::ecdf;
pub use interval::{certify_needed, chance_of_fewer, order_interval};
pub use moments::Sum;
pub use ordered::{Distribution, Ordered};
pub use percentile::{BadPercentile, Percentile};
pub use summary::{Intervals, Summary};
pub(crate) use values::to_word;
pub use values::{Sorted, Values};
