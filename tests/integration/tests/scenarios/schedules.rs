//! Loads that a clock limits or paces, and whether every planned arrival has left its record.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use inferscope_fake_engine::{Config, FakeEngine};
use inferscope_shared::record::request::{Outcome, Phase};
use inferscope_tests::engine;
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
fn m02_the_schedule_is_absolute_and_every_request_keeps_to_it() -> Result<()> {
    for arrival in ["constant", "poisson"] {
        let lab = Lab::new()?;
        let flags = [
            "--arrival",
            arrival,
            "--rate",
            "250",
            "--requests",
            "500",
            "--seed",
            "7",
        ];
        let run = direct(&lab, arrival, Duration::from_millis(1), &flags)?;
        run.sound()?;
        run.every_arrival_has_its_record()?;
        let mut rows = run.requests()?;
        rows.sort_by_key(|r| r.seq);
        let plan = fs::read_to_string(run.raw("plan.jsonl"))?;
        let start = rows[0].intended_ns.context("intended_ns")?;
        for (row, line) in rows.iter().zip(plan.lines()) {
            let line: serde_json::Value = serde_json::from_str(line)?;
            let offset = line["offset_ns"].as_u64().context("offset_ns")?;
            // Whatever the load generator was doing: the plan is never anchored anew.
            ensure!(row.intended_ns == Some(start.plus_ns(offset)), "{line}");
            ensure!(row.dispatched_ns >= row.intended_ns, "sent before its time");
        }
    }
    Ok(())
}

#[test]
fn m23_shards_of_one_seed_send_one_schedule() -> Result<()> {
    let lab = Lab::new()?;
    let planned = |id: &str, seed: &str, more: &[&str]| -> Result<Vec<(u64, u64)>> {
        let flags = [
            "--rate",
            "400",
            "--burstiness",
            "0.5",
            "--requests",
            "40",
            "--warmup",
            "4",
            "--seed",
            seed,
        ];
        let run = direct(
            &lab,
            id,
            Duration::from_millis(1),
            &[&flags[..], more].concat(),
        )?;
        run.sound()?;
        run.every_arrival_has_its_record()?;
        let plan = fs::read_to_string(run.raw("plan.jsonl"))?;
        plan.lines()
            .map(|line| {
                let line: serde_json::Value = serde_json::from_str(line)?;
                let number = |name: &str| line[name].as_u64().context(name.to_owned());
                Ok((number("seq")?, number("offset_ns")?))
            })
            .collect()
    };
    let whole = planned("whole", "7", &[])?;
    ensure!(whole.len() == 44, "{} arrivals", whole.len());
    ensure!(planned("again", "7", &[])? == whole, "the seed decides it");
    ensure!(planned("other", "8", &[])? != whole);
    let mut union = planned("one", "7", &["--shard", "1/2"])?;
    ensure!(union.len() == 22 && union.iter().all(|(seq, _)| seq % 2 == 0));
    union.extend(planned("two", "7", &["--shard", "2/2"])?);
    union.sort_unstable();
    ensure!(union == whole, "{union:?}");
    Ok(())
}

#[test]
fn m13_the_share_of_connections_used_again_is_shown() -> Result<()> {
    let lab = Lab::new()?;
    for (id, more, share, said) in [
        ("reused", &[][..], 1.0, "connections reused 100.0 %"),
        (
            "fresh",
            &["--no-reuse"][..],
            0.0,
            "connections reused 0.0 %",
        ),
    ] {
        let flags = ["--concurrency", "1", "--requests", "10"];
        let run = direct(
            &lab,
            id,
            Duration::from_millis(2),
            &[&flags[..], more].concat(),
        )?;
        run.sound()?;
        let point = &run.json(&run.processed("aggregate.json"))?["points"][0];
        ensure!(
            point["connections"]["reuse_fraction"] == share,
            "{}",
            point["connections"]
        );
        let connects = point["metrics"]["connect_ms"]["n"].as_u64();
        ensure!(
            connects == Some(if share == 0.0 { 10 } else { 0 }),
            "{connects:?}"
        );
        let report = lab.path().join(format!("reports/generated/{id}.md"));
        let report = fs::read_to_string(report)?;
        ensure!(report.contains(said), "\"{said}\" is not in:\n{report}");
    }
    Ok(())
}

