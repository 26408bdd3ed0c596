//! The framing cases (S…) as far as bytes and events go.

use inferscope_shared::openai::OutputKind;
use inferscope_shared::record::request::EventKind;
use inferscope_shared::sse::{DEFAULT_MAX_EVENT_BYTES, Parser};

use crate::support::{DONE, ROLE, chunk, data, event, events, events_by, fin, read, usage};

#[test]
fn s01_character_cut_between_reads() {
    let text = "北🙂é";
    let body = chunk(text);
    let at = body.find(text).expect("the text is not escaped");
    for cut in at..=at + text.len() {
        let (head, tail) = body.as_bytes().split_at(cut);
        assert_eq!(read([head, tail]).text(), text, "cut at {cut}");
    }
}

#[test]
fn s03_crlf_cut_between_cr_and_lf() {
    let body = b"data: {\"k\":1,\r\ndata: \"v\":2}\r\n\r\n";
    let whole = events([body]);
    assert_eq!(whole.len(), 1);
    assert_eq!(whole[0].data, "{\"k\":1,\n\"v\":2}");
    assert_eq!(
        whole[0].end_offset,
        body.len() as u64 - 1,
        "the last LF belongs to no event"
    );
    for cut in 0..=body.len() {
        let (head, tail) = body.split_at(cut);
        assert_eq!(events([head, tail]), whole, "cut at {cut}");
    }
}

#[test]
fn s06_the_blank_after_the_colon_is_optional() {
    let spaced = [ROLE, &chunk("a"), &fin("stop"), DONE].concat();
    let tight = spaced.replace("data: ", "data:");
    assert_ne!(spaced, tight);
    assert_eq!(data(&spaced), data(&tight));
    assert!(read([&tight]).state.done());
    assert_eq!(data("data:  x\n\n"), [" x"]);
    assert_eq!(data("data:\tx\n\n"), ["\tx"]);
}

#[test]
fn s07_json_spread_over_data_lines() {
    let body = "data: {\"choices\":[{\"index\":0,\n\
                data: \"delta\":{\"content\":\"hi\"},\"finish_reason\":null}]}\n\n";
    let read = read([body]);
    assert_eq!(read.seen.len(), 1);
    assert_eq!(read.seen[0].kind, EventKind::Output);
    assert_eq!(read.text(), "hi");
}

#[test]
fn s08_comments_are_no_events() {
    let body = [
        ROLE,
        ": working\n\n:\n:x\n",
        "data: {\"choices\":[{\"index\":0,\n: in between\ndata: \"delta\":{\"content\":\"a\"}}]}\n\n",
        ": last\n\n",
    ]
    .concat();
    let kept = events([&body]);
    assert_eq!(kept.len(), 2);
    assert_eq!(
        kept[1].data,
        "{\"choices\":[{\"index\":0,\n\"delta\":{\"content\":\"a\"}}]}"
    );
    let start = body
        .find("data: {\"choices\":[{\"index\":0,\n")
        .expect("it is there") as u64;
    assert_eq!(
        kept[1].start_offset, start,
        "comments before an event are not part of it"
    );
    let read = read([&body]);
    assert_eq!(read.text(), "a");
    assert_eq!(read.first_output(), Some(1));
    assert_eq!(read.state.unreadable_events(), 0);
}

#[test]
fn s08_a_comment_is_not_kept_while_it_grows() {
    let endless = [b':'].into_iter().chain([b'x'; 100]).collect::<Vec<_>>();
    let mut parser = Parser::with_cap(10);
    parser.push(&endless, &mut |_| panic!("a comment is no event"));
    assert_eq!(parser.unfinished(), None);
    let mut got = 0;
    parser.push(b"\ndata: x\n\n", &mut |event| {
        assert!(!event.oversized);
        got += 1;
    });
    assert_eq!(got, 1);
}

#[test]
fn s11_byte_order_mark_at_the_start_only() {
    let body = [chunk("a"), fin("stop"), usage(3, 1), DONE.to_owned()].concat();
    let marked = [b"\xEF\xBB\xBF", body.as_bytes()].concat();
    let plain = events([&body]);
    for pieces in [
        vec![&marked[..]],
        vec![&marked[..1], &marked[1..]],
        vec![&marked[..2], &marked[2..]],
        vec![b"", &marked[..1], b"", &marked[1..2], &marked[2..]],
    ] {
        let kept = events(&pieces);
        assert_eq!(kept.len(), plain.len());
        for (with, without) in kept.iter().zip(&plain) {
            assert_eq!(with.data, without.data);
            assert_eq!(
                with.end_offset,
                without.end_offset + 3,
                "the mark counts as bytes"
            );
        }
    }
}

