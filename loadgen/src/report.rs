//! What people read: the headline for a terminal, the Markdown report, CSV and charts.
//!
//! Everything here is text made of an [`crate::analysis::Analysis`]; nothing is computed that is
//! not in it. A value that is not defined prints as `–`, never as zero.

pub mod charts;
pub mod csv;
pub mod headline;
pub mod markdown;
pub mod numbers;
pub(crate) mod svg;
