//! What goes wrong around a run: input that can't be used, an engine that dies, an operator who
//! stops it, a kill. One clear line, nothing half-written, and what was measured is kept.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use inferscope_fake_engine::{Config, FakeEngine};
use inferscope_shared::record::request::{Outcome, RequestRecord};
use inferscope_tests::load::Lab;
use inferscope_tests::process::{Server, command, until};
use rustix::process::{Pid, Signal, kill_process};

/// One line that says what is wrong, exit code 2, and no folder of results.
fn is_refused(lab: &Lab, arguments: &[&str], says: &[&str]) -> Result<()> {
    let mut command = command("loadgen", arguments)?;
    if !arguments.contains(&"--results-dir") {
        command.arg("--results-dir").arg(lab.path().join("results"));
    }
    let output = command.current_dir(lab.path()).output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(
        output.status.code() == Some(2),
        "{arguments:?}: exit {:?}\n{said}",
        output.status.code()
    );
    ensure!(
        said.lines().count() == 1,
        "{arguments:?}: more than one line:\n{said}"
    );
    for word in says {
        ensure!(
            said.contains(word),
            "{arguments:?}: \"{word}\" is not in: {said}"
        );
    }
    ensure!(
        !lab.path().join("results").exists(),
        "{arguments:?}: left something behind"
    );
    ensure!(
        !lab.path().join("reports").exists(),
        "{arguments:?}: left something behind"
    );
    Ok(())
}

#[test]
fn input_that_cannot_be_used_gets_one_line_and_leaves_nothing() -> Result<()> {
    let engine = FakeEngine::start(Config::default())?;
    let lab = Lab::new()?;
    let url = format!("http://{}", engine.addr());
    let file = |text: &str| -> Result<()> {
        let yaml = format!(
            "version: 1\narms: {{direct: {{url: \"{url}\"}}}}\nrequest: {{model: fake-model}}\n{text}"
        );
        Ok(fs::write(lab.path().join("x.yaml"), yaml)?)
    };
    for (text, says) in [
        (
            "load: {concurency: [1]}\n",
            ["x.yaml:4:", "concurency", "concurrency"],
        ),
        ("seed: 1\nseed: 2\n", ["x.yaml:5:", "seed", "seed"]),
        ("load: {duration: 5}\n", ["x.yaml:4:", "duration", "200ms"]),
        (
            "load: {requests: many}\n",
            ["x.yaml:4:", "requests", "many"],
        ),
        ("load: {requests: 0}\n", ["requests", "0", "1"]),
    ] {
        file(text)?;
        is_refused(&lab, &["-c", "x.yaml"], &says)?;
    }
    is_refused(&lab, &["-c", "nowhere.yaml"], &["nowhere.yaml"])?;
    let direct = ["--direct-url", &url, "--model", "fake-model"];
    let with = |more: &[&'static str]| -> Vec<String> {
        direct
            .iter()
            .copied()
            .chain(more.iter().copied())
            .map(str::to_owned)
            .collect()
    };
    for (more, says) in [
        (&["--requests", "0"][..], "requests"),
        (&["--slo", "ttft=200"], "ttft"),
        (&["--slo", "tttf=200ms"], "tttf"),
        (&["--concurrency", "0"], "concurrency"),
        (&["--body", "{"], "body"),
        (&["--workload", "nowhere.jsonl"], "nowhere.jsonl"),
        (&["--gateway-records", "nowhere.jsonl"], "nowhere.jsonl"),
        (&["--results-dir", "/proc/no"], "/proc/no"),
    ] {
        let arguments = with(more);
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        is_refused(&lab, &arguments, &[says])?;
    }
    let nobody = format!("http://{}", TcpListener::bind("127.0.0.1:0")?.local_addr()?);
    is_refused(&lab, &["--direct-url", &nobody, "--model", "m"], &[&nobody])?;
    is_refused(
        &lab,
        &["--direct-url", &url, "--model", "other"],
        &["other", "fake-model"],
    )?;
    let only = engine.requests();
    ensure!(
        only.iter()
            .all(|r| r.method == "GET" || !r.target.ends_with("completions")),
        "a refused run sent requests"
    );
    Ok(())
}

#[test]
fn a_gateway_that_cannot_start_says_why_in_one_line() -> Result<()> {
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let address = taken.local_addr()?.to_string();
    let output = command(
        "inferscope-gateway",
        [
            "run",
            "--upstream",
            "http://127.0.0.1:9",
            "--listen",
            &address,
            "--no-auth",
        ],
    )?
    .output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(
        output.status.code() == Some(2),
        "exit {:?}\n{said}",
        output.status.code()
    );
    ensure!(
        said.lines().count() == 1 && said.contains(&address),
        "{said}"
    );
    ensure!(output.stdout.is_empty(), "a ready line without a listener");

    let lab = Lab::new()?;
    let path = lab.path().join("g.yaml");
    fs::write(
        &path,
        "version: 1\nlisten: [{addr: \"127.0.0.1:0\"}]\nlisten: []\npools: {p: {endpoints: [\"http://h\"]}}\nquee: 1\n",
    )?;
    let output = command("inferscope-gateway", ["check", "-c"])?
        .arg(&path)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(
        output.status.code() == Some(2),
        "exit {:?}\n{said}",
        output.status.code()
    );
    for word in ["g.yaml:3:", "listen", "g.yaml:5:", "quee", "auth"] {
        ensure!(said.contains(word), "\"{word}\" is not in:\n{said}");
    }
    Ok(())
}