/// Answers of 60 and of 1,500 ms in turn.
fn mixed(lab: &Lab, id: &str, more: &[&str]) -> Result<Run> {
    let line = |tokens: u32| format!("{{\"prompt\":\"a b c\",\"output_tokens\":{tokens}}}\n");
    fs::write(lab.path().join("mixed.jsonl"), line(6) + &line(150))?;
    let engine = engine::paced(10, 10)?;
    let url = format!("http://{}", engine.addr());
    let mut flags = vec!["--direct-url", &url, "--model", "fake-model"];
    flags.extend([
        "--workload",
        "mixed.jsonl",
        "--concurrency",
        "4",
        "--warmup",
        "1",
    ]);
    flags.extend(more);
    lab.run(id, &flags)
}

#[test]
fn m27_what_is_in_flight_at_the_time_limit_is_incomplete_with_what_it_had() -> Result<()> {
    let lab = Lab::new()?;
    let run = mixed(&lab, "cut", &["--duration", "500ms", "--drain", "0s"])?;
    let rows = run.measured()?;
    let cut: Vec<_> = rows
        .iter()
        .filter(|r| r.outcome == Outcome::Incomplete)
        .collect();
    // The long ones hold every slot in the end.
    ensure!(cut.len() == 4, "{} of {} cut", cut.len(), rows.len());
    ensure!(
        rows.iter()
            .all(|r| r.outcome == Outcome::Ok || r.outcome == Outcome::Incomplete)
    );
    for row in &cut {
        ensure!(row.error_kind.as_deref() == Some("run_end"), "{row:?}");
        ensure!(
            row.first_output_ns.is_some() && row.last_output_ns.is_some(),
            "{row:?}"
        );
        let tokens = row.events.kind.len();
        ensure!((1..150).contains(&tokens), "{tokens} events");
    }
    let point = &run.json(&run.processed("aggregate.json"))?["points"][0];
    ensure!(
        point["requests"]["incomplete"] == 4,
        "{}",
        point["requests"]
    );
    for said in ["run_end 4", "ended direct.c4: by its duration"] {
        ensure!(
            run.stdout.contains(said),
            "\"{said}\" is not in:\n{}",
            run.stdout
        );
    }
    Ok(())
}

#[test]
fn m27_draining_lets_the_long_ones_end() -> Result<()> {
    let lab = Lab::new()?;
    let run = mixed(&lab, "drained", &["--duration", "300ms", "--drain", "30s"])?;
    run.sound()?;
    let rows = run.measured()?;
    ensure!(rows.iter().all(|r| r.outcome == Outcome::Ok));
    let long = rows.iter().filter(|r| r.completion_tokens == Some(150));
    ensure!(long.count() >= 2, "the long ones are missing");
    Ok(())
}

#[test]
fn m27_the_limit_reached_first_stops_and_is_named() -> Result<()> {
    let lab = Lab::new()?;
    for (id, limits, named) in [
        ("few", ["--requests", "5", "--duration", "30s"], "requests"),
        (
            "brief",
            ["--requests", "20000", "--duration", "200ms"],
            "duration",
        ),
    ] {
        let flags = [&["--concurrency", "2"][..], &limits].concat();
        let run = direct(&lab, id, Duration::from_millis(2), &flags)?;
        let manifest = run.json(&run.raw("manifest.json"))?;
        ensure!(
            manifest["points"][0]["stop_reason"] == named,
            "{}",
            manifest["points"][0]
        );
        let report = lab.path().join(format!("reports/generated/{id}.md"));
        let said = format!("ended by its {named}");
        ensure!(
            fs::read_to_string(report)?.contains(&said),
            "{id}: not {said}"
        );
    }
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
