//! The parts of the report about where time goes: segments, events, one median request.

use std::fmt::Write as _;

use super::table;
use crate::analysis::Analysis;
use crate::attribution::PointAttribution;
use crate::config::ArmKind;
use crate::report::charts as pictures;
use crate::report::numbers::{median, or_none, percent, short};

pub(super) fn attribution(out: &mut String, analysis: &Analysis) {
    out.push_str("## Where the time to first token goes\n\n");
    if let Some(join) = &analysis.join {
        let _ = writeln!(
            out,
            "Joined {}, unjoined {}, duplicates {}, records without a request {}. Bytes equal on \
             all three sides: {} of {} compared.\n",
            join.joined,
            join.unjoined,
            join.duplicates,
            join.records_without_row,
            join.hashes.equal,
            join.hashes.compared
        );
    } else if analysis
        .manifest
        .arms
        .iter()
        .any(|a| a.kind == ArmKind::Gateway)
    {
        out.push_str("No gateway records: paths through the gateway are seen from the client.\n\n");
    }
    for point in analysis
        .attribution
        .points
        .iter()
        .filter(|p| p.requests > 0)
    {
        segments(out, point);
        per_event(out, point);
    }
    out.push_str(
        "A small negative delivery is no fault: on one machine the kernel can hand bytes to the \
         reader before the writer's own call returns and is stamped. Means of segments add up to the mean TTFT from sending; percentiles don't. Negative \
         segments are kept and counted.\n\n",
    );
}

fn segments(out: &mut String, point: &PointAttribution) {
    let _ = writeln!(
        out,
        "### {}\n\n{} requests; TTFT from sending: mean {} ms, p50 {} ms; unattributed {} ms ({}).\n",
        point.point_id,
        point.requests,
        or_none(point.ttft_from_sent_ms.mean),
        or_none(point.ttft_from_sent_ms.p50),
        or_none(point.unattributed.mean_ms),
        percent(point.unattributed.share),
    );
    let rows = point.segments.iter().map(|s| {
        vec![
            s.name.clone(),
            s.owner.label().to_owned(),
            or_none(s.ms.mean),
            percent(s.share),
            or_none(s.ms.p50),
            or_none(s.ms.p90),
            or_none(s.ms.p95),
            or_none(s.ms.p99),
            or_none(s.ms.max),
            s.negative.to_string(),
            s.missing.to_string(),
        ]
    });
    let head = [
        "segment, ms",
        "whose",
        "mean",
        "share",
        "p50",
        "p90",
        "p95",
        "p99",
        "max",
        "negative",
        "missing",
    ];
    table(out, &head, rows);
}

fn per_event(out: &mut String, point: &PointAttribution) {
    let Some(e) = &point.per_event else {
        return;
    };
    let rows = [
        (
            "added by the gateway (read → written)",
            &e.added_delay_ms,
            e.negative_added_delay,
        ),
        (
            "delivery (written → client's read)",
            &e.delivery_ms,
            e.negative_delivery,
        ),
    ]
    .map(|(name, s, negative)| {
        vec![
            name.to_owned(),
            s.n.to_string(),
            median(s),
            or_none(s.p90),
            or_none(s.p99),
            or_none(s.max),
            negative.to_string(),
        ]
    });
    table(
        out,
        &["per event, ms", "n", "p50", "p90", "p99", "max", "negative"],
        rows,
    );
    let _ = writeln!(
        out,
        "{} events in {} pieces and {} flushes: {} events per piece, {} per flush. {} events \
         without a piece. Writes to the client were pending for {} ms a request at the median, \
         {} at most.\n",
        e.coalescing.events,
        e.coalescing.pieces,
        e.coalescing.flushes,
        or_none(e.coalescing.events_per_piece),
        or_none(e.coalescing.events_per_flush),
        e.unmatched,
        or_none(e.write_blocked_ms.p50),
        or_none(e.write_blocked_ms.max),
    );
}

pub(super) fn waterfall(out: &mut String, analysis: &Analysis) {
    let Some((point, it)) = pictures::chosen(analysis) else {
        return;
    };
    let _ = writeln!(
        out,
        "## One median request\n\n`{}` of {}, {} ms from its first write to its end{}. \
         `loadgen show {} --request {}` lays out every event.\n",
        it.request_id,
        point.point_id,
        short(it.total_ms),
        it.gateway_request_id
            .as_ref()
            .map_or_else(String::new, |id| format!(" (gateway: `{id}`)")),
        analysis.manifest.run_id,
        it.request_id,
    );
    let rows = it.bars.iter().map(|b| {
        vec![
            b.name.clone(),
            b.owner.label().to_owned(),
            short(b.start_ms),
            short(b.end_ms),
            short(b.end_ms - b.start_ms),
        ]
    });
    table(out, &["part", "whose", "from ms", "to ms", "ms"], rows);
}
