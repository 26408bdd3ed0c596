//! Loads that a clock limits or paces, and whether every planned arrival has left its record.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use inferscope_fake_engine::{Config, FakeEngine};
use inferscope_shared::record::request::{Outcome, Phase};
use inferscope_tests::load::{Lab, Run};

/// A run straight against an engine that answers after `ttft`.
fn direct(lab: &Lab, id: &str, ttft: Duration, more: &[&str]) -> Result<Run> {
    let engine = FakeEngine::start(Config {
        ttft,
        itl: Duration::from_millis(1),
        ..Config::default()
    })?;
    let url = format!("http://{}", engine.addr());
    let mut flags = vec!["--direct-url", &url, "--model", "fake-model"];
    flags.extend(["--output-tokens", "4"]);
    flags.extend(more);
    lab.run(id, &flags)
}

#[test]
fn an_open_loop_answers_at_the_rate_it_was_asked_at() -> Result<()> {
    let lab = Lab::new()?;
    // Answers take longer than half the schedule: most end after the last arrival.
    let flags = ["--arrival", "constant", "--rate", "40", "--requests", "40"];
    let slo = ["--slo", "ttft=30s,at=p50", "--calibration", "1s"];
    let ttft = Duration::from_millis(600);
    let run = direct(&lab, "rate", ttft, &[&flags[..], &slo].concat())?;
    run.sound()?;
    run.every_arrival_has_its_record()?;
    let measured = run.measured()?;
    ensure!(measured.len() == 40, "{} measured requests", measured.len());
    let mut intended: Vec<u64> = measured
        .iter()
        .filter_map(|r| Some(r.intended_ns?.0))
        .collect();
    intended.sort_unstable();
    ensure!(
        intended
            .windows(2)
            .all(|w| w[1].abs_diff(w[0] + 25_000_000) <= 1),
        "arrivals are not 25 ms apart: {intended:?}"
    );
    let aggregate = run.json(&run.processed("aggregate.json"))?;
    let point = &aggregate["points"][0];
    let number = |part: &str, name: &str| {
        let value = &point[part][name];
        value
            .as_f64()
            .with_context(|| format!("{part}.{name} is {value}"))
    };
    let (rate, good) = (
        number("throughput", "requests_per_s")?,
        number("goodput", "requests_per_s")?,
    );
    ensure!((38.0..44.0).contains(&rate), "{rate} requests/s of 40");
    // What was sent late on a busy machine misses, in both numbers alike.
    let share = number("goodput", "fraction")?;
    ensure!(
        (good - rate * share).abs() < 1e-6,
        "goodput {good}/s is not {share} of {rate}/s"
    );
    Ok(())
}

#[test]
fn a_run_that_time_limits_keeps_a_record_of_all_it_sent() -> Result<()> {
    let lab = Lab::new()?;
    let flags = ["--concurrency", "2", "--duration", "1s"];
    let run = direct(&lab, "timed", Duration::from_millis(5), &flags)?;
    ensure!(
        matches!(run.code, Some(0 | 3 | 4)),
        "exit {:?}\n{}",
        run.code,
        run.stderr
    );
    let manifest = run.json(&run.raw("manifest.json"))?;
    ensure!(
        manifest["points"][0]["stop_reason"] == "duration",
        "{}",
        manifest["points"][0]
    );
    ensure!(run.gate("rows_complete")? == ["PASS"]);
    let requests = run.requests()?;
    let numbered = requests.iter().map(|r| r.seq).max().context("no request")? + 1;
    ensure!(
        requests.len() as u64 == numbered,
        "{} records, numbered up to {numbered}",
        requests.len()
    );
    ensure!(requests.iter().all(|r| r.outcome == Outcome::Ok));
    ensure!(requests.iter().any(|r| r.phase == Phase::Measure));
    Ok(())
}

#[test]
fn records_cut_off_make_the_run_invalid() -> Result<()> {
    let lab = Lab::new()?;
    let flags = ["--concurrency", "1", "--requests", "20"];
    let run = direct(&lab, "cut", Duration::from_millis(2), &flags)?;
    run.sound()?;
    let path = run.raw("requests.jsonl");
    let text = fs::read_to_string(&path)?;
    let kept: String = text.split_inclusive('\n').take(12).collect();
    // In the middle of a line, as a full disk leaves it.
    fs::write(&path, format!("{kept}{{\"schema_version\":1,\"run_"))?;
    let output = lab.command(&["validate", "cut"])?.output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.code() == Some(3) && said.starts_with("INVALID"),
        "{output:?}"
    );
    ensure!(said.contains("FAIL rows_complete [direct.c1]"), "{said}");
    Ok(())
}
