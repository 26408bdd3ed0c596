//! Which engine a request goes to, and what becomes of it when that engine is stale, loading,
//! failing or drained.

use std::thread::{self, sleep};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use inferscope_fake_engine::{Config, FakeEngine, Handle, Script, Scripts};
use inferscope_shared::record::gateway::{GatewayRecord, Outcome};
use inferscope_tests::gateway::Gateway;
use inferscope_tests::http::{self, Answer, Client, End};
use inferscope_tests::process::until;
use serde_json::Value;

use crate::play::{MODEL, content, engine};

const CHAT: &str = "/v1/chat/completions";

/// A gateway before these engines, called `e0`, `e1`, …, with more keys of their pool `p`.
fn before(engines: &[&Handle], pool: &str) -> Result<Gateway> {
    let endpoints: Vec<_> = engines
        .iter()
        .zip(0..)
        .map(|(engine, i)| format!("{{name: e{i}, url: \"{}\"}}", engine.url()))
        .collect();
    at(&endpoints.join(", "), pool)
}

fn at(endpoints: &str, pool: &str) -> Result<Gateway> {
    let yaml = format!(
        "version: 1\n\
         listen: [{{addr: \"127.0.0.1:0\"}}]\n\
         metrics: {{addr: \"127.0.0.1:0\"}}\n\
         admin: {{addr: \"127.0.0.1:0\"}}\n\
         auth: {{mode: none}}\n\
         records: {{hash: true}}\n\
         pools: {{p: {{endpoints: [{endpoints}], {pool}}}}}\n"
    );
    Gateway::configured(&yaml, &[])
}

fn ok() -> Script {
    Script::new().json("200 OK", "{}")
}

fn ask(gateway: &Gateway, headers: &[(&str, &str)]) -> Result<Answer> {
    http::post(&gateway.data, CHAT, headers, &http::chat(MODEL, false, 16))
}

/// Chat requests that an engine got.
fn asked(engine: &Handle) -> usize {
    let requests = engine.requests();
    requests.iter().filter(|r| r.target == CHAT).count()
}

fn endpoint(series: &str, name: &str) -> String {
    format!("inferscope_gateway_endpoint_{series}{{endpoint=\"{name}\",pool=\"p\"}}")
}

/// Waits until the metric of an endpoint has this value.
fn when(gateway: &Gateway, series: &str, name: &str, value: f64) -> Result<()> {
    let series = endpoint(series, name);
    until(&series, || {
        (gateway.metric(&series).ok()? == value).then_some(())
    })
}

fn retries(gateway: &Gateway, reason: &str) -> Result<f64> {
    let series = format!("inferscope_gateway_upstream_retries_total{{reason=\"{reason}\"}}");
    gateway.metric(&series)
}

/// The state of an endpoint on the status page.
fn state(gateway: &Gateway, name: &str) -> Result<String> {
    let status: Value = http::get(&gateway.admin, "/status", &[])?.json();
    let endpoints = status["endpoints"].as_array().context("endpoints")?;
    let found = endpoints.iter().find(|e| e["endpoint"] == name);
    let state = found.and_then(|e| e["state"].as_str());
    Ok(state.context("no such endpoint")?.to_owned())
}

fn drain(gateway: &Gateway, what: &str, name: &str) -> Result<()> {
    let path = format!("/{what}?pool=p&endpoint={name}");
    let answer = http::post(&gateway.admin, &path, &[], b"")?;
    ensure!(answer.status == 200, "{}", answer.text());
    Ok(())
}

/// What a client's thread gave.
fn joined(result: thread::Result<Result<()>>) -> Result<()> {
    result.unwrap_or_else(|_| bail!("a client panicked"))
}

