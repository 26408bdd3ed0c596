//! Captured answers of real engines, replayed by a scripted engine: the gateway passes each byte for
//! byte, however the engine's writes are cut.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use inferscope_fake_engine::{Script, Scripts};
use inferscope_shared::record::gateway::{Extraction, Outcome};
use inferscope_tests::capture::{self, Capture};
use inferscope_tests::gateway::Gateway;
use inferscope_tests::http::{self, End};

use crate::play::{self, sha256};

/// Pause between two pieces of a capture that was cut.
const APART: Duration = Duration::from_millis(1);

/// Replays a capture in pieces cut at these offsets, then ends the connection as its head says.
fn replay(capture: &Capture, cuts: impl IntoIterator<Item = usize>) -> Script {
    let mut script = Script::new();
    let mut from = 0;
    for cut in cuts {
        script = script.raw(&capture.raw[from..cut]).delay(APART);
        from = cut;
    }
    script.raw(&capture.raw[from..]).close()
}

/// Up to `count` rising offsets inside `length`, spread by a fixed sequence: the same in every run.
fn cuts(length: usize, count: usize, seed: usize) -> Vec<usize> {
    let mut state = seed as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let mut offsets: Vec<_> = (0..count)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            1 + (state >> 33) as usize % (length - 1)
        })
        .collect();
    offsets.sort_unstable();
    offsets.dedup();
    offsets
}

fn check(gateway: &Gateway, capture: &Capture, name: &str) -> Result<()> {
    let body = http::chat(&format!("script:{name}"), true, 4);
    let got = http::post(
        &gateway.data,
        "/v1/chat/completions",
        &[("x-request-id", name)],
        &body,
    )?;
    ensure!(
        got.status == capture.status,
        "status {} became {}",
        capture.status,
        got.status
    );
    ensure!(
        got.header("content-type") == capture.header("content-type"),
        "content-type {:?} became {:?}",
        capture.header("content-type"),
        got.header("content-type")
    );
    ensure!(got.header("x-request-id").is_some(), "no x-request-id");
    if capture.whole {
        ensure!(got.end == End::Clean, "the end is {:?}", got.end);
        ensure!(
            got.body == capture.body,
            "the body is not the engine's: {}",
            got.text()
        );
    } else {
        ensure!(got.end != End::Clean, "a cut answer was ended cleanly");
        ensure!(
            got.body.starts_with(&capture.body),
            "the cut body is not passed on: {}",
            got.text()
        );
    }
    let record = gateway.record_of(name)?;
    ensure!(
        record.sha256_upstream == Some(sha256(&capture.body)),
        "sha256_upstream"
    );
    if capture.whole {
        let expected = match capture.status {
            500.. => Outcome::UpstreamError,
            _ => Outcome::Ok,
        };
        ensure!(
            record.outcome == expected,
            "outcome {:?} {:?}",
            record.outcome,
            record.error_kind
        );
        ensure!(
            record.sha256_downstream == record.sha256_upstream,
            "sha256_downstream"
        );
        let streamed = capture
            .header("content-type")
            .is_some_and(|t| t.starts_with("text/event-stream"));
        ensure!(
            !streamed || record.extraction == Extraction::Complete,
            "the watcher gave up"
        );
    } else {
        ensure!(
            record.outcome == Outcome::UpstreamError,
            "outcome {:?}",
            record.outcome
        );
    }
    Ok(())
}

#[test]
fn every_capture_passes_byte_for_byte_whole_and_cut() -> Result<()> {
    let captures = capture::all()?;
    assert!(
        captures.len() >= 200,
        "only {} captures found",
        captures.len()
    );
    let mut scripts = Scripts::new();
    for (i, capture) in captures.iter().enumerate() {
        let pieces = cuts(capture.raw.len(), 9, i);
        scripts = scripts
            .add(&format!("whole-{i}"), replay(capture, []))
            .add(&format!("cut-{i}"), replay(capture, pieces));
    }
    let engine = play::engine_with(scripts)?;
    let gateway = Gateway::open(&engine.addr().to_string())?;
    let mut faults = Vec::new();
    for (i, capture) in captures.iter().enumerate() {
        for way in ["whole", "cut"] {
            let name = format!("{way}-{i}");
            let result =
                check(&gateway, capture, &name).with_context(|| format!("{} {way}", capture.name));
            faults.extend(result.err().map(|e| format!("{e:#}")));
        }
    }
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.join("\n")
    );
    Ok(())
}

#[test]
fn one_stream_passes_byte_for_byte_at_every_cut() -> Result<()> {
    let captures = capture::all()?;
    // The shortest whole event stream, so that every offset of its body can be tried.
    let capture = captures
        .iter()
        .filter(|c| {
            c.whole
                && c.header("content-type")
                    .is_some_and(|t| t.starts_with("text/event-stream"))
        })
        .min_by_key(|c| c.raw.len())
        .context("no captured stream")?;
    let scripts = (1..capture.raw.len()).fold(Scripts::new(), |scripts, cut| {
        scripts.add(&format!("at-{cut}"), replay(capture, [cut]))
    });
    let engine = play::engine_with(scripts)?;
    let gateway = Gateway::open(&engine.addr().to_string())?;
    for cut in 1..capture.raw.len() {
        check(&gateway, capture, &format!("at-{cut}"))
            .with_context(|| format!("{} cut at {cut}", capture.name))?;
    }
    Ok(())
}
