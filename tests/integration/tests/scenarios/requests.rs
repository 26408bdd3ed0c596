//! What goes in: bodies of any size up to the cap, callers, paths and models, and an id on every
//! answer.

use anyhow::{Context as _, Result, ensure};
use inferscope_fake_engine::Script;
use inferscope_shared::record::gateway::Outcome;
use inferscope_tests::gateway::{Gateway, Guarded};
use inferscope_tests::http::{self, Answer, Client};
use serde_json::{Value, json};

use crate::play::{self, MODEL};

const CHAT: &str = "/v1/chat/completions";
const ANSWER: &str = r#"{"id":"c1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}]}"#;

/// A chat body of about this size, with spaces and escapes that a re-serialisation would change.
fn body(model: &str, bytes: usize) -> Vec<u8> {
    let text = "a\\u0062 \\/ ".repeat(bytes / 11);
    format!("{{ \"model\" : \"{model}\" ,\"messages\":[{{\"role\":\"user\", \"content\":\"{text}\"}}],  \"n\":1.0 }}")
        .into_bytes()
}

fn chunked(client: &mut Client, body: &[u8], size: usize) -> Result<Answer> {
    client.send(format!("POST {CHAT} HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n").as_bytes())?;
    let mut framed = Vec::new();
    for piece in body.chunks(size) {
        framed.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        framed.extend_from_slice(piece);
        framed.extend_from_slice(b"\r\n");
    }
    framed.extend_from_slice(b"0\r\n\r\n");
    // A server that has heard enough may close before everything is sent; its answer counts.
    let _ = client.send(&framed);
    client.answer()
}

fn is_refusal(answer: &Answer, status: u16) -> Result<Value> {
    ensure!(
        answer.status == status,
        "status {} instead of {status}: {}",
        answer.status,
        answer.text()
    );
    ensure!(answer.header("x-request-id").is_some(), "no x-request-id");
    let error = answer.json()["error"].clone();
    for field in ["message", "type", "code"] {
        ensure!(
            error[field].is_string(),
            "error.{field} is missing: {error}"
        );
    }
    ensure!(
        error.get("param").is_some(),
        "error.param is missing: {error}"
    );
    Ok(error)
}

#[test]
fn bodies_reach_the_engine_unchanged_at_any_size_and_framing() -> Result<()> {
    let engine = play::engine(&[Script::new().json("200 OK", ANSWER)])?;
    let gateway = Gateway::open(&engine.addr().to_string())?;
    let mut sent = Vec::new();
    for (size, pieces) in [
        (100, None),
        (300_000, Some(1_000)),
        (70_000, Some(1)),
        (20 << 20, None),
        (20 << 20, Some(60_000)),
    ] {
        let body = body(MODEL, size);
        let answer = match pieces {
            None => http::post(&gateway.data, CHAT, &[], &body)?,
            Some(pieces) => chunked(&mut Client::connect(&gateway.data)?, &body, pieces)?,
        };
        ensure!(
            answer.status == 200,
            "{size} bytes: {} {}",
            answer.status,
            answer.text()
        );
        sent.push(body);
    }
    let received = engine.requests();
    ensure!(received.len() == sent.len());
    for (request, body) in received.iter().zip(&sent) {
        ensure!(
            &request.body == body,
            "a body of {} bytes was changed",
            body.len()
        );
    }
    Ok(())
}

