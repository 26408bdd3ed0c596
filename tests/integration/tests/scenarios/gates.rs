//! Every gate trips, says whom it points at and what to do; a sound run passes them all.
//!
//! One run over both paths is measured; each case is a copy of its raw files with one thing amiss,
//! judged offline. A gate without a case fails the test.

mod cases;
mod copy;

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use inferscope_tests::engine;
use inferscope_tests::gateway::Gateway;
use inferscope_tests::load::{Lab, Run, is_of_the_machine};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use cases::CASES;
use copy::Copy;

/// Gates that do not apply to a sound run over the fake engine: it has no cards.
const NOT_HERE: [&str; 3] = ["gpu_clocks", "gpu_isolation", "gpu_throttle"];

/// A run over both paths with everything that gates look at: records with hashes, limits that it
/// certifies, token counts.
fn measured(lab: &Lab) -> Result<Run> {
    let engine = engine::paced(10, 3)?;
    let gateway = Gateway::open(&engine.addr().to_string())?;
    let direct = format!("http://{}", engine.addr());
    let through = format!("http://{}", gateway.data);
    let records = format!("http://{}/records", gateway.admin);
    let flags = [
        ["--path", "both"],
        ["--direct-url", &direct],
        ["--gateway-url", &through],
        ["--gateway-records", &records],
        ["--model", "fake-model"],
        ["--concurrency", "2"],
        ["--requests", "80"],
        ["--input-tokens", "32"],
        ["--output-tokens", "8"],
        ["--slo", "ttft=60s,tpot=60s,at=p50"],
        ["--calibration", "1s"],
    ];
    lab.run("sound", flags.as_flattened())
}

#[test]
fn every_gate_trips_with_blame_and_remedy_and_a_sound_run_passes_all() -> Result<()> {
    let lab = Lab::new()?;
    let run = measured(&lab)?;
    run.sound()?;
    let sound = Copy::of(&run)?.judged()?;
    let mut ids = BTreeSet::new();
    for gate in &sound.gates {
        let id = gate["id"].as_str().context("id")?;
        let here = gate["status"] == "PASS"
            || gate["status"] == "NOT_APPLICABLE" && NOT_HERE.contains(&id)
            || is_of_the_machine(id);
        ensure!(here, "the sound run: {gate}");
        ids.insert(id.to_owned());
    }
    let cased: BTreeSet<String> = CASES.iter().map(|c| c.id.to_owned()).collect();
    let bare: Vec<_> = ids.difference(&cased).collect();
    ensure!(bare.is_empty(), "gates without a case: {bare:?}");

    println!("sound: {}\n", sound.counts());
    for case in CASES {
        let copy = Copy::of(&run)?;
        (case.amiss)(&copy).with_context(|| case.id.to_owned())?;
        let judged = copy.judged()?;
        let gate = judged
            .worst(case.id)
            .with_context(|| format!("{}: no such gate", case.id))?;
        ensure!(
            gate["status"] == case.status && gate["blame"] == case.blame,
            "{} should be {} and point at {}: {gate}",
            case.id,
            case.status,
            case.blame
        );
        for text in ["remedy", "evidence"] {
            let said = gate[text].as_str().is_some_and(|t| !t.is_empty());
            ensure!(said, "{} has no {text}", case.id);
        }
        let code = match judged.status.as_str() {
            "INVALID" => 3,
            "INCONCLUSIVE" => 4,
            other => anyhow::bail!("{}: the run is {other}", case.id),
        };
        ensure!(
            judged.code == Some(code),
            "{}: exit {:?}",
            case.id,
            judged.code
        );
        ensure!(
            code == 3 || case.status != "FAIL",
            "{}: a gate failed and the run is {}",
            case.id,
            judged.status
        );
        let line = judged.line(case.id, case.status)?;
        ensure!(line.contains(case.blame), "{line}");
        println!("{line}");
    }
    Ok(())
}

#[test]
fn a_sound_run_on_a_card_of_its_own_passes_the_gates_of_cards() -> Result<()> {
    let lab = Lab::new()?;
    let run = measured(&lab)?;
    let copy = Copy::of(&run)?;
    cases::on_a_card(&copy, |_, _| {})?;
    let judged = copy.judged()?;
    for id in ["gpu_isolation", "gpu_throttle", "gpu_clocks"] {
        let gate = judged.worst(id).context(id)?;
        ensure!(gate["status"] == "PASS", "{gate}");
    }
    Ok(())
}

/// A client that gets no processor for a tenth of a second, again and again.
#[test]
fn m15_a_client_that_is_held_up_says_so_and_exits_with_it() -> Result<()> {
    let engine = engine::paced(10, 10)?;
    let lab = Lab::new()?;
    let url = format!("http://{}", engine.addr());
    let mut child = lab
        .command(&["--path", "direct", "--direct-url", &url])?
        .args(["--model", "fake-model", "--concurrency", "4"])
        .args(["--duration", "3s", "--output-tokens", "10"])
        .args(["--input-tokens", "16", "--run-id", "held"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()?;
    let pid = Pid::from_child(&child);
    while child.try_wait()?.is_none() {
        let each = Duration::from_millis(100);
        kill_process(pid, Signal::STOP)?;
        thread::sleep(each);
        kill_process(pid, Signal::CONT)?;
        thread::sleep(each);
    }
    let run = lab.finished("held", &child.wait_with_output()?);
    ensure!(run.code == Some(3), "{:?}\n{}", run.code, run.stderr);
    let validation = run.json(&run.raw("validation.json"))?;
    let gates = validation["gates"].as_array().context("gates")?;
    let lag = gates.iter().find(|g| g["id"] == "client_loop_lag");
    let lag: &Value = lag.context("client_loop_lag")?;
    ensure!(lag["status"] == "FAIL" && lag["blame"] == "client", "{lag}");
    ensure!(run.stdout.contains("client_loop_lag"), "{}", run.stdout);
    Ok(())
}
