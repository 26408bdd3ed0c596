//! The binary: its ready line, its script file, its one-line errors.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::client::{LIMIT, post};

/// Killed and reaped when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fake-engine"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn one_ready_line_then_scripts_from_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("scripts.json");
    std::fs::write(
        &file,
        r#"{"scripts": {"a": [{"write": "no http"}, {"fin": true}]}}"#,
    )
    .unwrap();
    let mut running = Running(command().arg("--script").arg(&file).spawn().unwrap());
    let mut line = String::new();
    let mut out = BufReader::new(running.0.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    let ready: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(ready["ready"], true);
    let mut stream = TcpStream::connect(ready["listen"].as_str().unwrap()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
        .write_all(post("/v1/completions", r#"{"model":"script:a"}"#).as_bytes())
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "no http");
}

#[test]
fn what_can_not_start_says_why_in_one_line() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (arguments, problem) in [
        (["--script", "/no/such/file"], "/no/such/file: No such file"),
        (["--listen", address.as_str()], address.as_str()),
        (["--log", "/no/such/log"], "log /no/such/log: No such file"),
    ] {
        let output = command().args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains(problem), "{said}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn virtual_runs_print_numbers_that_the_seed_decides() {
    let run = |arguments: &[&str]| {
        let output = command().args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(output.stderr.is_empty(), "no progress without a terminal");
        output.stdout
    };
    let simulate = ["simulate", "--rate", "20", "--requests", "200", "--json"];
    let summary: Value = serde_json::from_slice(&run(&simulate)).unwrap();
    assert_eq!(summary["requests"], 200);
    assert!(summary["saturation"]["requests_per_s"].as_f64().unwrap() > 20.0);
    assert_eq!(run(&simulate), run(&simulate));
    let slo = "ttft=100ms,at=p95";
    let capacity = [
        "capacity",
        "--slo",
        slo,
        "--requests",
        "100",
        "--replications",
        "3",
        "--json",
    ];
    let found: Value = serde_json::from_slice(&run(&capacity)).unwrap();
    let at = |i: usize| found["ci95"][i].as_f64().unwrap();
    assert!(at(0) < found["requests_per_s"].as_f64().unwrap());
    assert!(found["requests_per_s"].as_f64().unwrap() < at(1));
    let text = String::from_utf8(run(&capacity[..capacity.len() - 1])).unwrap();
    assert!(text.contains("95 % interval"), "{text}");
}

#[test]
fn a_plan_of_loadgen_is_played() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("plan.jsonl");
    let line = |point: &str, phase: &str, offset: &str| {
        format!(
            r#"{{"point_id":"{point}","arm":"direct","block":0,"phase":"{phase}","seq":0,"offset_ns":{offset},"prompt_tokens":100,"output_tokens":2,"prompt_sha256":"x"}}"#
        )
    };
    let play = |lines: &[String], more: &[&str]| {
        std::fs::write(&file, lines.join("\n")).unwrap();
        let path = file.to_str().unwrap();
        let output = command()
            .args(["simulate", "--json", "--plan", path])
            .args(more)
            .output()
            .unwrap();
        (
            serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let open = [
        line("direct.r1", "warmup", "0"),
        line("direct.r1", "measure", "1000000000"),
    ];
    let (summary, _) = play(&open, &[]);
    assert_eq!(summary["requests"], 1);
    // An idle engine: 8 ms, a sequence, 100 prompt tokens; then 8 ms and the sequence.
    assert_eq!(summary["ttft_ms"]["mean"], 8.0 + 0.1 + 2.0);
    assert_eq!(summary["tpot_ms"]["mean"], 8.1);
    let two = [open[0].clone(), line("direct.r2", "measure", "0")];
    assert!(play(&two, &[]).1.contains("choose one with --point"));
    assert_eq!(play(&two, &["--point", "direct.r2"]).0["requests"], 1);
    let closed = [line("direct.c1", "measure", "null")];
    assert!(play(&closed, &[]).1.contains("add --concurrency"));
    assert_eq!(play(&closed, &["--concurrency", "1"]).0["requests"], 1);
    assert!(play(&["{".into()], &[]).1.contains("plan.jsonl:1"));
}
