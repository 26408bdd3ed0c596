//! Where results go: no run overwrites another, and what can't be written is said before or after.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use inferscope_tests::engine;
use inferscope_tests::load::Lab;

fn flags<'a>(url: &'a str, requests: &'a str) -> Vec<&'a str> {
    let mut flags = vec![
        "--direct-url",
        url,
        "--model",
        "fake-model",
        "--requests",
        requests,
    ];
    flags.extend(["--concurrency", "4", "--output-tokens", "8"]);
    flags
}

#[test]
fn m31_two_runs_in_the_same_second_share_a_folder() -> Result<()> {
    let engine = engine::paced(2, 1)?;
    let url = format!("http://{}", engine.addr());
    let lab = Lab::new()?;
    let start = || -> Result<_> {
        let mut command = lab.command(&flags(&url, "20"))?;
        Ok(command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?)
    };
    let both = [start()?, start()?];
    for child in both {
        let output = child.wait_with_output()?;
        ensure!(
            matches!(output.status.code(), Some(0 | 3 | 4)),
            "{output:?}"
        );
    }
    let mut ids = Vec::new();
    for entry in fs::read_dir(lab.path().join("results/raw"))? {
        let folder = entry?.path();
        let lines = fs::read_to_string(folder.join("requests.jsonl"))?;
        ensure!(lines.lines().count() == 24, "{}", folder.display());
        let id = folder
            .file_name()
            .and_then(|n| n.to_str())
            .context("a name")?;
        ensure!(
            lines.lines().all(|line| line.contains(id)),
            "{id} has rows of another run"
        );
        ids.push(id.to_owned());
    }
    ensure!(ids.len() == 2, "{ids:?}");
    Ok(())
}

#[test]
fn m31_a_run_id_is_used_once() -> Result<()> {
    let engine = engine::paced(2, 1)?;
    let url = format!("http://{}", engine.addr());
    let lab = Lab::new()?;
    let first = lab.run("once", &flags(&url, "5"))?;
    let before = fs::read(first.raw("requests.jsonl"))?;
    let second = lab.run("once", &flags(&url, "5"))?;
    ensure!(
        second.code == Some(2),
        "exit {:?}\n{}",
        second.code,
        second.stderr
    );
    ensure!(
        second.stderr.lines().count() == 1 && second.stderr.contains("once"),
        "{}",
        second.stderr
    );
    ensure!(
        fs::read(first.raw("requests.jsonl"))? == before,
        "the first run was changed"
    );
    Ok(())
}

#[test]
fn m31_a_folder_that_cannot_be_written_is_refused_before_the_run() -> Result<()> {
    let engine = engine::paced(2, 1)?;
    let url = format!("http://{}", engine.addr());
    let lab = Lab::new()?;
    // Nobody can make a folder below a file, whatever rights they have.
    fs::write(lab.path().join("results"), "a file")?;
    let run = lab.run("nowhere", &flags(&url, "5"))?;
    ensure!(run.code == Some(2), "exit {:?}\n{}", run.code, run.stderr);
    ensure!(
        run.stderr.contains("results_dir") && run.stderr.contains("--results-dir"),
        "{}",
        run.stderr
    );
    let asked = engine.requests();
    ensure!(
        asked.iter().all(|r| !r.target.ends_with("completions")),
        "a refused run sent requests"
    );
    Ok(())
}

#[test]
fn m31_a_disk_that_runs_full_leaves_the_results_on_standard_output() -> Result<()> {
    let engine = engine::paced(2, 1)?;
    let url = format!("http://{}", engine.addr());
    let lab = Lab::new()?;
    let loadgen = lab.command(&flags(&url, "600"))?;
    // A limit on the size of files stands for the disk: more than the plan needs, less than the
    // records. Blocks are 512 bytes or 1 KiB, depending on the shell.
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 400; exec \"$0\" \"$@\""])
        .arg(loadgen.get_program())
        .args(loadgen.get_args())
        .args(["--run-id", "full"])
        .current_dir(lab.path())
        .output()?;
    let run = lab.finished("full", &output);
    ensure!(
        run.code == Some(1),
        "exit {:?}\n{}\n{}",
        run.code,
        run.stdout,
        run.stderr
    );
    ensure!(run.stderr.contains("requests.jsonl"), "{}", run.stderr);
    ensure!(
        run.stdout.starts_with("INVALID") && run.stdout.contains("direct.c4"),
        "{}",
        run.stdout
    );
    ensure!(run.gate("raw_written")? == ["FAIL"]);
    let manifest = run.json(&run.raw("manifest.json"))?;
    let said = manifest["disk_error"].as_str().context("disk_error")?;
    ensure!(said.contains("requests.jsonl"), "{said}");
    Ok(())
}