/// Requests on kept connections, spaced by just the time after which the engine closes an idle one.
fn at_the_edge(gateway: &Gateway, closes_after: Duration) -> Result<()> {
    let client = |i: u64| -> Result<()> {
        let mut client = Client::connect(&gateway.data)?;
        for k in 0..8 {
            client.request("POST", CHAT, &[], &http::chat(MODEL, false, 16))?;
            let answer = client.answer()?;
            ensure!(
                answer.status == 200 && answer.end == End::Clean,
                "request {k} of client {i}: {} {}",
                answer.status,
                answer.text()
            );
            // From 10 ms before to 10 ms after: the scenario itself.
            let offset = Duration::from_millis((i * 7 + k * 5) % 21);
            sleep(closes_after + offset - Duration::from_millis(10));
        }
        Ok(())
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..10).map(|i| scope.spawn(move || client(i))).collect();
        for client in clients {
            joined(client.join())?;
        }
        Ok(())
    })
}

#[test]
fn u01_a_connection_that_the_engine_closed_costs_no_client_a_request() -> Result<()> {
    let closes_after = Duration::from_millis(200);
    let fin = ok().delay(closes_after).close();
    let reset = ok().delay(closes_after).rst();
    for script in [fin, reset] {
        let engine = engine(&[script])?;
        let gateway = before(&[&engine], "idle: 4s")?;
        at_the_edge(&gateway, closes_after)?;
        let records = gateway.records_when(80)?;
        let odd = |r: &&GatewayRecord| r.outcome != Outcome::Ok || !(1..=2).contains(&r.attempts);
        let odd = records.iter().find(odd);
        ensure!(odd.is_none(), "{odd:?}");
        // One more attempt each, and each of those is counted.
        let again: u32 = records.iter().map(|r| r.attempts - 1).sum();
        ensure!(retries(&gateway, "stale")? == f64::from(again));
    }

    // With the pool's idle time below the engine's, there is nothing to try again.
    let engine = FakeEngine::start(Config {
        keep_alive: 4 * closes_after,
        scripts: Scripts::new().add("case", ok()),
        ..Config::default()
    })?;
    let gateway = before(&[&engine], "idle: 50ms")?;
    at_the_edge(&gateway, closes_after)?;
    ensure!(retries(&gateway, "stale")? == 0.0);
    ensure!(gateway.records_when(80)?.iter().all(|r| r.attempts == 1));
    Ok(())
}

#[test]
fn u07_an_answer_that_began_is_never_asked_for_again() -> Result<()> {
    let begun = || {
        (0..3).fold(Script::new().head_sse(), |script, i| {
            script.event(&content(&i.to_string()))
        })
    };
    for (script, kind) in [
        (begun().rst(), "reset"),
        (begun().raw("40\r\ndata: {\"cho").close(), "truncated"),
        (begun().close(), "truncated"),
    ] {
        let script = [script];
        let (one, two) = (engine(&script)?, engine(&script)?);
        let gateway = before(&[&one, &two], "")?;
        let body = http::chat(MODEL, true, 16);
        let answer = http::post(&gateway.data, CHAT, &[("x-request-id", "cut")], &body)?;
        ensure!(
            answer.status == 200 && answer.end != End::Clean,
            "{answer:?}"
        );
        ensure!(!answer.text().contains("[DONE]"), "{}", answer.text());
        ensure!(asked(&one) + asked(&two) == 1, "{kind}: asked again");

        let record = gateway.record_of("cut")?;
        ensure!((record.status, record.attempts) == (Some(200), 1));
        ensure!(record.error_kind.as_deref() == Some(kind), "{record:?}");
        ensure!(retries(&gateway, "stale")? + retries(&gateway, "connect")? == 0.0);
        when(&gateway, "requests", "e0", 0.0)?;
        ensure!(gateway.metric("inferscope_gateway_permits_outstanding")? == 0.0);

        // The broken connection is used by nobody else: both engines get new ones.
        for _ in 0..2 {
            http::post(&gateway.data, CHAT, &[], &body)?;
        }
        for engine in [&one, &two] {
            ensure!(engine.connections().iter().all(|c| c.requests == 1));
        }
    }
    Ok(())
}

