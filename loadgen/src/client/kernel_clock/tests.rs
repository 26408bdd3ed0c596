use super::*;

const SECOND: u64 = 1_000_000_000;
/// Wall clock minus monotonic clock.
const OFFSET: u64 = 1_700_000_000 * SECOND;

fn bracket(at: u64, offset: u64) -> Bracket {
    Bracket::of(
        MonoNs(at - 100),
        WallNs::new(at + offset).unwrap(),
        MonoNs(at + 100),
    )
}

fn brackets(all: &[Bracket]) -> Brackets {
    let mut brackets = Brackets::default();
    for bracket in all {
        assert!(brackets.push(*bracket));
    }
    brackets
}

fn wall(mono: u64, offset: u64) -> WallNs {
    WallNs::new(mono + offset).unwrap()
}

#[test]
fn a_stamp_between_two_brackets_that_agree_is_converted() {
    let it = brackets(&[bracket(SECOND, OFFSET), bracket(2 * SECOND, OFFSET + 300)]);
    let read = MonoNs(SECOND + 50_000);
    assert_eq!(it.lag_ns(wall(SECOND + 20_000, OFFSET), read), Ok(30_000));
    assert_eq!(
        it.lag_ns(wall(SECOND + 50_001, OFFSET), read),
        Err(Unusable::Negative)
    );
}

#[test]
fn a_wide_bracket_is_discarded_and_counted() {
    let mut it = Brackets::default();
    let at = MonoNs(SECOND);
    let wide = Bracket::of(at, wall(SECOND, OFFSET), at.plus_ns(LIMIT_NS + 1));
    assert!(!it.push(wide));
    assert!(!it.covers(at));
    assert!(it.push(Bracket::of(at, wall(SECOND, OFFSET), at.plus_ns(LIMIT_NS))));
    assert_eq!((it.discarded, it.widest_ns), (1, LIMIT_NS));
}

#[test]
fn a_set_wall_clock_makes_the_stamps_around_it_unusable_and_no_others() {
    let stepped = OFFSET + LIMIT_NS + 1;
    let it = brackets(&[
        bracket(SECOND, OFFSET),
        bracket(2 * SECOND, OFFSET),
        bracket(3 * SECOND, stepped),
        bracket(4 * SECOND, stepped),
    ]);
    assert_eq!(it.steps, 1);
    let lag = |at: u64, offset| it.lag_ns(wall(at, offset), MonoNs(at + 7_000));
    assert_eq!(lag(SECOND + 5_000, OFFSET), Ok(7_000));
    assert_eq!(lag(2 * SECOND + 5_000, OFFSET), Err(Unusable::Stepped));
    assert_eq!(lag(2 * SECOND + 5_000, stepped), Err(Unusable::Stepped));
    assert_eq!(lag(3 * SECOND + 5_000, stepped), Ok(7_000));
}

#[test]
fn a_read_long_after_its_stamp_asks_all_brackets_between() {
    let all = [
        bracket(SECOND, OFFSET),
        bracket(2 * SECOND, OFFSET),
        bracket(3 * SECOND, OFFSET),
    ];
    let stamp = wall(SECOND + 10, OFFSET);
    let read = MonoNs(2 * SECOND + 10);
    assert_eq!(brackets(&all).lag_ns(stamp, read), Ok(SECOND));
    let stepped = [all[0], bracket(2 * SECOND, 2 * OFFSET), all[2]];
    assert_eq!(
        brackets(&stepped).lag_ns(stamp, read),
        Err(Unusable::Stepped)
    );
}

#[test]
fn a_stamp_outside_of_all_brackets_is_not_guessed() {
    let it = brackets(&[bracket(2 * SECOND, OFFSET), bracket(3 * SECOND, OFFSET)]);
    for at in [SECOND, 3 * SECOND + 5_000] {
        assert_eq!(
            it.lag_ns(wall(at, OFFSET), MonoNs(at)),
            Err(Unusable::Uncovered)
        );
    }
    // Read behind the first bracket, received before it.
    assert_eq!(
        it.lag_ns(wall(SECOND, OFFSET), MonoNs(2 * SECOND + 1_000)),
        Err(Unusable::Uncovered)
    );
}

#[test]
fn brackets_for_single_stamps_do_not_pile_up_and_hide_no_step() {
    let mut it = brackets(&[bracket(SECOND, OFFSET)]);
    for i in 1..=5_000 {
        assert!(it.push(bracket(SECOND + i * 1_000_000, OFFSET)));
    }
    assert!(it.kept.len() < 16, "{}", it.kept.len());
    assert!(it.covers(MonoNs(6 * SECOND)));
    let before = it.kept.len();
    assert!(it.push(bracket(6 * SECOND + 1_000, OFFSET / 2)));
    assert!(it.push(bracket(6 * SECOND + 2_000, OFFSET)));
    assert_eq!((it.kept.len(), it.steps), (before + 2, 2));
}

#[test]
fn the_clocks_of_this_machine_convert_a_stamp_taken_now() {
    let clock = KernelClock::start(KernelStamps::Auto);
    let now = clock_gettime(ClockId::Realtime);
    let stamped = Arrival {
        kernel: WallNs::of(now.tv_sec, now.tv_nsec),
        at: MonoNs::now(),
    };
    let bare = Arrival {
        kernel: None,
        ..stamped
    };
    let lags = clock.lags(Stamping::On, &[stamped, bare]);
    let report = clock.report();
    assert_eq!((lags.len(), lags[1]), (2, None));
    assert_eq!(report.stamps, "on");
    assert_eq!(report.unstamped, 1);
    assert_eq!(report.stamped + report.unusable, 1);
    assert_eq!(lags[0].is_some(), report.stamped == 1);
}

#[test]
fn what_the_system_refuses_is_said() {
    let clock = KernelClock::start(KernelStamps::Auto);
    let refused = Stamping::Refused(nix::errno::Errno::ENOPROTOOPT);
    assert!(clock.lags(refused, &[]).is_empty());
    let report = clock.report();
    assert_eq!(report.stamps, "refused");
    assert!(report.reason.unwrap().contains("ENOPROTOOPT"));
    let off = KernelClock::start(KernelStamps::Off).report();
    assert_eq!((off.stamps.as_str(), off.brackets), ("off", 0));
}
