//! `summary.csv`: one line per point and metric, for spreadsheets.

use crate::measure::aggregate::Aggregate;

const HEAD: &str = "run_id,point_id,arm,load_kind,load_value,metric,unit,n,mean,std,min,p50,\
    p50_low,p50_high,p90,p95,p99,max,planned,ok,failed,incomplete,dropped,requests_per_s,\
    output_tokens_per_s,peak_output_tokens_per_s,tokens_per_event,goodput_per_s,success_rate,slo_met\n";

/// The table; an undefined value is an empty field.
#[must_use]
pub fn summary(aggregate: &Aggregate) -> String {
    let number = |v: Option<f64>| v.map_or_else(String::new, |v| v.to_string());
    let mut out = HEAD.to_owned();
    for point in &aggregate.points {
        let kind = point.load.kind.name();
        let r = point.requests;
        let met = point.slo.as_ref().and_then(|slo| slo.met);
        for (definition, s) in point.metrics.all() {
            let interval = s.ci95.p50;
            let fields = [
                quoted(&aggregate.run_id),
                quoted(&point.point_id),
                quoted(&point.arm),
                kind.to_owned(),
                number(point.load.value),
                definition.symbol.to_owned(),
                definition.unit.label().to_owned(),
                s.n.to_string(),
                number(s.mean),
                number(s.std),
                number(s.min),
                number(s.p50),
                number(interval.map(|i| i[0])),
                number(interval.map(|i| i[1])),
                number(s.p90),
                number(s.p95),
                number(s.p99),
                number(s.max),
                r.planned.to_string(),
                r.ok.to_string(),
                r.failed.to_string(),
                r.incomplete.to_string(),
                r.dropped.to_string(),
                number(point.throughput.requests_per_s),
                number(point.throughput.output_tokens_per_s),
                number(point.throughput.peak_output_tokens_per_s),
                number(point.tokens.per_event),
                number(point.goodput.as_ref().and_then(|g| g.requests_per_s)),
                number(point.success_rate),
                met.map_or_else(String::new, |m| m.to_string()),
            ];
            out.push_str(&fields.join(","));
            out.push('\n');
        }
    }
    out
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