fn loading() -> Script {
    let body = r#"{"error":{"message":"loading","type":"unavailable_error","code":503}}"#;
    let length = body.len().to_string();
    let headers = [
        ("content-type", "application/json"),
        ("retry-after", "5"),
        ("content-length", &length),
    ];
    Script::new()
        .head("503 Service Unavailable", &headers)
        .raw(body)
}

/// An engine whose model is not loaded yet, though `/v1/models` answers.
fn loading_engine() -> Result<Handle> {
    crate::play::engine_with(
        Scripts::new()
            .route("/health", "health")
            .add("health", loading())
            .add("case", loading()),
    )
}

#[test]
fn u12_an_engine_that_loads_gets_no_requests_until_it_is_ready() -> Result<()> {
    let (ready, late) = (engine(&[ok()])?, loading_engine()?);
    let gateway = before(
        &[&ready, &late],
        "health: {interval: 20ms, unhealthy_after: 2, healthy_after: 2}",
    )?;
    when(&gateway, "up", "e1", 0.0)?;
    ensure!(http::get(&late.addr().to_string(), "/v1/models", &[])?.status == 200);
    ensure!(state(&gateway, "e1")? == "unhealthy");
    let before = asked(&late);
    for _ in 0..20 {
        ensure!(ask(&gateway, &[])?.status == 200);
    }
    ensure!(
        asked(&late) == before,
        "a request went to an engine that loads"
    );

    late.add_script("case", ok());
    late.add_script("health", ok());
    when(&gateway, "up", "e1", 1.0)?;
    // The first answer of that script was the last of the loading ones.
    for _ in 0..4 {
        ask(&gateway, &[])?;
    }
    ensure!(asked(&late) > before, "it is ready and gets nothing");
    let bad =
        "inferscope_gateway_endpoint_probes_total{endpoint=\"e1\",outcome=\"bad\",pool=\"p\"}";
    ensure!(gateway.metric(bad)? >= 1.0);
    Ok(())
}

#[test]
fn u12_the_only_engine_says_itself_that_it_loads() -> Result<()> {
    let late = loading_engine()?;
    let gateway = before(&[&late], "health: {interval: 20ms}")?;
    when(&gateway, "up", "e0", 0.0)?;
    for asked_before in 0..3 {
        let answer = ask(&gateway, &[])?;
        ensure!(answer.status == 503 && answer.header("retry-after") == Some("5"));
        ensure!(answer.text().contains("loading"));
        ensure!(asked(&late) == asked_before + 1, "a storm of retries");
    }
    late.add_script("case", ok());
    late.add_script("health", ok());
    when(&gateway, "up", "e0", 1.0)?;
    ask(&gateway, &[])?;
    ensure!(ask(&gateway, &[])?.status == 200, "it does not come back");
    Ok(())
}

#[test]
fn u13_an_engines_429_is_not_the_gateways() -> Result<()> {
    let body = r#"{"error":{"message":"slow down"}}"#;
    let length = body.len().to_string();
    let headers = [
        ("content-type", "application/json"),
        ("retry-after", "7"),
        ("x-ratelimit-remaining-requests", "0"),
        ("content-length", &length),
    ];
    let script = Script::new()
        .head("429 Too Many Requests", &headers)
        .raw(body);
    let engine = engine(&[script, ok()])?;
    let gateway = before(&[&engine], "limits: {requests_per_s: 0.0001, burst: 1}")?;
    let theirs = ask(&gateway, &[])?;
    ensure!(theirs.status == 429 && theirs.text() == body);
    ensure!(theirs.header("retry-after") == Some("7"));
    // What the engine refused is not charged.
    gateway.records_when(1)?;
    ensure!(ask(&gateway, &[])?.status == 200);
    let ours = ask(&gateway, &[])?;
    ensure!(ours.status == 429, "{}", ours.text());
    ensure!(ours.text().contains("rate_limit_exceeded"));
    ensure!(asked(&engine) == 2);

    gateway.records_when(3)?;
    for outcome in ["ok", "refused"] {
        let series = format!(
            "inferscope_gateway_requests_total{{model=\"other\",outcome=\"{outcome}\",path=\"{CHAT}\",status=\"4xx\"}}"
        );
        ensure!(gateway.metric(&series)? == 1.0, "{series}");
    }
    Ok(())
}