#[test]
fn s11_a_second_mark_makes_an_unknown_field() {
    let mark = b"\xEF\xBB\xBF";
    let (one, two) = (chunk("a"), chunk("b"));
    let body = [mark, one.as_bytes(), mark, two.as_bytes(), one.as_bytes()].concat();
    let read = read([&body]);
    assert_eq!(read.text(), "aa");
    assert_eq!(read.seen.len(), 2);
}

#[test]
fn s11_half_a_mark_is_a_field_name() {
    for body in [
        &b"\xEF\xBBdata: x\n\ndata: y\n\n"[..],
        b"\xEFdata: x\n\ndata: y\n\n",
    ] {
        for cut in 0..4 {
            let (head, tail) = body.split_at(cut);
            let kept = events([head, tail]);
            assert_eq!(kept.len(), 1, "cut at {cut}");
            assert_eq!(kept[0].data, "y");
        }
    }
}

#[test]
fn s13_large_events_in_small_pieces() {
    for size in [70 << 10, 200 << 10, 1 << 20, 8 << 20] {
        let body = [ROLE, &chunk(&"x".repeat(size)), &chunk("y")].concat();
        let mut parser = Parser::new();
        let mut first_byte_in = None;
        let mut arrivals = Vec::new();
        for (number, piece) in body.as_bytes().chunks(16 << 10).enumerate() {
            parser.push(piece, &mut |event| {
                assert!(!event.oversized);
                arrivals.push((number, event.data.len(), event.start_offset));
            });
            if parser.unfinished() == Some(ROLE.len() as u64) {
                first_byte_in.get_or_insert(number);
            }
        }
        assert_eq!(arrivals.len(), 3);
        let (arrived, len, start) = arrivals[1];
        assert!(len > size);
        assert_eq!(start, ROLE.len() as u64);
        assert_eq!(
            first_byte_in,
            Some(0),
            "the first byte's arrival can be stamped too"
        );
        assert_eq!(
            arrived,
            (ROLE.len() + chunk(&"x".repeat(size)).len() - 1) >> 14
        );
        assert_eq!(
            read(body.as_bytes().chunks(16 << 10)).text().len(),
            size + 1
        );
    }
    const { assert!(DEFAULT_MAX_EVENT_BYTES >= 16 << 20) };
}

#[test]
fn s13_an_event_over_the_cap_is_reported_and_the_stream_goes_on() {
    let body = [
        "data: small\n\n",
        &chunk(&"x".repeat(500)),
        "data: small\n\n",
    ]
    .concat();
    let whole = events_by(Parser::with_cap(100), [&body]);
    assert_eq!(whole.len(), 3);
    assert_eq!((whole[1].oversized, whole[1].data.as_str()), (true, ""));
    assert_eq!(
        (whole[2].oversized, whole[2].data.as_str()),
        (false, "small")
    );
    for size in 1..120 {
        let pieces = body.as_bytes().chunks(size);
        assert_eq!(
            events_by(Parser::with_cap(100), pieces),
            whole,
            "pieces of {size}"
        );
    }
}

#[test]
fn s13_the_cap_counts_raw_bytes_to_the_end_offset() {
    let body = b"data: 0123456789\r\n\r\n";
    let end = events([body])[0].end_offset;
    for (cap, oversized) in [(end, false), (end - 1, true)] {
        let cap = usize::try_from(cap).expect("a small number");
        assert_eq!(
            events_by(Parser::with_cap(cap), [body])[0].oversized,
            oversized
        );
        assert_eq!(
            events_by(Parser::with_cap(cap), body.chunks(1))[0].oversized,
            oversized
        );
    }
}

#[test]
fn s15_no_end_mark_after_a_finish_reason() {
    let read = read([[ROLE, &chunk("a"), &fin("stop"), &usage(3, 1)].concat()]);
    assert!(read.state.finished());
    assert!(!read.state.done());
    assert_eq!(read.state.finish_reason(), Some("stop"));
    assert_eq!(read.tokens(), (Some(3), Some(1)));
}

