//! What real engines sent, cut at every byte and read to the end.

use std::fs;
use std::path::{Path, PathBuf};

use inferscope_shared::openai::{self, Chunk, StreamState};
use inferscope_shared::record::request::EventKind;
use inferscope_shared::sse::Parser;

use crate::support::{Kept, Read, events, read};

/// A captured answer without its HTTP framing.
struct Capture {
    name: String,
    status: u16,
    is_stream: bool,
    body: Vec<u8>,
}

fn captures() -> Vec<Capture> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/captures");
    let mut found: Vec<_> = files(&root)
        .into_iter()
        .filter(|path| path.extension().is_some_and(|it| it == "raw"))
        .map(|path| capture(&root, &path))
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(
        found.len() > 150,
        "only {} captures in {}",
        found.len(),
        root.display()
    );
    found
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    entries
        .map(|entry| entry.expect("the folder can be listed").path())
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

fn capture(root: &Path, path: &Path) -> Capture {
    let raw = fs::read(path).expect("a fixture can be read");
    let name = path
        .strip_prefix(root)
        .expect("it lies below")
        .display()
        .to_string();
    // A `100 Continue` may come before the answer proper.
    let mut rest = &raw[..];
    loop {
        let end = find(rest, b"\r\n\r\n").unwrap_or_else(|| panic!("{name} has no head")) + 4;
        let head = String::from_utf8_lossy(&rest[..end]).to_lowercase();
        rest = &rest[end..];
        let status = head[9..12].parse().expect("a status is a number");
        if status != 100 {
            return Capture {
                name,
                status,
                is_stream: head.contains("content-type: text/event-stream"),
                body: match head.contains("transfer-encoding: chunked") {
                    true => dechunk(rest),
                    false => rest.to_vec(),
                },
            };
        }
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    memchr::memmem::find(haystack, needle)
}

/// Joins chunks; a capture that was aborted ends in the middle of one.
fn dechunk(mut raw: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(line) = find(raw, b"\r\n") {
        let size = String::from_utf8_lossy(&raw[..line]);
        let size = usize::from_str_radix(size.trim(), 16).expect("a chunk begins with its size");
        raw = &raw[line + 2..];
        body.extend_from_slice(&raw[..size.min(raw.len())]);
        raw = raw.get(size + 2..).unwrap_or_default();
    }
    body
}

fn streams() -> Vec<Capture> {
    let streams: Vec<_> = captures().into_iter().filter(|it| it.is_stream).collect();
    assert!(streams.len() > 60);
    streams
}

/// Pushes the two pieces and compares each event with the expected one, without keeping any.
fn assert_same_events(pieces: [&[u8]; 2], whole: &[Kept], context: &str) {
    let mut parser = Parser::new();
    let mut expected = whole.iter();
    for piece in pieces {
        parser.push(piece, &mut |event| {
            let kept = expected
                .next()
                .unwrap_or_else(|| panic!("{context}: one event too many"));
            assert_eq!(event.data, kept.data.as_bytes(), "{context}");
            assert_eq!(event.end_offset, kept.end_offset, "{context}");
            assert_eq!(event.start_offset, kept.start_offset, "{context}");
            assert_eq!(
                event.name,
                kept.name.as_deref().map(str::as_bytes),
                "{context}"
            );
        });
    }
    assert_eq!(expected.len(), 0, "{context}: events are missing");
}

#[test]
fn s12_every_capture_cut_at_every_byte() {
    for capture in captures() {
        let whole = events([&capture.body]);
        for cut in 0..=capture.body.len() {
            let (head, tail) = capture.body.split_at(cut);
            assert_same_events([head, tail], &whole, &format!("{} at {cut}", capture.name));
        }
        assert_eq!(
            events(capture.body.chunks(1)),
            whole,
            "{} by bytes",
            capture.name
        );
    }
}

/// A stream by its path below the captures.
fn stream(name: &str) -> Read {
    let mut all = captures().into_iter();
    let capture = all.find(|it| it.name == format!("{name}.raw"));
    read([capture.unwrap_or_else(|| panic!("no capture {name}")).body])
}

/// What a reader makes of a capture, in one line.
fn understood(capture: &Capture) -> String {
    let name = &capture.name;
    if !capture.is_stream {
        let mut state = StreamState::new();
        let chunk = openai::body(&capture.body);
        state.absorb(&chunk);
        let what = match &chunk {
            Chunk::Error(error) => format!("error: {}", error.message),
            Chunk::Unreadable(why) => format!("{why:?}"),
            _ => described(&state),
        };
        return format!("{name} {} {:?} {what}", capture.status, chunk.kind());
    }
    let read = read([&capture.body]);
    let count = |kind| read.seen.iter().filter(|it| it.kind == kind).count();
    let events = [
        (EventKind::Output, "output"),
        (EventKind::Empty, "empty"),
        (EventKind::Finish, "finish"),
        (EventKind::Usage, "usage"),
        (EventKind::Done, "done"),
        (EventKind::Error, "error"),
        (EventKind::Other, "other"),
    ]
    .map(|(kind, label)| (count(kind), label));
    let events: Vec<_> = events
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, label)| format!("{count} {label}"))
        .collect();
    format!(
        "{name} {} stream: {}; {}",
        capture.status,
        events.join(", "),
        described(&read.state)
    )
}

