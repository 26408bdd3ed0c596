//! Where a run's evidence lies on disk and how it gets there.
//!
//! - [`layout`]: every path of a run, from the results directory and the run id.
//! - [`manifest`]: what the run was, and which artifacts it has.

pub mod layout;
pub mod manifest;
