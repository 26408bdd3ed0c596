use proptest::prelude::*;

use super::*;

/// Holds two items of two words in memory, whatever else there is.
fn tiny(dir: &tempfile::TempDir) -> Spill {
    Spill::with_budget(vec![dir.path().to_path_buf()], 32)
}

#[test]
fn a_small_series_never_touches_the_disk() {
    let spill = Spill::new(vec!["/nonexistent".into()]);
    let mut sorter = Sorter::new(&spill);
    (0..100).rev().for_each(|v| sorter.push([v, v]));
    assert_eq!(sorter.finish().get(7), Some([7, 7]));
    assert_eq!((spill.check(), spill.spilled_bytes()), (Ok(()), 0));
}

#[test]
fn more_runs_than_are_merged_at_once_come_out_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let spill = tiny(&dir);
    let mut sorter = Sorter::new(&spill);
    // 5000 runs of two: three passes.
    (0..10_000_u64).for_each(|i| sorter.push([i * 7919 % 1_000, i]));
    assert_eq!(sorter.len(), 10_000);
    let sorted: Vec<[u64; 2]> = sorter.finish().iter().collect();
    assert_eq!(sorted.len(), 10_000);
    assert!(sorted.is_sorted(), "equal keys keep their order");
    assert_eq!(spill.check(), Ok(()));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn series_that_grow_side_by_side_are_kept_apart() {
    let dir = tempfile::tempdir().unwrap();
    let spill = tiny(&dir);
    let (mut a, mut b) = (Log::<1>::new(&spill), Log::<2>::new(&spill));
    for i in 0..500 {
        a.push([i]);
        b.push([i * 2, i]);
    }
    assert!((0..500).all(|i| a.get(i as usize) == Some([i])));
    assert_eq!(b.iter().count(), 500);
    assert_eq!(b.get(500), None);
    for key in [0, 1, 2, 499, 500, 998, 999, 1, 998] {
        assert_eq!(b.lower_bound(key), key.div_ceil(2) as usize, "{key}");
    }
}

#[test]
fn a_disk_that_fails_is_named_and_nothing_else_happens() {
    let spill = Spill::with_budget(vec!["/nonexistent/a".into(), "/nonexistent/b".into()], 32);
    let mut sorter = Sorter::new(&spill);
    let mut log = Log::new(&spill);
    for i in 0..100 {
        sorter.push([i, i]);
        log.push([i]);
    }
    let _ = (sorter.finish().iter().count(), log.get(3));
    let error = spill.check().unwrap_err().to_string();
    assert!(error.starts_with("/nonexistent/b: No such file"), "{error}");
    assert!(error.contains("TMPDIR"), "{error}");
}

proptest! {
    #[test]
    fn spilled_is_what_memory_would_have_given(
        items in prop::collection::vec([0_u64..50, 0..u64::MAX], 0..300),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let all = |spill: &Spill| -> Vec<[u64; 2]> {
            let mut sorter = Sorter::new(spill);
            items.iter().for_each(|it| sorter.push(*it));
            sorter.finish().iter().collect()
        };
        prop_assert_eq!(all(&tiny(&dir)), all(&Spill::never()));
    }
}
