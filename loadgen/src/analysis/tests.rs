use std::path::PathBuf;

use super::synthetic::Synthetic;
use super::*;
use crate::show;

fn files(run: &RunDir) -> Vec<PathBuf> {
    vec![
        run.processed().join("aggregate.json"),
        run.processed().join("attribution.json"),
        run.processed().join("summary.csv"),
        run.charts().join("throughput.svg"),
        run.charts().join("ttft.svg"),
        run.charts().join("itl.svg"),
        run.charts().join("waterfall.svg"),
        run.validation(),
        run.report_md(),
    ]
}

#[test]
fn recomputing_gives_the_same_bytes() {
    let it = Synthetic::new(20);
    let run = it.write();
    publish(&run, &analyze(&run).unwrap()).unwrap();
    let read = || -> Vec<Vec<u8>> {
        files(&run)
            .iter()
            .map(|p| std::fs::read(p).unwrap_or_else(|e| panic!("{}: {e}", p.display())))
            .collect()
    };
    let first = read();
    for path in files(&run) {
        std::fs::remove_file(path).unwrap();
    }
    let shown = show::report(&run, false).unwrap();
    assert!(shown.text.contains("VALID"), "{}", shown.text);
    assert!(first == read());
}

#[test]
fn artifacts_read_back_to_what_was_written() {
    let it = Synthetic::new(20);
    let run = it.write();
    let analysis = analyze(&run).unwrap();
    publish(&run, &analysis).unwrap();
    let read = |name: &str| std::fs::read(run.processed().join(name)).unwrap();
    let aggregate: Aggregate = serde_json::from_slice(&read("aggregate.json")).unwrap();
    assert_eq!(aggregate, analysis.aggregate);
    let attribution: Attribution = serde_json::from_slice(&read("attribution.json")).unwrap();
    assert_eq!(attribution, analysis.attribution);
}

#[test]
fn the_fake_engine_is_never_performance() {
    let it = Synthetic::new(20);
    let run = it.write();
    publish(&run, &analyze(&run).unwrap()).unwrap();
    for path in files(&run) {
        let name = path.display().to_string();
        if name.ends_with("validation.json") || name.ends_with(".csv") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(CHAIN_CHECK), "{name}");
    }
    let mut real = Synthetic::new(20);
    real.manifest.engine.kind = EngineKind::Llamacpp;
    assert_eq!(real.analyze().notice(), None);
}

#[test]
fn validate_says_whether_the_stored_verdict_still_follows() {
    let mut it = Synthetic::new(20);
    let run = it.write();
    let unstored = show::validate(&run, false).unwrap();
    assert!(
        unstored.text.contains("cannot be read"),
        "{}",
        unstored.text
    );
    publish(&run, &analyze(&run).unwrap()).unwrap();
    let same = show::validate(&run, false).unwrap();
    assert!(
        same.text.contains("stored verdict: the same"),
        "{}",
        same.text
    );
    assert_eq!(same.exit_code, 0);

    it.records.as_mut().unwrap().pop();
    it.write();
    let changed = show::validate(&run, false).unwrap();
    assert!(
        changed.text.contains("VALID then, INVALID now"),
        "{}",
        changed.text
    );
    assert_eq!(changed.exit_code, 3);
}

#[test]
fn one_request_is_shown_from_both_sides_in_order() {
    let it = Synthetic::new(20);
    let run = it.write();
    let shown = show::request(&run, "gateway.c1.7", false).unwrap();
    insta::assert_snapshot!(shown.text);
    let error = show::request(&run, "nope", false).unwrap_err().to_string();
    assert!(error.contains("no request nope"), "{error}");
    let error = show::request(&run, "c1.7", false).unwrap_err().to_string();
    assert!(error.contains("r1.direct.c1.7, r1.gateway.c1.7"), "{error}");
}

#[test]
fn a_missing_or_foreign_file_is_named() {
    let it = Synthetic::new(3);
    let run = it.write();
    std::fs::write(run.requests(), "{\"x\":1}\n").unwrap();
    let error = analyze(&run).unwrap_err().to_string();
    assert!(error.contains("requests.jsonl:1:"), "{error}");
    std::fs::remove_file(run.plan()).unwrap();
    let error = analyze(&run).unwrap_err().to_string();
    assert!(error.contains("plan.jsonl"), "{error}");
}

#[test]
fn the_headline_and_the_report_read_well() {
    let mut it = Synthetic::new(60);
    it.slo = Some("ttft=200ms,tpot=50ms,success=0.99,at=p95");
    let run = it.write();
    let analysis = analyze(&run).unwrap();
    insta::assert_snapshot!("headline", crate::report::headline::text(&analysis));
    let report = crate::report::markdown::report(&run, &analysis);
    insta::assert_snapshot!("report", report);
    insta::assert_snapshot!("csv", crate::report::csv::summary(&analysis.aggregate));
}

#[test]
fn a_failed_run_says_so_first() {
    let mut it = Synthetic::new(20);
    it.records.as_mut().unwrap().pop();
    let analysis = it.analyze();
    let text = crate::report::headline::text(&analysis);
    assert!(text.starts_with("INVALID"), "{text}");
    let run = it.run();
    let report = crate::report::markdown::report(&run, &analysis);
    let verdict = report.split("## Numbers").next().unwrap();
    assert!(
        verdict.contains("**FAIL join_complete** (run)"),
        "{verdict}"
    );
    assert!(verdict.contains("Remedy"), "{verdict}");
}
