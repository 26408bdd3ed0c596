//! A real llama.cpp server with real weights behind the gateway: the same bytes on every side, the
//! same text on both paths, and the engine's own token counter as the referee.

use std::collections::HashMap;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use inferscope_shared::record::request::Outcome;
use inferscope_tests::gateway::Gateway;
use inferscope_tests::http;
use inferscope_tests::load::{Lab, Run};
use inferscope_tests::process::{Server, root};

fn engine() -> Result<Server> {
    let mut start = Command::new(root().join("tests/engines/llamacpp.sh"));
    start.arg("0");
    Server::start("llama.cpp", start)
}

/// The engine's count of tokens it has generated.
fn tokens_predicted(engine: &str) -> Result<u64> {
    let text = http::get(engine, "/metrics", &[])?.text();
    let line = text
        .lines()
        .find_map(|l| l.strip_prefix("llamacpp:tokens_predicted_total "));
    Ok(line
        .context("no llamacpp:tokens_predicted_total")?
        .trim()
        .parse::<f64>()? as u64)
}

/// A run over both paths of a fresh gateway before `engine`.
fn both_paths(lab: &Lab, id: &str, engine: &str, more: &[&str]) -> Result<(Run, Gateway)> {
    let gateway = Gateway::open(engine)?;
    let direct = format!("http://{engine}");
    let through = format!("http://{}", gateway.data);
    let records = format!("http://{}/records", gateway.admin);
    let mut arguments = vec![
        "--path",
        "both",
        "--direct-url",
        &direct,
        "--gateway-url",
        &through,
    ];
    arguments.extend([
        "--gateway-records",
        &records,
        "--model",
        "smollm2",
        "--gpu",
        "none",
    ]);
    arguments.extend(more);
    let run = lab.run(id, &arguments)?;
    Ok((run, gateway))
}

#[test]
#[ignore = "needs tests/engines/llamacpp.sh install; tests/run.sh runs it"]
fn bytes_and_token_counts_agree_on_a_real_engine() -> Result<()> {
    let engine = engine()?;
    let address = engine.address("listen");
    let lab = Lab::new()?;
    let before = tokens_predicted(&address)?;
    let load = [
        "--concurrency",
        "1,2,4",
        "--requests",
        "20",
        "--input-tokens",
        "48",
        "--output-tokens",
        "12",
    ];
    let (run, gateway) = both_paths(&lab, "real", &address, &load)?;
    run.sound()?;

    let requests = run.requests()?;
    ensure!(
        requests.iter().all(|r| r.outcome == Outcome::Ok),
        "not all requests were answered"
    );
    let measured = run.measured()?;
    ensure!(
        measured.len() == 2 * 3 * 20,
        "{} measured requests",
        measured.len()
    );

    let used: u64 = requests
        .iter()
        .map(|r| r.completion_tokens.context("no usage"))
        .sum::<Result<u64>>()?;
    let counted = tokens_predicted(&address)? - before;
    ensure!(
        used == counted,
        "usage sums to {used}, the engine counted {counted}"
    );

    let through = requests.iter().filter(|r| r.arm == "gateway");
    let records: HashMap<_, _> = gateway
        .records()?
        .into_iter()
        .filter_map(|r| Some((r.client_request_id.clone()?, r)))
        .collect();
    let mut compared = 0;
    for request in through {
        let record = records
            .get(&request.request_id)
            .with_context(|| format!("no record of {}", request.request_id))?;
        ensure!(
            request.body_sha256.is_some() && request.body_sha256 == record.sha256_downstream,
            "{}",
            request.request_id
        );
        ensure!(
            record.sha256_upstream == record.sha256_downstream,
            "{}",
            request.request_id
        );
        compared += 1;
    }
    ensure!(compared >= 60, "only {compared} requests compared");
    println!("{compared} bodies with one hash on three sides; usage {used} = engine {counted}");
    Ok(())
}

#[test]
#[ignore = "needs tests/engines/llamacpp.sh install; tests/run.sh runs it"]
fn both_paths_give_the_same_text_at_temperature_zero() -> Result<()> {
    let engine = engine()?;
    let lab = Lab::new()?;
    let (run, _gateway) = both_paths(
        &lab,
        "same-text",
        &engine.address("listen"),
        &[
            "--concurrency",
            "1",
            "--requests",
            "8",
            "--input-tokens",
            "48",
            "--output-tokens",
            "16",
            "--salt",
            "none",
            "--body",
            r#"{"temperature":0,"cache_prompt":false}"#,
        ],
    )?;
    run.sound()?;
    let mut texts: HashMap<u64, Vec<String>> = HashMap::new();
    for request in run.measured()? {
        texts
            .entry(request.seq)
            .or_default()
            .push(request.text_sha256.context("no text hash")?);
    }
    ensure!(texts.len() == 8, "{} pairs", texts.len());
    for (seq, pair) in &texts {
        ensure!(
            pair.len() == 2 && pair[0] == pair[1],
            "request {seq}: {pair:?}"
        );
    }
    let different: std::collections::HashSet<_> = texts.values().map(|p| &p[0]).collect();
    ensure!(
        different.len() > 1,
        "all prompts gave one text: the comparison shows nothing"
    );
    Ok(())
}
