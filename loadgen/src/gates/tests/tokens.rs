//! Gates about token counts.

use super::*;
use crate::artifacts::manifest::TokenCheck;

#[test]
fn prompts_of_another_length_than_planned_fail_and_name_the_path() {
    for (point, blame) in [(DIRECT, Blame::Engine), ("gateway.c1", Blame::Gateway)] {
        let mut it = Synthetic::new(20);
        it.change(point, 1, |r| r.prompt_tokens = Some(9));
        assert_eq!(gate(&it, "prompt_tokens", point).status, GateStatus::Pass);
        it.change(point, 2, |r| r.prompt_tokens = Some(9));
        let found = gate(&it, "prompt_tokens", point);
        assert_eq!(
            (found.status, found.blame, found.measured),
            (GateStatus::Fail, blame, Some(0.9))
        );
        assert!(
            found.evidence.contains("has 9 tokens, planned were 8"),
            "{}",
            found.evidence
        );
        it.manifest.calibration.exact = false;
        let found = gate(&it, "prompt_tokens", point);
        assert_eq!(found.status, GateStatus::NotApplicable);
    }
}

fn checked(usage: u64, counted: u64, texts: u64) -> Synthetic {
    let mut it = Synthetic::new(59);
    it.manifest.points[0].token_check = Some(TokenCheck {
        tokenizer: "tokenizer.json".to_owned(),
        answers: 20,
        texts,
        usage_tokens: usage,
        counted_tokens: counted,
        worst: Some("r1.direct.c1.3: 50 by usage, 40 counted".to_owned()),
        reason: None,
    });
    it
}

#[test]
fn m05_usage_that_counts_something_else_than_tokens_fails() {
    let found = |usage, counted| gate(&checked(usage, counted, 20), "completion_tokens", DIRECT);
    assert_eq!(found(1_000, 1_000).status, GateStatus::Pass);
    assert_eq!(found(1_000, 1_020).status, GateStatus::Pass);
    // Twenty ends of answers were generated and not shown, and 2 % more may be spelling.
    assert_eq!(found(1_000, 960).status, GateStatus::Pass);
    assert_eq!(found(1_000, 959).status, GateStatus::Fail);
    let events = found(250, 1_000);
    assert_eq!(
        (events.status, events.blame),
        (GateStatus::Fail, Blame::Engine)
    );
    assert!(
        events
            .evidence
            .contains("250 tokens by usage, 1000 by tokenizer.json")
    );
}

#[test]
fn hidden_tokens_after_the_end_are_no_mismatch_when_they_were_asked_for() {
    let mut it = checked(1_000, 400, 20);
    it.body = Some(r#"{"ignore_eos": true}"#);
    let found = gate(&it, "completion_tokens", DIRECT);
    assert_eq!(found.status, GateStatus::NotApplicable);
    assert!(found.evidence.contains("ignore_eos"), "{}", found.evidence);
}

#[test]
fn without_a_tokenizer_only_a_claim_on_tpot_is_undecided() {
    let mut it = Synthetic::new(59);
    it.manifest.points[0].token_check = Some(TokenCheck {
        reason: Some("no tokenizer at http://127.0.0.1:1".to_owned()),
        ..TokenCheck::default()
    });
    it.slo = Some("ttft=1s");
    let found = gate(&it, "completion_tokens", DIRECT);
    assert_eq!(found.status, GateStatus::NotApplicable);
    assert!(
        found.evidence.contains("no tokenizer at"),
        "{}",
        found.evidence
    );
    it.slo = Some("tpot=1s");
    let found = gate(&it, "completion_tokens", DIRECT);
    assert_eq!(found.status, GateStatus::Undecided);
    assert!(
        found.remedy.contains("prompts.tokenizer"),
        "{}",
        found.remedy
    );
}
