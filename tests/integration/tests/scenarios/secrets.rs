//! No secret and no prompt in anything that the gateway writes: logs at trace level, records, metrics,
//! admin pages, and its own answers.

use anyhow::{Result, ensure};
use inferscope_tests::engine;
use inferscope_tests::gateway::{Gateway, base};
use inferscope_tests::http::{self, Answer, Client};
use inferscope_tests::process::command;

const CHAT: &str = "/v1/chat/completions";
const KEY_SECRET: &str = "hashing-secret-4b1d9c02e7";
const ENGINE_KEY: &str = "engine-credential-99ad41c7";
const ADMIN_TOKEN: &str = "admin-token-3377e1f0aa";
const PROMPT: &str = "the-prompt-nobody-may-see-5f0e";
const WRONG_KEY: &str = "isk_wrong-key-1f2e3d4c5b6a";

/// A text and what it becomes in other spellings.
fn spellings(text: &str) -> Vec<String> {
    let base64 = {
        const DIGITS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        // The middle of it, which every alignment of the text shares with one of three.
        (0..3).map(move |skip| -> String {
            text.as_bytes()[skip..]
                .chunks_exact(3)
                .flat_map(|c| {
                    let n = u32::from(c[0]) << 16 | u32::from(c[1]) << 8 | u32::from(c[2]);
                    [18, 12, 6, 0].map(|shift| char::from(DIGITS[(n >> shift & 63) as usize]))
                })
                .collect()
        })
    };
    let percent: String = text.bytes().map(|b| format!("%{b:02X}")).collect();
    let mut all = vec![text.to_owned(), percent, hex::encode(text)];
    all.extend(base64);
    all
}

