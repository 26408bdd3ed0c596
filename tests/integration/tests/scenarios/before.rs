//! Before a run: `doctor` looks at everything, `plan` tells what would be, and both say what is
//! wrong without a file of a run being written.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use inferscope_tests::engine;
use inferscope_tests::gateway::Gateway;
use inferscope_tests::load::Lab;
use serde_json::Value;

/// Exit code, standard output, standard error.
fn said(lab: &Lab, arguments: &[&str]) -> Result<(Option<i32>, String, String)> {
    let output = lab.command(arguments)?.output()?;
    Ok((
        output.status.code(),
        String::from_utf8(output.stdout)?,
        String::from_utf8(output.stderr)?,
    ))
}

#[test]
fn doctor_checks_both_arms_and_leaves_what_it_saw() -> Result<()> {
    let engine = engine::paced(2, 1)?;
    let gateway = Gateway::open(&engine.addr().to_string())?;
    let lab = Lab::new()?;
    let (direct, through) = (engine.url(), format!("http://{}", gateway.data));
    let records = format!("http://{}/records", gateway.admin);
    let mut flags = vec!["doctor", "--json", "--gpu", "none", "--model", "fake-model"];
    flags.extend(["--direct-url", &direct, "--gateway-url", &through]);
    flags.extend(["--gateway-records", &records]);
    let (code, out, err) = said(&lab, &flags)?;
    ensure!(code == Some(0), "{code:?} {out} {err}");
    let out: Value = serde_json::from_str(&out)?;
    let findings = out["findings"].as_array().context("findings")?;
    let level = |check: &str| -> Vec<&str> {
        let of_check = findings.iter().filter(|f| f["check"] == check);
        of_check.filter_map(|f| f["level"].as_str()).collect()
    };
    for check in [
        "arm direct",
        "arm gateway",
        "streaming direct",
        "streaming gateway",
        "metrics",
        "prompt lengths",
        "gateway records",
        "monotonic clock",
        "GPU",
    ] {
        ensure!(level(check) == ["ok"], "{check}: {out:#}");
    }
    let mut files = Vec::new();
    for day in fs::read_dir(lab.path().join("results/validation"))? {
        files.extend(fs::read_dir(day?.path())?);
    }
    ensure!(files.len() == 1, "{files:?}");
    ensure!(
        !lab.path().join("results/raw").exists(),
        "doctor left a run"
    );
    Ok(())
}

#[test]
fn doctor_names_every_fault_and_fails() -> Result<()> {
    let engine = engine::paced(2, 1)?;
    let lab = Lab::new()?;
    let direct = engine.url();
    let directory = lab.path().to_string_lossy().into_owned();
    let mut flags = vec!["doctor", "--gpu", "none", "--model", "other"];
    // Port 1 of this host is nobody's.
    flags.extend([
        "--direct-url",
        &direct,
        "--gateway-url",
        "http://127.0.0.1:1",
    ]);
    flags.extend(["--gateway-records", &directory]);
    let (code, out, err) = said(&lab, &flags)?;
    ensure!(code == Some(1), "{code:?} {out} {err}");
    for line in [
        "FAIL  arm direct: request.model other: not served",
        "FAIL  arm gateway: arms.gateway.url http://127.0.0.1:1: unreachable",
        "FAIL  gateway records: ",
    ] {
        ensure!(out.contains(line), "{line} is not in:\n{out}");
    }
    let (code, _, err) = said(&lab, &["doctor", "--direct-url", "x"])?;
    ensure!(code == Some(2), "{code:?} {err}");
    Ok(())
}

#[test]
fn plan_tells_what_it_can_when_nobody_is_there() -> Result<()> {
    let lab = Lab::new()?;
    let mut flags = vec!["plan", "--direct-url", "http://127.0.0.1:1", "--model", "m"];
    flags.extend([
        "--rate",
        "2",
        "--arrival",
        "constant",
        "--requests",
        "19",
        "--warmup",
        "2",
    ]);
    let (code, out, err) = said(&lab, &flags)?;
    ensure!(code == Some(2), "{code:?} {out} {err}");
    ensure!(out.contains("time: 10.0 s"), "{out}");
    ensure!(
        err.contains("not ready to run") && err.contains("unreachable"),
        "{err}"
    );
    let (code, out, err) = said(&lab, &[&flags[..], &["--offline", "--json"]].concat())?;
    ensure!(code == Some(0) && err.is_empty(), "{code:?} {err}");
    let out: Value = serde_json::from_str(&out)?;
    ensure!(
        out["total"]["requests"] == 21 && out["faults"].is_null(),
        "{out:#}"
    );
    Ok(())
}

#[test]
fn an_engine_url_that_nobody_answers_stops_a_run() -> Result<()> {
    let engine = engine::paced(2, 1)?;
    let lab = Lab::new()?;
    let direct = engine.url();
    let mut flags = vec!["--direct-url", &direct, "--model", "fake-model"];
    flags.extend(["--engine-url", "http://127.0.0.1:1"]);
    let run = lab.run("gone", &flags)?;
    ensure!(run.code == Some(2), "{:?} {}", run.code, run.stderr);
    ensure!(
        run.stderr
            .contains("engine.url http://127.0.0.1:1: unreachable"),
        "{}",
        run.stderr
    );
    ensure!(!run.raw("manifest.json").exists());
    Ok(())
}
