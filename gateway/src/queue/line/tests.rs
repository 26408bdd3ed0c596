use std::time::Duration;

use super::super::fair::Priority;
use super::*;

const NOW: MonoNs = MonoNs(1_000_000_000);

fn comer(tenant: &str) -> Comer {
    Comer {
        tenant: tenant.to_owned(),
        priority: Priority::Normal,
        weight: 1,
        tokens: 10,
        deadline: NOW.plus(Duration::from_secs(10)),
        retry: false,
        tell: (),
    }
}

fn line(capacity: u64, requests: u64) -> Arc<Line> {
    let bounds = Bounds {
        requests,
        tokens: u64::MAX,
    };
    Line::new(Some(capacity), bounds)
}

fn slot(line: &Arc<Line>) -> Slot {
    match line.join(comer("a"), NOW) {
        Ok(Joined::Slot(slot)) => slot,
        other => panic!("{other:?}"),
    }
}

fn in_line(line: &Arc<Line>, comer: Comer) -> InLine {
    match line.join(comer, NOW) {
        Ok(Joined::Waits(in_line)) => in_line,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_place_goes_to_the_next_in_line() {
    let line = line(1, 9);
    let first = slot(&line);
    let mut second = in_line(&line, comer("a"));
    let mut third = in_line(&line, comer("a"));
    assert_eq!(line.counts(), (1, 2));
    drop(first);
    let got = second.wait().await.unwrap();
    assert_eq!(line.counts(), (1, 1));
    drop(got);
    drop(third.wait().await.unwrap());
    assert_eq!(line.counts(), (0, 0));
}

#[tokio::test]
async fn l15_who_leaves_is_out_at_once_and_a_place_on_its_way_to_them_is_passed_on() {
    let line = line(1, 9);
    let first = slot(&line);
    let second = in_line(&line, comer("a"));
    let third = in_line(&line, comer("a"));
    let mut fourth = in_line(&line, comer("a"));
    drop(second);
    assert_eq!(line.counts(), (1, 2));
    drop(first);
    // The place is in the third one's hands, unseen.
    assert_eq!(line.counts(), (1, 1));
    drop(third);
    drop(fourth.wait().await.unwrap());
    assert_eq!(line.counts(), (0, 0));
}

#[tokio::test]
async fn a_full_line_refuses_and_sheds_retries_first() {
    let line = line(1, 2);
    let _held = slot(&line);
    let retry = || Comer {
        retry: true,
        ..comer("a")
    };
    let mut again = in_line(&line, retry());
    let _waits = in_line(&line, comer("a"));
    assert_eq!(line.join(retry(), NOW).unwrap_err(), NoPlace::Full);
    let _new = in_line(&line, comer("b"));
    assert_eq!(again.wait().await.unwrap_err(), NoPlace::Shed);
    assert_eq!(line.join(comer("b"), NOW).unwrap_err(), NoPlace::Full);
}

#[tokio::test]
async fn a_tenant_that_fills_the_line_gives_way_to_another() {
    let line = line(1, 3);
    let held = slot(&line);
    let mut heavy: Vec<InLine> = (0..3).map(|_| in_line(&line, comer("heavy"))).collect();
    let mut light = in_line(&line, comer("light"));
    assert_eq!(heavy[2].wait().await.unwrap_err(), NoPlace::GaveWay);
    assert_eq!(line.join(comer("heavy"), NOW).unwrap_err(), NoPlace::Full);
    drop(held);
    for client in heavy.iter_mut().take(2).chain([&mut light]) {
        let place = tokio::time::timeout(Duration::from_secs(10), client.wait());
        drop(place.await.unwrap().unwrap());
    }
}

#[test]
fn places_that_were_added_or_taken_away_say_nothing_of_the_pace() {
    let line = line(1, 9);
    let first = slot(&line);
    line.set_capacity(Some(3));
    assert_eq!(line.lock().pace, Pace::default());
    let second = slot(&line);
    let third = slot(&line);
    line.set_capacity(Some(1));
    // Two too many: their ends make no room.
    drop((first, second));
    assert_eq!(line.pause(), None);
    drop(third);
    assert!(line.pause().is_some());
}

#[test]
fn tokens_bound_a_line_too() {
    let line = Line::new(
        Some(1),
        Bounds {
            requests: 99,
            tokens: 25,
        },
    );
    let _held = slot(&line);
    let _waits = (in_line(&line, comer("a")), in_line(&line, comer("a")));
    assert_eq!(line.join(comer("a"), NOW).unwrap_err(), NoPlace::Full);
}

#[test]
fn a_wait_that_would_be_too_long_is_refused_at_the_door() {
    let line = line(1, 99);
    let impatient = || Comer {
        deadline: NOW,
        ..comer("a")
    };
    let held = slot(&line);
    assert!(
        matches!(line.join(impatient(), NOW), Ok(Joined::Waits(_))),
        "nothing is known yet"
    );
    line.lock().pace.full(NOW);
    drop(held);
    let _held = slot(&line);
    assert_eq!(line.join(impatient(), NOW).unwrap_err(), NoPlace::TooLong);
}

#[tokio::test]
async fn more_places_let_waiters_go_and_fewer_wait_for_their_holders() {
    let line = line(1, 9);
    let first = slot(&line);
    let mut second = in_line(&line, comer("a"));
    line.set_capacity(Some(2));
    let second = second.wait().await.unwrap();
    line.set_capacity(Some(1));
    let mut third = in_line(&line, comer("a"));
    drop(first);
    assert_eq!(line.counts(), (1, 1), "there is one too many");
    drop(second);
    drop(third.wait().await.unwrap());
    line.set_capacity(None);
    assert_eq!(line.counts(), (0, 0));
}

#[test]
fn no_more_than_the_capacity_are_ever_out() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let line = line(5, 10_000);
    let (out, most) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for seed in 0..8_u64 {
            let (line, out, most) = (&line, &out, &most);
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .build()
                    .unwrap();
                for k in 0..2_000_u64 {
                    let joined = line.join(comer(["a", "b"][(k % 2) as usize]), NOW);
                    let slot = match joined {
                        Ok(Joined::Slot(slot)) => Some(slot),
                        // Some leave at once, whatever they have been given.
                        Ok(Joined::Waits(in_line)) if (k + seed) % 3 == 0 => {
                            drop(in_line);
                            None
                        }
                        Ok(Joined::Waits(mut in_line)) => runtime.block_on(in_line.wait()).ok(),
                        Err(_) => None,
                    };
                    if let Some(slot) = slot {
                        let now = out.fetch_add(1, Ordering::SeqCst) + 1;
                        most.fetch_max(now, Ordering::SeqCst);
                        out.fetch_sub(1, Ordering::SeqCst);
                        drop(slot);
                    }
                }
            });
        }
    });
    assert_eq!(line.counts(), (0, 0));
    assert!(most.load(Ordering::SeqCst) <= 5);
}