fn described(state: &StreamState) -> String {
    let usage = state.usage().unwrap_or_default();
    let tokens = |count: Option<u64>| count.map_or("?".to_owned(), |it| it.to_string());
    format!(
        "tokens {} ({} cached) -> {}; {}{}{}",
        tokens(usage.prompt_tokens),
        tokens(usage.cached_tokens),
        tokens(usage.completion_tokens),
        state.finish_reason().unwrap_or("no finish reason"),
        if state.finished() { "" } else { ", unfinished" },
        if state.done() { "" } else { ", no end mark" },
    )
}

#[test]
fn every_capture_is_understood() {
    let lines: Vec<_> = captures().iter().map(understood).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn every_stream_is_read_whole() {
    for capture in streams() {
        let name = &capture.name;
        let state = read([&capture.body]).state;
        assert_eq!(state.unreadable_events(), 0, "{name}");
        assert_eq!(state.error(), None, "{name}");
        assert!(state.output_events() > 0, "{name}");
        if name.contains("abort") {
            assert!(!state.finished() && !state.done(), "{name}");
        } else {
            assert!(state.finished(), "{name}");
            let has_end_mark = !name.starts_with("transformers") || name.contains("responses");
            assert_eq!(state.done(), has_end_mark, "{name}");
        }
    }
}

#[test]
fn every_refusal_has_a_message() {
    for capture in captures().iter().filter(|it| it.status >= 400) {
        if capture.body.starts_with(b"{") {
            let chunk = openai::body(&capture.body);
            let Chunk::Error(error) = &chunk else {
                panic!("{}: {chunk:?}", capture.name);
            };
            assert!(!error.message.is_empty(), "{}", capture.name);
        }
    }
}

#[test]
fn d11_two_choices_of_one_prompt_as_vllm_and_llama_cpp_count_them() {
    assert_eq!(stream("vllm/chat_n2_stream").tokens(), (Some(23), Some(16)));
    assert_eq!(
        stream("xllamacpp/chat_n2_stream").tokens(),
        (Some(40), Some(16))
    );
}

#[test]
fn tokens_per_event_as_vllm_lets_them_be_told() {
    for (name, expected) in [
        ("vllm/return_token_ids_stream", [1; 20].as_slice()),
        ("vllm/chat_stream_continuous_usage", &[1; 24]),
        (
            "vllm_interval4/chat_stream_continuous_usage",
            &[1, 4, 4, 4, 4, 4, 3],
        ),
    ] {
        let read = stream(name);
        let outputs = read.seen.iter().filter(|it| it.kind == EventKind::Output);
        let tokens: Vec<_> = outputs.map(|it| it.tokens.unwrap_or_default()).collect();
        assert_eq!(tokens, expected, "{name}");
        assert_eq!(read.tokens().1, Some(tokens.iter().sum()), "{name}");
    }
}

#[test]
fn tokens_that_show_no_text_are_counted_and_are_no_output() {
    let read = stream("vllm/utf8_holdback_300");
    assert_eq!(read.tokens().1, Some(300));
    assert_eq!(read.state.output_events(), 294);
    assert!(!read.text().contains('\u{FFFD}') || read.text().len() > 300);
}
