//! The stamps of the downstream write: a client that does not read shows as time that writes were
//! blocked, and never as the engine's time; what was written is not what was read, copied.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};
use inferscope_fake_engine::Script;
use inferscope_shared::record::delta;
use inferscope_shared::record::gateway::Outcome;
use inferscope_tests::gateway::Gateway;
use inferscope_tests::http::{self, Client};

use crate::play::{self, MODEL, content, plain_body, sha256};

/// How long the client does not read: the scenario itself, nothing is synchronised by it.
const STALL: Duration = Duration::from_secs(2);

#[test]
fn a_client_that_stops_reading_shows_as_blocked_writes_and_not_as_engine_time() -> Result<()> {
    // More than all socket buffers between engine and client hold.
    let block = "x".repeat(64 * 1024);
    let event = format!("data: {}\n\n", content(&block));
    let mut script = Script::new().head_sse();
    let mut body = Vec::new();
    for _ in 0..384 {
        script = script.chunk(&event);
        body.extend_from_slice(event.as_bytes());
    }
    let rest = plain_body(&["end"]);
    body.extend_from_slice(&rest);
    let engine = play::engine(&[script.chunk(&rest).end()])?;
    let gateway = Gateway::open(&engine.addr().to_string())?;

    let mut client = Client::connect_narrow(&gateway.data, 64 * 1024)?;
    let head = [("x-request-id", "stalled")];
    client.request(
        "POST",
        "/v1/chat/completions",
        &head,
        &http::chat(MODEL, true, 16),
    )?;
    client.more()?;
    sleep(STALL);
    let answer = client.answer()?;
    assert_eq!(sha256(&answer.body), sha256(&body));

    let record = gateway.record_of("stalled")?;
    let stall_ns = STALL.as_nanos() as u64;
    assert_eq!(record.outcome, Outcome::Ok);
    assert!(
        record.write_blocked_ns > stall_ns * 8 / 10,
        "writes were blocked for {} ns only",
        record.write_blocked_ns
    );
    for (name, at_ns) in [
        ("t_response_head_ns", record.t_response_head_ns),
        ("t_first_byte_ns", record.t_first_byte_ns),
        ("t_first_output_ns", record.t_first_output_ns),
    ] {
        assert!(
            at_ns.is_some_and(|ns| ns < stall_ns / 2),
            "{name} is {at_ns:?}: the client's stall is in it"
        );
    }
    assert!(
        record.t_end_ns > stall_ns * 8 / 10,
        "the request ended after {} ns",
        record.t_end_ns
    );
    Ok(())
}

#[test]
fn a_write_has_its_own_stamp_after_the_read_of_its_piece() -> Result<()> {
    let engine = play::engine(&[])?;
    let gateway = Gateway::open(&engine.addr().to_string())?;
    let head = [("x-request-id", "paced")];
    http::post(
        &gateway.data,
        "/v1/chat/completions",
        &head,
        &http::chat("fake-model", true, 24),
    )?;
    let record = gateway.record_of("paced")?;
    let read = delta::decode(0, &record.chunks.read_ns);
    let written = delta::decode(0, &record.chunks.written_ns);
    ensure!(
        read.len() >= 24,
        "{} pieces for 24 paced tokens",
        read.len()
    );
    ensure!(
        read.len() == written.len(),
        "{} pieces read, {} written",
        read.len(),
        written.len()
    );
    ensure!(
        record.chunks.end_offset.len() == read.len() && record.chunks.events.len() == read.len()
    );
    ensure!(
        read.iter().zip(&written).all(|(r, w)| w >= r),
        "written before it was read: {record:?}"
    );
    let equal = read.iter().zip(&written).filter(|(r, w)| r == w).count();
    ensure!(
        equal * 10 < read.len(),
        "{equal} of {} writes have the stamp of their read",
        read.len()
    );
    // A paced stream: each token was written before the next one was read.
    let late = read
        .iter()
        .skip(1)
        .zip(&written)
        .filter(|(next, w)| w >= next)
        .count();
    ensure!(
        late * 10 < read.len(),
        "{late} of {} pieces were held until the next one",
        read.len()
    );
    let bytes: u64 = record.chunks.end_offset.iter().sum();
    ensure!(
        bytes == record.bytes_out,
        "pieces hold {bytes} bytes, {} went out",
        record.bytes_out
    );
    Ok(())
}
