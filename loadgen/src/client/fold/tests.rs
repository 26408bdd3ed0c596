use http::{HeaderMap, HeaderValue};
use inferscope_shared::record::request::Connect;

use super::super::exchange::Mark;
use super::super::io::Stamping;
use super::super::kernel_clock::WallNs;
use super::*;
use crate::config::KernelStamps;

const ROLE: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n";
const FIN: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";

fn text(x: &str) -> String {
    format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{x}\"}},\"finish_reason\":null}}]}}\n\n"
    )
}

fn usage(p: u64, c: u64) -> String {
    format!(
        "data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":{p},\"completion_tokens\":{c}}}}}\n\n"
    )
}

/// An exchange with one read per piece, 1 ms apart, the request sent at 1,000,000 ns.
fn exchange(status: u16, content_type: &'static str, pieces: &[&str], ending: Ending) -> Exchange {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static(content_type));
    let mut body = Vec::new();
    let mut marks = Vec::new();
    for (i, piece) in pieces.iter().enumerate() {
        body.extend_from_slice(piece.as_bytes());
        marks.push(Mark {
            read: Arrival {
                at: MonoNs(2_000_000 + 1_000_000 * i as u64),
                kernel: None,
            },
            end: body.len(),
        });
    }
    Exchange {
        connect: Connect::default(),
        stamping: Stamping::Off,
        sent_start: Some(MonoNs(1_000_000)),
        sent_end: Some(MonoNs(1_010_000)),
        head: Some(MonoNs(1_500_000)),
        status: Some(status),
        headers,
        body,
        marks,
        fold: Fold::default(),
        end: MonoNs(99_000_000),
        ending,
    }
}

fn stream(pieces: &[&str], ending: Ending) -> Reading {
    reading(&mut exchange(200, "text/event-stream", pieces, ending))
}

fn reading(exchange: &mut Exchange) -> Reading {
    read(exchange, &KernelClock::start(KernelStamps::Auto))
}

#[test]
fn d01_the_role_event_is_the_first_event_and_not_the_first_output() {
    let r = stream(
        &[ROLE, &text("a"), &text("b"), FIN, &usage(3, 2), DONE],
        Ending::Clean,
    );
    assert_eq!(r.outcome, Outcome::Ok);
    assert_eq!(r.first_event_ns, Some(MonoNs(2_000_000)));
    assert_eq!(r.first_output_ns, Some(MonoNs(3_000_000)));
    assert_eq!(r.last_output_ns, Some(MonoNs(4_000_000)));
    assert_eq!(r.done_ns, Some(MonoNs(7_000_000)));
    assert_eq!((r.prompt_tokens, r.completion_tokens), (Some(3), Some(2)));
    assert_eq!(r.events.at_ns[..2], [1_000_000, 1_000_000]);
    assert_eq!(r.text_sha256, Some(hex::encode(Sha256::digest("ab"))));
}

#[test]
fn s15_a_clean_end_after_the_finish_reason_is_a_success_without_its_end_mark() {
    let r = stream(&[ROLE, &text("a"), FIN, &usage(3, 1)], Ending::Clean);
    assert_eq!(r.outcome, Outcome::Ok);
    assert!(r.done_missing);
    assert_eq!(r.done_ns, None);
}

#[test]
fn a_stream_without_a_finish_reason_is_incomplete() {
    let r = stream(&[ROLE, &text("a"), DONE], Ending::Clean);
    assert_eq!(r.outcome, Outcome::Incomplete);
    assert_eq!(r.error_kind.as_deref(), Some("no_finish_reason"));
}

#[test]
fn d14_an_error_inside_a_200_stream_is_a_failure_with_its_message() {
    for error in [
        "data: {\"error\":{\"message\":\"engine died\",\"type\":\"server_error\",\"code\":500}}\n\n",
        "data: {\"error\":\"engine died\"}\n\n",
        "event: error\ndata: {\"message\":\"engine died\"}\n\n",
    ] {
        for before in [vec![], vec![ROLE, FIN]] {
            let pieces = [before, vec![error, DONE]].concat();
            let r = stream(&pieces, Ending::Clean);
            assert_eq!(r.outcome, Outcome::Failed, "{error}");
            assert_eq!(r.error_kind.as_deref(), Some("stream_error"));
            assert_eq!(r.error_message.as_deref(), Some("engine died"));
        }
    }
}

#[test]
fn d17_a_page_instead_of_json_shows_status_type_and_first_characters() {
    let page = "<html><h1>Bad\tgateway</h1></html>";
    for (status, kind) in [(502, "http_502"), (200, "not_a_stream")] {
        let r = reading(&mut exchange(status, "text/html", &[page], Ending::Clean));
        assert_eq!(r.outcome, Outcome::Failed);
        assert_eq!(r.error_kind.as_deref(), Some(kind));
        assert_eq!(
            r.error_message.unwrap(),
            format!("status {status}, text/html: <html><h1>Bad\\tgateway</h1></html>")
        );
    }
}

#[test]
fn an_engines_json_error_is_shown_in_its_own_words_and_never_too_long() {
    let long = format!("{{\"error\":{{\"message\":\"{}\"}}}}", "x".repeat(900));
    let r = reading(&mut exchange(
        400,
        "application/json",
        &[&long],
        Ending::Clean,
    ));
    let message = r.error_message.unwrap();
    assert!(message.starts_with("status 400, application/json: xxx"));
    assert_eq!(message.chars().count(), 200);
    assert_eq!(r.text_sha256, None);
}

