//! What a run samples beside its requests: the engine's processes and counters, the cards, itself.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use inferscope_tests::load::{Lab, Run};
use inferscope_tests::process::{Server, command, root};
use serde_json::Value;

/// The fake engine as a process of its own; answers take about 250 ms.
fn engine() -> Result<Server> {
    let flags = ["--listen", "127.0.0.1:0", "--ttft", "50ms", "--itl", "20ms"];
    Server::start("fake-engine", command("fake-engine", flags)?)
}

fn flags(engine: &Server, more: &[&str]) -> Vec<String> {
    let url = format!("http://{}", engine.address("listen"));
    let common = ["--model", "fake-model", "--direct-url", &url];
    let load = ["--concurrency", "2", "--output-tokens", "10"];
    common
        .iter()
        .chain(&load)
        .chain(more)
        .map(|&flag| flag.to_owned())
        .collect()
}

fn run(engine: &Server, more: &[&str]) -> Result<(Lab, Run)> {
    let lab = Lab::new()?;
    let flags = flags(engine, more);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let run = lab.run("sampled", &flags)?;
    ensure!(
        matches!(run.code, Some(0 | 3 | 4)),
        "{}\n{}",
        run.stdout,
        run.stderr
    );
    Ok((lab, run))
}

/// The lines of a raw file, each of which fits the schema of its name.
fn lines(run: &Run, name: &str) -> Result<Vec<Value>> {
    let schema = root().join(format!("shared/schemas/{name}.schema.json"));
    let schema = jsonschema::validator_for(&run.json(&schema)?)
        .map_err(|e| anyhow::anyhow!("{name}: {e}"))?;
    let text = std::fs::read_to_string(run.raw(&format!("{name}.jsonl")))?;
    let mut all = Vec::new();
    for line in text.lines() {
        let value: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        ensure!(schema.is_valid(&value), "{name}: {line}");
        all.push(value);
    }
    ensure!(!all.is_empty(), "{name}.jsonl is empty");
    Ok(all)
}

fn source(run: &Run, name: &str) -> Result<Value> {
    let manifest = run.json(&run.raw("manifest.json"))?;
    let all = manifest["telemetry"].as_array().context("telemetry")?;
    let found = all.iter().find(|s| s["source"] == name);
    found.cloned().with_context(|| format!("no source {name}"))
}

#[test]
fn the_engines_processes_and_counters_are_sampled_through_a_point() -> Result<()> {
    let engine = engine()?;
    let more = [
        "--requests",
        "20",
        "--telemetry-interval",
        "100ms",
        "--gpu",
        "none",
    ];
    let (lab, run) = run(&engine, &more)?;

    let processes = lines(&run, "process_metrics")?;
    let pid = engine.pid();
    ensure!(
        processes.iter().all(|p| p["pid"] == pid),
        "not the engine's process {pid}: {}",
        processes[0]
    );
    ensure!(
        processes[0]["rss_bytes"].as_u64() > Some(0) && processes[0]["pss_bytes"].is_u64(),
        "{}",
        processes[0]
    );
    // Before, after, and at least some of the ten that two seconds hold.
    ensure!(processes.len() >= 4, "{} samples", processes.len());

    let counters = lines(&run, "server_metrics")?;
    let when: Vec<&str> = counters.iter().filter_map(|c| c["when"].as_str()).collect();
    ensure!(
        when.first() == Some(&"before") && when.last() == Some(&"after"),
        "{when:?}"
    );
    ensure!(
        when.iter().filter(|w| **w == "during").count() >= 2,
        "{when:?}"
    );
    let size = |c: &Value| c["metrics"].as_object().map_or(0, serde_json::Map::len);
    ensure!(
        size(&counters[1]) < size(&counters[0]),
        "a sample during the point holds everything"
    );

    let cards = lines(&run, "gpu_metrics")?;
    ensure!(cards == [serde_json::json!({"available": false, "reason": "gpu: none"})]);

    let about = source(&run, "engine")?;
    ensure!(
        about["names"]["generation_tokens"] == "vllm:generation_tokens_total",
        "{about}"
    );
    for name in ["client", "engine", "process"] {
        let about = source(&run, name)?;
        ensure!(
            about["available"] == true
                && about["cpu_seconds"].is_f64()
                && about["sample_ms"]["max"].as_f64() >= about["sample_ms"]["p50"].as_f64(),
            "{about}"
        );
    }
    let aggregate = run.json(&run.processed("aggregate.json"))?;
    let usage = &aggregate["points"][0]["telemetry"];
    ensure!(usage["client_cpu_cores"].as_f64() > Some(0.0), "{usage}");
    ensure!(
        usage["process"]["cpu_cores"].is_f64() && usage["engine"]["running_peak"].is_f64(),
        "{usage}"
    );
    let report = std::fs::read_to_string(lab.path().join("reports/generated/sampled.md"))?;
    ensure!(
        report.contains("## Telemetry") && report.contains("- gpu: not available: gpu: none"),
        "{report}"
    );
    Ok(())
}