#[test]
fn a14_no_secret_and_no_prompt_is_in_anything_that_is_written() -> Result<()> {
    let engine = engine::paced(2, 1)?;
    let environment = [
        ("KEY_SECRET", KEY_SECRET),
        ("ENGINE_KEY", ENGINE_KEY),
        ("ADMIN_TOKEN", ADMIN_TOKEN),
        ("RUST_LOG", "trace"),
    ];
    let made = command(
        "inferscope-gateway",
        "keys new --tenant team --id team-1 --secret env:KEY_SECRET".split(' '),
    )?
    .envs(environment)
    .output()?;
    let made = String::from_utf8(made.stdout)?;
    let (key, auth) = made.split_once('\n').unwrap_or_default();
    ensure!(key.len() > 30, "no key: {made}");
    let folder = tempfile::tempdir()?;
    let records = folder.path().join("records.jsonl");
    let upstream = engine.addr().to_string();
    let yaml = base(&upstream)
        .replace(
            "admin: {addr: \"127.0.0.1:0\"}",
            "admin: {addr: \"127.0.0.1:0\", token: env:ADMIN_TOKEN}",
        )
        .replace(
            "records: {hash: true}",
            &format!(
                "records: {{hash: true, file: {{path: \"{}\"}}}}",
                records.display()
            ),
        )
        .replace("]}}\n", "], credential: env:ENGINE_KEY}}\n");
    let yaml = format!(
        "{yaml}{auth}tenants: {{team: {{limits: {{requests_per_s: 100, burst: 40, max_prompt_tokens: 4000}}}}}}\n\
         usage: inject\nlogs: {{level: trace, format: json}}\n"
    );
    let mut gateway = Gateway::configured(&yaml, &environment)?;
    let mut written: Vec<(String, String)> = Vec::new();
    let bearer = format!("Bearer {key}");
    let wrong = format!("Bearer {WRONG_KEY}");
    let prompt = |stream: bool| {
        format!(
            "{{\"model\":\"fake-model\",\"stream\":{stream},\"max_tokens\":3,\"messages\":[{{\"role\":\"user\",\"content\":\"{PROMPT}\"}}]}}"
        )
    };
    let mut ask = |headers: &[(&str, &str)], body: &[u8]| -> Result<Answer> {
        let mut client = Client::connect(&gateway.data)?;
        client.request("POST", CHAT, headers, body)?;
        let answer = client.answer()?;
        written.push((format!("an answer of {}", answer.status), answer.text()));
        Ok(answer)
    };
    for stream in [true, false] {
        let answer = ask(&[("authorization", &bearer)], prompt(stream).as_bytes())?;
        ensure!(answer.status == 200, "{}", answer.text());
    }
    ensure!(ask(&[("authorization", &wrong)], prompt(true).as_bytes())?.status == 401);
    ensure!(ask(&[("x-api-key", WRONG_KEY)], prompt(true).as_bytes())?.status == 401);
    ensure!(ask(&[("authorization", &bearer), ("x-api-key", key)], b"{}")?.status == 400);
    // Odd bodies and too long ones are refused, and not repeated.
    let long = prompt(true).replace(PROMPT, &PROMPT.repeat(2_000));
    ensure!(ask(&[("authorization", &bearer)], long.as_bytes())?.status == 400);
    let broken = format!("{{\"model\": \"{PROMPT}");
    ask(&[("authorization", &bearer)], broken.as_bytes())?;
    for _ in 0..60 {
        ask(&[("authorization", &bearer)], prompt(true).as_bytes())?;
    }
    {
        let mut client = Client::connect(&gateway.data)?;
        client.send(format!("POST /v1/chat/completions?k={key} HTTP/1.1\r\nauthorization: {bearer}\r\nx: {PROMPT}\r\n\x00\r\n\r\n").as_bytes())?;
        let _ = client.answer();
        // One that leaves in its stream.
        let mut client = Client::connect(&gateway.data)?;
        client.request(
            "POST",
            CHAT,
            &[("authorization", &bearer)],
            prompt(true).as_bytes(),
        )?;
    }
    let admin = format!("Bearer {ADMIN_TOKEN}");
    for page in ["/status", "/records"] {
        let answer = http::get(&gateway.admin, page, &[("authorization", &admin)])?;
        ensure!(answer.status == 200);
        written.push((page.to_owned(), answer.text()));
        let refused = http::get(&gateway.admin, page, &[("authorization", &wrong)])?;
        ensure!(refused.status == 401);
        written.push((format!("{page} refused"), refused.text()));
    }
    // A file with a fault, and with a secret in the wrong place.
    gateway.write(&format!(
        "{yaml}admin: {{token: {ADMIN_TOKEN}}}\nwrong: {KEY_SECRET}\n"
    ))?;
    {
        let mut client = Client::connect(&gateway.admin)?;
        client.request(
            "POST",
            "/reload",
            &[("authorization", &admin), ("content-length", "0")],
            b"",
        )?;
        let answer = client.answer()?;
        ensure!(answer.status == 422, "{}", answer.text());
        written.push(("a refused reload".to_owned(), answer.text()));
    }
    let metrics = http::get(&gateway.metrics, "/metrics", &[])?;
    written.push(("the metrics".to_owned(), metrics.text()));
    gateway.server.signal(rustix::process::Signal::TERM);
    gateway.server.wait()?;
    let log = gateway.server.log();
    ensure!(
        log.contains("\"level\":\"TRACE\"") || log.contains("\"level\":\"DEBUG\""),
        "the log is at its lowest level:\n{log}"
    );
    written.push(("the log".to_owned(), log));
    written.push((
        "the record file".to_owned(),
        std::fs::read_to_string(&records)?,
    ));

    let mut searched = 0;
    for (what, secret) in [
        ("the API key", key),
        ("the hashing secret", KEY_SECRET),
        ("the engine's credential", ENGINE_KEY),
        ("the admin token", ADMIN_TOKEN),
        ("a wrong key", WRONG_KEY),
        ("a prompt", PROMPT),
    ] {
        for spelling in spellings(secret) {
            for (place, text) in &written {
                searched += text.len();
                ensure!(
                    !text.contains(&spelling),
                    "{what} is in {place}, as {spelling}:\n{text}"
                );
            }
        }
    }
    println!(
        "{} texts searched, {searched} bytes in all: 0 hits",
        written.len()
    );
    Ok(())
}
