//! The decision over several accounts, and what becomes of what was taken.

use std::time::Duration;

use super::*;
use crate::intake::facts;

const NOW: MonoNs = MonoNs(1_000_000_000_000);
const CHAT: &[&str] = &["max_tokens", "max_completion_tokens"];

fn limits_of(text: &str) -> Limits {
    let text =
        format!("version: 1\nlisten: [{{addr: \"127.0.0.1:0\"}}]\nauth: {{mode: none}}\n{text}");
    let config = Config::parse("t", &text).unwrap_or_else(|error| panic!("{error}"));
    Limits::new(&config, None, &metrics())
}

fn metrics() -> Arc<Metrics> {
    Arc::new(Metrics::new([], []).unwrap())
}

/// Limits of tenant `t` and of pool `p`.
fn limits(tenant: &str, pool: &str) -> Limits {
    limits_of(&format!(
        "tenants: {{t: {{limits: {{{tenant}}}}}}}\nmodels: {{m: {{pool: p, context_tokens: 5000}}}}\n\
         pools: {{p: {{endpoints: [{{url: \"http://127.0.0.1:9\"}}], limits: {{{pool}}}}}}}"
    ))
}

fn ask() -> Ask {
    Ask {
        tenant: "t".to_owned(),
        key_id: "k".to_owned(),
        pool: "p".to_owned(),
        model: Some("m".to_owned()),
        arrived: NOW,
        prompt_tokens: 100,
        output_tokens: Some(400),
        choices: 1,
        generates: true,
        output_members: CHAT,
        retry_count: 0,
        client_timeout_seconds: None,
    }
}

fn spent(prompt: u64, output: u64) -> Spent {
    Spent {
        answered: true,
        prompt_tokens: Some(prompt),
        output_tokens: Some(output),
        output_events: output,
    }
}

fn left(limits: &Limits, i: usize) -> u64 {
    let fields = fields(&limits.over(&ask()), &limits.book.lock(), NOW);
    let name = [
        "x-ratelimit-remaining-requests",
        "x-ratelimit-remaining-tokens",
    ][i];
    let (_, value) = fields
        .iter()
        .find(|(found, _)| found.as_str() == name)
        .unwrap();
    value.to_str().unwrap().parse().unwrap()
}

#[test]
fn l03_what_one_limit_refuses_has_used_nothing_of_another() {
    let limits = limits("requests_per_s: 2, burst: 2", "concurrency: 1");
    let a = limits.reserve(&ask(), NOW).unwrap();
    assert_eq!(
        limits.reserve(&ask(), NOW).unwrap_err().kind().label(),
        "concurrency"
    );
    assert_eq!(left(&limits, 0), 1, "B took no request");
    a.settle(spent(1, 1), NOW);
    let c = limits.reserve(&ask(), NOW).unwrap();
    c.settle(spent(1, 1), NOW);
    assert_eq!(
        limits.reserve(&ask(), NOW).unwrap_err().kind().label(),
        "request_rate"
    );
}

#[test]
fn l03_a_request_without_an_answer_costs_nothing() {
    let limits = limits(
        "requests_per_s: 1, burst: 2, tokens_per_min: 1000",
        "concurrency: 9",
    );
    for _ in 0..5 {
        let reservation = limits.reserve(&ask(), NOW).unwrap();
        let unanswered = Spent {
            answered: false,
            ..spent(100, 400)
        };
        reservation.settle(unanswered, NOW);
        drop(limits.reserve(&ask(), NOW).unwrap());
    }
    assert_eq!((left(&limits, 0), left(&limits, 1)), (2, 1_000));
}

#[test]
fn l06_tokens_are_reserved_before_and_settled_after() {
    let limits = limits("tokens_per_min: 1000", "");
    let two = [(); 2].map(|()| limits.reserve(&ask(), NOW).unwrap());
    for _ in 0..6 {
        assert_eq!(limits.reserve(&ask(), NOW).unwrap_err().status(), 429);
    }
    for reservation in two {
        reservation.settle(spent(100, 300), NOW);
    }
    assert_eq!(left(&limits, 1), 200, "charged is what was used");
}

