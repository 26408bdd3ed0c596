//! OpenAI dialect cases of the field (D), for the gateway's findings and for loadgen's.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use inferscope_fake_engine::Script;
use inferscope_shared::record::gateway::{Outcome as Passing, UsageSource};
use inferscope_shared::record::request::{EventKind, Outcome, RequestRecord};

use crate::play::{self, ROLE, content, finish, sha256, stream, usage};

const MS: u64 = 1_000_000;
/// Timing slack of these cases. They tell 300 ms from 5 ms, on machines that are busy.
const SLACK_MS: u64 = 150;

fn ms(d: u64) -> Duration {
    Duration::from_millis(d)
}

/// Milliseconds from the request's first write to its first output.
fn ttft_ms(record: &RequestRecord) -> Result<u64> {
    let first = record.first_output_ns.context("no output")?;
    Ok(first.since(record.sent_start_ns.context("not sent")?) / MS)
}

fn near(value: u64, want: u64) -> Result<()> {
    ensure!(
        value >= want.saturating_sub(2) && value < want + SLACK_MS,
        "{value} ms is not about {want} ms"
    );
    Ok(())
}

#[test]
fn d01_the_role_event_is_not_the_first_token() -> Result<()> {
    let script = Script::new()
        .head_sse()
        .delay(ms(5))
        .event(ROLE)
        .delay(ms(395))
        .event(&content("a"))
        .event(&finish("stop"))
        .event(&usage(3, 1))
        .done()
        .end();
    let record = play::measure_one(&script)?;
    near(ttft_ms(&record)?, 400)?;
    let first_event = record
        .first_event_ns
        .context("no event")?
        .since(record.sent_start_ns.context("not sent")?)
        / MS;
    near(first_event, 5)?;
    let passed = play::pass_one(&script)?;
    passed.unchanged()?;
    let first_output = passed.record.t_first_output_ns.context("no output")? / MS;
    near(first_output, 400)?;
    near(passed.record.t_first_byte_ns.context("no byte")? / MS, 5)
}