#[test]
fn u18_a_thousand_small_error_answers_need_no_more_connections_than_clients() -> Result<()> {
    const CLIENTS: usize = 4;
    let refusals = [
        Script::new().json("400 Bad Request", "{}"),
        Script::new().json("500 Internal Server Error", "{}"),
        Script::new().json("503 Service Unavailable", r#"{"error":{}}"#),
    ];
    let scripts: Vec<_> = refusals.iter().cycle().take(1_000).cloned().collect();
    let engine = engine(&scripts)?;
    let gateway = before(&[&engine], "")?;
    let client = || -> Result<()> {
        let mut client = Client::connect(&gateway.data)?;
        for _ in 0..1_000 / CLIENTS {
            client.request("POST", CHAT, &[], &http::chat(MODEL, false, 16))?;
            let answer = client.answer()?;
            ensure!(answer.status >= 400 && answer.end == End::Clean);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        for client in clients {
            joined(client.join())?;
        }
        anyhow::Ok(())
    })?;
    ensure!(asked(&engine) == 1_000);
    let connections = engine.counts().connections;
    ensure!(connections <= CLIENTS as u64, "{connections} connections");
    Ok(())
}

#[test]
fn requests_one_at_a_time_are_shared_out_by_weight() -> Result<()> {
    let (heavy, light) = (engine(&[ok()])?, engine(&[ok()])?);
    let endpoints = format!(
        "{{url: \"{}\", weight: 3}}, {{url: \"{}\"}}",
        heavy.url(),
        light.url()
    );
    let gateway = at(&endpoints, "")?;
    for done in 1..=40 {
        ask(&gateway, &[])?;
        gateway.records_when(done)?;
    }
    ensure!((asked(&heavy), asked(&light)) == (30, 10));
    Ok(())
}

#[test]
fn a_session_stays_at_its_engine() -> Result<()> {
    let engines = [engine(&[ok()])?, engine(&[ok()])?, engine(&[ok()])?];
    let all: Vec<_> = engines.iter().collect();
    let gateway = before(&all, "affinity: {header: x-session-id}")?;
    let counts = || -> Vec<usize> { engines.iter().map(asked).collect() };
    let mut homes = std::collections::BTreeSet::new();
    for session in 0..20 {
        let before = counts();
        for _ in 0..3 {
            ask(&gateway, &[("x-session-id", &format!("session {session}"))])?;
        }
        let after = counts();
        let home = (0..3).find(|i| after[*i] == before[*i] + 3);
        homes.insert(home.context("a session went to two engines")?);
    }
    ensure!(homes.len() == 3, "20 sessions, and only at {homes:?}");
    Ok(())
}

#[test]
fn an_engine_that_fails_is_left_alone_for_a_while_and_one_that_refuses_is_not() -> Result<()> {
    let failing = engine(&[Script::new().json("500 Internal Server Error", "{}")])?;
    let refusing = engine(&[Script::new().json("404 Not Found", "{}")])?;
    let gateway = before(
        &[&failing, &refusing],
        "ejection: {consecutive_failures: 3, base_time: 10m}",
    )?;
    let mut statuses = Vec::new();
    for _ in 0..20 {
        statuses.push(ask(&gateway, &[])?.status);
    }
    ensure!(asked(&failing) == 3, "{} requests", asked(&failing));
    ensure!(statuses[6..].iter().all(|s| *s == 404), "{statuses:?}");
    ensure!(state(&gateway, "e0")? == "ejected" && state(&gateway, "e1")? == "well");
    ensure!(gateway.metric(&endpoint("ejections_total", "e0"))? == 1.0);
    ensure!(gateway.metric(&endpoint("ejections_total", "e1"))? == 0.0);

    // One that begins well and breaks off again and again fails too.
    let breaking = engine(&[Script::new().head_sse().event(&content("a")).rst()])?;
    let well = engine(&[ok()])?;
    let pool = "ejection: {consecutive_failures: 3, base_time: 10m}";
    let other = before(&[&breaking, &well], pool)?;
    for done in 1..=20 {
        ask(&other, &[])?;
        other.records_when(done)?;
    }
    ensure!(asked(&breaking) == 3, "{} requests", asked(&breaking));

    // The last one is never ejected, however it fails.
    drain(&gateway, "drain", "e1")?;
    for _ in 0..10 {
        ensure!(ask(&gateway, &[])?.status == 500);
    }
    ensure!(asked(&failing) == 13);
    Ok(())
}

#[test]
fn an_engine_that_is_not_there_is_left_out_and_costs_no_request() -> Result<()> {
    let there = engine(&[ok()])?;
    let absent = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let endpoints = format!(
        "{{name: gone, url: \"http://{absent}\"}}, {{url: \"{}\"}}",
        there.url()
    );
    let gateway = at(
        &endpoints,
        "ejection: {consecutive_failures: 2, base_time: 10m}",
    )?;
    for _ in 0..10 {
        ensure!(ask(&gateway, &[])?.status == 200);
    }
    ensure!(state(&gateway, "gone")? == "ejected");
    let records = gateway.records_when(10)?;
    ensure!(records.iter().filter(|r| r.attempts == 2).count() == 2);
    ensure!(retries(&gateway, "connect")? == 2.0);
    Ok(())
}

#[test]
fn an_operator_takes_an_engine_out_and_in_again_and_what_runs_there_ends_well() -> Result<()> {
    let events = (0..40).fold(Script::new().head_sse(), |script, i| {
        script
            .event(&content(&i.to_string()))
            .delay(Duration::from_millis(5))
    });
    let long = events.done().end();
    let (one, two) = (engine(&[long.clone(), ok()])?, engine(&[ok()])?);
    let gateway = before(&[&one, &two], "")?;
    let mut client = Client::connect(&gateway.data)?;
    client.request("POST", CHAT, &[], &http::chat(MODEL, true, 16))?;
    let (status, _) = client.head()?;
    ensure!(status == 200);
    when(&gateway, "requests", "e0", 1.0)?;

    drain(&gateway, "drain", "e0")?;
    ensure!(state(&gateway, "e0")? == "drained");
    for _ in 0..6 {
        ensure!(ask(&gateway, &[])?.status == 200);
    }
    ensure!((asked(&one), asked(&two)) == (1, 6));

    // A reload changes nothing about it.
    let reloaded = http::post(&gateway.admin, "/reload", &[], b"")?;
    ensure!(reloaded.status == 200, "{}", reloaded.text());
    ask(&gateway, &[])?;
    ensure!((asked(&one), asked(&two)) == (1, 7));

    when(&gateway, "requests", "e0", 0.0)?;
    let record = gateway.records_when(8)?;
    let stream = record.iter().find(|r| r.stream).context("no stream")?;
    ensure!(stream.outcome == Outcome::Ok, "{stream:?}");
    ensure!(stream.sha256_upstream == stream.sha256_downstream);

    // Both out: nothing is worth waiting for.
    drain(&gateway, "drain", "e1")?;
    let answer = ask(&gateway, &[])?;
    ensure!(answer.status == 503 && answer.header("retry-after").is_some());
    ensure!(answer.text().contains("drained"), "{}", answer.text());
    drain(&gateway, "undrain", "e0")?;
    ensure!(ask(&gateway, &[])?.status == 200);
    ensure!(asked(&one) == 2);

    for (path, says) in [
        ("/drain?pool=q&endpoint=e0", "there are: p"),
        ("/drain?pool=p&endpoint=e9", "it has: e0, e1"),
        ("/drain?pool=p", "name both"),
    ] {
        let answer = http::post(&gateway.admin, path, &[], b"")?;
        ensure!(
            answer.status == 400 && answer.text().contains(says),
            "{}",
            answer.text()
        );
    }
    Ok(())
}
