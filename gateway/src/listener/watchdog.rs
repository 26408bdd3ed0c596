//! The time limits of a request in flight, checked lazily beside the proxy.
//!
//! Nothing is armed or moved per piece: the relay's watch notes when the engine last got on, the
//! stream notes since when a write is stuck, and this loop sleeps until the earliest limit could
//! be over, looks, and sleeps again. It never sleeps longer than the shortest limit, so a limit
//! that begins meanwhile is met on time.
//!
//! `first_byte` runs from the request's handing over to the first event or body byte, because
//! engines send their head before they begin to work; `between_events` from then on.

use std::time::Duration;

use inferscope_shared::clock::MonoNs;

use super::track::{Limit, State, Track};
use crate::config::Timeouts;

/// How long a write may wait for a client that does not read.
const CLIENT_STALL: Duration = Duration::from_secs(30);

/// Ends with the first limit that is over.
pub(super) async fn wait(track: &Track, accept: MonoNs, limits: &Timeouts) -> Limit {
    let shortest = CLIENT_STALL
        .min(limits.first_byte)
        .min(limits.between_events)
        .max(Duration::from_millis(1));
    loop {
        let now = MonoNs::now();
        let (due, limit) = earliest(&track.lock(), accept, limits);
        if now >= due {
            return limit;
        }
        let left = Duration::from_nanos(due.since(now));
        tokio::time::sleep(left.min(shortest)).await;
    }
}

/// The limit that ends first, as things stand.
fn earliest(state: &State, accept: MonoNs, limits: &Timeouts) -> (MonoNs, Limit) {
    let mut first = (accept.plus(limits.total), Limit::Total);
    let mut consider = |since: Option<MonoNs>, length: Duration, limit: Limit| {
        if let Some(due) = since.map(|s| s.plus(length))
            && due < first.0
        {
            first = (due, limit);
        }
    };
    // While the client does not read, what the engine does can't be seen.
    match (state.delivery.blocked_since(), state.watch.progress()) {
        (Some(since), _) => consider(Some(since), CLIENT_STALL, Limit::ClientStalled),
        // Silence of the engine counts from when the client read again.
        (None, Some(last)) => consider(
            Some(last).max(state.delivery.unblocked_at()),
            limits.between_events,
            Limit::BetweenEvents,
        ),
        (None, None) => consider(state.request_sent, limits.first_byte, Limit::FirstByte),
    }
    first
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::relay::observe::Body;

    const MS: u64 = 1_000_000;

    fn limits() -> Timeouts {
        Timeouts {
            connect: Duration::from_secs(1),
            first_byte: Duration::from_millis(100),
            between_events: Duration::from_millis(30),
            total: Duration::from_millis(1_000),
            ..Timeouts::default()
        }
    }

    fn due(state: &State) -> (u64, Limit) {
        let (at, limit) = earliest(state, MonoNs(0), &limits());
        (at.0 / MS, limit)
    }

    fn streaming(pieces: &[(&'static str, u64)]) -> State {
        let mut state = State {
            request_sent: Some(MonoNs(5 * MS)),
            ..State::default()
        };
        state.watch.head(Body::Events);
        for &(text, at) in pieces {
            state
                .watch
                .take(&Bytes::from_static(text.as_bytes()), MonoNs(at * MS));
        }
        state.watch.look();
        state
    }

    #[test]
    fn only_the_total_runs_before_the_engine_has_the_request() {
        assert_eq!(due(&State::default()), (1_000, Limit::Total));
    }

    #[test]
    fn a_head_alone_is_no_first_byte() {
        assert_eq!(due(&streaming(&[])), (105, Limit::FirstByte));
    }

    #[test]
    fn comments_keep_no_stream_alive() {
        assert_eq!(due(&streaming(&[(":\n\n", 90)])), (105, Limit::FirstByte));
        let stream = streaming(&[("data: {}\n\n", 50), (":\n\n", 79)]);
        assert_eq!(due(&stream), (80, Limit::BetweenEvents));
    }

    #[test]
    fn a_client_that_does_not_read_is_not_the_engines_silence() {
        let mut state = streaming(&[("data: {}\n\n", 50)]);
        state.delivery.blocked(MonoNs(60 * MS));
        assert_eq!(due(&state), (1_000, Limit::Total));
        state.delivery.unblocked(MonoNs(700 * MS));
        assert_eq!(due(&state), (730, Limit::BetweenEvents));
    }
}
