//! The queue before one pool: a count of places and those who wait for one.
//!
//! A place is a [`Slot`]; dropping it hands the place to the next in line, under the same lock that
//! let the holder in, so no more than the capacity are ever out. A waiter is told through a channel
//! that carries the slot itself: one that left in the meantime leaves the slot in the channel, whose
//! end drops it, and the next one gets it. Nothing here can be lost or counted twice by a client that
//! leaves at the wrong instant.
//!
//! Clock: CLOCK_MONOTONIC.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use inferscope_shared::clock::MonoNs;
use tokio::sync::oneshot;

pub use super::fair::Bounds;
use super::fair::{Fair, Ticket, Waiter};
use super::pace::Pace;

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPlace {
    /// As many wait as may.
    Full,
    /// It would wait longer than its deadline.
    TooLong,
    /// Its deadline came.
    Expired,
    /// It is a retry, and gave way to a request that is none.
    Shed,
    /// It gave way to a higher class, or to a tenant that has less in line.
    GaveWay,
}

/// What a waiter hears.
type Word = Result<Slot, NoPlace>;

#[derive(Debug)]
struct State {
    /// `None`: as many as come.
    capacity: Option<u64>,
    in_flight: u64,
    bounds: Bounds,
    waiting: Fair<oneshot::Sender<Word>>,
    pace: Pace,
}

/// See the module head.
#[derive(Debug)]
pub struct Line {
    state: Mutex<State>,
}

/// A place at an engine of the pool.
#[derive(Debug, Default)]
pub struct Slot {
    /// None for a pool without a line.
    line: Option<Arc<Line>>,
}

/// A place in line; leaving it is dropping this.
#[derive(Debug)]
pub struct InLine {
    line: Arc<Line>,
    tenant: String,
    ticket: Ticket,
    word: oneshot::Receiver<Word>,
}

/// What [`Line::join`] gives.
#[derive(Debug)]
pub enum Joined {
    /// A place at once.
    Slot(Slot),
    /// A place in line.
    Waits(InLine),
}

/// Who wants a place: a waiter that does not wait yet.
pub type Comer = Waiter<()>;

impl Line {
    /// A line in which nobody waits.
    #[must_use]
    pub fn new(capacity: Option<u64>, bounds: Bounds) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                capacity,
                in_flight: 0,
                bounds,
                waiting: Fair::default(),
                pace: Pace::default(),
            }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another number of places; more of them let waiters go.
    pub fn set_capacity(self: &Arc<Self>, capacity: Option<u64>) {
        let mut state = self.lock();
        state.capacity = capacity;
        self.let_go(&mut state);
        if state.has_room() {
            state.pace.idle();
        }
    }

    /// Other bounds; those who wait already stay.
    pub fn set_bounds(&self, bounds: Bounds) {
        self.lock().bounds = bounds;
    }

    /// Requests that hold a place, and that wait.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        let state = self.lock();
        (state.in_flight, state.waiting.requests())
    }

    /// When a refused one should come back: when those in line now will have gone.
    #[must_use]
    pub fn pause(&self) -> Option<Duration> {
        let state = self.lock();
        state.pace.time_for(state.waiting.requests() + 1)
    }

    /// A place for `comer`, or a place in line.
    ///
    /// # Errors
    /// The line is full, or its wait too long for the comer's deadline.
    pub fn join(self: &Arc<Self>, comer: Comer, now: MonoNs) -> Result<Joined, NoPlace> {
        let mut state = self.lock();
        if state.has_room() && state.waiting.requests() == 0 {
            state.in_flight += 1;
            state.note_full(now);
            return Ok(Joined::Slot(self.slot()));
        }
        state.note_full(now);
        let places = state
            .waiting
            .ahead(&comer.tenant, comer.priority, comer.weight)
            + 1;
        if let Some(wait) = state.pace.time_for(places)
            && now.plus(wait) > comer.deadline
        {
            return Err(NoPlace::TooLong);
        }
        let bounds = state.bounds;
        let out = state.waiting.make_room(&comer, bounds);
        for waiter in out.ok_or(NoPlace::Full)? {
            let why = match waiter.retry {
                true => NoPlace::Shed,
                false => NoPlace::GaveWay,
            };
            let _ = waiter.tell.send(Err(why));
        }
        let (tell, word) = oneshot::channel();
        let tenant = comer.tenant.clone();
        let ticket = state.waiting.push(comer.told_by(tell));
        Ok(Joined::Waits(InLine {
            line: Arc::clone(self),
            tenant,
            ticket,
            word,
        }))
    }

    fn slot(self: &Arc<Self>) -> Slot {
        Slot {
            line: Some(Arc::clone(self)),
        }
    }

    /// Gives free places to those who wait.
    fn let_go(self: &Arc<Self>, state: &mut State) {
        while state.has_room()
            && let Some(next) = state.waiting.pop()
        {
            state.in_flight += 1;
            if let Err(Ok(mut slot)) = next.tell.send(Ok(self.slot())) {
                // It left just now. The lock is held: the slot must not come back by itself.
                slot.line = None;
                state.in_flight -= 1;
            }
        }
    }
}

impl State {
    fn has_room(&self) -> bool {
        self.capacity.is_none_or(|places| self.in_flight < places)
    }

    fn note_full(&mut self, now: MonoNs) {
        if !self.has_room() {
            self.pace.full(now);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(line) = self.line.take() {
            let mut state = line.lock();
            state.in_flight = state.in_flight.saturating_sub(1);
            // Where there are fewer places than holders, it was one too many.
            if state.has_room() {
                line.let_go(&mut state);
                let still_full = !state.has_room();
                state.pace.freed(MonoNs::now(), still_full);
            }
        }
    }
}

impl InLine {
    /// Waits for a place.
    ///
    /// # Errors
    /// It was shed.
    pub async fn wait(&mut self) -> Result<Slot, NoPlace> {
        match (&mut self.word).await {
            Ok(word) => word,
            // The other end lives as long as the line does, and this holds the line.
            Err(_) => Err(NoPlace::Shed),
        }
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        let left = self.line.lock().waiting.remove(&self.tenant, self.ticket);
        drop(left);
    }
}

#[cfg(test)]
mod tests;
