use super::*;
use crate::analysis::synthetic::{broken, row};

const ASKED: Lengths = Lengths {
    prompt_tokens: Some(8),
    output_tokens: Some(5),
};

fn claim(rows: &[RequestRecord]) -> Claim {
    let mut claim = Claim::default();
    rows.iter().for_each(|row| claim.add(row, ASKED));
    claim
}

#[test]
fn answers_are_claimed_exactly_and_broken_ones_as_a_range() {
    let row = || row("direct.c1", 1, 0);
    let it = claim(&[
        row(),
        row(),
        broken(row(), Outcome::Failed, "http_429", Some(429), 1),
        broken(row(), Outcome::Dropped, "max_in_flight", None, 0),
        broken(row(), Outcome::Failed, "timeout_first_byte", None, 9),
        broken(row(), Outcome::Incomplete, "reset", Some(200), 9),
    ]);
    assert_eq!((it.ok, it.unsure), (2, 2));
    let range = |least, most| Range { least, most };
    assert_eq!(it.requests, range(2, Some(4)));
    assert_eq!(it.prompt_tokens, range(16, Some(32)));
    assert_eq!(it.generation_tokens, range(10, Some(20)));
    assert_eq!(it.requests.to_string(), "2 to 4");
}

#[test]
fn m16_an_answer_without_a_count_is_a_range_not_a_zero() {
    let mut uncounted = row("direct.c1", 1, 0);
    (uncounted.prompt_tokens, uncounted.completion_tokens) = (None, None);
    let it = claim(&[row("direct.c1", 0, 0), uncounted.clone()]);
    assert_eq!(it.prompt_tokens.to_string(), "8 to 16");
    assert_eq!(it.generation_tokens.to_string(), "5 to 10");

    let mut unbounded = Claim::default();
    unbounded.add(&uncounted, Lengths::default());
    assert_eq!(unbounded.generation_tokens.most, None);
    assert_eq!(unbounded.generation_tokens.outside(1_000_000), 0.0);
}

#[test]
fn counts_outside_a_range_say_on_which_side() {
    let range = Range {
        least: 2,
        most: Some(4),
    };
    let sides: Vec<f64> = [1, 2, 4, 7].map(|n| range.outside(n)).into();
    assert_eq!(sides, [-1.0, 0.0, 0.0, 3.0]);
}

fn counted(n: f64) -> Counters {
    Counters {
        requests_success: Some(n),
        prompt_tokens: Some(n * 8.0),
        generation_tokens: Some(n * 5.0),
        preemptions: Some(0.0),
        prefix_queries: Some(n * 8.0),
        prefix_hits: Some(n),
        process_start: Some(1_000.0),
        ..Counters::default()
    }
}

fn around(before: Counters, after: Counters) -> Around {
    Around {
        before: Some(before),
        after: Some(after),
    }
}

#[test]
fn a_point_has_the_difference_of_its_snapshots() {
    let it = around(counted(10.0), counted(31.0)).served().unwrap();
    assert_eq!(it.requests, Some(21));
    assert_eq!(
        (it.prompt_tokens, it.generation_tokens),
        (Some(168), Some(105))
    );
    assert_eq!(it.prefix_hit_share, Some(0.125));
}

#[test]
fn m33_what_an_engine_does_not_count_is_null_and_a_counter_that_appears_began_at_zero() {
    let none = around(Counters::default(), Counters::default());
    assert_eq!(none.served().unwrap(), Served::default());
    let later = around(Counters::default(), counted(2.0)).served().unwrap();
    assert_eq!(later.requests, Some(2));
    let idle = around(counted(2.0), counted(2.0)).served().unwrap();
    assert_eq!((idle.prefix_hits, idle.prefix_hit_share), (Some(0), None));
}

#[test]
fn a_restart_shows_by_start_time_or_by_a_counter_that_went_back() {
    let mut restarted = counted(31.0);
    restarted.process_start = Some(1_100.0);
    let gap = around(counted(10.0), restarted).served().unwrap_err();
    assert!(
        matches!(&gap, Gap::Restarted(why) if why.contains("100 s")),
        "{gap:?}"
    );
    let mut fewer = counted(3.0);
    fewer.process_start = None;
    let gap = around(counted(10.0), fewer).served().unwrap_err();
    assert!(
        matches!(&gap, Gap::Restarted(why) if why.contains("went back")),
        "{gap:?}"
    );
}

#[test]
fn a_snapshot_that_is_missing_is_named() {
    let one = Around {
        before: Some(counted(1.0)),
        after: None,
    };
    assert_eq!(one.served(), Err(Gap::Missing("after")));
    assert_eq!(
        Around::default().served(),
        Err(Gap::Missing("before and after"))
    );
}
