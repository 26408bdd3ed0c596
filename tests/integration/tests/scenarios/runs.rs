//! A measurement over both paths, from the command line to its evidence: verdict, join, artifacts,
//! schemas, and the same numbers again offline.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use inferscope_fake_engine::Handle;
use inferscope_shared::record::request::Outcome;
use inferscope_tests::engine;
use inferscope_tests::gateway::Gateway;
use inferscope_tests::load::{Lab, Run};
use inferscope_tests::process::root;
use serde_json::Value;

use crate::play::sha256;

/// A run over both paths with `more` flags, and everything it went through.
struct Measured {
    lab: Lab,
    run: Run,
    engine: Handle,
    _gateway: Gateway,
}

fn both_paths(more: &[&str]) -> Result<Measured> {
    let engine = engine::paced(20, 5)?;
    let gateway = Gateway::open(&engine.addr().to_string())?;
    let lab = Lab::new()?;
    let direct = format!("http://{}", engine.addr());
    let through = format!("http://{}", gateway.data);
    let records = format!("http://{}/records", gateway.admin);
    let mut flags = vec!["--path", "both", "--direct-url", &direct];
    flags.extend(["--gateway-url", &through, "--gateway-records", &records]);
    flags.extend(["--model", "fake-model"]);
    flags.extend(more);
    let run = lab.run("both", &flags)?;
    Ok(Measured {
        lab,
        run,
        engine,
        _gateway: gateway,
    })
}

const DEMO: [&str; 8] = [
    "--concurrency",
    "1,2,4",
    "--requests",
    "20",
    "--input-tokens",
    "32",
    "--output-tokens",
    "8",
];

#[test]
fn a_run_over_both_paths_is_sound_joined_and_complete() -> Result<()> {
    let Measured {
        run,
        engine,
        lab: _lab,
        ..
    } = both_paths(&DEMO)?;
    run.sound()?;
    // NOT_APPLICABLE is not enough: the gateway hashes and keeps records here.
    for gate in ["join_complete", "byte_identity"] {
        ensure!(run.gate(gate)? == ["PASS"], "{gate}: {:?}", run.gate(gate)?);
    }
    run.every_arrival_has_its_record()?;

    let requests = run.requests()?;
    let measured = run.measured()?;
    ensure!(
        measured.len() == 2 * 3 * 20,
        "{} measured requests",
        measured.len()
    );
    ensure!(
        requests
            .iter()
            .all(|r| r.outcome == Outcome::Ok && r.completion_tokens == Some(8)),
        "a request has not ended with the eight tokens asked for"
    );
    let completions = engine
        .requests()
        .iter()
        .filter(|r| r.target == "/v1/chat/completions")
        .count();
    ensure!(
        requests.len() == completions,
        "{} records of {completions} requests that the engine had",
        requests.len()
    );
    let ids: BTreeSet<_> = requests.iter().map(|r| &r.request_id).collect();
    ensure!(ids.len() == requests.len(), "request ids repeat");

    let aggregate = run.json(&run.processed("aggregate.json"))?;
    let points = aggregate["points"].as_array().context("points")?;
    let names: Vec<_> = points
        .iter()
        .filter_map(|p| p["point_id"].as_str())
        .collect();
    for name in [
        "direct.c1",
        "direct.c2",
        "direct.c4",
        "gateway.c1",
        "gateway.c2",
        "gateway.c4",
    ] {
        ensure!(names.contains(&name), "no point {name} among {names:?}");
    }
    for point in points {
        let counts = &point["requests"];
        ensure!(
            counts["planned"] == 20 && counts["ok"] == 20 && counts["dropped"] == 0,
            "{counts}"
        );
        let n = point["metrics"]["ttft_ms"]["n"].as_u64();
        ensure!(n == Some(20), "ttft of {n:?} requests");
    }
    let through = requests.iter().filter(|r| r.arm == "gateway").count();
    let joined = fs::read_to_string(run.raw("gateway_records.jsonl"))?;
    let joined = joined
        .lines()
        .filter(|l| !l.starts_with("{\"header\""))
        .count();
    ensure!(
        joined == through,
        "{joined} gateway records for {through} requests"
    );
    Ok(())
}

#[test]
fn every_artifact_is_as_the_manifest_says_and_fits_its_schema() -> Result<()> {
    let Measured { run, lab, .. } = both_paths(&[
        "--concurrency",
        "2",
        "--requests",
        "20",
        "--output-tokens",
        "4",
    ])?;
    let manifest = run.json(&run.raw("manifest.json"))?;
    ensure!(manifest["interrupted"] == false && manifest["finished"] == true);
    ensure!(
        manifest["engine"]["kind"] == "fake",
        "engine {}",
        manifest["engine"]
    );
    let folder = run
        .raw("manifest.json")
        .parent()
        .context("a folder")?
        .to_owned();
    let mut present = 0;
    for artifact in manifest["artifacts"].as_array().context("artifacts")? {
        let name = artifact["path"].as_str().context("path")?;
        let found = [&folder, &run.results, &lab.path().to_owned()]
            .into_iter()
            .map(|f| f.join(name))
            .find(|p| p.is_file());
        if artifact["present"] == true {
            let path = found.with_context(|| format!("{name} is listed and not there"))?;
            if let Some(hash) = artifact["sha256"].as_str() {
                ensure!(hash == sha256(&fs::read(&path)?), "{name} has another hash");
            }
            present += 1;
        } else {
            ensure!(found.is_none(), "{name} is there and listed as absent");
            ensure!(
                artifact["reason"].is_string(),
                "{name} is absent without a reason"
            );
        }
    }
    ensure!(present >= 8, "only {present} artifacts");

    let folder = root().join("shared/schemas");
    let mut checked = 0;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|n| n.to_str())
            .unwrap_or_default()
            .to_owned();
        let schema = jsonschema::validator_for(&run.json(&path)?)
            .map_err(|e| anyhow::anyhow!("{name}: {e}"))?;
        for document in documents(&run, name.trim_end_matches(".schema.json"))? {
            let faults: Vec<_> = schema
                .iter_errors(&document)
                .map(|e| format!("{}: {e}", e.instance_path()))
                .collect();
            ensure!(faults.is_empty(), "{name}: {faults:?} in {document}");
            checked += 1;
        }
    }
    ensure!(checked > 40, "only {checked} documents were checked");
    Ok(())
}

