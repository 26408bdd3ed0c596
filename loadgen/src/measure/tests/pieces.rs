//! Case M05: events that hold several tokens or came in one read.

use inferscope_shared::record::request::{EventKind, RequestRecord};

use super::{POINT, only_point, rows};
use crate::analysis::synthetic::{MS, Synthetic, row};
use crate::config::LoadKind;

/// 25 events 100 ms apart after 50 ms; usage says 100 tokens.
fn four_a_piece(mut it: RequestRecord) -> RequestRecord {
    let sent = it.sent_start_ns.unwrap();
    let at = |ms: u64| Some(sent.plus_ns(ms * MS));
    it.events.at_ns = vec![50 * MS];
    it.events.at_ns.extend([100 * MS; 24]);
    it.events.kind = vec![EventKind::Output; 25];
    it.events.tokens = vec![None; 25];
    it.events.end_offset = vec![100; 25];
    (it.first_event_ns, it.first_output_ns, it.last_output_ns) = (at(50), at(50), at(2_450));
    (it.done_ns, it.end_ns) = (at(2_450), at(2_450));
    it.completion_tokens = Some(100);
    it
}

#[test]
fn m05_pieces_of_several_tokens_are_neither_tokens_nor_their_gaps() {
    let all = (0..4).map(|i| four_a_piece(row(POINT, i, 1_000 + i * 2_500)));
    let mut it = Synthetic::direct(all.collect());
    it.rows.remove(0);
    it.as_planned();
    let point = only_point(&it);
    assert_eq!(point.metrics.itl_event_ms.p50, Some(100.0));
    assert_eq!(
        point.metrics.itl_token_ms.n, 0,
        "nobody counted tokens by event"
    );
    // 2400 ms for 99 gaps between tokens.
    let tpot = point.metrics.tpot_ms.p50.unwrap();
    assert!((tpot - 2_400.0 / 99.0).abs() < 1e-9, "{tpot}");
    assert_eq!(point.tokens.per_event, Some(4.0));
    let rate = point.throughput.output_tokens_per_s.unwrap();
    assert!((rate - 400.0 / 9.95).abs() < 1e-9, "{rate}");
    // The fullest whole second holds ten events.
    assert_eq!(
        point.throughput.peak_output_tokens_per_s,
        Some(40.0_f64.max(rate))
    );
    let report = crate::report::markdown::report(&it.run(), &it.analyze());
    assert!(report.contains("4.00 tokens per output event"), "{report}");
}

#[test]
fn m05_the_peak_is_never_below_the_mean() {
    // A window shorter than a second, bursts, and answers that end after the window.
    for (n, apart, open) in [
        (1, 100, false),
        (3, 10, true),
        (30, 90, false),
        (30, 90, true),
    ] {
        let all = (1..=n).map(|i| four_a_piece(row(POINT, i, 1_000 + i * apart)));
        let mut it = Synthetic::direct(all.collect());
        if open {
            it.manifest.points[0].load.kind = LoadKind::Rate;
        }
        let throughput = only_point(&it).throughput;
        let mean = throughput.output_tokens_per_s;
        let peak = throughput.peak_output_tokens_per_s;
        assert!(mean <= peak, "{n} {apart} {open}: {mean:?} {peak:?}");
        assert_eq!(mean.is_some(), peak.is_some());
    }
    let mut it = Synthetic::direct((1..=3).map(|i| row(POINT, i, 1_000 + i * 100)).collect());
    it.change(POINT, 2, |r| r.completion_tokens = None);
    assert_eq!(only_point(&it).throughput.peak_output_tokens_per_s, None);
}

#[test]
fn m05_kernel_arrival_counts_where_it_is_exact_and_a_read_counts_once() {
    // Of each answer's five outputs the last came in one read with the end mark.
    let mut all = rows(20);
    let m = only_point(&Synthetic::direct(all.clone())).metrics;
    assert_eq!(
        (m.ttft_kernel_ms.n, m.ttft_kernel_ms.p50),
        (20, Some(49.98))
    );
    assert_eq!((m.read_lag_ms.n, m.read_lag_ms.p50), (6 * 20, Some(0.02)));
    assert_eq!((m.itl_event_kernel_ms.n, m.itl_event_ms.n), (3 * 20, 80));
    assert_eq!(m.itl_event_kernel_ms.p50, Some(10.0));
    // A stamp that is null takes the two gaps beside it; a bound takes the answer's TTFT.
    all[0].events.rx_lag_ns[2] = None;
    all[1].events.rx_upper_bound.insert(0, 1);
    all[1].first_output_rx_exact = false;
    // A kernel that gave none leaves everything else as it is.
    all[2].events.rx_lag_ns.clear();
    all[2].events.rx_upper_bound.clear();
    all[2].first_output_rx_ns = None;
    all[2].first_output_rx_exact = false;
    let m = only_point(&Synthetic::direct(all)).metrics;
    assert_eq!((m.ttft_kernel_ms.n, m.ttft_ms.n), (18, 20));
    assert_eq!(m.read_lag_ms.n, 6 * 19 - 1);
    assert_eq!(m.itl_event_kernel_ms.n, 3 * 17 + 1 + 2);
}