#[test]
fn d03_both_spellings_of_reasoning_are_one_output() -> Result<()> {
    let with = |delta: &str| {
        let event =
            format!(r#"{{"choices":[{{"index":0,"delta":{{{delta}}},"finish_reason":null}}]}}"#);
        stream(&[ROLE, &event, &content("x"), &finish("stop"), &usage(3, 2)])
    };
    let scripts = [
        with(r#""reasoning":"think""#),
        with(r#""reasoning_content":"think""#),
        with(r#""reasoning":"think","reasoning_content":"think""#),
    ];
    for passed in play::pass(&scripts)? {
        passed.unchanged()?;
    }
    let records = play::measure(&scripts)?;
    for record in &records {
        ensure!(record.outcome == Outcome::Ok);
        ensure!(
            record.text_sha256 == records[0].text_sha256,
            "counted twice, or not at all"
        );
        ensure!(
            record.events.kind
                == [
                    EventKind::Empty,
                    EventKind::Output,
                    EventKind::Output,
                    EventKind::Finish,
                    EventKind::Usage,
                    EventKind::Done
                ]
        );
    }
    Ok(())
}

#[test]
fn d05_an_answer_of_tool_calls_alone_has_tokens_and_a_ttft() -> Result<()> {
    let call = |inner: &str| {
        format!(
            r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":0,{inner}}}]}},"finish_reason":null}}]}}"#
        )
    };
    let script = Script::new()
        .head_sse()
        .event(ROLE)
        .delay(ms(300))
        .event(&call(r#""id":"c1","function":{"name":"f","arguments":""}"#))
        .delay(ms(300))
        .event(&call(r#""function":{"arguments":"{\"a\":"}"#))
        .delay(ms(300))
        .event(&call(r#""function":{"arguments":"1}"}"#))
        .event(&finish("tool_calls"))
        .event(&usage(10, 31))
        .done()
        .end();
    let record = play::measure_one(&script)?;
    ensure!(record.outcome == Outcome::Ok && record.completion_tokens == Some(31));
    near(ttft_ms(&record)?, 300)?;
    let span = record
        .last_output_ns
        .context("last")?
        .since(record.first_output_ns.context("first")?)
        / MS;
    near(span, 600)
}

#[test]
fn d07_a_usage_event_without_choices_is_read() -> Result<()> {
    let counts = r#""usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}"#;
    let scripts = ["\"choices\":[],", "", "\"choices\":null,"].map(|choices| {
        let event = format!(r#"{{"id":"c1","object":"chat.completion.chunk",{choices}{counts}}}"#);
        stream(&[ROLE, &content("a"), &content("b"), &finish("stop"), &event])
    });
    for passed in play::pass(&scripts)? {
        passed.unchanged()?;
        let usage = passed.record.usage;
        ensure!(
            (usage.prompt_tokens, usage.completion_tokens) == (Some(3), Some(2))
                && usage.source == UsageSource::Usage
        );
    }
    for record in play::measure(&scripts)? {
        ensure!(record.completion_tokens == Some(2) && record.prompt_tokens == Some(3));
        ensure!(
            record.events.kind[4] == EventKind::Usage,
            "{:?}",
            record.events.kind
        );
    }
    Ok(())
}

#[test]
fn d08_annotations_are_neither_tokens_nor_ends() -> Result<()> {
    let first =
        r#"{"id":"","choices":[],"created":0,"model":"","object":"","prompt_filter_results":[]}"#;
    let middle = r#"{"choices":[{"index":0,"finish_reason":null,"content_filter_offsets":{"start_offset":0,"end_offset":9}}]}"#;
    let null = r#"{"choices":[{"index":0,"delta":null,"finish_reason":null}]}"#;
    let script = Script::new()
        .head_sse()
        .event(first)
        .delay(ms(200))
        .event(ROLE)
        .event(&content("a"))
        .event(middle)
        .event(null)
        .event(&content("b"))
        .event(&finish("stop"))
        .event(first)
        .done()
        .end();
    let passed = play::pass_one(&script)?;
    passed.unchanged()?;
    ensure!(
        passed.record.model.as_deref() == Some(play::MODEL),
        "the model's name became {:?}",
        passed.record.model
    );
    let record = play::measure_one(&script)?;
    ensure!(record.outcome == Outcome::Ok && record.text_sha256 == Some(sha256(b"ab")));
    ensure!(
        record
            .events
            .kind
            .iter()
            .filter(|k| **k == EventKind::Output)
            .count()
            == 2
    );
    near(ttft_ms(&record)?, 200)
}

#[test]
fn d09_running_totals_are_not_added() -> Result<()> {
    let events: Vec<String> = (1..=40)
        .map(|n| {
            format!(
                r#"{{"choices":[{{"index":0,"delta":{{"content":"t"}}}}],"usage":{{"prompt_tokens":9,"completion_tokens":{n}}}}}"#
            )
        })
        .collect();
    let mut all: Vec<&str> = vec![ROLE];
    all.extend(events.iter().map(String::as_str));
    let (finish, last) = (finish("stop"), usage(9, 40));
    all.extend([finish.as_str(), last.as_str()]);
    let script = stream(&all);
    let passed = play::pass_one(&script)?;
    passed.unchanged()?;
    ensure!(passed.record.usage.completion_tokens == Some(40));
    ensure!(play::measure_one(&script)?.completion_tokens == Some(40));
    Ok(())
}

#[test]
fn d11_choices_are_told_apart_by_index() -> Result<()> {
    let one = |index: u32, text: &str| {
        format!(r#"{{"index":{index},"delta":{{"content":"{text}"}},"finish_reason":null}}"#)
    };
    let end = |index: u32| {
        format!(r#"{{"choices":[{{"index":{index},"delta":{{}},"finish_reason":"stop"}}]}}"#)
    };
    let event = |choices: &[String]| format!(r#"{{"choices":[{}]}}"#, choices.join(","));
    let events = [
        event(&[one(1, "B1")]),
        event(&[one(0, "A1")]),
        event(&[one(1, "B2"), one(0, "A2")]),
        end(1),
        event(&[one(0, "A3")]),
    ];
    let mut all: Vec<&str> = events.iter().map(String::as_str).collect();
    let (last, counts) = (end(0), usage(5, 7));
    let whole = stream(&[all.as_slice(), &[last.as_str(), counts.as_str()]].concat());
    all.push(&counts);
    let unfinished = stream(&all);

    let passed = play::pass_one(&whole)?;
    passed.unchanged()?;
    ensure!(passed.record.usage.completion_tokens == Some(7));
    let record = play::measure_one(&whole)?;
    ensure!(record.outcome == Outcome::Ok && record.completion_tokens == Some(7));
    ensure!(
        record.text_sha256 == Some(sha256(b"A1A2A3B1B2")),
        "texts are not in order of their index"
    );
    ensure!(
        play::measure_one(&unfinished)?.outcome == Outcome::Incomplete,
        "one choice never finished"
    );
    Ok(())
}

#[test]
fn d12_an_empty_finish_reason_is_none() -> Result<()> {
    let with = |reason: &str, text: &str| {
        format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{text}"}}{reason}}}]}}"#)
    };
    let scripts = [r#","finish_reason":"""#, ""].map(|reason| {
        stream(&[
            &with(reason, "a"),
            &with(reason, "b"),
            &with(r#","finish_reason":"stop""#, "c"),
        ])
    });
    for passed in play::pass(&scripts)? {
        passed.unchanged()?;
        ensure!(
            passed.record.outcome == Passing::Ok
                && passed.record.finish_reason.as_deref() == Some("stop")
        );
    }
    for record in play::measure(&scripts)? {
        ensure!(record.outcome == Outcome::Ok && record.text_sha256 == Some(sha256(b"abc")));
        ensure!(record.finish_reason.as_deref() == Some("stop"));
    }
    Ok(())
}

#[test]
fn d14_an_error_inside_a_stream_is_a_failure() -> Result<()> {
    let error = r#"{"error":{"message":"engine died","type":"server_error","code":500}}"#;
    let text = content("a");
    let named = format!("event: error\ndata: {error}\n\n");
    let scripts = [
        stream(&[ROLE, &text, error]),
        stream(&[error]),
        stream(&[ROLE, &text, r#"{"error":"engine died"}"#]),
        Script::new()
            .head_sse()
            .event(ROLE)
            .event(&text)
            .chunk(&named)
            .done()
            .end(),
    ];
    for passed in play::pass(&scripts)? {
        passed.unchanged()?;
        ensure!(
            passed.record.status == Some(200) && passed.record.outcome == Passing::UpstreamError
        );
        ensure!(
            passed.record.error_kind.as_deref() == Some("stream_error"),
            "{:?}",
            passed.record.error_kind
        );
    }
    for record in play::measure(&scripts)? {
        ensure!(record.outcome == Outcome::Failed, "{:?}", record.outcome);
        ensure!(
            record
                .error_message
                .as_deref()
                .is_some_and(|m| m.contains("engine died")),
            "{:?}",
            record.error_message
        );
    }
    Ok(())
}

#[test]
fn d17_a_page_instead_of_an_answer_keeps_its_status() -> Result<()> {
    let page = "<html><h1>Bad gateway</h1></html>";
    let length = page.len().to_string();
    let scripts = ["502 Bad Gateway", "200 OK"].map(|status| {
        Script::new()
            .head(
                status,
                &[("content-type", "text/html"), ("content-length", &length)],
            )
            .raw(page)
    });
    for passed in play::pass(&scripts)? {
        passed.unchanged()?;
    }
    let records = play::measure(&scripts)?;
    ensure!(records[0].status == Some(502) && records[1].status == Some(200));
    for record in &records {
        ensure!(record.outcome == Outcome::Failed);
        let message = record.error_message.as_deref().context("no message")?;
        ensure!(
            message.contains("text/html") && message.contains("Bad gateway"),
            "{message}"
        );
    }
    Ok(())
}
