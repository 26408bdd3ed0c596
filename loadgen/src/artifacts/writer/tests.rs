use super::*;
use crate::client::exchange::Ending;

fn answer(arrival: usize, body: usize) -> Finished {
    let mut exchange = Exchange::broken_off("x", String::new());
    exchange.body = vec![b'x'; body];
    exchange.ending = Ending::Clean;
    exchange.sent_start = Some(MonoNs(7));
    Finished {
        point: 0,
        arrival,
        request_id: format!("r.{arrival}"),
        traceparent: String::new(),
        intended: MonoNs(1),
        released: None,
        dispatched: MonoNs(2),
        exchange: Box::new(exchange),
    }
}

#[test]
fn answers_that_find_no_room_to_wait_are_let_go_and_say_so() {
    let (sender, receiver) = mpsc::channel();
    let backlog = Arc::new(Backlog {
        bytes: AtomicU64::new(0),
        most: 20_000,
    });
    let sink = Sink {
        sender,
        backlog: Arc::clone(&backlog),
    };
    // Nobody writes: the first finds room, the second does not, a small one does again.
    for (arrival, body) in [(0, 15_000), (1, 15_000), (2, 100)] {
        sink.finished(answer(arrival, body));
    }
    let waiting = backlog.bytes.load(Ordering::Relaxed);
    assert!((15_100..20_000).contains(&waiting), "{waiting}");
    let bodies: Vec<_> = receiver
        .try_iter()
        .map(|message| {
            let Message::Finished { finished, .. } = message else {
                panic!("not an answer");
            };
            let it = finished.exchange;
            assert_eq!(it.sent_start, Some(MonoNs(7)), "stamps stay");
            let let_go = matches!(it.ending, Ending::Broken { kind, .. } if kind == BACKLOG);
            (it.body.len(), let_go)
        })
        .collect();
    assert_eq!(bodies, [(15_000, false), (0, true), (100, false)]);
    let left = backlog.bytes.load(Ordering::Relaxed);
    assert_eq!(left, 0, "room is free once its answer was taken");
}
