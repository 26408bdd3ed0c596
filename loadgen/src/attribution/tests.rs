use super::*;
use crate::analysis::synthetic::Synthetic;

fn gateway(it: &Synthetic) -> PointAttribution {
    let points = it.analyze().attribution.points;
    points.into_iter().find(|p| p.arm == "gateway").unwrap()
}

fn mean(point: &PointAttribution, id: &str) -> f64 {
    let segment = point.segments.iter().find(|s| s.id == id).unwrap();
    segment.ms.mean.unwrap()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[test]
fn segments_add_up_to_the_time_to_first_token() {
    let point = gateway(&Synthetic::new(20));
    assert_eq!(point.requests, 20);
    assert!(close(mean(&point, "client_send"), 0.2));
    assert!(close(mean(&point, "gateway_send"), 0.04));
    assert!(close(mean(&point, "engine_first_output"), 45.0));
    assert!(close(mean(&point, "gateway_relay"), 0.2));
    assert!(close(mean(&point, "delivery"), 0.1));
    let sum: f64 = point.segments.iter().filter_map(|s| s.ms.mean).sum();
    assert!(close(sum, 50.0), "{sum}");
    assert_eq!(point.unattributed.mean_ms, Some(0.0));
}

#[test]
fn what_lies_between_missing_stamps_is_unattributed() {
    let mut it = Synthetic::new(20);
    for record in it.records.as_mut().unwrap() {
        record.t_connected_ns = None;
    }
    let point = gateway(&it);
    let connect = point
        .segments
        .iter()
        .find(|s| s.id == "gateway_connect")
        .unwrap();
    assert_eq!((connect.missing, connect.ms.n), (20, 0));
    // routed at 50 µs, sent at 100 µs: the two steps around the missing stamp.
    assert!(close(point.unattributed.mean_ms.unwrap(), 0.05));
    assert!(close(point.unattributed.share.unwrap(), 0.001));
}

#[test]
fn a_negative_segment_is_counted_and_kept() {
    let mut it = Synthetic::new(20);
    it.records.as_mut().unwrap()[4].t_auth_ns = Some(5_000);
    let point = gateway(&it);
    let auth = point
        .segments
        .iter()
        .find(|s| s.id == "gateway_auth")
        .unwrap();
    assert_eq!((auth.negative, auth.ms.min), (1, Some(-0.005)));
    let sum: f64 = point.segments.iter().filter_map(|s| s.ms.mean).sum();
    assert!(close(sum, 50.0), "{sum}");
}

#[test]
fn added_delay_and_delivery_are_told_apart_per_event() {
    let events = gateway(&Synthetic::new(20)).per_event.unwrap();
    assert_eq!(
        events.added_delay_ms.n, 140,
        "seven events an answer, warm-up left out"
    );
    assert!(close(events.added_delay_ms.max.unwrap(), 0.2));
    assert!(close(events.delivery_ms.p50.unwrap(), 0.1));
    assert_eq!((events.negative_added_delay, events.unmatched), (0, 0));
    let c = events.coalescing;
    assert_eq!((c.events, c.pieces, c.flushes), (140, 120, 120));
    assert_eq!(c.events_per_flush, Some(140.0 / 120.0));
}

#[test]
fn a_client_that_reads_late_is_delivery_and_blocked_writes_not_the_engine() {
    let mut it = Synthetic::new(20);
    let record = &mut it.records.as_mut().unwrap()[9];
    record.write_blocked_ns = 2_000_000_000;
    record.chunks.written_ns[2] += 2_000_000_000;
    let point = gateway(&it);
    let events = point.per_event.as_ref().unwrap();
    assert_eq!(events.write_blocked_ms.max, Some(2_000.0));
    assert!(events.added_delay_ms.max.unwrap() > 2_000.0);
    assert!(mean(&point, "engine_first_output") < 46.0);
}

#[test]
fn the_waterfall_is_that_of_the_median_request() {
    let mut it = Synthetic::new(21);
    for seq in 1..=21 {
        it.change("gateway.c1", seq, |r| {
            let longer = seq * 1_000_000;
            r.done_ns = r.done_ns.map(|t| t.plus_ns(longer));
            r.end_ns = r.end_ns.map(|t| t.plus_ns(longer));
        });
    }
    let waterfall = gateway(&it).waterfall.unwrap();
    assert_eq!(waterfall.request_id, "r1.gateway.c1.11");
    assert_eq!(waterfall.gateway_request_id.as_deref(), Some("g-11"));
    assert!(close(waterfall.total_ms, 101.0));
    assert_eq!((waterfall.read_ms.len(), waterfall.client_ms.len()), (6, 6));
    assert!(
        waterfall
            .bars
            .windows(2)
            .all(|w| w[0].end_ms <= w[1].start_ms + 1e-9)
    );
}

#[test]
fn direct_and_gateway_stand_beside_each_other() {
    let mut it = Synthetic::new(20);
    for row in it.rows.iter_mut().filter(|r| r.arm == "gateway") {
        row.first_output_ns = row.first_output_ns.map(|t| t.plus_ns(500_000));
    }
    let attribution = it.analyze().attribution;
    let ttft = attribution
        .differences
        .iter()
        .find(|d| d.metric == "ttft_ms")
        .unwrap();
    assert_eq!(
        (ttft.direct.as_str(), ttft.gateway.as_str()),
        ("direct.c1", "gateway.c1")
    );
    assert_eq!(ttft.difference, Some(0.5));
    assert!(
        attribution
            .differences_note
            .contains("not that it is significant")
    );
}
