use inferscope_shared::record::request::Outcome;

use super::*;
use crate::analysis::synthetic::{Synthetic, broken};
use crate::attribution::PointAttribution;
use crate::gates::{Blame, Gate, GateStatus, Status};

fn gate(it: &Synthetic, id: &str) -> Gate {
    let gates = it.analyze().validation.gates;
    gates.into_iter().find(|g| g.id == id).unwrap()
}

#[test]
fn a_whole_run_joins_without_rest() {
    let it = Synthetic::new(20);
    let analysis = it.analyze();
    let join = analysis.join.unwrap();
    assert_eq!((join.answered, join.joined), (21, 21));
    assert_eq!(
        (join.unjoined, join.duplicates, join.records_without_row),
        (0, 0, 0)
    );
    assert_eq!((join.hashes.compared, join.hashes.equal), (21, 21));
    assert_eq!(join.records_dropped, Some(0));
    assert_eq!(analysis.validation.status, Status::Valid);
}

#[test]
fn a_row_without_a_record_fails_the_run_and_is_named() {
    let mut it = Synthetic::new(20);
    it.records.as_mut().unwrap().remove(3);
    let gate = gate(&it, "join_complete");
    assert_eq!((gate.status, gate.measured), (GateStatus::Fail, Some(1.0)));
    assert!(
        gate.evidence.contains("joined 20, unjoined 1"),
        "{}",
        gate.evidence
    );
    let join = it.analyze().join.unwrap();
    assert_eq!(join.examples, ["r1.gateway.c1.3: no record"]);
}

#[test]
fn a_record_without_a_row_and_duplicates_on_either_side_are_counted() {
    let mut it = Synthetic::new(20);
    let records = it.records.as_mut().unwrap();
    let mut stray = records[0].clone();
    stray.client_request_id = Some("r1.gateway.c1.999".to_owned());
    let again = records[5].clone();
    let mut foreign = records[0].clone();
    foreign.client_request_id = Some("other.gateway.c1.1".to_owned());
    records.extend([stray, again, foreign]);
    let row_again = it.rows.last().unwrap().clone();
    it.rows.push(row_again);
    let join = it.analyze().join.unwrap();
    assert_eq!((join.records_without_row, join.duplicates), (1, 2));
    assert_eq!(gate(&it, "join_complete").status, GateStatus::Fail);
}

#[test]
fn a_request_that_never_reached_the_gateway_needs_no_record() {
    let mut it = Synthetic::new(200);
    it.records.as_mut().unwrap().remove(3);
    it.change("gateway.c1", 3, |r| {
        *r = broken(r.clone(), Outcome::Failed, "connect_refused", None, 1);
    });
    let join = it.analyze().join.unwrap();
    assert_eq!((join.unanswered, join.unjoined), (1, 0));
    assert_eq!(gate(&it, "join_complete").status, GateStatus::Pass);
}

#[test]
fn records_of_another_boot_are_refused_and_not_attributed() {
    let mut it = Synthetic::new(20);
    for record in it.records.as_mut().unwrap() {
        record.boot_id = "boot-2".to_owned();
    }
    let gate = gate(&it, "join_complete");
    assert_eq!(
        (gate.status, gate.blame),
        (GateStatus::Fail, Blame::Environment)
    );
    // The gateway's point is seen from the client alone, as a direct one is.
    let points = it.analyze().attribution.points;
    assert!(points.iter().all(|p| p.per_event.is_none()));
    let ms = |point: &PointAttribution| -> Vec<_> {
        point.segments.iter().map(|s| (s.ms, s.negative)).collect()
    };
    assert_eq!(ms(&points[0]), ms(&points[1]));
    assert!(points[1].segments.iter().all(|s| s.negative == 0));
}

#[test]
fn a_changed_byte_fails_the_run_and_blames_the_gateway() {
    let mut it = Synthetic::new(20);
    it.records.as_mut().unwrap()[7].sha256_downstream = Some("bb".to_owned());
    let gate = gate(&it, "byte_identity");
    assert_eq!(
        (gate.status, gate.blame),
        (GateStatus::Fail, Blame::Gateway)
    );
    assert!(
        gate.evidence.contains("r1.gateway.c1.7"),
        "{}",
        gate.evidence
    );

    let mut unhashed = Synthetic::new(20);
    for record in unhashed.records.as_mut().unwrap() {
        record.sha256_upstream = None;
        record.sha256_downstream = None;
    }
    assert_eq!(
        self::gate(&unhashed, "byte_identity").status,
        GateStatus::NotApplicable
    );
}

#[test]
fn lost_records_fail_only_a_run_that_misses_some() {
    let mut it = Synthetic::new(20);
    it.records_dropped = 9;
    assert_eq!(gate(&it, "records_dropped").status, GateStatus::Pass);
    it.records.as_mut().unwrap().remove(3);
    assert_eq!(gate(&it, "records_dropped").status, GateStatus::Fail);
}

#[test]
fn records_that_were_asked_for_and_are_missing_leave_the_run_inconclusive() {
    let mut it = Synthetic::new(20);
    it.records = None;
    assert_eq!(gate(&it, "join_complete").status, GateStatus::Undecided);
    assert_eq!(it.analyze().validation.status, Status::Inconclusive);
}

#[test]
fn an_event_belongs_to_the_first_piece_that_ends_at_its_end_or_later() {
    // Pieces end at 10, 25, 40; events at 10 (exactly), 12 and 25 (same piece), 40, and past all.
    let pieces = pieces_of_events(&[10, 12, 25, 40, 41], &[10, 25, 40]);
    assert_eq!(pieces, [Some(0), Some(1), Some(1), Some(2), None]);
    assert_eq!(pieces_of_events(&[5], &[]), [None]);
}
