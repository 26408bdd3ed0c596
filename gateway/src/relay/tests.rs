use super::*;

fn sse(watch: &mut Watch, pieces: &[(&str, u64)]) {
    watch.head(Body::Events);
    for (text, at) in pieces {
        watch.take(&Bytes::copy_from_slice(text.as_bytes()), MonoNs(*at));
    }
}

const ROLE: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n";
const TEXT: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"},\"finish_reason\":null}]}\n\n";

#[test]
fn nothing_is_read_before_the_look() {
    let mut watch = Watch::new(true);
    sse(&mut watch, &[(TEXT, 10)]);
    assert_eq!(watch.seen().answer().output_events(), 0);
    assert_eq!(watch.pieces()[0].events, 0);
    watch.look();
    assert_eq!(watch.seen().answer().output_events(), 1);
    assert_eq!(watch.pieces()[0].events, 1);
}

#[test]
fn d01_the_role_event_is_no_first_output() {
    let mut watch = Watch::new(false);
    sse(&mut watch, &[(ROLE, 5), (TEXT, 400), (TEXT, 500)]);
    watch.finish();
    assert_eq!(watch.first_output(), Some(MonoNs(400)));
    assert_eq!(watch.last_output(), Some(MonoNs(500)));
}

#[test]
fn an_event_counts_with_the_piece_that_completes_it() {
    let (head, tail) = TEXT.split_at(20);
    let mut watch = Watch::new(false);
    sse(&mut watch, &[(head, 10), (tail, 20)]);
    watch.finish();
    let events: Vec<u64> = watch.pieces().iter().map(|p| p.events).collect();
    assert_eq!(events, [0, 1]);
    assert_eq!(watch.first_output(), Some(MonoNs(20)));
}

#[test]
fn s08_a_comment_is_no_progress_and_no_event() {
    let mut watch = Watch::new(false);
    sse(&mut watch, &[(TEXT, 10), (": working\n\n", 90)]);
    watch.finish();
    assert_eq!(watch.progress(), Some(MonoNs(10)));
    assert_eq!(watch.pieces()[1].events, 0);
    assert_eq!(watch.extraction(), Extraction::Complete);
}

#[test]
fn s22_a_compressed_body_is_unknown_not_zero() {
    let mut headers = http::HeaderMap::new();
    headers.insert("content-type", "text/event-stream".parse().unwrap());
    headers.insert("content-encoding", "gzip".parse().unwrap());
    let mut watch = Watch::new(false);
    watch.head(Body::of(&headers));
    watch.take(&Bytes::from_static(b"\x1f\x8b\x08"), MonoNs(2));
    watch.finish();
    assert_eq!(watch.extraction(), Extraction::Partial);
    assert_eq!(watch.first_output(), None);
}

#[test]
fn a_document_is_read_when_it_is_whole() {
    let mut watch = Watch::new(false);
    watch.head(Body::Json);
    let text = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#;
    let (a, b) = text.split_at(40);
    watch.take(&Bytes::copy_from_slice(a.as_bytes()), MonoNs(10));
    watch.take(&Bytes::copy_from_slice(b.as_bytes()), MonoNs(20));
    watch.look();
    assert_eq!(watch.first_output(), None);
    watch.finish();
    assert_eq!(watch.first_output(), Some(MonoNs(20)));
    let usage = watch.seen().answer().usage().unwrap();
    assert_eq!(usage.completion_tokens, Some(2));
    assert_eq!(watch.seen().answer().finish_reason(), Some("stop"));
}

#[test]
fn d17_html_is_opaque_and_nothing_is_missing() {
    let mut headers = http::HeaderMap::new();
    headers.insert("content-type", "text/html".parse().unwrap());
    let mut watch = Watch::new(true);
    watch.head(Body::of(&headers));
    watch.take(
        &Bytes::from_static(b"<html><h1>Bad gateway</h1></html>"),
        MonoNs(2),
    );
    watch.finish();
    assert_eq!(watch.extraction(), Extraction::Complete);
    assert!(watch.sha256().is_some());
}