/// What a run left under the schema of this name.
fn documents(run: &Run, schema: &str) -> Result<Vec<Value>> {
    let lines = |path: &Path| -> Result<Vec<Value>> {
        fs::read_to_string(path)?
            .lines()
            .map(|l| Ok(serde_json::from_str(l)?))
            .collect()
    };
    let records = lines(&run.raw("gateway_records.jsonl"))?;
    let (headers, records): (Vec<_>, Vec<_>) =
        records.into_iter().partition(|v| v.get("header").is_some());
    Ok(match schema {
        "request_record" => lines(&run.raw("requests.jsonl"))?,
        "client_metrics" | "server_metrics" | "process_metrics" | "gpu_metrics" => {
            lines(&run.raw(&format!("{schema}.jsonl")))?
        }
        "gateway_record" => records,
        "gateway_header" => headers,
        "manifest" | "validation" => vec![run.json(&run.raw(&format!("{schema}.json")))?],
        // What `loadgen probe` and `loadgen doctor` print, who have scenarios of their own.
        "probe" | "doctor" => Vec::new(),
        "aggregate" | "attribution" => vec![run.json(&run.processed(&format!("{schema}.json")))?],
        other => anyhow::bail!("nothing in a run is checked against {other}.schema.json"),
    })
}

#[test]
fn numbers_and_verdict_come_out_again_offline() -> Result<()> {
    let Measured {
        run,
        lab,
        engine,
        _gateway,
    } = both_paths(&[
        "--concurrency",
        "1",
        "--requests",
        "20",
        "--output-tokens",
        "4",
    ])?;
    drop((engine, _gateway));
    let aggregate = fs::read(run.processed("aggregate.json"))?;
    let attribution = fs::read(run.processed("attribution.json"))?;
    let report = lab.path().join("reports/generated/both.md");
    let text = fs::read_to_string(&report)?;
    ensure!(
        text.contains("not a performance result"),
        "no banner on a report over the fake engine"
    );
    fs::remove_dir_all(run.results.join("processed"))?;
    fs::remove_file(&report)?;
    for subcommand in ["validate", "report", "show"] {
        let output = lab.command(&[subcommand, "both"])?.output()?;
        // Only validate ends by the verdict; the others have done what was asked of them.
        let code = if subcommand == "validate" {
            run.code
        } else {
            Some(0)
        };
        ensure!(output.status.code() == code, "{subcommand}: {output:?}");
    }
    ensure!(
        fs::read(run.processed("aggregate.json"))? == aggregate,
        "aggregate.json changed"
    );
    ensure!(
        fs::read(run.processed("attribution.json"))? == attribution,
        "attribution.json changed"
    );
    ensure!(fs::read_to_string(&report)? == text, "the report changed");
    Ok(())
}

#[test]
fn a_workload_is_replayed_with_its_own_arrival_times_on_both_paths() -> Result<()> {
    let engine = engine::paced(20, 5)?;
    let gateway = Gateway::open(&engine.addr().to_string())?;
    let lab = Lab::new()?;
    let lines = [
        "{\"at_ms\":0,\"prompt\":\"one two\",\"output_tokens\":2}",
        "{\"at_ms\":40,\"messages\":[{\"role\":\"user\",\"content\":\"three\"}],\"output_tokens\":3}",
        "{\"at_ms\":90.5,\"prompt\":\"four\",\"body\":{\"max_tokens\":4}}",
    ];
    fs::write(lab.path().join("w.jsonl"), lines.join("\n"))?;
    let (direct, through) = (
        format!("http://{}", engine.addr()),
        format!("http://{}", gateway.data),
    );
    let run = lab.run(
        "replay",
        &[
            "--path",
            "both",
            "--direct-url",
            &direct,
            "--gateway-url",
            &through,
            "--model",
            "fake-model",
            "--workload",
            "w.jsonl",
            "--arrival",
            "replay",
            "--warmup",
            "0",
        ],
    )?;
    let mut measured = run.measured()?;
    measured.sort_by_key(|r| (r.arm.clone(), r.seq));
    ensure!(
        measured.len() == 6,
        "{} requests\n{}",
        measured.len(),
        run.stderr
    );
    let tokens: Vec<_> = measured.iter().map(|r| r.completion_tokens).collect();
    ensure!(
        tokens == [Some(2), Some(3), Some(4), Some(2), Some(3), Some(4)],
        "{tokens:?}"
    );
    for arm in measured.chunks(3) {
        let at: Vec<_> = arm
            .iter()
            .map(|r| r.intended_ns.map(|t| t.0).unwrap_or_default())
            .collect();
        ensure!(
            at[1] - at[0] == 40_000_000 && at[2] - at[0] == 90_500_000,
            "intended {at:?}"
        );
    }
    Ok(())
}