#[test]
fn l09_an_answer_without_usage_is_charged_by_an_estimate_never_nothing() {
    let limits = limits("tokens_per_min: 1000", "");
    let reservation = limits.reserve(&ask(), NOW).unwrap();
    let uncounted = Spent {
        answered: true,
        prompt_tokens: None,
        output_tokens: None,
        output_events: 50,
    };
    reservation.settle(uncounted, NOW);
    assert_eq!(left(&limits, 1), 850);
    let text = limits.metrics.render().unwrap();
    assert!(
        text.contains("tokens_charged_total{source=\"estimate\"} 150"),
        "{text}"
    );
}

#[test]
fn a_count_beyond_all_sense_is_not_charged_in_full() {
    let limits = limits("tokens_per_min: 60000000", "");
    let reservation = limits.reserve(&ask(), NOW).unwrap();
    reservation.settle(spent(u64::MAX, u64::MAX), NOW);
    assert_eq!(left(&limits, 1), 50_000_000);
}

#[test]
fn a_debt_is_carried_over() {
    let limits = limits("tokens_per_min: 600", "");
    let reservation = limits.reserve(&ask(), NOW).unwrap();
    reservation.settle(spent(100, 1_100), NOW);
    let refusal = limits.reserve(&ask(), NOW).unwrap_err();
    let message = String::from_utf8(refusal.body().to_vec()).unwrap();
    assert!(
        message.contains("free in 1 min 50 s"),
        "600 of debt and 500 at 10 a second: {message}"
    );
}

#[test]
fn r22_absurd_numbers_neither_overflow_nor_lock_the_quota() {
    let limits = limits("tokens_per_min: 100000", "");
    let huge = Ask {
        output_tokens: Some(1_000_000_000),
        ..ask()
    };
    limits.reserve(&huge, NOW).unwrap();
    let taken = limits.reserve(&huge, NOW).unwrap();
    assert_eq!(
        left(&limits, 1),
        95_000,
        "the model's context is the most there can be"
    );
    drop(taken);
    let endless = Ask {
        choices: u64::MAX,
        output_tokens: Some(u64::MAX),
        model: None,
        ..ask()
    };
    let refusal = limits.reserve(&endless, NOW).unwrap_err();
    assert_eq!(
        (refusal.status().as_u16(), refusal.kind().label()),
        (400, "never_fits")
    );
    assert_eq!(left(&limits, 1), 100_000);
}

#[test]
fn a_limit_that_is_not_enforced_counts_and_refuses_nothing() {
    let limits = limits(
        "requests_per_s: 1, burst: 1, enforce: false",
        "concurrency: 3",
    );
    let all: Vec<_> = (0..3)
        .map(|_| limits.reserve(&ask(), NOW).unwrap())
        .collect();
    let text = limits.metrics.render().unwrap();
    let hits = "limit_hits_total{enforced=\"false\",limit=\"requests_per_s\",scope=\"tenant\"} 2";
    assert!(text.contains(hits), "{text}");
    assert!(limits.reserve(&ask(), NOW).is_err(), "the other limit is");
    drop(all);
    assert_eq!(limits.in_flight().iter().map(|(_, _, n)| n).sum::<u64>(), 0);
}

#[test]
fn budgets_of_day_and_month_are_spent_by_use() {
    let limits = limits("budget: {daily: 1000, monthly: 1200}", "");
    limits
        .reserve(&ask(), NOW)
        .unwrap()
        .settle(spent(100, 800), NOW);
    let refusal = limits.reserve(&ask(), NOW).unwrap_err();
    assert_eq!(
        (refusal.status().as_u16(), refusal.kind().label()),
        (429, "budget")
    );
    let small = Ask {
        output_tokens: Some(0),
        ..ask()
    };
    assert!(limits.reserve(&small, NOW).is_ok());
}

