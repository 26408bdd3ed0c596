//! The parts of the report below the headline.

use std::fmt::Write as _;

use super::telemetry::went;
use super::{relative, table};
use crate::analysis::Analysis;
use crate::artifacts::layout::RunDir;
use crate::report::charts as pictures;
use crate::report::numbers::{median, or_none, percent, short, signed, with_interval};

pub(super) fn charts(out: &mut String, run: &RunDir, analysis: &Analysis) {
    out.push_str("## Charts\n\n");
    for (name, _) in pictures::all(analysis) {
        let path = relative(&run.report_md(), &run.charts().join(name));
        let title = name.trim_end_matches(".svg");
        let _ = writeln!(out, "![{title}]({path})\n");
    }
}

pub(super) fn distributions(out: &mut String, analysis: &Analysis) {
    out.push_str("## Distributions\n\n");
    for point in analysis.points_by_load() {
        let window = point.window.seconds.map_or_else(
            || "no window".to_owned(),
            |s| format!("window {} s", short(s)),
        );
        let tokens = point.tokens.completion;
        let ended = analysis
            .stop_reason(&point.point_id)
            .map_or_else(String::new, |r| format!("; ended by {}", r.label()));
        let _ = writeln!(
            out,
            "### {}\n\n{window}{ended}; {} answers completed in it; tokens counted by the engine in {} of \
             {} ok answers, {} tokens per output event, at most {} \
             tokens/s; connections reused {}; warm-up {} of {} ok.\n",
            point.point_id,
            point.throughput.completed,
            tokens.exact,
            tokens.exact + tokens.unknown,
            or_none(point.tokens.per_event),
            or_none(point.throughput.peak_output_tokens_per_s),
            percent(point.connections.reuse_fraction),
            point.warmup.ok,
            point.warmup.planned,
        );
        let rows = point
            .metrics
            .all()
            .into_iter()
            .filter(|(_, s)| s.n > 0)
            .map(|(definition, s)| {
                vec![
                    format!("{} ({})", definition.name, definition.symbol),
                    s.n.to_string(),
                    or_none(s.mean),
                    or_none(s.std),
                    or_none(s.min),
                    median(s),
                    with_interval(s.p90, s.ci95.p90),
                    with_interval(s.p95, s.ci95.p95),
                    with_interval(s.p99, s.ci95.p99),
                    or_none(s.max),
                ]
            });
        let head = [
            "metric", "n", "mean", "std", "min", "p50", "p90", "p95", "p99", "max",
        ];
        table(out, &head, rows);
    }
}

pub(super) fn differences(out: &mut String, analysis: &Analysis) {
    let all = &analysis.attribution.differences;
    if all.is_empty() {
        return;
    }
    out.push_str("## Gateway beside direct\n\n");
    let rows = all.iter().map(|d| {
        vec![
            d.load.label(),
            d.metric.clone(),
            or_none(d.direct_p50),
            or_none(d.gateway_p50),
            signed(d.difference),
        ]
    });
    table(
        out,
        &["load", "metric", "direct p50", "gateway p50", "difference"],
        rows,
    );
    let _ = writeln!(out, "{}\n", analysis.attribution.differences_note);
}

