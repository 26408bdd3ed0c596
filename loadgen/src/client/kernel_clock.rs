//! Kernel receive stamps on the clock of everything else.
//!
//! The kernel stamps segments by CLOCK_REALTIME. How far that lies from CLOCK_MONOTONIC is read in
//! brackets (monotonic, wall, monotonic) at least once a second while a run lasts, on the thread
//! that writes results and never on the one that measures. The offset between the two clocks changes only when
//! somebody sets the wall clock, because the kernel slews both alike; so a stamp is converted only
//! when the brackets around it agree, and is otherwise unusable and counted.
//!
//! All arithmetic is [`Brackets`]', on values that are passed in; [`KernelClock`] adds the clocks.

use std::num::NonZeroU64;
use std::sync::{Mutex, PoisonError};

use inferscope_shared::clock::MonoNs;
use rustix::time::{ClockId, clock_gettime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::io::{Arrival, Stamping};
use crate::config::KernelStamps;

/// A bracket wider than this says too little, and so do two neighbours that differ by more.
const LIMIT_NS: u64 = 50_000;

/// How often a bracket is tried when it comes out too wide.
const TRIES: u32 = 5;

/// Between two brackets that are kept.
const EVERY_NS: u64 = 1_000_000_000;

/// An instant of CLOCK_REALTIME, in nanoseconds since 1970; never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WallNs(NonZeroU64);

impl WallNs {
    /// None before 1970 and for the zero that stands for "no stamp".
    #[must_use]
    pub fn new(ns: u64) -> Option<Self> {
        NonZeroU64::new(ns).map(Self)
    }

    /// From seconds and nanoseconds, as the kernel gives them.
    #[must_use]
    pub fn of(seconds: i64, nanoseconds: i64) -> Option<Self> {
        let seconds = u64::try_from(seconds).ok()?;
        let nanoseconds = u64::try_from(nanoseconds).ok()?;
        Self::new(
            seconds
                .checked_mul(1_000_000_000)?
                .checked_add(nanoseconds)?,
        )
    }

    /// The nanoseconds.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

/// One reading of both clocks: the wall clock was read somewhere between two monotonic instants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bracket {
    /// The middle, by the monotonic clock.
    pub at: MonoNs,
    /// Wall clock minus monotonic clock.
    pub offset_ns: i64,
    /// From the first monotonic reading to the second; the offset is off by half of it at most.
    pub width_ns: u64,
}

impl Bracket {
    /// From three readings in this order.
    #[must_use]
    pub fn of(before: MonoNs, wall: WallNs, after: MonoNs) -> Self {
        let width_ns = after.since(before);
        let at = before.plus_ns(width_ns / 2);
        Self {
            at,
            offset_ns: wall.get().wrapping_sub(at.0).cast_signed(),
            width_ns,
        }
    }
}

/// Why a stamp has no place on the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unusable {
    /// No bracket on one side of it.
    Uncovered,
    /// The wall clock was set between the brackets around it.
    Stepped,
    /// It would lie behind the read that brought it.
    Negative,
}

/// The brackets of a run in order of time.
#[derive(Debug, Default)]
pub struct Brackets {
    kept: Vec<Bracket>,
    discarded: u64,
    widest_ns: u64,
    steps: u64,
}

impl Brackets {
    /// Takes the next bracket; false when it is too wide to be kept.
    pub fn push(&mut self, bracket: Bracket) -> bool {
        if bracket.width_ns > LIMIT_NS {
            self.discarded += 1;
            return false;
        }
        self.widest_ns = self.widest_ns.max(bracket.width_ns);
        if let [.., a, b] = self.kept.as_slice()
            && bracket.at.since(a.at) < EVERY_NS
            && agree(*a, *b)
            && agree(*a, bracket)
        {
            // Taken for a single stamp's sake, and of no use to any other.
            self.kept.pop();
        }
        if self.kept.last().is_some_and(|last| !agree(*last, bracket)) {
            self.steps += 1;
        }
        self.kept.push(bracket);
        true
    }

    /// Whether stamps up to `at` can be converted.
    #[must_use]
    pub fn covers(&self, at: MonoNs) -> bool {
        self.kept.last().is_some_and(|last| last.at >= at)
    }

    /// Nanoseconds from the kernel's stamp `wall` to the read at `read` that brought it.
    ///
    /// # Errors
    /// When the brackets do not say.
    pub fn lag_ns(&self, wall: WallNs, read: MonoNs) -> Result<u64, Unusable> {
        let behind = self.kept.partition_point(|b| b.at < read);
        let mut first = behind.checked_sub(1).ok_or(Unusable::Uncovered)?;
        let Some(mut later) = self.kept.get(behind) else {
            return Err(Unusable::Uncovered);
        };
        // Back to the bracket before the stamp itself, which may be older than the read's.
        loop {
            let bracket = &self.kept[first];
            if !agree(*bracket, *later) {
                return Err(Unusable::Stepped);
            }
            let stamp = wall.get().wrapping_sub(bracket.offset_ns.cast_unsigned());
            if stamp >= bracket.at.0 {
                return read.0.checked_sub(stamp).ok_or(Unusable::Negative);
            }
            later = bracket;
            first = first.checked_sub(1).ok_or(Unusable::Uncovered)?;
        }
    }
}

