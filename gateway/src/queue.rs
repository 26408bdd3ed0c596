//! Who waits for a place at an engine. In this version: nobody.

use std::future::Future;

use crate::admission::{Ask, Denied};
use crate::config::Config;

/// The queues of one configuration.
#[derive(Debug)]
pub struct Queue;

/// A place at an engine of a pool.
#[derive(Debug)]
pub struct Slot;

impl Queue {
    /// The queues of `config`; those who wait in `before` wait on.
    #[must_use]
    pub fn new(_config: &Config, _before: Option<&Self>) -> Self {
        Self
    }

    /// A place for `ask`, after a wait that ends when `gone` does.
    ///
    /// # Errors
    /// There is none in time, or the client left.
    pub async fn enter(&self, _ask: &Ask, _gone: impl Future<Output = ()>) -> Result<Slot, Denied> {
        Ok(Slot)
    }
}