#[test]
fn o02_counts_survive_a_reload_and_places_of_removed_limits_come_back() {
    let text = |rest: &str| {
        format!(
            "version: 1\nlisten: [{{addr: \"127.0.0.1:0\"}}]\nauth: {{mode: none}}\n\
             pools: {{p: {{endpoints: [{{url: \"http://127.0.0.1:9\"}}]}}}}\n{rest}"
        )
    };
    let config = |rest: &str| Config::parse("t", &text(rest)).unwrap();
    let with = "tenants: {t: {limits: {requests_per_s: 1, burst: 2, concurrency: 5}}}";
    let first = Limits::new(&config(with), None, &metrics());
    let running = first.reserve(&ask(), NOW).unwrap();
    let second = Limits::new(&config(with), Some(&first), &first.metrics);
    assert_eq!(left(&second, 0), 1, "the bucket is the same one");
    let without = Limits::new(&config(""), Some(&second), &first.metrics);
    running.settle(spent(1, 1), NOW);
    let again = Limits::new(&config(with), Some(&without), &first.metrics);
    assert_eq!(again.in_flight().iter().map(|(_, _, n)| n).sum::<u64>(), 0);
    assert_eq!(left(&again, 0), 1);
}

#[test]
fn parallel_requests_get_exactly_the_burst() {
    for _ in 0..20 {
        let limits = limits("requests_per_s: 0.0003, burst: 50", "");
        let held: Vec<Reservation> = std::thread::scope(|scope| {
            let limits = &limits;
            let reserve = move || limits.reserve(&ask(), NOW).ok();
            let threads: Vec<_> = (0..8)
                .map(|_| scope.spawn(move || (0..25).filter_map(|_| reserve()).collect::<Vec<_>>()))
                .collect();
            threads
                .into_iter()
                .flat_map(|t| t.join().unwrap())
                .collect()
        });
        assert_eq!(held.len(), 50);
    }
}

/// `body` as it fits under `limits`, or the label of its refusal; and what it then asks for.
fn fit(limits: &Limits, members: &'static [&str], body: &str) -> (Result<String, String>, Ask) {
    let bytes = bytes::Bytes::copy_from_slice(body.as_bytes());
    let facts = facts::read(&bytes).unwrap_or_default();
    let mut ask = Ask {
        prompt_tokens: facts.prompt_tokens(),
        output_tokens: facts.output_tokens(members),
        choices: facts.choices(),
        output_members: members,
        ..ask()
    };
    let fitted = match limits.fit(&mut ask, &facts) {
        Ok(edits) => {
            let body = crate::intake::edit::apply(&bytes, edits);
            Ok(String::from_utf8(body.to_vec()).unwrap())
        }
        Err(refusal) => Err(refusal.kind().label().to_owned()),
    };
    (fitted, ask)
}

fn fitted(limits: &Limits, body: &str) -> Result<String, String> {
    fit(limits, CHAT, body).0
}

