//! The instrument's own error: measured beside a run, on its own, and judged against limits.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use inferscope_tests::engine;
use inferscope_tests::load::Lab;
use inferscope_tests::process::{Server, command};
use serde_json::Value;

#[test]
fn a_run_measures_its_own_error_at_its_heaviest_load_and_says_it_beside_the_numbers() -> Result<()>
{
    let engine = engine::paced(20, 5)?;
    let url = engine.url();
    let lab = Lab::new()?;
    let mut flags = vec!["--direct-url", &url, "--model", "fake-model"];
    flags.extend([
        "--concurrency",
        "1,4",
        "--requests",
        "20",
        "--output-tokens",
        "8",
    ]);
    flags.extend(["--slo", "ttft=60s,tpot=60s,at=p50", "--calibration", "1s"]);
    let run = lab.run("own", &flags)?;
    run.sound()?;
    ensure!(run.gate("instrument_error")? == ["PASS"], "{}", run.stdout);
    let manifest = run.json(&run.raw("manifest.json"))?;
    let found = &manifest["calibration"]["instrument"];
    ensure!(found["point_id"] == "direct.c4", "{found}");
    let number = |name: &str| {
        found[name]
            .as_f64()
            .with_context(|| format!("{name} in {found}"))
    };
    let streams = number("streams")?;
    ensure!((2.0..=4.1).contains(&streams), "{found}");
    ensure!(number("requests")? > 0.0, "{found}");
    ensure!(found["itl_error_ms"]["n"].as_u64() > Some(0), "{found}");
    let report = fs::read_to_string(lab.path().join("reports/generated/own.md"))?;
    ensure!(report.contains("instrument's own error") && report.contains("upper bound"));
    ensure!(
        run.stdout.contains("instrument's own error"),
        "{}",
        run.stdout
    );
    // Its requests are nobody's: neither in the files nor at the engine.
    let rows = run.requests()?;
    ensure!(rows.iter().all(|r| r.run_id == "own"), "foreign rows");
    Ok(())
}

#[test]
fn limits_without_a_calibration_leave_a_run_inconclusive() -> Result<()> {
    let engine = engine::paced(20, 5)?;
    let url = engine.url();
    let lab = Lab::new()?;
    let mut flags = vec!["--direct-url", &url, "--model", "fake-model"];
    flags.extend(["--requests", "20", "--output-tokens", "4"]);
    let run = lab.run(
        "with",
        &[&flags[..], &["--slo", "ttft=60s,at=p50"]].concat(),
    )?;
    ensure!(
        run.gate("instrument_error")? == ["UNDECIDED"],
        "{}",
        run.stdout
    );
    ensure!(run.stdout.contains("calibration: off"), "{}", run.stdout);
    let run = lab.run("without", &flags)?;
    ensure!(
        run.gate("instrument_error")? == ["NOT_APPLICABLE"],
        "{}",
        run.stdout
    );
    Ok(())
}

#[test]
fn calibrate_needs_no_engine_and_ends_by_its_verdict() -> Result<()> {
    let calibrate = |more: &[&str]| -> Result<(Option<i32>, String)> {
        let mut command = command("loadgen", ["calibrate", "--duration", "500ms", "--json"])?;
        let output = command
            .args(["--concurrency", "8", "--ttft", "5ms", "--itl", "1ms"])
            .args(more)
            .output()?;
        Ok((output.status.code(), String::from_utf8(output.stdout)?))
    };
    let (code, said) = calibrate(&["--slo", "ttft=60s,tpot=60s"])?;
    ensure!(code == Some(0), "{code:?} {said}");
    let said: Value = serde_json::from_str(&said)?;
    ensure!(said["status"] == "VALID", "{said}");
    for error in ["ttft_error_ms", "itl_error_ms", "dispatch_error_ms"] {
        let it = &said["instrument"][error];
        ensure!(
            it["n"].as_u64() > Some(0) && it["max"].is_f64(),
            "{error}: {it}"
        );
    }
    // No instrument is off by less than a nanosecond.
    let (code, said) = calibrate(&["--slo", "ttft=1us"])?;
    ensure!(
        code == Some(3) && said.contains("INVALID"),
        "{code:?} {said}"
    );
    Ok(())
}

#[test]
fn an_exact_server_ends_with_whoever_started_it() -> Result<()> {
    let mut server = Server::start(
        "exact-server",
        command(
            "loadgen",
            ["exact-server", "--ttft-ns", "1000000", "--itl-ns", "0"],
        )?,
    )?;
    ensure!(server.ready["listen"].is_string(), "{}", server.ready);
    server.close_input();
    ensure!(server.wait()?.success());
    Ok(())
}
