//! Where a run's evidence lies on disk and how it gets there.
//!
//! - [`layout`]: every path of a run, from the results directory and the run id.
//! - [`manifest`]: what the run was, and which artifacts it has.
//! - [`writer`]: the thread that interprets finished exchanges and writes them as they come.
//! - [`inventory`]: what is there in the end, with hashes, and why the rest is not.
//! - [`host`]: the machine, as the manifest describes it.
//! - [`fingerprint`]: what must be equal to compare two runs.

pub mod fingerprint;
pub mod host;
pub mod inventory;
pub mod layout;
pub mod manifest;
pub mod writer;
