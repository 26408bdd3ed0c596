//! Any cut of a body gives the same events at the same places.

use inferscope_shared::openai;
use inferscope_shared::sse::{Event, Parser};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::support::{DONE, ROLE, chunk, events, events_by, fin, read, usage};

/// Twelve events, every kind of line end, comments, data of two lines, text beyond ASCII.
fn reference() -> String {
    let two_lines =
        "data: {\"choices\":[{\"index\":0,\r\ndata: \"delta\":{\"content\":\"zwei\"}}]}\r\n\r\n";
    let body = [
        ROLE,
        ": working\n\n",
        &chunk("北🙂é"),
        &chunk("b").replace('\n', "\r\n"),
        ":\r\n:x\r",
        two_lines,
        &chunk("d").replace('\n', "\r"),
        &chunk("e").replace("data: ", "data:"),
        "event: tick\r\n\r\n",
        &chunk("f"),
        &chunk("g"),
        &chunk("h"),
        &fin("stop"),
        &usage(3, 8).replace('\n', "\r\n"),
        DONE,
        ": bye\r\n\r\n",
    ]
    .concat();
    assert_eq!(events([&body]).len(), 12);
    body
}

fn assert_same(pieces: &[&[u8]], body: &str) {
    assert_eq!(events(pieces), events([body]));
    let (cut, whole) = (read(pieces), read([body]));
    assert_eq!(cut.seen, whole.seen);
    assert_eq!(cut.text(), whole.text());
    assert_eq!(cut.state.usage(), whole.state.usage());
    assert!(cut.state.finished() && cut.state.done());
}

#[test]
fn s12_every_single_cut() {
    let body = reference();
    for cut in 0..=body.len() {
        let (head, tail) = body.as_bytes().split_at(cut);
        assert_same(&[head, tail], &body);
    }
}

#[test]
fn s12_every_pair_of_cuts_in_the_first_200_bytes() {
    let body = reference();
    let bytes = body.as_bytes();
    let whole = events([&body]);
    for first in 0..=200 {
        for second in first..=200 {
            let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
            assert_eq!(events(pieces), whole, "cuts at {first} and {second}");
        }
    }
}

#[test]
fn s12_one_byte_per_write() {
    let body = reference();
    assert_same(&body.as_bytes().chunks(1).collect::<Vec<_>>(), &body);
}

/// Pieces that together are `body`, cut at these places.
fn pieces<'a>(body: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<_> = cuts.iter().map(|it| it.index(body.len() + 1)).collect();
    cuts.sort_unstable();
    let ends = cuts.iter().copied().chain([body.len()]);
    let starts = [0].into_iter().chain(cuts.iter().copied());
    starts
        .zip(ends)
        .map(|(start, end)| &body[start..end])
        .collect()
}

/// Bodies made of what framing cares about, more often than not in a wrong order.
fn bodies() -> impl Strategy<Value = Vec<u8>> {
    let parts: Vec<&[u8]> = vec![
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"\r\n\r\n",
        b":",
        b" ",
        b"data",
        b"data:",
        b"data: ",
        b"event: ",
        b"id: 1",
        b"retry: 9",
        b"\xEF\xBB\xBF",
        b"\xEF",
        b"\xBB",
        b"x",
        b"\0",
        b"{\"choices\":[]}",
        b"[DONE]",
        "🙂".as_bytes(),
    ];
    vec(select(parts), 0..40).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4_000) })]

    #[test]
    fn s12_random_cuts(cuts in vec(any::<prop::sample::Index>(), 0..40)) {
        let body = reference();
        assert_same(&pieces(body.as_bytes(), &cuts), &body);
    }

    #[test]
    fn any_cut_of_any_body_gives_the_same_events(
        body in bodies(),
        cuts in vec(any::<prop::sample::Index>(), 0..20),
        cap in select(vec![5_usize, 20, 1_000]),
    ) {
        let whole = events_by(Parser::with_cap(cap), [&body]);
        let cut = events_by(Parser::with_cap(cap), pieces(&body, &cuts));
        prop_assert_eq!(&cut, &whole);
        for pair in whole.windows(2) {
            prop_assert!(pair[0].end_offset <= pair[1].start_offset);
        }
        for event in &whole {
            prop_assert!(event.start_offset < event.end_offset);
            let last = body[usize::try_from(event.end_offset).expect("short") - 1];
            prop_assert!(last == b'\n' || last == b'\r');
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in vec(any::<u8>(), 0..200)) {
        let _ = openai::chunk(&Event::of(&bytes));
        let _ = openai::body(&bytes);
        let _ = read([&bytes]);
    }

    #[test]
    fn no_json_like_text_makes_the_reader_panic(
        parts in vec(select(vec![
            "{", "}", "[", "]", ":", ",", "null", "1", "-1", "1e999", "\"\"", "\"x\"", "\"\\u0041\"",
            "\"choices\"", "\"delta\"", "\"usage\"", "\"error\"", "\"type\"", "\"response.failed\"",
            "\"response\"", "\"object\"", "\"detail\"", "\"message\"", "\"completion_tokens\"",
        ]), 0..30),
    ) {
        let text = parts.concat();
        let _ = openai::chunk(&Event::of(text.as_bytes()));
        let _ = openai::body(text.as_bytes());
    }
}