#[test]
fn s15_an_unterminated_event_is_dropped_and_seen() {
    let whole = [ROLE, &chunk("a")].concat();
    let body = [&whole, "data: {\"choices\":[{\"ind"].concat();
    let mut parser = Parser::new();
    let mut count = 0;
    parser.push(body.as_bytes(), &mut |_| count += 1);
    assert_eq!(count, 2);
    assert_eq!(parser.unfinished(), Some(whole.len() as u64));
    assert_eq!(parser.offset(), body.len() as u64);
    parser.push(b"ex\n", &mut |_| count += 1);
    assert_eq!(
        parser.unfinished(),
        Some(whole.len() as u64),
        "no blank line yet"
    );
    parser.push(b"\n", &mut |_| count += 1);
    assert_eq!((count, parser.unfinished()), (3, None));
}

#[test]
fn s18_pings_after_the_end_mark_change_nothing() {
    let stream = [ROLE, &chunk("a"), &fin("stop"), &usage(3, 1), DONE].concat();
    let pinged = [stream.as_str(), &": ping\n\n".repeat(30)].concat();
    let read = read([&pinged]);
    assert_eq!(read.seen.last().map(|it| it.kind), Some(EventKind::Done));
    assert_eq!(events([&pinged]), events([&stream]));
}

#[test]
fn s20_events_without_data_are_skipped() {
    let nothing = [
        "data:\n\n",
        "data: \n\n",
        "retry: 900\n\n",
        "event: tick\n\n",
        "id: 3\n\n",
    ];
    let mut body = ROLE.to_owned();
    for (text, nothing) in ["a", "b", "c", "d", "e"].into_iter().zip(nothing) {
        body.push_str(nothing);
        body.push_str(&chunk(text));
    }
    let read = read([&body]);
    assert_eq!(read.seen.len(), 6);
    assert_eq!(read.first_output(), Some(1));
    assert_eq!(read.text(), "abcde");
    assert_eq!(read.state.unreadable_events(), 0);
}

#[test]
fn s20_names_belong_to_their_own_event() {
    let kept =
        events(["event: tick\n\ndata: a\n\nid: 1\nevent: x\nevent: y\nretry: 5\ndata: b\n\n"]);
    let names: Vec<_> = kept.iter().map(|it| it.name.as_deref()).collect();
    assert_eq!(names, [None, Some("y")]);
}

#[test]
fn s22_compressed_bytes_give_no_output_and_no_panic() {
    let gzip: Vec<u8> = (0..4096_u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let body = [b"\x1f\x8b\x08\x00", &gzip[..]].concat();
    let read = read([&body]);
    assert_eq!(read.state.output_events(), 0);
    assert_eq!(read.state.usage(), None, "unknown is not zero");
}

#[test]
fn lines_end_in_lf_cr_or_crlf_and_mix() {
    for body in [
        "data: a\n\n",
        "data: a\r\r",
        "data: a\r\n\r\n",
        "data: a\n\r",
        "data: a\r\n\n",
    ] {
        assert_eq!(data([body, "data: b\n\n"].concat()), ["a", "b"], "{body:?}");
    }
}

#[test]
fn an_event_is_reported_at_the_cr_of_its_blank_line() {
    let kept = events(["data: a\r\n\r"]);
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].end_offset, 10);
}

#[test]
fn data_lines_keep_their_empty_ones() {
    assert_eq!(data("data\ndata\n\n"), ["\n"]);
    assert_eq!(data("data: a\ndata\ndata: b\n\n"), ["a\n\nb"]);
    assert_eq!(data("data:\ndata: b\n\n"), ["\nb"]);
    assert_eq!(data("datas: a\nDATA: b\n data: c\n\n"), [""; 0]);
}

#[test]
fn an_event_within_one_push_is_borrowed() {
    let body = event("{\"k\":1}");
    let range = body.as_bytes().as_ptr_range();
    let mut parser = inferscope_shared::sse::Parser::new();
    let mut borrowed = 0;
    parser.push(body.as_bytes(), &mut |event| {
        borrowed += u32::from(range.contains(&event.data.as_ptr()));
    });
    assert_eq!(borrowed, 1);
}

#[test]
fn text_kinds_do_not_mix() {
    let read = read([chunk("a")]);
    assert_eq!(read.output(0, OutputKind::Reasoning), "");
}