#[test]
fn a_body_over_the_cap_gets_413_however_it_is_framed() -> Result<()> {
    let engine = play::engine(&[Script::new().json("200 OK", ANSWER)])?;
    let gateway = Gateway::before(&engine.addr().to_string(), "max_request_body: 64KiB\n")?;
    let exact = {
        let mut body = body(MODEL, 60_000);
        body.resize(64 * 1024, b' ');
        body
    };
    ensure!(
        http::post(&gateway.data, CHAT, &[], &exact)?.status == 200,
        "a body of just the cap is refused"
    );
    let over = [&exact[..], b" "].concat();
    let error = is_refusal(&http::post(&gateway.data, CHAT, &[], &over)?, 413)?;
    ensure!(
        error["message"]
            .as_str()
            .is_some_and(|m| m.contains("65536") || m.contains("64 KiB") || m.contains("64KiB")),
        "the cap is not named: {error}"
    );
    is_refusal(
        &chunked(&mut Client::connect(&gateway.data)?, &over, 1_000)?,
        413,
    )?;
    // Announced only: the refusal does not wait for the body.
    let mut client = Client::connect(&gateway.data)?;
    client.send(
        format!("POST {CHAT} HTTP/1.1\r\nhost: t\r\ncontent-length: 99999999\r\n\r\n").as_bytes(),
    )?;
    is_refusal(&client.answer()?, 413)?;
    ensure!(
        engine.requests().len() == 1,
        "an oversized body reached the engine"
    );
    Ok(())
}

#[test]
fn only_a_known_key_gets_in_and_no_key_reaches_the_engine() -> Result<()> {
    let engine = play::engine(&[])?;
    let Guarded { gateway, key } = Guarded::before(&engine.addr().to_string(), "")?;
    let body = http::chat("fake-model", false, 2);
    let bearer = format!("Bearer {key}");
    let lower = format!("bearer {key}");
    for headers in [
        [("authorization", bearer.as_str())],
        [("Authorization", lower.as_str())],
        [("x-api-key", key.as_str())],
    ] {
        let answer = http::post(&gateway.data, CHAT, &headers, &body)?;
        ensure!(answer.status == 200, "{} {}", answer.status, answer.text());
    }
    let longer = format!("Bearer {key}x");
    let refused: [&[(&str, &str)]; 4] = [
        &[],
        &[("authorization", "Bearer nope")],
        &[("authorization", &longer)],
        &[("x-api-key", "")],
    ];
    for headers in refused {
        let answer = http::post(&gateway.data, CHAT, headers, &body)?;
        is_refusal(&answer, 401).with_context(|| format!("{headers:?}"))?;
        ensure!(
            answer.header("www-authenticate").is_some(),
            "no www-authenticate"
        );
    }
    let seen = engine.requests();
    ensure!(
        seen.len() == 3,
        "{} requests reached the engine",
        seen.len()
    );
    for request in &seen {
        let head = String::from_utf8_lossy(&request.head).into_owned();
        ensure!(!head.contains(&key), "the key reached the engine:\n{head}");
    }
    let records = gateway.records_when(7)?;
    ensure!(
        records
            .iter()
            .filter(|r| r.outcome == Outcome::Refused)
            .count()
            == 4
    );
    ensure!(
        records
            .iter()
            .filter(|r| r.tenant.as_deref() == Some("team"))
            .count()
            == 3
    );
    ensure!(
        !serde_json::to_string(&records)?.contains(&key),
        "the key is in a record"
    );
    ensure!(
        !gateway.server.log().contains(&key),
        "the key is in the log"
    );
    Ok(())
}

