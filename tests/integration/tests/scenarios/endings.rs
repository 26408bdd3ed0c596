//! How streams end when something ends them: a drain, the engine's death, the client's leaving.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use inferscope_fake_engine::{Config, FakeEngine, Script};
use inferscope_shared::record::gateway::Outcome;
use inferscope_tests::engine;
use inferscope_tests::gateway::Gateway;
use inferscope_tests::http::{self, Client, End};
use inferscope_tests::process::until;
use rustix::process::Signal;

use crate::play::{self, MODEL, ROLE, content};

const CHAT: &str = "/v1/chat/completions";
/// Longer than any machine needs, far shorter than the gateway's own limits.
const SOON: Duration = Duration::from_secs(10);

#[test]
fn a_drain_ends_with_the_last_stream_and_cuts_none() -> Result<()> {
    let pace = Duration::from_millis(40);
    let engine = FakeEngine::start(Config {
        ttft: pace,
        itl: pace,
        ..Config::default()
    })?;
    let mut gateway = Gateway::open(&engine.addr().to_string())?;
    let mut client = Client::connect(&gateway.data)?;
    client.request("POST", CHAT, &[], &http::chat("fake-model", true, 30))?;
    client.more()?;
    gateway.server.signal(Signal::TERM);
    let mut late = until("new requests to be refused", || {
        let mut late = Client::connect(&gateway.data).ok()?;
        late.request("POST", CHAT, &[], &http::chat("fake-model", true, 1))
            .ok()?;
        let answer = late.answer().ok()?;
        (answer.status == 503).then_some(answer)
    })?;
    late.headers.retain(|(name, _)| name == "connection");
    ensure!(late.headers == [("connection".to_owned(), "close".to_owned())]);
    let answer = client.answer()?;
    ensure!(
        answer.end == End::Clean,
        "the stream was cut: {:?}",
        answer.end
    );
    ensure!(
        answer.text().ends_with("data: [DONE]\n\n"),
        "{}",
        answer.text()
    );
    let ended = Instant::now();
    let status = gateway.server.wait()?;
    ensure!(status.code() == Some(0), "exit {status:?}");
    ensure!(
        TcpStream::connect(&gateway.data).is_err(),
        "its port is closed"
    );
    ensure!(
        ended.elapsed() < SOON,
        "it took {:?} after the last stream",
        ended.elapsed()
    );
    Ok(())
}

#[test]
fn an_engine_that_dies_in_a_stream_gives_an_error_event_and_no_clean_end() -> Result<()> {
    let begun = Script::new().head_sse().event(ROLE).event(&content("a"));
    let pause = Duration::from_millis(30);
    for (how, script) in [
        ("reset", begun.clone().delay(pause).rst()),
        (
            "closed without the last chunk",
            begun.clone().delay(pause).close(),
        ),
        (
            "closed inside an event",
            begun.raw("40\r\ndata: {\"cho").delay(pause).close(),
        ),
    ] {
        let passed = play::pass_one(&script)?;
        let text = passed.got.text();
        ensure!(passed.got.status == 200);
        ensure!(passed.got.end != End::Clean, "{how}: ended cleanly");
        ensure!(
            passed.got.body.starts_with(&passed.sent.body),
            "{how}: what the engine sent is not there:\n{text}"
        );
        ensure!(!text.contains("[DONE]"), "{how}: [DONE] was made up");
        let last = text.trim_end().rsplit("\n\n").next().unwrap_or_default();
        let error = last.rsplit("data: ").next().unwrap_or_default();
        let error: serde_json::Value = serde_json::from_str(error)
            .with_context(|| format!("{how}: no error event last:\n{text}"))?;
        ensure!(
            error["error"]["message"].is_string() && error["error"]["type"].is_string(),
            "{how}: {error}"
        );
        ensure!(
            passed.record.outcome == Outcome::UpstreamError,
            "{how}: {:?}",
            passed.record.outcome
        );
        ensure!(passed.record.error_kind.is_some(), "{how}: no error_kind");
    }
    Ok(())
}

#[test]
fn a_client_that_leaves_frees_the_engine() -> Result<()> {
    for phase in ["before the first event", "in the stream"] {
        let ttft = if phase == "in the stream" { 10 } else { 60_000 };
        let engine = engine::paced(ttft, 20)?;
        let gateway = Gateway::open(&engine.addr().to_string())?;
        let mut client = Client::connect(&gateway.data)?;
        client.request(
            "POST",
            CHAT,
            &[("x-request-id", "leaver")],
            &http::chat("fake-model", true, 10_000),
        )?;
        ensure!(
            engine.wait(SOON, |c| c.in_flight == 1),
            "{phase}: the request did not arrive"
        );
        if phase == "in the stream" {
            client.more()?;
        }
        drop(client);
        ensure!(
            engine.wait(SOON, |c| c.client_gone == 1 && c.in_flight == 0),
            "{phase}: the engine still works"
        );
        let record = gateway.record_of("leaver")?;
        ensure!(
            record.outcome == Outcome::ClientGone,
            "{phase}: {:?}",
            record.outcome
        );
    }
    Ok(())
}

#[test]
fn a_keep_alive_connection_serves_many_requests() -> Result<()> {
    let engine = engine::paced(2, 1)?;
    let gateway = Gateway::open(&engine.addr().to_string())?;
    let mut client = Client::connect(&gateway.data)?;
    for i in 0..20 {
        client.request(
            "POST",
            CHAT,
            &[("x-request-id", &format!("again-{i:02}"))],
            &http::chat(if i % 5 == 4 { MODEL } else { "fake-model" }, i % 2 == 0, 3),
        )?;
        let answer = client.answer()?;
        // Every fifth asks for a script that does not exist: an error answer keeps the connection too.
        ensure!(
            answer.status == if i % 5 == 4 { 404 } else { 200 },
            "request {i}: {} {}",
            answer.status,
            answer.text()
        );
    }
    let records = gateway.records_when(20)?;
    ensure!(
        records.iter().skip(1).all(|r| r.conn_reused == Some(true)),
        "connections to the engine are not kept"
    );
    Ok(())
}