#[test]
fn u05_silence_in_the_middle_is_a_failure_and_keeps_what_came() {
    let r = stream(
        &[ROLE, &text("a"), &text("b")],
        Ending::Broken {
            kind: "idle_timeout",
            message: "limit of 1s reached".to_owned(),
        },
    );
    assert_eq!(r.outcome, Outcome::Failed);
    assert_eq!(r.error_kind.as_deref(), Some("idle_timeout"));
    assert_eq!(r.events.at_ns.len(), 3);
}

#[test]
fn m27_a_request_cut_by_the_end_of_the_run_is_incomplete() {
    let r = stream(&[ROLE, &text("a")], Ending::Cut(Cut::RunEnd));
    assert_eq!(r.outcome, Outcome::Incomplete);
    assert_eq!(r.error_kind.as_deref(), Some("run_end"));
    assert!(r.first_output_ns.is_some());
}

#[test]
fn m16_without_usage_token_counts_are_unknown_not_zero() {
    let r = stream(&[ROLE, &text("a"), FIN, DONE], Ending::Clean);
    assert_eq!(r.completion_tokens, None);
    assert_eq!(r.tokens_source, TokensSource::Unknown);
}

#[test]
fn folding_ahead_changes_nothing() {
    let pieces = [ROLE, &text("a"), FIN, &usage(3, 1), DONE];
    let whole = stream(&pieces, Ending::Clean);
    let mut ahead = exchange(200, "text/event-stream", &pieces[..2], Ending::Clean);
    ahead.fold_pieces();
    let mut rest = exchange(200, "text/event-stream", &pieces, Ending::Clean);
    let cut = rest.marks[1].end;
    ahead.body = rest.body.split_off(cut);
    ahead.marks = rest.marks[2..]
        .iter()
        .map(|m| Mark {
            end: m.end - cut,
            ..*m
        })
        .collect();
    assert_eq!(reading(&mut ahead), whole);
}

#[test]
fn a_cut_behind_the_end_mark_takes_nothing_from_the_answer() {
    let whole = [ROLE, &text("a"), FIN, DONE];
    let cut = Ending::Cut(Cut::RunEnd);
    assert_eq!(stream(&whole, cut.clone()).outcome, Outcome::Ok);
    assert_eq!(stream(&whole[..3], cut).outcome, Outcome::Incomplete);
}

/// An answer whose pieces came with the reads of these numbers, 1 µs apart; the kernel had the
/// last segment of each some microseconds before.
fn received(pieces: &[(u64, &str)]) -> Reading {
    let clock = KernelClock::start(KernelStamps::Auto);
    let wall = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    let wall = WallNs::of(wall.tv_sec, wall.tv_nsec).unwrap().get();
    let base = MonoNs::now();
    let texts: Vec<&str> = pieces.iter().map(|(_, text)| *text).collect();
    let mut it = exchange(200, "text/event-stream", &texts, Ending::Clean);
    it.stamping = Stamping::On;
    it.sent_start = Some(base);
    for (mark, (number, _)) in it.marks.iter_mut().zip(pieces) {
        mark.read = Arrival {
            at: base.plus_ns(number * 1_000),
            kernel: WallNs::new(wall + number * 1_000),
        };
    }
    // What converts stamps is a reading of the clocks behind the last of them.
    while MonoNs::now() < base.plus_ns(10_000) {}
    read(&mut it, &clock)
}

#[test]
fn m05_of_events_in_one_read_only_the_last_ones_kernel_stamp_is_exact() {
    let (a, b, c) = (text("a"), text("b"), text("c"));
    // Three events in one piece, then one alone, then [DONE] in the read of the finish event.
    let three = [ROLE, &a, &b].concat();
    let r = received(&[(0, &three), (1, &c), (2, FIN), (2, DONE)]);
    assert_eq!(r.events.rx_upper_bound, [0, 1, 4]);
    assert_eq!(r.events.rx_lag_ns.len(), 6);
    assert!(r.events.rx_lag_ns.iter().all(Option::is_some));
    assert!(r.first_output_rx_ns <= r.first_output_ns);
    assert!(!r.first_output_rx_exact, "another event came behind it");
    assert!(r.last_output_rx_exact);
}

#[test]
fn m05_a_part_of_the_next_event_makes_a_stamp_a_bound_and_line_ends_do_not() {
    let (a, b) = (text("a"), text("b"));
    let (head, tail) = b.split_at(9);
    let cut = [a.as_str(), head].concat();
    let r = received(&[(0, ROLE), (1, &cut), (2, tail), (3, FIN)]);
    assert_eq!(r.events.rx_upper_bound, [1]);
    // The same in two pieces of one read, as chunked framing has it.
    let r = received(&[(0, ROLE), (1, &a), (1, head), (2, tail), (3, FIN)]);
    assert_eq!(r.events.rx_upper_bound, [1]);
    let crlf = a.replace('\n', "\r\n");
    let r = received(&[(0, &crlf), (1, &crlf)]);
    assert!(r.events.rx_upper_bound.is_empty());
    assert!(r.first_output_rx_exact && r.last_output_rx_exact);
}

#[test]
fn without_kernel_stamps_there_are_none_and_nothing_else_changes() {
    let r = stream(&[ROLE, &text("a"), FIN, DONE], Ending::Clean);
    assert!(r.events.rx_lag_ns.is_empty() && r.events.rx_upper_bound.is_empty());
    assert_eq!(r.first_output_rx_ns, None);
    assert!(!r.first_output_rx_exact);
    assert!(r.first_output_ns.is_some());
}
