//! What a caller over a limit is told: which limit, its value, when it frees, and the
//! `x-ratelimit-*` headers.

use std::time::Duration;

use http::{HeaderName, HeaderValue};

use super::account::{Exceeded, Left, Scope, What};
use crate::errors::{Kind, Refusal};

/// A pause where nobody knows the right one: until somebody else's request ends. Those who are told
/// so come back spread over the second half of a second.
const SHORTLY: Duration = Duration::from_millis(500);

const REQUESTS: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit-requests"),
    HeaderName::from_static("x-ratelimit-remaining-requests"),
    HeaderName::from_static("x-ratelimit-reset-requests"),
];
const TOKENS: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit-tokens"),
    HeaderName::from_static("x-ratelimit-remaining-tokens"),
    HeaderName::from_static("x-ratelimit-reset-tokens"),
];

/// The refusal of a request that may cost `tokens`.
pub(super) fn refusal(scope: Scope, name: &str, over: &Exceeded, tokens: u64) -> Refusal {
    let who = format!("{} `{name}`", scope.label());
    let limit = over.limit;
    let (kind, is_limited) = match over.what {
        What::Requests => (
            Kind::RequestRate,
            format!("may send {limit} requests per second"),
        ),
        What::Tokens => (
            Kind::TokenRate,
            format!("may use {limit} tokens per minute"),
        ),
        What::Concurrency => (
            Kind::Concurrency,
            format!("may have {limit} requests at a time"),
        ),
        What::Daily => (Kind::Budget, format!("may use {limit} tokens a day (UTC)")),
        What::Monthly => (
            Kind::Budget,
            format!("may use {limit} tokens a month (UTC)"),
        ),
    };
    let Some(wait) = over.wait else {
        let message = format!(
            "{who} {is_limited}, and this request asks for up to {tokens} (prompt and answer): \
             ask for less with max_tokens, n or a shorter prompt"
        );
        return Refusal::because(Kind::NeverFits, message);
    };
    match over.what {
        What::Requests => {
            let message = format!("{who} {is_limited}: the next one is free in {}", span(wait));
            Refusal::because(kind, message).after(wait)
        }
        What::Tokens => {
            let message = format!(
                "{who} {is_limited}: this request asks for up to {tokens}, which are free in {}",
                span(wait)
            );
            Refusal::because(kind, message).after(wait)
        }
        What::Concurrency => {
            let message = format!("{who} {is_limited}, and has them: wait until one ends");
            Refusal::because(kind, message).after(SHORTLY)
        }
        What::Daily | What::Monthly => {
            let message = format!(
                "{who} {is_limited}, and this request of up to {tokens} is over that: free in {}, \
                 or ask the operator for more",
                span(wait)
            );
            Refusal::because(kind, message)
        }
    }
}

/// A wait for people: `0.2 s`, `5.4 s`, `3 h 20 min`.
fn span(wait: Duration) -> String {
    let seconds = wait.as_secs();
    match seconds {
        0..60 => format!("{:.1} s", (wait.as_secs_f64() * 10.0).ceil() / 10.0),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// The six headers, of the rates that there are.
pub(super) fn fields(
    requests: Option<Left>,
    tokens: Option<Left>,
) -> Vec<(HeaderName, HeaderValue)> {
    let mut fields = Vec::with_capacity(6);
    for (names, left) in [(REQUESTS, requests), (TOKENS, tokens)] {
        let Some(left) = left else { continue };
        let [limit, remaining, reset] = names;
        fields.push((limit, HeaderValue::from(left.limit)));
        fields.push((remaining, HeaderValue::from(left.remaining)));
        if let Ok(value) = HeaderValue::try_from(go_duration(left.reset)) {
            fields.push((reset, value));
        }
    }
    fields
}

/// As OpenAI writes it: `120ms`, `1.5s`, `6m0s`, `1h0m0s`.
fn go_duration(span: Duration) -> String {
    let seconds = span.as_secs();
    let ms = span.subsec_millis();
    match seconds {
        0 => format!("{ms}ms"),
        1..60 if ms > 0 => format!("{seconds}.{ms:03}s"),
        1..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{}s", seconds / 60, seconds % 60),
        _ => format!(
            "{}h{}m{}s",
            seconds / 3_600,
            seconds % 3_600 / 60,
            seconds % 60
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(what: What, limit: f64, wait: Option<Duration>) -> (u16, String, String) {
        let over = Exceeded { what, limit, wait };
        let refusal = refusal(Scope::Tenant, "research", &over, 1_500);
        let body: serde_json::Value = serde_json::from_slice(&refusal.body()).unwrap();
        let headers: Vec<String> = refusal
            .headers()
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        let message = body["error"]["message"].as_str().unwrap().to_owned();
        (refusal.status().as_u16(), message, headers.join(", "))
    }

    #[test]
    fn l13_a_429_says_which_limit_its_value_and_when_in_whole_seconds() {
        for (wait_ms, seconds) in [(200, 1), (5_400, 6), (59_900, 60)] {
            let (status, message, headers) =
                told(What::Requests, 2.5, Some(Duration::from_millis(wait_ms)));
            assert_eq!(status, 429);
            assert!(message.starts_with("tenant `research` may send 2.5 requests per second: "));
            assert!(
                headers.contains(&format!("retry-after: {seconds}, ")),
                "{headers}"
            );
            let (_, ms) = headers.split_once("retry-after-ms: ").unwrap();
            let ms: u64 = ms.parse().unwrap();
            assert!((wait_ms..=seconds * 1_000).contains(&ms), "{headers}");
            assert!(headers.contains("x-should-retry: true"), "{headers}");
        }
        let (_, message, headers) = told(What::Concurrency, 4.0, Some(Duration::ZERO));
        assert_eq!(
            message,
            "tenant `research` may have 4 requests at a time, and has them: wait until one ends"
        );
        assert!(headers.contains("retry-after: 1"), "{headers}");
    }

    #[test]
    fn what_waiting_does_not_help_is_not_to_be_retried() {
        let (status, message, headers) = told(What::Tokens, 1_000.0, None);
        assert_eq!(status, 400);
        assert!(message.contains("asks for up to 1500"), "{message}");
        assert!(headers.contains("x-should-retry: false"), "{headers}");
        let (status, message, headers) = told(What::Daily, 9e6, Some(Duration::from_secs(12_000)));
        assert_eq!(status, 429);
        assert!(
            message.contains("may use 9000000 tokens a day (UTC)"),
            "{message}"
        );
        assert!(message.contains("free in 3 h 20 min"), "{message}");
        assert!(headers.contains("x-should-retry: false"), "{headers}");
    }

    #[test]
    fn resets_are_written_as_openai_writes_them() {
        for (ms, text) in [
            (0, "0ms"),
            (120, "120ms"),
            (1_500, "1.500s"),
            (6_000, "6s"),
            (360_000, "6m0s"),
            (3_600_000, "1h0m0s"),
        ] {
            assert_eq!(go_duration(Duration::from_millis(ms)), text);
        }
    }
}
