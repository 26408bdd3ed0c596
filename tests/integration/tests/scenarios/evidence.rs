//! What a run left, after somebody changed it, and what tells the machine and the engine it was on.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use inferscope_fake_engine::Handle;
use inferscope_tests::engine;
use inferscope_tests::load::{Lab, Run};

fn measured(lab: &Lab, engine: &Handle) -> Result<Run> {
    let url = engine.url();
    let mut flags = vec!["--direct-url", &url, "--model", "fake-model"];
    flags.extend(["--requests", "10", "--output-tokens", "4"]);
    lab.run("r", &flags)
}

fn replace(path: &Path, from: &str, to: &str) -> Result<()> {
    let text = fs::read_to_string(path)?;
    ensure!(text.contains(from), "{} has no {from}", path.display());
    fs::write(path, text.replace(from, to))?;
    Ok(())
}

#[test]
fn a_raw_file_that_was_changed_is_named_and_no_report_makes_it_the_original() -> Result<()> {
    let (lab, engine) = (Lab::new()?, engine::paced(2, 1)?);
    let run = measured(&lab, &engine)?;
    run.sound()?;
    let validate = || -> Result<(Option<i32>, String)> {
        let output = lab.command(&["validate", "r"])?.output()?;
        Ok((output.status.code(), String::from_utf8(output.stdout)?))
    };
    let (_, said) = validate()?;
    ensure!(!said.contains("changed since the run"), "{said}");
    replace(
        &run.raw("requests.jsonl"),
        "\"reused\":true",
        "\"reused\":false",
    )?;
    for _ in 0..2 {
        let (code, said) = validate()?;
        ensure!(code == Some(3), "{code:?} {said}");
        ensure!(said.contains("requests.jsonl: has sha256"), "{said}");
        let report = lab.command(&["report", "r"])?.output()?;
        ensure!(report.status.success(), "{report:?}");
    }
    Ok(())
}

#[test]
fn files_of_another_schema_version_are_refused_by_name() -> Result<()> {
    let (lab, engine) = (Lab::new()?, engine::paced(2, 1)?);
    let run = measured(&lab, &engine)?;
    let show = || -> Result<String> {
        let output = lab.command(&["show", "r"])?.output()?;
        ensure!(output.status.code() == Some(1), "{output:?}");
        Ok(String::from_utf8(output.stderr)?)
    };
    let rows = run.raw("requests.jsonl");
    replace(&rows, "\"schema_version\":1", "\"schema_version\":2")?;
    let said = show()?;
    ensure!(
        said.contains("requests.jsonl:1: is of schema version 2"),
        "{said}"
    );
    replace(
        &run.raw("manifest.json"),
        "\"schema_version\": 1",
        "\"schema_version\": 7",
    )?;
    let said = show()?;
    ensure!(
        said.contains("manifest.json: is of schema version 7"),
        "{said}"
    );
    Ok(())
}

#[test]
fn the_manifest_tells_machine_and_engine_and_hashes_what_must_be_equal() -> Result<()> {
    let (lab, engine) = (Lab::new()?, engine::paced(2, 1)?);
    let manifest = |id: &str| -> Result<serde_json::Value> {
        let url = engine.url();
        let mut flags = vec!["--direct-url", &url, "--model", "fake-model"];
        flags.extend(["--requests", "3", "--output-tokens", "2"]);
        let run = lab.run(id, &flags)?;
        run.json(&run.raw("manifest.json"))
    };
    let (one, two) = (manifest("one")?, manifest("two")?);
    let hash = one["fingerprint"]["sha256"]
        .as_str()
        .context("no fingerprint")?;
    ensure!(
        hash.len() == 64 && two["fingerprint"]["sha256"] == hash,
        "{hash}"
    );
    let host = &one["host"];
    ensure!(
        host["kernel"].is_string() && host["sysctls"].is_object(),
        "{host}"
    );
    // The engine runs inside this test: its command line is the test's own.
    let flags = one["engine"]["flags"].as_array().context("flags")?;
    let first = flags.first().and_then(|f| f.as_str()).unwrap_or_default();
    ensure!(first.contains("scenarios"), "{:?}", one["engine"]);
    ensure!(
        one["engine"]["max_model_len"].is_u64(),
        "{:?}",
        one["engine"]
    );
    Ok(())
}
