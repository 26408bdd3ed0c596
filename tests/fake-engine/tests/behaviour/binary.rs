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
