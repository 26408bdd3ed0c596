//! `loadgen probe` as a user runs it: an engine's URL in, text and JSON out.

use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context as _, Result, ensure};
use inferscope_fake_engine::{Config, FakeEngine};
use inferscope_tests::engine;
use inferscope_tests::process::{Server, command, root, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A fake engine in a process of its own, so that its memory and CPU are not the test's.
fn engine(more: &[&str]) -> Result<Server> {
    let mut start = command("fake-engine", ["--ttft", "6ms", "--itl", "2ms"])?;
    start.args(more);
    Server::start("fake-engine", start)
}

fn probe(url: &str, more: &[&str]) -> Result<Output> {
    Ok(command("loadgen", ["probe", url])?.args(more).output()?)
}

/// The JSON of a probe, which must fit its schema.
fn checked(text: &[u8]) -> Result<Value> {
    let report: Value = serde_json::from_slice(text)?;
    let schema = std::fs::read(root().join("shared/schemas/probe.schema.json"))?;
    let schema: Value = serde_json::from_slice(&schema)?;
    let validator = jsonschema::validator_for(&schema)?;
    let faults: Vec<String> = validator
        .iter_errors(&report)
        .map(|e| format!("{}: {e}", e.instance_path()))
        .collect();
    ensure!(faults.is_empty(), "{faults:?}");
    Ok(report)
}

/// Files that `--out` writes.
fn files(folder: &Path) -> Result<[String; 3]> {
    let read =
        |name: &str| std::fs::read_to_string(folder.join(name)).with_context(|| name.to_owned());
    Ok([
        read("probe.json")?,
        read("probe.txt")?,
        read("timeline.svg")?,
    ])
}

#[test]
fn a_probe_of_a_url_alone_fits_its_schema_and_names_the_engines_process() -> Result<()> {
    let engine = engine(&["--ttft-seen", "2ms"])?;
    let url = format!("http://{}/v1", engine.address("listen"));
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("probe");
    let out_flag = out.display().to_string();
    let output = probe(
        &url,
        &["--json", "--output-tokens", "10", "--out", &out_flag],
    )?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(0), "{stderr}");
    ensure!(stderr.is_empty(), "{stderr}");
    let report = checked(&output.stdout)?;
    ensure!(report["notice"] == "chain check, not a performance result");
    ensure!(report["requests"]["sent"] == 61 && report["requests"]["failed"] == 0);
    ensure!(
        report["process"]["pid"] == engine.pid(),
        "{}",
        report["process"]["pid"]
    );
    let samples = report["process"]["samples"].as_array().context("samples")?;
    ensure!(samples.len() > 10, "{} samples", samples.len());
    for group in report["experiments"].as_array().context("experiments")? {
        ensure!(group["ok"] == group["sent"], "{group}");
    }
    let said: Vec<&str> = report["verdict"]
        .as_array()
        .context("verdict")?
        .iter()
        .filter_map(|s| s["id"].as_str())
        .collect();
    for id in [
        "first_token",
        "prefill",
        "prefix_cache",
        "streaming",
        "decode",
        "parallel",
        "memory",
    ] {
        ensure!(said.contains(&id), "{id} is not among {said:?}");
    }

    let [json, text, svg] = files(&out)?;
    ensure!(
        checked(json.as_bytes())? == report,
        "the file differs from what was printed"
    );
    ensure!(text.contains("fake engine: chain check"), "{text}");
    ensure!(svg.contains("chain check") && svg.ends_with("</svg>\n"));
    Ok(())
}

#[test]
fn exit_codes_tell_a_fault_of_the_command_from_one_of_the_engine() -> Result<()> {
    let engine = FakeEngine::start(Config {
        models: vec!["a".to_owned(), "b".to_owned()],
        ..Config::default()
    })?;
    let url = engine.url();
    let free = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let down = format!("http://{free}");
    let cases: [(&str, &[&str], i32, &str); 5] = [
        (&down, &[], 1, "unreachable"),
        (&url, &[], 2, "serves a, b; name one"),
        (&url, &["--model", "c"], 2, "not served"),
        (&url, &["--model", "a", "--pid", "999999999"], 2, "--pid"),
        (&url, &["--prompt", "9"], 2, "two lengths"),
    ];
    for (url, flags, code, says) in cases {
        let output = probe(url, flags)?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(code), "{flags:?}: {stderr}");
        ensure!(stderr.contains(says), "{flags:?}: {stderr}");
        ensure!(output.stdout.is_empty());
    }
    Ok(())
}

#[test]
fn ctrl_c_shows_what_was_measured() -> Result<()> {
    let engine = engine::paced(5, 2)?;
    let url = engine.url();
    let mut start = command("loadgen", ["probe", &url, "--json", "--requests", "1000"])?;
    let child = start
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()?;
    let pid = i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .context("pid")?;
    until("some requests", || {
        let asked = engine
            .requests()
            .iter()
            .filter(|r| r.method == "POST")
            .count();
        // The prompts' lengths are found out by requests of their own.
        (asked > 160).then_some(())
    })?;
    kill_process(pid, Signal::INT)?;
    let output = child.wait_with_output()?;
    ensure!(output.status.code() == Some(130), "{:?}", output.status);
    let report = checked(&output.stdout)?;
    ensure!(report["interrupted"] == true && report["failure"] == "interrupted");
    ensure!(report["requests"]["ok"].as_u64() > Some(1));
    Ok(())
}

#[test]
#[ignore = "needs tests/engines/llamacpp.sh install; tests/run.sh runs it"]
fn a_real_engine_is_probed_and_its_process_seen() -> Result<()> {
    let mut start = Command::new(root().join("tests/engines/llamacpp.sh"));
    start.arg("0");
    let engine = Server::start("llama.cpp", start)?;
    let url = format!("http://{}", engine.address("listen"));
    let output = probe(&url, &["--json"])?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(0), "{stderr}");
    let report = checked(&output.stdout)?;
    ensure!(report["notice"].is_null() && report["engine"]["kind"] == "llamacpp");
    ensure!(report["requests"]["failed"] == 0, "{}", report["requests"]);
    ensure!(
        report["prompt_lengths"]["exact"] == true,
        "{}",
        report["prompt_lengths"]
    );
    for row in report["rows"].as_array().context("rows")? {
        ensure!(row["completion_tokens"] == 16, "{row}");
        ensure!(
            row["experiment"] == "opening" || row["prompt_tokens"] == row["asked_tokens"],
            "{row}"
        );
    }
    let fit = &report["fit"];
    ensure!(
        fit["ci95"][0].as_f64() > Some(0.0),
        "prefill takes time: {fit}"
    );
    let warm = report["comparisons"]
        .as_array()
        .and_then(|all| all.iter().find(|c| c["id"] == "warm_ttft"))
        .context("warm_ttft")?;
    ensure!(
        warm["differs"] == true && warm["ratio"]["p50"].as_f64() < Some(1.0),
        "{warm}"
    );
    ensure!(report["process"]["cores"]["parallel"]["cores"].as_f64() > Some(0.0));
    Ok(())
}
