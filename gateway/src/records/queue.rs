//! A queue to a thread, bounded by count and by bytes, whose sender never waits.
//!
//! A count alone is no bound on memory: the record of a long stream is hundreds of times the size
//! of a short one's. Bytes count from the offer until the thread takes the item; an item that
//! would go over either bound is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Items that may wait.
const MAX_ITEMS: usize = 8_192;
/// Bytes that may wait.
const MAX_BYTES: usize = 64 << 20;

/// What can say how much memory it holds.
pub(super) trait Weight {
    /// Bytes, roughly.
    fn bytes(&self) -> usize;
}

/// The way in.
#[derive(Debug)]
pub(super) struct Sender<T> {
    items: SyncSender<T>,
    waiting: Arc<AtomicUsize>,
}

/// The thread's end.
#[derive(Debug)]
pub(super) struct Taker<T> {
    items: Receiver<T>,
    waiting: Arc<AtomicUsize>,
}

pub(super) fn bounded<T: Weight>() -> (Sender<T>, Taker<T>) {
    let (sender, items) = sync_channel(MAX_ITEMS);
    let waiting = Arc::new(AtomicUsize::new(0));
    let taker = Taker {
        items,
        waiting: Arc::clone(&waiting),
    };
    let sender = Sender {
        items: sender,
        waiting,
    };
    (sender, taker)
}

impl<T: Weight> Sender<T> {
    /// Puts `item` in, if it fits; says whether it did. False also when the thread has ended.
    pub(super) fn offer(&self, item: T) -> bool {
        let bytes = item.bytes();
        let before = self.waiting.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= MAX_BYTES && self.items.try_send(item).is_ok();
        if !fits {
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
        }
        fits
    }

    /// Puts the last item in, waiting for room; says whether the thread was there to take it.
    pub(super) fn conclude(&self, last: T) -> bool {
        self.waiting.fetch_add(last.bytes(), Ordering::Relaxed);
        self.items.send(last).is_ok()
    }
}

impl<T: Weight> Taker<T> {
    /// The next item; `None` when no sender is left.
    pub(super) fn wait(&self) -> Option<T> {
        self.taken(self.items.recv().ok())
    }

    /// The next item, if one waits.
    pub(super) fn next(&self) -> Option<T> {
        self.taken(self.items.try_recv().ok())
    }

    fn taken(&self, item: Option<T>) -> Option<T> {
        let bytes = item.as_ref().map_or(0, Weight::bytes);
        self.waiting.fetch_sub(bytes, Ordering::Relaxed);
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Weight for usize {
        fn bytes(&self) -> usize {
            *self
        }
    }

    #[test]
    fn both_bounds_refuse_and_taking_makes_room() {
        let (queue, taker) = bounded();
        assert!(queue.offer(MAX_BYTES - 1));
        assert!(!queue.offer(2), "over the bytes");
        assert!(queue.offer(1));
        assert_eq!(taker.wait(), Some(MAX_BYTES - 1));
        assert!(queue.offer(2));
        assert_eq!(
            (taker.next(), taker.next(), taker.next()),
            (Some(1), Some(2), None)
        );

        assert!((0..MAX_ITEMS).all(|_| queue.offer(0)));
        assert!(!queue.offer(0), "over the count");
        drop(taker);
        assert!(!queue.offer(0) && !queue.conclude(0), "nobody takes");
    }
}
