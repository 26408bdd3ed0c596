//! The engine's own counts of each point beside the client's.

use super::table;
use crate::analysis::Analysis;
use crate::report::numbers::NONE;

pub(super) fn counted(out: &mut String, analysis: &Analysis) {
    let points = analysis.points_by_load();
    if points.iter().all(|p| p.engine.is_none()) {
        return;
    }
    out.push_str("## What the engine counted\n\n");
    let count = |n: Option<u64>| n.map_or_else(|| NONE.to_owned(), |n| n.to_string());
    let rows = points.iter().map(|point| {
        let engine = point.engine.unwrap_or_default();
        vec![
            point.point_id.clone(),
            (point.requests.ok + point.warmup.ok).to_string(),
            count(engine.requests),
            count(engine.prompt_tokens),
            count(engine.generation_tokens),
        ]
    });
    let head = [
        "point",
        "answers",
        "requests",
        "prompt tokens",
        "output tokens",
    ];
    table(out, &head, rows);
    out.push_str(
        "From before each point's first request, warm-up included, until after its last one; \
         answers are the client's, the rest the engine's; – is what it does not count.\n\n",
    );
}
