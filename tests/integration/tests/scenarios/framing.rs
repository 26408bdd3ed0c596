//! SSE framing cases of the field (S), for the gateway's bytes and for what loadgen makes of them.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use inferscope_fake_engine::Script;
use inferscope_shared::record::gateway::{Extraction, Outcome as Passing};
use inferscope_shared::record::request::{EventKind, Outcome, RequestRecord};

use crate::play::{self, PAUSE, content, finish, plain_body, sha256, usage, writes};

/// Output events of a record.
fn outputs(record: &RequestRecord) -> usize {
    record
        .events
        .kind
        .iter()
        .filter(|k| **k == EventKind::Output)
        .count()
}

fn ok_with_text(record: &RequestRecord, text: &str) -> Result<()> {
    ensure!(
        record.outcome == Outcome::Ok,
        "{:?} {:?}",
        record.outcome,
        record.error_message
    );
    ensure!(
        record.text_sha256 == Some(sha256(text.as_bytes())),
        "the text is not {text:?}"
    );
    Ok(())
}

#[test]
fn s01_a_character_cut_between_reads_stays_whole() -> Result<()> {
    let text = "北🙂é";
    let body = plain_body(&[text]);
    let start = body
        .windows(text.len())
        .position(|w| w == text.as_bytes())
        .context("the text")?;
    let scripts: Vec<Script> = (start + 1..start + text.len())
        .map(|cut| {
            Script::new()
                .head_sse()
                .chunk(&body[..cut])
                .delay(PAUSE)
                .chunk(&body[cut..])
                .end()
        })
        .collect();
    ensure!(scripts.len() == 8);
    for passed in play::pass(&scripts)? {
        passed.unchanged()?;
        ensure!(passed.record.extraction == Extraction::Complete);
    }
    for record in play::measure(&scripts)? {
        ok_with_text(&record, text)?;
    }
    Ok(())
}

#[test]
fn s03_a_line_end_cut_between_cr_and_lf_is_one() -> Result<()> {
    let event = b"data: {\"k\":1,\r\ndata: \"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\r\n\r\n";
    let rest = plain_body(&["y"]);
    let cuts = event
        .iter()
        .enumerate()
        .filter(|(_, b)| **b == b'\r')
        .map(|(i, _)| i + 1);
    let scripts: Vec<Script> = cuts
        .map(|cut| writes(&[&event[..cut], &event[cut..], &rest]))
        .collect();
    ensure!(scripts.len() == 3);
    for passed in play::pass(&scripts)? {
        passed.unchanged()?;
        // One event of two lines, then role, text, finish, usage and the end mark.
        ensure!(
            passed.record.chunks.events.iter().sum::<u64>() == 6,
            "{:?}",
            passed.record.chunks.events
        );
    }
    for record in play::measure(&scripts)? {
        ok_with_text(&record, "xy")?;
        ensure!(record.events.kind.len() == 6, "{:?}", record.events.kind);
    }
    Ok(())
}

#[test]
fn s06_the_blank_after_the_colon_is_optional() -> Result<()> {
    let body = String::from_utf8(plain_body(&["a", "b"]))?;
    let bare = body.replace("data: ", "data:");
    let scripts = [writes(&[bare.as_bytes()])];
    for passed in play::pass(&scripts)? {
        passed.unchanged()?;
    }
    for record in play::measure(&scripts)? {
        ok_with_text(&record, "ab")?;
        ensure!(record.completion_tokens == Some(2) && !record.done_missing);
    }
    Ok(())
}

#[test]
fn s07_json_over_several_data_lines_is_parsed_once() -> Result<()> {
    let head = "data: {\"choices\":[{\"index\":0,\ndata: \"delta\":{\"content\":\"hi\"},\"finish_reason\":null}]}\n\n";
    let rest = plain_body(&[]);
    let record = play::measure_one(&writes(&[head.as_bytes(), &rest]))?;
    ok_with_text(&record, "hi")?;
    ensure!(outputs(&record) == 1);
    Ok(())
}

#[test]
fn s08_comments_are_bytes_and_not_events() -> Result<()> {
    let text = content("a");
    let (first, second) = text.split_at(text.find(':').context("a colon")? + 1);
    let body = format!(
        "data: {}\n\n: working\n\n:\n\n:x\n\ndata: {first}\n: between\ndata: {second}\n\ndata: {}\n\ndata: [DONE]\n\n",
        play::ROLE,
        finish("stop"),
    );
    let script = writes(&[body.as_bytes()]);
    let passed = play::pass_one(&script)?;
    passed.unchanged()?;
    ensure!(
        passed.record.chunks.events.iter().sum::<u64>() == 4,
        "{:?}",
        passed.record.chunks.events
    );
    let record = play::measure_one(&script)?;
    ok_with_text(&record, "a")?;
    ensure!(record.events.kind.len() == 4);
    Ok(())
}

#[test]
fn s11_a_byte_order_mark_at_the_start_is_skipped_and_forwarded() -> Result<()> {
    let bom: &[u8] = b"\xEF\xBB\xBF";
    let body = plain_body(&["a"]);
    let second_event = body
        .windows(2)
        .position(|w| w == b"\n\n")
        .context("an event's end")?
        + 2;
    let scripts = [
        writes(&[bom, &body]),
        writes(&[&bom[..1], &bom[1..], &body]),
        writes(&[&bom[..2], &bom[2..], &body]),
        writes(&[bom, &body[..second_event], bom, &body[second_event..]]),
    ];
    for passed in play::pass(&scripts)? {
        passed.unchanged()?;
    }
    let records = play::measure(&scripts)?;
    for record in &records[..3] {
        ok_with_text(record, "a")?;
    }
    // In the last one the second event's field has an unknown name: skipped, and no crash.
    ensure!(
        records[3].outcome == Outcome::Ok && outputs(&records[3]) == 0,
        "{:?}",
        records[3].events.kind
    );
    Ok(())
}

