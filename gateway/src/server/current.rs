//! The snapshot in force.
//!
//! A [`Services`] never changes; a reload makes the next one, which takes over what must survive
//! (counters, queues, health, records), and puts it in the place of the one before. A request
//! takes the snapshot once, when its head is known, and keeps it to its end: a stream that runs
//! through a reload ends under the configuration under which it began. One thing is looked up anew:
//! a request that waited for a place goes to the endpoints that its pool has when it goes.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::Services;

/// See the module head. Clones share the place.
#[derive(Debug, Clone)]
pub struct Current(Arc<ArcSwap<Services>>);

impl Current {
    /// `services` are in force from the start.
    #[must_use]
    pub fn new(services: Services) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(services)))
    }

    /// What is in force now.
    #[must_use]
    pub fn get(&self) -> Arc<Services> {
        self.0.load_full()
    }

    /// Puts `next` in force for every request from now on.
    pub fn replace(&self, next: Services) {
        self.0.store(Arc::new(next));
    }
}
