use inferscope_fake_engine::{Config, FakeEngine};
use inferscope_shared::openai::{self, StreamState};

use super::*;
use crate::analysis::synthetic::rows::row;
use crate::config::settings::Settings;

/// Texts of an answer that reasoned first.
fn texts(reasoning: &str, content: &str) -> StreamState {
    let mut state = StreamState::with_texts();
    let delta = serde_json::json!({"reasoning": reasoning, "content": content});
    let chunk = serde_json::json!({"choices": [{"index": 0, "delta": delta}]});
    state.absorb(&openai::body(chunk.to_string().as_bytes()));
    state
}

/// A kept answer whose usage says `usage` tokens.
fn keep(kept: &mut KeptTexts, point: usize, seq: u64, usage: u64, content: &str) {
    let mut row = row("direct.c1", seq, 0);
    row.completion_tokens = Some(usage);
    kept.offer(point, &row, texts("", content).texts());
}

/// Counts by whoever answers at `url`, for two points.
async fn counted(url: &str, kept: &KeptTexts, interrupted: bool) -> Vec<TokenCheck> {
    let mut settings = Settings {
        model: Some("fake-model".to_owned()),
        ..Settings::default()
    };
    settings.direct.url = Some(url.to_owned());
    let config = settings.resolve(false).unwrap();
    let target = Target::parse(url).unwrap();
    let (_keep, interrupt) = watch::channel(interrupted);
    count(&config, None, (&target, None), kept, 2, interrupt).await
}

#[test]
fn only_measured_whole_answers_with_a_count_and_plain_text_are_kept() {
    let mut kept = KeptTexts::default();
    let state = texts("two words", "and more");
    let offer = |kept: &mut KeptTexts, change: fn(&mut RequestRecord)| {
        let mut row = row("direct.c1", 0, 0);
        change(&mut row);
        kept.offer(0, &row, state.texts());
    };
    offer(&mut kept, |r| r.phase = Phase::Warmup);
    offer(&mut kept, |r| r.outcome = Outcome::Incomplete);
    offer(&mut kept, |r| r.completion_tokens = None);
    offer(&mut kept, |r| {
        r.finish_reason = Some("tool_calls".to_owned());
    });
    kept.offer(0, &row("direct.c1", 0, 0), None);
    keep(&mut kept, 0, 0, 5, &"x".repeat(BYTES + 1));
    assert!(kept.of(0).is_empty(), "{kept:?}");
    assert!(kept.of(7).is_empty());
    offer(&mut kept, |_| {});
    assert_eq!(kept.of(0)[0].texts, ["two words", "and more"]);
    for seq in 0..100 {
        keep(&mut kept, 1, seq, 5, "a b");
    }
    assert_eq!(kept.of(1).len(), ANSWERS);
    assert_eq!(kept.of(1)[0].texts, ["a b"], "empty texts are none");
}

#[tokio::test]
async fn the_engine_counts_what_was_kept_and_the_worst_answer_is_named() {
    let engine = FakeEngine::start(Config::default()).unwrap();
    let mut kept = KeptTexts::default();
    keep(&mut kept, 0, 3, 3, "one two three");
    keep(&mut kept, 0, 4, 9, "one two three four");
    let checks = counted(&engine.url(), &kept, false).await;
    let it = &checks[0];
    assert_eq!(it.tokenizer, "vllm_tokenize");
    assert_eq!((it.answers, it.texts), (2, 2));
    assert_eq!((it.usage_tokens, it.counted_tokens), (12, 7));
    let worst = it.worst.as_deref().unwrap();
    assert!(worst.contains(".4: 9 by usage, 4 counted"), "{worst}");
    assert_eq!(it.reason, None);
    let why = checks[1].reason.as_deref().unwrap();
    assert!(why.contains("no measured answer"), "{why}");
}

#[tokio::test]
async fn who_cannot_count_or_was_interrupted_says_so() {
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let mut kept = KeptTexts::default();
    keep(&mut kept, 0, 0, 1, "one");
    for check in counted(&closed, &kept, false).await {
        let why = check.reason.unwrap();
        assert!(why.contains("no tokenizer"), "{why}");
    }
    let engine = FakeEngine::start(Config::default()).unwrap();
    for check in counted(&engine.url(), &kept, true).await {
        assert_eq!(check.reason.as_deref(), Some("interrupted"));
        assert_eq!(check.answers, 0);
    }
}