pub(super) fn environment(out: &mut String, analysis: &Analysis) {
    let m = &analysis.manifest;
    out.push_str("## Environment\n\n");
    let text = |t: Option<&str>| t.unwrap_or("unknown").to_owned();
    let mut rows = vec![
        vec!["created".to_owned(), m.created_utc.clone()],
        vec![
            "loadgen".to_owned(),
            format!("{} ({})", m.loadgen.version, text(m.loadgen.git.as_deref())),
        ],
        vec![
            "engine".to_owned(),
            format!(
                "{} {} ({:?}), model {}",
                text(m.engine.name.as_deref()),
                m.engine.version.as_deref().unwrap_or(""),
                m.engine.kind,
                text(m.engine.model.as_deref())
            ),
        ],
        vec![
            "processor".to_owned(),
            format!(
                "{}, {} cores, governor {}",
                text(m.host.cpu.as_deref()),
                m.host
                    .cores
                    .map_or_else(|| "?".to_owned(), |c| c.to_string()),
                text(m.host.governor.as_deref())
            ),
        ],
        vec![
            "kernel".to_owned(),
            format!(
                "{}, clock source {}",
                text(m.host.kernel.as_deref()),
                text(m.host.clock_source.as_deref())
            ),
        ],
        vec!["boot id".to_owned(), text(m.host.boot_id.as_deref())],
        vec![
            "prompt tokens".to_owned(),
            format!(
                "{} ({})",
                m.calibration.prompt_tokens,
                if m.calibration.exact {
                    "exact"
                } else {
                    "not exact"
                }
            ),
        ],
    ];
    for source in &m.telemetry {
        rows.push(vec![format!("telemetry: {}", source.source), went(source)]);
    }
    for arm in &m.arms {
        rows.push(vec![format!("arm {}", arm.name), arm.url.clone()]);
    }
    table(out, &["what", "value"], rows);
}

pub(super) fn reproduce(out: &mut String, analysis: &Analysis) {
    let m = &analysis.manifest;
    let hash = |h: &Option<String>| h.clone().unwrap_or_else(|| "unknown".to_owned());
    let _ = writeln!(
        out,
        "## Again\n\n\
         Measure again (the resolved configuration is itself a configuration file; its run id must \
         be a new one):\n\n\
         ```sh\nloadgen run -c {results}/raw/{id}/config.resolved.yaml --run-id NEW_ID\n```\n\n\
         Recompute everything on this page from the raw files, offline:\n\n\
         ```sh\nloadgen report {id} --results-dir {results}\nloadgen validate {id} --results-dir {results}\n```\n\n\
         Seed {seed}; configuration `{config}`, schedule `{schedule}`, prompts `{prompts}` (SHA-256).\n",
        id = m.run_id,
        results = analysis.config.results_dir.display(),
        seed = m.seed,
        config = hash(&m.config_sha256),
        schedule = hash(&m.schedule_sha256),
        prompts = hash(&m.prompts_sha256),
    );
}

/// Files of a run and what they hold; `validation.json` is written together with this report.
pub(super) fn artifacts(out: &mut String, run: &RunDir, analysis: &Analysis) {
    out.push_str("## Artifacts\n\n");
    let id = &analysis.manifest.run_id;
    let raw = [
        (
            "manifest.json",
            "what the run was; every file with its hash or the reason for its absence",
        ),
        (
            "config.resolved.yaml",
            "every setting, defaults and flags included",
        ),
        ("plan.jsonl", "what was to be sent when"),
        (
            "requests.jsonl",
            "one line per planned arrival, every event's stamp in it",
        ),
        (
            "client_metrics.jsonl",
            "the load generator's own state, a line a second",
        ),
        (
            "server_metrics.jsonl",
            "the engine's metrics before, during and after each point",
        ),
        (
            "process_metrics.jsonl",
            "the engine's processes: memory, CPU, threads",
        ),
        ("gpu_metrics.jsonl", "each graphics card"),
        (
            "gateway_records.jsonl",
            "one line per request, as the gateway saw it",
        ),
        ("validation.json", "gates and verdict"),
    ];
    let present = |name: &str| name == "validation.json" || run.raw().join(name).is_file();
    let rows = raw
        .into_iter()
        .filter(|(name, _)| present(name))
        .map(|(name, what)| (format!("raw/{id}/{name}"), what))
        .chain([
            (
                format!("processed/{id}/aggregate.json"),
                "numbers per point",
            ),
            (format!("processed/{id}/summary.csv"), "the same as a table"),
            (
                format!("processed/{id}/attribution.json"),
                "where the time went, per point",
            ),
        ])
        .chain(
            pictures::all(analysis)
                .into_iter()
                .map(|(name, _)| (format!("charts/{id}/{name}"), "chart")),
        )
        .map(|(path, what)| vec![format!("`{path}`"), what.to_owned()]);
    table(
        out,
        &["file in the results directory", "what it holds"],
        rows,
    );
    out.push_str("How each number is computed: `docs/methodology.md`.\n");
}