#[test]
fn a_run_of_less_than_a_second_leaves_the_clients_state_all_the_same() -> Result<()> {
    let engine = engine()?;
    let (_lab, run) = run(&engine, &["--requests", "2", "--warmup", "0"])?;
    let client = lines(&run, "client_metrics")?;
    ensure!(client.len() >= 2, "{} lines", client.len());
    let last = &client[client.len() - 1];
    let threads = last["threads"].as_array().context("threads")?;
    ensure!(
        threads.iter().any(|t| t["name"] == "lag"),
        "no thread called lag: {last}"
    );
    ensure!(last["tcp"]["segments_out"].as_u64() > Some(0), "{last}");
    Ok(())
}

#[test]
fn the_engines_process_can_be_named_and_a_name_that_fits_nothing_stops_the_run() -> Result<()> {
    let engine = engine()?;
    let pid = engine.pid().to_string();
    let few = ["--requests", "2", "--engine-pid"];
    let (_lab, named) = run(&engine, &[&few[..], &[pid.as_str()]].concat())?;
    let processes = lines(&named, "process_metrics")?;
    ensure!(processes[0]["pid"] == engine.pid());

    let lab = Lab::new()?;
    for (flag, value, says) in [
        (
            "--engine-process",
            "no-such-engine-anywhere",
            "no command line holds",
        ),
        ("--engine-pid", "4194305", "process 4194305 is not there"),
    ] {
        let flags = flags(&engine, &[flag, value]);
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let refused = lab.run("refused", &flags)?;
        ensure!(
            refused.code == Some(2) && refused.stderr.contains(says),
            "{}",
            refused.stderr
        );
        ensure!(!refused.raw("manifest.json").exists());
    }
    Ok(())
}

/// A library that stands for the NVIDIA driver's, with these defines.
fn driver(folder: &Path, defines: &[String]) -> Result<PathBuf> {
    let library = folder.join("libnvml.so");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .args(defines.iter().map(|d| format!("-D{d}")))
        .arg(root().join("tests/fixtures/nvml_stub.c"))
        .status()
        .context("the tests need a C compiler called cc")?;
    ensure!(built.success(), "the stub does not compile");
    Ok(library)
}

#[test]
fn cards_are_sampled_and_energy_per_token_follows() -> Result<()> {
    let engine = engine()?;
    let folder = tempfile::tempdir()?;
    let defines = [
        "WATTS=200".to_owned(),
        "UTILIZATION=80".to_owned(),
        format!("PIDS={{{},{}}}", engine.pid(), std::process::id()),
    ];
    let library = driver(folder.path(), &defines)?;
    let lab = Lab::new()?;
    let flags = flags(&engine, &["--requests", "20", "--calibration", "off"]);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let output = lab
        .command(&flags)?
        .args(["--run-id", "cards"])
        .env("INFERSCOPE_NVML", &library)
        .output()?;
    let run = lab.finished("cards", &output);
    ensure!(matches!(run.code, Some(0 | 3 | 4)), "{}", run.stderr);

    let cards = lines(&run, "gpu_metrics")?;
    let processes = cards[0]["processes"].as_array().context("processes")?;
    let whose = |pid: u32| processes.iter().find(|p| p["pid"] == pid);
    let (own, foreign) = (whose(engine.pid()), whose(std::process::id()));
    ensure!(own.is_some_and(|p| p["engine"] == true), "{processes:?}");
    ensure!(
        foreign.is_some_and(|p| p["engine"] == false),
        "{processes:?}"
    );

    let aggregate = run.json(&run.processed("aggregate.json"))?;
    let point = &aggregate["points"][0];
    let number = |v: &Value| v.as_f64().with_context(|| point.to_string());
    let seconds = number(&point["window"]["seconds"])?;
    let joules = number(&point["telemetry"]["energy_joules"])?;
    // The stub's counter grows by 200 J a second, in steps of a millisecond's worth.
    ensure!(
        (joules - 200.0 * seconds).abs() < 1.0,
        "{joules} J in {seconds} s"
    );
    let tokens = number(&point["throughput"]["output_tokens_per_s"])? * seconds;
    let per_joule = number(&point["telemetry"]["output_tokens_per_joule"])?;
    ensure!((per_joule - tokens / joules).abs() < 1e-6);
    let manifest = run.json(&run.raw("manifest.json"))?;
    ensure!(
        manifest["gpu"] == "1 × Stub GPU, driver 999.1",
        "{}",
        manifest["gpu"]
    );
    Ok(())
}