#[test]
fn unknown_paths_and_models_get_404_and_every_answer_has_an_id() -> Result<()> {
    let engine = play::engine(&[])?;
    let gateway = Gateway::before(
        &engine.addr().to_string(),
        "models: {known: {pool: main, upstream_model: fake-model}}\n",
    )?;
    for path in [
        "/",
        "/v1/load_lora_adapter",
        "/v1/chat/completions/more",
        "/metrics",
        "/records",
    ] {
        is_refusal(&http::post(&gateway.data, path, &[], b"{}")?, 404).context(path)?;
    }
    let error = is_refusal(
        &http::post(&gateway.data, CHAT, &[], &http::chat("other", false, 2))?,
        404,
    )?;
    ensure!(
        error["code"] == "model_not_found"
            && error["message"]
                .as_str()
                .is_some_and(|m| m.contains("other")),
        "{error}"
    );
    is_refusal(&http::get(&gateway.data, CHAT, &[])?, 405)?;
    is_refusal(&http::post(&gateway.data, CHAT, &[], b"not json")?, 400)?;
    is_refusal(
        &http::post(&gateway.data, CHAT, &[], br#"{"messages":[]}"#)?,
        400,
    )?;
    ensure!(
        engine.requests().is_empty(),
        "a refused request reached the engine"
    );

    let answer = http::post(
        &gateway.data,
        CHAT,
        &[("x-request-id", "mine-1")],
        &http::chat("known", false, 2),
    )?;
    ensure!(answer.status == 200, "{}", answer.text());
    let id = answer
        .header("x-request-id")
        .context("no x-request-id")?
        .to_owned();
    let record = gateway.record_of("mine-1")?;
    ensure!(record.request_id == id && record.client_request_id.as_deref() == Some("mine-1"));
    ensure!(
        record.model.as_deref() == Some("known")
            && record.upstream_model.as_deref() == Some("fake-model")
    );
    let upstream = engine.requests().pop().context("no request")?;
    ensure!(
        upstream.header("x-request-id") == Some(id.as_str()),
        "the engine got another id"
    );
    let model = serde_json::from_slice::<Value>(&upstream.body)?["model"].clone();
    ensure!(
        model == json!("fake-model"),
        "the engine was asked for {model}"
    );
    Ok(())
}

#[test]
fn an_engine_that_is_not_there_gets_502_at_once() -> Result<()> {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let gateway = Gateway::open(&nobody.to_string())?;
    let answer = http::post(
        &gateway.data,
        CHAT,
        &[("x-request-id", "nobody")],
        &http::chat("m", true, 2),
    )?;
    is_refusal(&answer, 502)?;
    let record = gateway.record_of("nobody")?;
    ensure!(
        record.outcome == Outcome::UpstreamError,
        "{:?}",
        record.outcome
    );
    Ok(())
}

#[test]
fn r10_doubtful_framing_is_refused_and_ends_the_connection() -> Result<()> {
    let engine = play::engine(&[Script::new().json("200 OK", ANSWER)])?;
    let gateway = Gateway::open(&engine.addr().to_string())?;
    let start = format!("POST {CHAT} HTTP/1.1\r\nhost: t\r\n");
    let hidden = "GET /v1/models?hidden HTTP/1.1\r\nhost: t\r\n\r\n";
    let doubtful = [
        "content-length: 6\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nX",
        "transfer-encoding: chunked\r\ncontent-length: 6\r\n\r\n0\r\n\r\nX",
        "transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
        "transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "transfer-encoding : chunked\r\n\r\n0\r\n\r\n",
        "transfer-encoding: chunked\r\n\r\nzz\r\n",
        "transfer-encoding: chunked\r\n\r\n-10\r\n",
        "transfer-encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n",
    ];
    for request in doubtful {
        let mut client = Client::connect(&gateway.data)?;
        client.send(format!("{start}{request}").as_bytes())?;
        let answer = client.answer().with_context(|| request.to_owned())?;
        ensure!(answer.status == 400, "{request:?}: {}", answer.status);
        // The peer may have closed already; what counts is that nobody answers.
        let _ = client.send(hidden.as_bytes());
        ensure!(
            !matches!(client.more(), Ok(Some(_))),
            "{request:?}: answered twice"
        );
    }
    let seen = engine.requests();
    ensure!(seen.is_empty(), "the engine got {} requests", seen.len());
    Ok(())
}

#[test]
fn an_unasked_switch_of_protocols_is_a_bad_answer() -> Result<()> {
    let head = [("connection", "upgrade"), ("upgrade", "websocket")];
    let script = Script::new()
        .head("101 Switching Protocols", &head)
        .raw("raw bytes")
        .hold();
    let engine = play::engine(&[script])?;
    let gateway = Gateway::open(&engine.addr().to_string())?;
    let answer = http::post(&gateway.data, CHAT, &[], &body(MODEL, 50))?;
    is_refusal(&answer, 502)?;
    let record = gateway.records_when(1)?.pop().context("no record")?;
    ensure!(
        record.error_kind.as_deref() == Some("bad_response"),
        "{:?}",
        record.error_kind
    );
    Ok(())
}
