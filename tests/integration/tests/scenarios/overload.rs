//! Loads above what the engine or the stated limit of requests in flight can carry: results, told
//! from the planned instants, never faults of the run and never silent.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use inferscope_fake_engine::{Config, FakeEngine};
use inferscope_shared::record::request::{Outcome, RequestRecord};
use inferscope_tests::load::{Lab, Run};

/// What a request takes; the schedule has twice as many as one at a time can be.
const SERVICE: Duration = Duration::from_millis(100);

/// Twenty requests at 20 a second through a limit of one in flight.
fn through_a_cap_of_one(lab: &Lab, over_limit: &str) -> Result<Run> {
    let engine = FakeEngine::start(Config {
        ttft: SERVICE,
        itl: Duration::from_millis(1),
        ..Config::default()
    })?;
    let url = format!("http://{}", engine.addr());
    lab.run(
        over_limit,
        &[
            "--direct-url",
            &url,
            "--model",
            "fake-model",
            "--arrival",
            "constant",
            "--rate",
            "20",
            "--requests",
            "20",
            "--warmup",
            "1",
            "--output-tokens",
            "1",
            "--max-in-flight",
            "1",
            "--over-limit",
            over_limit,
            "--slo",
            "ttft=200ms,success=0.1,at=p50",
        ],
    )
}

fn ms(
    from: Option<inferscope_shared::clock::MonoNs>,
    to: Option<inferscope_shared::clock::MonoNs>,
) -> Result<f64> {
    let (from, to) = (from.context("no start")?, to.context("no end")?);
    Ok(to.since(from) as f64 / 1e6)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn m01_an_overloaded_limit_is_a_result_told_from_the_planned_instants() -> Result<()> {
    let lab = Lab::new()?;
    let run = through_a_cap_of_one(&lab, "wait")?;
    // Valid all the same: an overload is a result, and the wait is the stated limit's.
    run.sound()?;
    run.every_arrival_has_its_record()?;
    let mut rows = run.measured()?;
    rows.sort_by_key(|r| r.seq);
    ensure!(rows.len() == 20 && rows.iter().all(|r| r.outcome == Outcome::Ok));

    let of = |what: fn(&RequestRecord) -> Result<f64>| -> Result<Vec<f64>> {
        rows.iter().map(what).collect()
    };
    let from_intended = of(|r| ms(r.intended_ns, r.first_output_ns))?;
    let from_sent = of(|r| ms(r.sent_start_ns, r.first_output_ns))?;
    let delay = of(|r| ms(r.intended_ns, r.sent_start_ns))?;
    // Request i waits until those before it are answered: 100 ms each, planned 50 ms apart.
    for (i, (latency, delay)) in (0_u32..).zip(from_intended.iter().zip(&delay)) {
        let least = 50.0 * f64::from(i);
        ensure!(*delay > least, "request {i} waited {delay} ms");
        ensure!(*latency > least + 100.0, "request {i} took {latency} ms");
    }
    ensure!(mean(&from_intended) > 575.0, "{from_intended:?}");
    ensure!(mean(&delay) > 475.0, "{delay:?}");
    let (first, last) = from_sent.split_at(10);
    ensure!(
        mean(last) < 2.0 * mean(first),
        "from sending it grew as well: {from_sent:?}"
    );

    let point = &run.json(&run.processed("aggregate.json"))?["points"][0];
    let reported = |name: &str| {
        point["metrics"][name]["mean"]
            .as_f64()
            .context(name.to_owned())
    };
    for (name, values) in [
        ("ttft_ms", &from_intended),
        ("ttft_from_sent_ms", &from_sent),
        ("dispatch_lag_ms", &delay),
    ] {
        let found = reported(name)?;
        ensure!((found - mean(values)).abs() < 1e-3, "{name} {found}");
    }
    ensure!(point["slo"]["met"] == false, "{}", point["slo"]);
    ensure!(
        point["goodput"]["good"].as_u64() < Some(3),
        "{}",
        point["goodput"]
    );
    ensure!(point["requests"]["dropped"] == 0 && point["requests"]["late"].as_u64() >= Some(18));
    Ok(())
}

#[test]
fn m01_what_a_limit_drops_is_recorded_and_misses() -> Result<()> {
    let lab = Lab::new()?;
    let run = through_a_cap_of_one(&lab, "drop")?;
    run.sound()?;
    run.every_arrival_has_its_record()?;
    let rows = run.measured()?;
    let dropped = rows.iter().filter(|r| r.outcome == Outcome::Dropped);
    ensure!(dropped.clone().count() >= 5, "{} dropped", dropped.count());
    ensure!(
        dropped
            .clone()
            .all(|r| r.error_kind.as_deref() == Some("max_in_flight") && r.intended_ns.is_some())
    );
    let point = &run.json(&run.processed("aggregate.json"))?["points"][0];
    ensure!(point["requests"]["planned"] == 20, "{}", point["requests"]);
    ensure!(point["slo"]["met"] == false, "{}", point["slo"]);
    ensure!(run.stdout.contains("max_in_flight"), "{}", run.stdout);
    Ok(())
}