#[test]
fn an_answer_is_clamped_to_its_cap() {
    let limits = limits("max_output_tokens: {tokens: 64, over: clamp}", "");
    for (body, expected) in [
        (r#"{"max_tokens": 5}"#, r#"{"max_tokens": 5}"#),
        (
            r#"{"max_tokens": 500 , "a":1}"#,
            r#"{"max_tokens": 64 , "a":1}"#,
        ),
        (
            r#"{"max_tokens":9,"max_completion_tokens":65}"#,
            r#"{"max_tokens":9,"max_completion_tokens":64}"#,
        ),
        (r#"{"a":1}"#, r#"{"max_tokens":64,"a":1}"#),
        (r#"{"a":1,"max_tokens":null}"#, r#"{"a":1,"max_tokens":64}"#),
        (
            r#"{"max_completion_tokens":null}"#,
            r#"{"max_tokens":64,"max_completion_tokens":null}"#,
        ),
        (
            r#"{"max_output_tokens":5}"#,
            r#"{"max_tokens":64,"max_output_tokens":5}"#,
        ),
        (r#" { }"#, r#" {"max_tokens":64 }"#),
    ] {
        assert_eq!(fitted(&limits, body).as_deref(), Ok(expected));
    }
    assert_eq!(
        fitted(&limits, r#"{"max_tokens":-1}"#),
        Err("body_invalid".to_owned())
    );
}

#[test]
fn each_path_has_its_own_member_for_the_length() {
    let limits = limits("max_output_tokens: {tokens: 64, over: clamp}", "");
    let (body, _) = fit(&limits, &["max_tokens"], r#"{"max_completion_tokens":5}"#);
    let expected = r#"{"max_tokens":64,"max_completion_tokens":5}"#;
    assert_eq!(body.as_deref(), Ok(expected), "/v1/completions has one");
    let (body, _) = fit(&limits, &["max_output_tokens"], r#"{"max_tokens":5}"#);
    let expected = r#"{"max_output_tokens":64,"max_tokens":5}"#;
    assert_eq!(body.as_deref(), Ok(expected), "/v1/responses another one");
}

#[test]
fn a_clamped_request_is_charged_for_what_it_is_clamped_to() {
    let limits = limits(
        "tokens_per_min: 1000, max_output_tokens: {tokens: 64, over: clamp}",
        "",
    );
    for (body, tokens) in [
        (r#"{"max_tokens":1000000000}"#, 64),
        ("{}", 64),
        (r#"{"max_tokens":9,"n":2}"#, 18),
    ] {
        let (fitted, ask) = fit(&limits, CHAT, body);
        fitted.unwrap();
        assert_eq!(ask.tokens(), tokens, "{body}");
        drop(limits.reserve(&ask, NOW).unwrap());
    }
}

#[test]
fn a_cap_that_is_not_enforced_neither_refuses_nor_hides_one_that_is() {
    let caps =
        |n| format!("max_n: {n}, max_prompt_tokens: {n}, max_output_tokens: {{tokens: {n}}}");
    let dry = format!("{}, enforce: false", caps(1));
    let alone = limits(&dry, "");
    for body in [
        r#"{"n":9,"max_tokens":9}"#,
        r#"{"max_tokens":-1,"n":"x"}"#,
        "no object",
        "{}",
    ] {
        assert_eq!(fitted(&alone, body).as_deref(), Ok(body));
    }
    let beside = limits(&dry, &caps(4));
    let no = |kind: &str| Err(kind.to_owned());
    assert_eq!(fitted(&beside, r#"{"n":5}"#), no("too_many_choices"));
    let long = r#"{"prompt":"more than sixteen bytes"}"#;
    assert_eq!(fitted(&beside, long), no("prompt_too_long"));
    let answer = fitted(&beside, r#"{"max_tokens":9}"#);
    assert_eq!(answer.as_deref(), Ok(r#"{"max_tokens":4}"#));
    assert_eq!(
        fitted(&beside, r#"{"n":3,"max_tokens":3}"#).as_deref(),
        Ok(r#"{"n":3,"max_tokens":3}"#)
    );
}

#[test]
fn a_prompt_that_cannot_be_read_is_not_within_its_cap() {
    let limits = limits("max_prompt_tokens: 10", "");
    assert_eq!(fitted(&limits, "no object"), Err("body_invalid".to_owned()));
}

#[test]
fn caps_refuse_what_is_too_large() {
    let limits = limits(
        "max_output_tokens: {tokens: 64, over: refuse}, max_n: 2, max_prompt_tokens: 10",
        "",
    );
    let no = |kind: &str| Err(kind.to_owned());
    assert_eq!(
        fitted(&limits, r#"{"max_tokens":65}"#),
        no("answer_too_long")
    );
    assert_eq!(fitted(&limits, r#"{"x":1}"#), no("answer_too_long"));
    assert_eq!(
        fitted(&limits, r#"{"max_tokens":1,"n":3}"#),
        no("too_many_choices")
    );
    let long = format!(r#"{{"max_tokens":1,"prompt":"{}"}}"#, "word ".repeat(20));
    assert_eq!(fitted(&limits, &long), no("prompt_too_long"));
    assert!(fitted(&limits, r#"{"max_tokens":64,"n":2,"prompt":"short"}"#).is_ok());
}

#[test]
fn no_wait_is_longer_than_the_headers_may_say() {
    let limits = limits("requests_per_s: 0.0003, burst: 1", "");
    let _held = limits.reserve(&ask(), NOW).unwrap();
    let refusal = limits.reserve(&ask(), NOW).unwrap_err();
    let headers = refusal.headers();
    let (_, ms) = headers
        .iter()
        .find(|(n, _)| n.as_str() == "retry-after-ms")
        .unwrap();
    let ms: u64 = ms.to_str().unwrap().parse().unwrap();
    assert!(Duration::from_millis(ms) <= Duration::from_secs(60));
}