fn signal(process: u32, signal: Signal) -> Result<()> {
    let pid = i32::try_from(process)
        .ok()
        .and_then(Pid::from_raw)
        .context("pid")?;
    Ok(kill_process(pid, signal)?)
}

/// A long run in the background.
fn long_run(lab: &Lab, url: &str, id: &str) -> Result<std::process::Child> {
    let arguments = [
        "--direct-url",
        url,
        "--model",
        "fake-model",
        "--requests",
        "100000",
        "--concurrency",
        "4",
        "--output-tokens",
        "4",
        "--run-id",
        id,
    ];
    let mut command: Command = lab.command(&arguments)?;
    Ok(command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?)
}

fn lines(path: &Path) -> usize {
    fs::read(path)
        .map(|bytes| bytes.iter().filter(|b| **b == b'\n').count())
        .unwrap_or_default()
}

fn quick_engine() -> Result<Server> {
    let arguments = ["--listen", "127.0.0.1:0", "--ttft", "5ms", "--itl", "1ms"];
    Server::start("fake-engine", command("fake-engine", arguments)?)
}

#[test]
fn a_killed_run_keeps_its_finished_lines() -> Result<()> {
    let engine = quick_engine()?;
    let lab = Lab::new()?;
    let mut child = long_run(
        &lab,
        &format!("http://{}", engine.address("listen")),
        "killed",
    )?;
    let path = lab.path().join("results/raw/killed/requests.jsonl");
    until("fifty finished requests on disk", || {
        (lines(&path) >= 50).then_some(())
    })?;
    child.kill()?;
    child.wait()?;
    let bytes = fs::read(&path)?;
    let whole = bytes.iter().rposition(|b| *b == b'\n').context("no line")?;
    let text = std::str::from_utf8(&bytes[..whole])?;
    for line in text.lines() {
        let record: RequestRecord = serde_json::from_str(line).context(line.to_owned())?;
        ensure!(record.outcome == Outcome::Ok, "{line}");
    }
    for file in ["manifest.json", "plan.jsonl", "config.resolved.yaml"] {
        ensure!(
            fs::metadata(path.with_file_name(file))?.len() > 0,
            "{file} is empty"
        );
    }
    Ok(())
}

#[test]
fn an_interrupted_run_keeps_what_was_measured() -> Result<()> {
    for (name, number, code) in [("int", Signal::INT, 130), ("term", Signal::TERM, 143)] {
        let engine = quick_engine()?;
        let lab = Lab::new()?;
        let child = long_run(&lab, &format!("http://{}", engine.address("listen")), name)?;
        let path = lab
            .path()
            .join(format!("results/raw/{name}/requests.jsonl"));
        until("fifty finished requests on disk", || {
            (lines(&path) >= 50).then_some(())
        })?;
        signal(child.id(), number)?;
        let output = child.wait_with_output()?;
        ensure!(output.status.code() == Some(code), "{name}: {output:?}");
        let run = lab.finished(name, &output);
        let manifest = run.json(&run.raw("manifest.json"))?;
        ensure!(
            manifest["interrupted"] == true,
            "{name}: not marked as interrupted"
        );
        ensure!(run.requests()?.len() >= 50);
        run.every_arrival_has_its_record()?;
        ensure!(run.gate("rows_complete")? == ["PASS"]);
        ensure!(
            run.processed("aggregate.json").is_file(),
            "{name}: what was measured is not in an aggregate"
        );
    }
    Ok(())
}

#[test]
fn an_engine_that_dies_ends_the_run_and_is_named_by_the_verdict() -> Result<()> {
    let engine = quick_engine()?;
    let lab = Lab::new()?;
    let child = long_run(
        &lab,
        &format!("http://{}", engine.address("listen")),
        "died",
    )?;
    let path = lab.path().join("results/raw/died/requests.jsonl");
    until("fifty finished requests on disk", || {
        (lines(&path) >= 50).then_some(())
    })?;
    engine.signal(Signal::KILL);
    let output = child.wait_with_output()?;
    let run = lab.finished("died", &output);
    ensure!(run.code == Some(3), "exit {:?}\n{}", run.code, run.stderr);
    run.every_arrival_has_its_record()?;
    let requests = run.requests()?;
    ensure!(
        requests.iter().any(|r| r.outcome == Outcome::Failed),
        "no request failed"
    );
    let validation = run.json(&run.raw("validation.json"))?;
    ensure!(validation["status"] == "INVALID");
    let gates = validation["gates"].as_array().context("gates")?;
    ensure!(
        gates
            .iter()
            .any(|g| g["status"] == "FAIL" && g["blame"] == "engine"),
        "no gate blames the engine: {gates:?}"
    );
    Ok(())
}