#[test]
fn s12_one_byte_per_write_gives_the_same_events() -> Result<()> {
    let body = plain_body(&["ä", "b\nc"]);
    let bytes: Vec<&[u8]> = body.chunks(1).collect();
    let slow = bytes
        .iter()
        .fold(Script::new().head_sse(), |s, b| s.chunk(b))
        .end();
    let scripts = [writes(&[&body]), slow];
    let passed = play::pass(&scripts)?;
    for p in &passed {
        p.unchanged()?;
        ensure!(p.record.chunks.events.iter().sum::<u64>() == 6);
    }
    let records = play::measure(&scripts)?;
    for record in &records {
        ok_with_text(record, "äb\nc")?;
    }
    ensure!(
        records[0].events.end_offset == records[1].events.end_offset,
        "offsets depend on the cuts"
    );
    ensure!(records[0].events.kind == records[1].events.kind);
    Ok(())
}

#[test]
fn s13_large_events_pass_and_are_one_event() -> Result<()> {
    let scripts: Vec<Script> = [70 << 10, 200 << 10, 1 << 20, 8 << 20]
        .map(|size| {
            let body = plain_body(&[&"x".repeat(size)]);
            body.chunks(16 << 10)
                .fold(Script::new().head_sse(), |s, part| s.chunk(part))
                .end()
        })
        .into();
    for passed in play::pass(&scripts)? {
        passed.unchanged()?;
        ensure!(passed.record.extraction == Extraction::Complete);
        ensure!(passed.record.chunks.events.iter().sum::<u64>() == 5);
    }
    for record in play::measure(&scripts)? {
        ensure!(
            record.outcome == Outcome::Ok && outputs(&record) == 1,
            "{:?}",
            record.error_message
        );
    }
    Ok(())
}

#[test]
fn s15_a_clean_end_without_the_end_mark_is_success() -> Result<()> {
    let mut body = plain_body(&["a"]);
    body.truncate(body.len() - b"data: [DONE]\n\n".len());
    let script = writes(&[&body]);
    let passed = play::pass_one(&script)?;
    passed.unchanged()?;
    ensure!(
        passed.record.outcome == Passing::Ok,
        "{:?}",
        passed.record.error_kind
    );
    let record = play::measure_one(&script)?;
    ok_with_text(&record, "a")?;
    ensure!(record.done_missing && record.done_ns.is_none());
    Ok(())
}

#[test]
fn s18_the_request_ends_at_the_end_mark_and_not_at_the_close() -> Result<()> {
    let pinging = (0..30).fold(
        Script::new().head_sse().chunk(plain_body(&["a"])),
        |script, _| script.delay(Duration::from_secs(2)).chunk(": ping\n\n"),
    );
    let record = play::measure_one(&pinging)?;
    ok_with_text(&record, "a")?;
    let (done, end) = (
        record.done_ns.context("no end mark")?,
        record.end_ns.context("no end")?,
    );
    ensure!(
        end.since(done) < 1_000_000_000,
        "returned {} ms after the end mark",
        end.since(done) / 1_000_000
    );

    let clean = writes(&[&plain_body(&["a"])]);
    let records = play::measure(&[clean.clone(), clean])?;
    ensure!(
        records[1].connect.reused,
        "the connection was not used again after a clean end"
    );
    Ok(())
}

#[test]
fn s20_events_without_data_are_skipped() -> Result<()> {
    let empty = "data:\n\ndata: \n\nretry: 900\n\nevent: tick\n\nid: 3\n\n";
    let body = format!(
        "data: {}\n\n{empty}data: {}\n\n{empty}data: {}\n\n{empty}data: {}\n\ndata: [DONE]\n\n{empty}",
        play::ROLE,
        content("a"),
        finish("stop"),
        usage(3, 1),
    );
    let script = writes(&[body.as_bytes()]);
    let passed = play::pass_one(&script)?;
    passed.unchanged()?;
    ensure!(passed.record.extraction == Extraction::Complete);
    let record = play::measure_one(&script)?;
    ok_with_text(&record, "a")?;
    ensure!(record.completion_tokens == Some(1) && outputs(&record) == 1);
    Ok(())
}

#[test]
fn s22_the_engine_is_asked_for_uncompressed_events() -> Result<()> {
    let engine = play::engine(&[writes(&[&plain_body(&["a"])])])?;
    let gateway = inferscope_tests::gateway::Gateway::open(&engine.addr().to_string())?;
    let body = inferscope_tests::http::chat(play::MODEL, true, 4);
    let wants = [("accept-encoding", "gzip, br")];
    inferscope_tests::http::post(&gateway.data, "/v1/chat/completions", &wants, &body)?;
    let requests = engine.requests();
    let asked = requests
        .last()
        .context("no request")?
        .header("accept-encoding")
        .map(str::to_owned);
    ensure!(asked.as_deref() == Some("identity"), "asked for {asked:?}");

    // An engine that compresses unasked: bytes go on untouched, and the watcher says it saw nothing.
    let gzip_of_nothing: &[u8] = &[
        0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    let headers = [
        ("content-type", "text/event-stream"),
        ("content-encoding", "gzip"),
        ("transfer-encoding", "chunked"),
    ];
    let passed = play::pass_one(
        &Script::new()
            .head("200 OK", &headers)
            .chunk(gzip_of_nothing)
            .end(),
    )?;
    passed.unchanged()?;
    ensure!(
        passed.record.extraction == Extraction::Partial,
        "an unread stream is not complete"
    );
    ensure!(passed.record.usage.completion_tokens.is_none());
    Ok(())
}
