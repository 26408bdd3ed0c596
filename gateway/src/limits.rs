//! How much a caller may use. In this version: everything.

use http::{HeaderName, HeaderValue};
use inferscope_shared::clock::MonoNs;

use crate::admission::{Ask, Spent};
use crate::config::Config;
use crate::errors::Refusal;

/// The limits of one configuration.
#[derive(Debug)]
pub struct Limits;

/// What a request has taken from its limits.
#[derive(Debug)]
pub struct Reservation;

impl Limits {
    /// The limits of `config`, with what was used under `before`.
    #[must_use]
    pub fn new(_config: &Config, _before: Option<&Self>) -> Self {
        Self
    }

    /// Takes what `ask` may cost, all of it or nothing.
    ///
    /// # Errors
    /// The refusal, which names the limit.
    pub fn reserve(&self, _ask: &Ask, _now: MonoNs) -> Result<Reservation, Refusal> {
        Ok(Reservation)
    }
}

impl Reservation {
    /// Charges what was `spent` instead of what was reserved.
    pub fn settle(self, _spent: Spent, _now: MonoNs) {}

    /// What is left of the limits, as response headers.
    #[must_use]
    pub fn fields(&self, _now: MonoNs) -> Vec<(HeaderName, HeaderValue)> {
        Vec::new()
    }
}
