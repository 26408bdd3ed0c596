//! An answer on its way from the engine to the client.

use std::time::Duration;

use inferscope_shared::record::gateway::{Extraction, Outcome};

use crate::engine::{Do, Engine, chunk, event, last_chunk, stream_head};
use crate::harness::{Client, Gateway};
use crate::{ASK, stream};

#[tokio::test]
async fn a_stream_passes_byte_by_byte_and_its_record_says_how() {
    let mut engine = Engine::start(vec![stream(&["a", "b"])]).await;
    let gateway = Gateway::start(&engine, "").await;
    let mut client = Client::connect(&gateway).await;
    client.ask(ASK, "x-request-id: run.gw.p.1\r\n").await;
    let answer = client.answer().await;
    let expected = format!("{}{}data: [DONE]\n\n", event("a"), event("b"));
    assert_eq!(answer.body, expected.as_bytes());
    assert!(answer.whole);

    let request = engine.request().await;
    assert_eq!(request.body, ASK.as_bytes());
    let record = gateway.record().await;
    assert_eq!(record.outcome, Outcome::Ok);
    assert_eq!(record.status, Some(200));
    assert_eq!(record.client_request_id.as_deref(), Some("run.gw.p.1"));
    assert_eq!(
        answer.header("x-request-id"),
        Some(record.request_id.as_str())
    );
    assert!(
        request
            .head
            .contains(&format!("x-request-id: {}\r\n", record.request_id))
    );
    assert!(request.head.contains("accept-encoding: identity\r\n"));
    assert_eq!(record.sha256_upstream, record.sha256_downstream);
    assert!(record.sha256_upstream.is_some());
    assert_eq!(record.bytes_out, expected.len() as u64);
    let chunks = &record.chunks;
    assert_eq!(chunks.end_offset.iter().sum::<u64>(), record.bytes_out);
    assert_eq!(chunks.written_ns.len(), chunks.read_ns.len());
    assert_ne!(chunks.written_ns, chunks.read_ns);
    assert_eq!(chunks.events.iter().sum::<u64>(), 3);
    assert!(record.t_first_output_ns <= record.t_last_output_ns);
    assert_eq!(record.extraction, Extraction::Complete);
}

#[tokio::test]
async fn d14_an_error_inside_a_good_stream_is_the_records_outcome() {
    let error = "data: {\"error\":{\"message\":\"engine died\",\"type\":\"server_error\",\"code\":500}}\n\n";
    let mut script = vec![stream_head(), chunk(event("a")), chunk(error)];
    script.extend([chunk("data: [DONE]\n\n"), last_chunk()]);
    let engine = Engine::start(vec![script]).await;
    let gateway = Gateway::start(&engine, "").await;
    let mut client = Client::connect(&gateway).await;
    client.ask(ASK, "").await;
    let answer = client.answer().await;
    assert_eq!(
        answer.text(),
        format!("{}{error}data: [DONE]\n\n", event("a"))
    );
    let record = gateway.record().await;
    assert_eq!(record.outcome, Outcome::UpstreamError);
    assert_eq!(record.error_kind.as_deref(), Some("stream_error"));
    assert_eq!(record.sha256_upstream, record.sha256_downstream);
}

#[tokio::test]
async fn a_stream_with_a_length_is_not_held_back() {
    let body = event("a");
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
        body.len() + 5
    );
    let script = vec![Do::Write(head.into_bytes()), Do::AwaitClose];
    let engine = Engine::start(vec![script]).await;
    let gateway = Gateway::start(&engine, "").await;
    let mut client = Client::connect(&gateway).await;
    client.ask(ASK, "").await;
    let (status, head) = client.head().await;
    assert_eq!(status, 200);
    assert!(!head.to_lowercase().contains("content-length"));
    assert_eq!(client.chunk().await.unwrap(), body.as_bytes());
}

#[tokio::test]
async fn a_client_that_stops_reading_is_not_the_engines_time() {
    // More than both sockets of the way hold.
    let piece = event(&"x".repeat(64 * 1024));
    let mut script = vec![stream_head()];
    script.extend(std::iter::repeat_n(chunk(&piece), 400));
    script.push(last_chunk());
    let engine = Engine::start(vec![script]).await;
    let gateway = Gateway::start(&engine, "").await;
    let mut client = Client::connect(&gateway).await;
    client.ask(ASK, "").await;
    client.head().await;
    // The stall is the scenario, not a way to wait for something.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let answer = client.rest().await;
    assert!(answer.whole && answer.body.len() == 400 * piece.len());

    let record = gateway.record().await;
    assert!(record.write_blocked_ns > 1_500_000_000, "{record:?}");
    assert_eq!(record.outcome, Outcome::Ok);
    let decode = |deltas: &[u64]| inferscope_shared::record::delta::decode(0, deltas);
    let read = decode(&record.chunks.read_ns);
    let written = decode(&record.chunks.written_ns);
    assert_eq!(read.len(), written.len());
    // What the engine took for a piece runs from when the one before had been taken and passed.
    let engine_ns: u64 = (1..read.len())
        .map(|i| read[i].saturating_sub(written[i - 1].max(read[i - 1])))
        .sum();
    assert!(engine_ns < 500_000_000, "{engine_ns}");
    let slowest = read.iter().zip(&written).map(|(r, w)| w - r).max();
    assert!(slowest > Some(1_000_000_000), "{slowest:?}");
}

#[tokio::test]
async fn a_body_that_is_no_plain_event_stream_is_not_written_into() {
    // Of any case it is one; compressed it is none that an event could be put into.
    for (fields, events) in [
        ("content-type: Text/Event-Stream; charset=utf-8", true),
        (
            "content-type: text/event-stream\r\ncontent-encoding: gzip",
            false,
        ),
        ("content-type: text/event-stream-like", false),
    ] {
        let head = format!("HTTP/1.1 200 OK\r\n{fields}\r\ntransfer-encoding: chunked\r\n\r\n");
        let script = vec![Do::Write(head.into_bytes()), chunk(event("a")), Do::Close];
        let engine = Engine::start(vec![script]).await;
        let gateway = Gateway::start(&engine, "").await;
        let mut client = Client::connect(&gateway).await;
        client.ask(ASK, "").await;
        let answer = client.answer().await;
        assert!(!answer.whole);
        assert_eq!(
            answer.text().contains("data: {\"error\":"),
            events,
            "{fields}"
        );
        let record = gateway.record().await;
        assert_eq!(record.error_kind.as_deref(), Some("truncated"));
    }
}

#[tokio::test]
async fn nothing_is_written_into_a_chunk_that_is_half_sent() {
    let piece = event(&"x".repeat(64 * 1024));
    let mut script = vec![stream_head()];
    script.extend(std::iter::repeat_n(chunk(&piece), 400));
    let engine = Engine::start(vec![script]).await;
    let gateway = Gateway::start(&engine, "timeouts: {total: 500ms}\n").await;
    let mut client = Client::connect(&gateway).await;
    client.ask(ASK, "").await;
    client.head().await;
    // The client reads on soon after the limit, in time for a last word.
    tokio::time::sleep(Duration::from_millis(700)).await;
    let rest = client.remainder().await;
    assert!(!rest.windows(8).any(|bytes| bytes == b"\"error\":"));
    let record = gateway.record().await;
    assert_eq!(record.error_kind.as_deref(), Some("total_timeout"));
    assert!(record.bytes_out > 0 && record.write_blocked_ns > 0);
}
