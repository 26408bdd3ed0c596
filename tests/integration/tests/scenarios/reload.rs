//! A gateway with 500 live streams is reloaded a hundred times and then drained: none of them breaks.

use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use inferscope_fake_engine::{Config, FakeEngine};
use inferscope_shared::record::gateway::{GatewayRecord, Outcome};
use inferscope_tests::gateway::{Gateway, base};
use inferscope_tests::http::{self, Answer, Client, End};
use inferscope_tests::process::until;
use rustix::process::Signal;
use sha2::{Digest as _, Sha256};

const CHAT: &str = "/v1/chat/completions";
const STREAMS: usize = 500;
const RELOADS: usize = 100;
/// Long enough for all reloads, by far.
const EVENTS: u32 = 200;

fn configuration(upstream: &str, records: &Path, i: usize) -> String {
    let limit = 1_000 + i;
    // Every second one knows a model more, and another time limit.
    let more = if i.is_multiple_of(2) {
        "models: {fake-model: {pool: main}}"
    } else {
        "models: {fake-model: {pool: main}, other: {pool: main}}\ntimeouts: {total: 20m}"
    };
    format!(
        "{}auth: {{mode: none}}\ntenants: {{anonymous: {{limits: {{requests_per_s: {limit}, burst: 10000, concurrency: 10000}}}}}}\n{more}\n",
        base(upstream).replace(
            "hash: true",
            &format!("hash: true, file: {{path: \"{}\"}}", records.display())
        )
    )
}

fn stream(address: &str, i: usize) -> Result<Answer> {
    let mut client = Client::connect(address)?;
    let id = format!("reload.{i}");
    let body = http::chat("fake-model", true, EVENTS);
    client.request("POST", CHAT, &[("x-request-id", &id)], &body)?;
    client.answer()
}

#[test]
fn o01_o02_reloads_and_a_drain_break_no_stream() -> Result<()> {
    let pace = Duration::from_millis(100);
    let engine = FakeEngine::start(Config {
        ttft: pace,
        itl: pace,
        ..Config::default()
    })?;
    let upstream = engine.addr().to_string();
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("records.jsonl");
    let mut gateway = Gateway::configured(&configuration(&upstream, &file, 0), &[])?;
    let idle = Client::connect(&gateway.data)?;

    let answers = thread::scope(|scope| -> Result<Vec<Answer>> {
        let data = &gateway.data;
        let streams: Vec<_> = (0..STREAMS)
            .map(|i| scope.spawn(move || stream(data, i)))
            .collect();
        let open = until("all streams to run, or one to end", || {
            let open = gateway.metric("inferscope_gateway_open_streams ").ok()?;
            let ended = streams.iter().any(|stream| stream.is_finished());
            (ended || open >= STREAMS as f64).then_some(open)
        })?;
        if open < STREAMS as f64 {
            for stream in streams {
                let answer = stream
                    .join()
                    .map_err(|_| anyhow::anyhow!("a client panicked"))??;
                ensure!(answer.status == 200, "{}: {}", answer.status, answer.text());
            }
            anyhow::bail!("a stream ended before all {STREAMS} ran");
        }
        for i in 1..=RELOADS {
            gateway.write(&configuration(&upstream, &file, i))?;
            if i.is_multiple_of(2) {
                gateway.server.signal(Signal::HUP);
                let done = "inferscope_gateway_config_reloads_total{outcome=\"done\"}";
                until("the reload", || {
                    (gateway.metric(done).ok()? >= i as f64).then_some(())
                })?;
            } else {
                let answer = gateway.post("/reload")?;
                ensure!(answer.status == 200, "{}", answer.text());
                ensure!(
                    answer.json()["changes"]
                        .as_array()
                        .is_some_and(|c| !c.is_empty())
                );
            }
        }
        let open = gateway.metric("inferscope_gateway_open_streams ")?;
        ensure!(
            open as usize == STREAMS,
            "{open} streams run after all reloads"
        );
        // What was taken from a limit under the first file is known under the last.
        let permits = gateway.metric("inferscope_gateway_permits_outstanding ")?;
        ensure!(permits as usize == STREAMS, "{permits} permits");

        gateway.server.signal(Signal::TERM);
        until("new requests to be refused", || {
            let mut client = Client::connect(&gateway.data).ok()?;
            let body = http::chat("fake-model", true, 1);
            client.request("POST", CHAT, &[], &body).ok()?;
            let answer = client.answer().ok()?;
            let closes = answer.header("connection") == Some("close");
            (answer.status == 503 && closes && answer.text().contains("draining")).then_some(())
        })?;
        let ready = http::get(&gateway.metrics, "/readyz", &[])?;
        ensure!(ready.status == 503, "readiness is off");
        let joined = streams.into_iter().map(|stream| {
            let answer = stream.join();
            answer.map_err(|_| anyhow::anyhow!("a client panicked"))?
        });
        joined.collect()
    })?;

    for (i, answer) in answers.iter().enumerate() {
        ensure!(
            answer.end == End::Clean,
            "stream {i} broke: {:?}",
            answer.end
        );
        ensure!(
            answer.text().ends_with("data: [DONE]\n\n"),
            "stream {i} is not whole"
        );
        let events = answer.text().matches("data: {").count();
        ensure!(events >= EVENTS as usize, "stream {i} has {events} events");
    }
    let hash = |body: &[u8]| hex::encode(Sha256::digest(body));
    let status = gateway.server.wait()?;
    ensure!(status.code() == Some(0), "exit {status:?}");
    ensure!(
        Client::connect(&gateway.data).is_err(),
        "then connections are refused"
    );
    let mut compared = 0;
    let records = std::fs::read_to_string(&file)?;
    for line in records.lines().skip(1) {
        let record: GatewayRecord = serde_json::from_str(line)?;
        let Some(id) = &record.client_request_id else {
            continue;
        };
        let i: usize = id.strip_prefix("reload.").context("an id")?.parse()?;
        let own = Some(hash(&answers[i].body));
        ensure!(record.outcome == Outcome::Ok, "{record:?}");
        ensure!(
            record.sha256_upstream == own,
            "stream {i} is not what the engine sent"
        );
        ensure!(record.sha256_downstream == own);
        compared += 1;
    }
    ensure!(
        compared == STREAMS,
        "{compared} of {STREAMS} streams have a record"
    );
    drop(idle);
    println!("{STREAMS} streams, {RELOADS} reloads, 1 drain: 0 broken, {compared} hashes compared");
    Ok(())
}