/// Whether nobody set the wall clock between two brackets.
fn agree(a: Bracket, b: Bracket) -> bool {
    a.offset_ns.abs_diff(b.offset_ns) <= LIMIT_NS
}

/// What became of the kernel's receive stamps in a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KernelClockReport {
    /// `on`, `off` (by the configuration) or `refused` (by the system, for one connection or
    /// more).
    pub stamps: String,
    /// Why refused.
    pub reason: Option<String>,
    /// Brackets that were used.
    pub brackets: u64,
    /// Attempts at one that came out wider than 50 µs.
    pub discarded: u64,
    /// The widest one used, in nanoseconds; a stamp is off by half of it at most.
    pub widest_ns: Option<u64>,
    /// Times that the wall clock was set; stamps around them are null.
    pub steps: u64,
    /// Events with a stamp.
    pub stamped: u64,
    /// Events whose read had none.
    pub unstamped: u64,
    /// Events whose stamp could not be converted.
    pub unusable: u64,
    /// Of those, stamps that would lie behind their own read: a fault of the conversion.
    pub negative: u64,
}

#[derive(Debug, Default)]
struct State {
    brackets: Brackets,
    taken: u64,
    stamped: u64,
    unstamped: u64,
    unusable: u64,
    negative: u64,
    refused: Option<String>,
}

/// The clocks of this machine, and what was seen of them.
#[derive(Debug)]
pub struct KernelClock {
    setting: KernelStamps,
    state: Mutex<State>,
}

impl KernelClock {
    /// Takes the first bracket.
    #[must_use]
    pub fn start(setting: KernelStamps) -> Self {
        let mut state = State::default();
        if setting == KernelStamps::Auto {
            state.take();
        }
        Self {
            setting,
            state: Mutex::new(state),
        }
    }

    /// Takes a bracket if the last one is a second old.
    pub fn tick(&self) {
        if self.setting == KernelStamps::Auto {
            self.lock()
                .cover(MonoNs(MonoNs::now().0.saturating_sub(EVERY_NS)));
        }
    }

    /// Converts the stamps of one exchange, which is over: the reads of its events to the
    /// nanoseconds since the kernel had their bytes, null where there is no usable stamp. Empty
    /// where the kernel was not asked or refused.
    #[must_use]
    pub fn lags(&self, stamping: Stamping, reads: &[Arrival]) -> Vec<Option<u64>> {
        let mut state = self.lock();
        match stamping {
            Stamping::Off => return Vec::new(),
            Stamping::Refused(errno) => {
                state
                    .refused
                    .get_or_insert_with(|| format!("SO_TIMESTAMPNS: {errno}"));
                return Vec::new();
            }
            Stamping::On => {}
        }
        if let Some(last) = reads.last() {
            state.cover(last.at);
        }
        reads.iter().map(|read| state.lag(*read)).collect()
    }

    /// What became of it all.
    #[must_use]
    pub fn report(&self) -> KernelClockReport {
        let state = self.lock();
        KernelClockReport {
            stamps: match (self.setting, &state.refused) {
                (KernelStamps::Off, _) => "off",
                (KernelStamps::Auto, Some(_)) => "refused",
                (KernelStamps::Auto, None) => "on",
            }
            .to_owned(),
            reason: state.refused.clone(),
            brackets: state.taken,
            discarded: state.brackets.discarded,
            widest_ns: (state.taken > 0).then_some(state.brackets.widest_ns),
            steps: state.brackets.steps,
            stamped: state.stamped,
            unstamped: state.unstamped,
            unusable: state.unusable,
            negative: state.negative,
        }
    }

    /// A poisoned lock only means that another thread panicked; brackets are pushed whole.
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn cover(&mut self, at: MonoNs) {
        if !self.brackets.covers(at) {
            self.take();
        }
    }

    /// Being interrupted between the clocks makes a bracket wide; the next one rarely is.
    fn take(&mut self) {
        for _ in 0..TRIES {
            if read_clocks().is_some_and(|bracket| self.brackets.push(bracket)) {
                self.taken += 1;
                return;
            }
        }
    }

    fn lag(&mut self, read: Arrival) -> Option<u64> {
        let Some(stamp) = read.kernel else {
            self.unstamped += 1;
            return None;
        };
        match self.brackets.lag_ns(stamp, read.at) {
            Ok(lag) => {
                self.stamped += 1;
                Some(lag)
            }
            Err(why) => {
                self.unusable += 1;
                self.negative += u64::from(why == Unusable::Negative);
                None
            }
        }
    }
}

fn read_clocks() -> Option<Bracket> {
    let before = MonoNs::now();
    let wall = clock_gettime(ClockId::Realtime);
    let after = MonoNs::now();
    let wall = WallNs::of(wall.tv_sec, wall.tv_nsec)?;
    Some(Bracket::of(before, wall, after))
}

#[cfg(test)]
mod tests;
