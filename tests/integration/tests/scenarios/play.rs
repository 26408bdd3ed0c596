//! Plays scripted engine answers to a raw client through the gateway, and to loadgen directly.
//!
//! Both give the observer's findings beside the bytes, so that a case can state what is right for
//! the gateway and for the load generator at once.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use inferscope_fake_engine::{Config, FakeEngine, Handle, Script, Scripts};
use inferscope_shared::record::gateway::GatewayRecord;
use inferscope_shared::record::request::RequestRecord;
use inferscope_tests::gateway::Gateway;
use inferscope_tests::http::{self, Answer};
use inferscope_tests::load::Lab;
use sha2::{Digest as _, Sha256};

/// The model that makes the engine play the scripts.
pub const MODEL: &str = "script:case";

/// Pause between two writes that must not be read as one.
pub const PAUSE: Duration = Duration::from_millis(5);

/// One answer through the gateway.
pub struct Passed {
    /// What the engine's bytes are when read without a gateway.
    pub sent: Answer,
    /// What the client got.
    pub got: Answer,
    /// What the gateway noted.
    pub record: GatewayRecord,
}

impl Passed {
    /// The base rule: status and body are the engine's, byte for byte.
    pub fn unchanged(&self) -> Result<()> {
        ensure!(
            self.got.status == self.sent.status,
            "status {} became {}",
            self.sent.status,
            self.got.status
        );
        ensure!(
            self.got.body == self.sent.body,
            "sent {:?}\ngot {:?}",
            self.sent.text(),
            self.got.text()
        );
        ensure!(
            self.record.sha256_upstream == Some(sha256(&self.sent.body)),
            "sha256_upstream"
        );
        ensure!(
            self.record.sha256_downstream == Some(sha256(&self.got.body)),
            "sha256_downstream"
        );
        ensure!(
            self.got.end == http::End::Clean,
            "the end is {:?}",
            self.got.end
        );
        Ok(())
    }
}

/// Hexadecimal SHA-256.
pub fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// An engine that plays `scripts` one after the other, the last again and again.
pub fn engine(scripts: &[Script]) -> Result<Handle> {
    engine_with(scripts.iter().fold(Scripts::new(), |stage, script| {
        stage.add("case", script.clone())
    }))
}

/// An engine with these scripts.
pub fn engine_with(scripts: Scripts) -> Result<Handle> {
    FakeEngine::start(Config {
        scripts,
        ..Config::default()
    })
    .context("the fake engine")
}

/// Each script once through one gateway.
pub fn pass(scripts: &[Script]) -> Result<Vec<Passed>> {
    let engine = engine(scripts)?;
    let gateway = Gateway::open(&engine.addr().to_string())?;
    let mut passed = Vec::new();
    for (i, script) in scripts.iter().enumerate() {
        let got = http::post(
            &gateway.data,
            "/v1/chat/completions",
            &[],
            &http::chat(MODEL, true, 16),
        )?;
        let record = gateway.records_when(i + 1)?.pop().context("no record")?;
        passed.push(Passed {
            sent: http::decode(&script.bytes())?,
            got,
            record,
        });
    }
    Ok(passed)
}

/// Each script once to loadgen, directly.
pub fn measure(scripts: &[Script]) -> Result<Vec<RequestRecord>> {
    let engine = engine(scripts)?;
    let url = format!("http://{}", engine.addr());
    let count = scripts.len().to_string();
    let lab = Lab::new()?;
    let run = lab.run(
        "case",
        &[
            "--path",
            "direct",
            "--direct-url",
            &url,
            "--model",
            MODEL,
            "--concurrency",
            "1",
            "--requests",
            &count,
            "--warmup",
            "0",
            "--input-tokens",
            "4",
            "--output-tokens",
            "4",
        ],
    )?;
    let mut records = run.measured()?;
    ensure!(
        records.len() == scripts.len(),
        "{} records\n{}",
        records.len(),
        run.stderr
    );
    records.sort_by_key(|r| r.seq);
    Ok(records)
}

/// One script through the gateway.
pub fn pass_one(script: &Script) -> Result<Passed> {
    pass(std::slice::from_ref(script))?
        .pop()
        .context("nothing passed")
}

/// One script to loadgen.
pub fn measure_one(script: &Script) -> Result<RequestRecord> {
    measure(std::slice::from_ref(script))?
        .pop()
        .context("nothing measured")
}

/// The data of an event with this content.
pub fn content(text: &str) -> String {
    let text = serde_json::Value::from(text);
    format!(r#"{{"choices":[{{"index":0,"delta":{{"content":{text}}},"finish_reason":null}}]}}"#)
}

/// The opening role event.
pub const ROLE: &str =
    r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#;

/// A finish event.
pub fn finish(reason: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}]}}"#)
}

/// A usage event.
pub fn usage(prompt: u64, completion: u64) -> String {
    format!(
        r#"{{"choices":[],"usage":{{"prompt_tokens":{prompt},"completion_tokens":{completion}}}}}"#
    )
}

/// A stream of these events with head, `[DONE]` and a clean end.
pub fn stream(events: &[&str]) -> Script {
    events
        .iter()
        .fold(Script::new().head_sse(), |script, event| {
            script.event(event)
        })
        .done()
        .end()
}

/// A stream whose body is these writes, each an HTTP chunk, a pause apart, with a clean end.
pub fn writes(parts: &[&[u8]]) -> Script {
    let start = Script::new().head_sse();
    parts
        .iter()
        .fold(start, |script, part| script.chunk(part).delay(PAUSE))
        .end()
}

/// The whole body of a plain stream: role, these texts, finish, usage, `[DONE]`.
pub fn plain_body(texts: &[&str]) -> Vec<u8> {
    let mut body = format!("data: {ROLE}\n\n");
    for text in texts {
        body.push_str(&format!("data: {}\n\n", content(text)));
    }
    let tokens = texts.len() as u64;
    body.push_str(&format!(
        "data: {}\n\ndata: {}\n\ndata: [DONE]\n\n",
        finish("stop"),
        usage(3, tokens)
    ));
    body.into_bytes()
}
