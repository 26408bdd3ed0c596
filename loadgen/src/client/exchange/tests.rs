use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;

use super::super::target::Target;
use super::*;
use crate::config::KernelStamps;

const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// Reads one request, head and body; false when the peer has none any more.
pub(crate) fn take_request(socket: &mut TcpStream) -> bool {
    let mut got = Vec::new();
    let mut byte = [0];
    while !got.ends_with(b"\r\n\r\n") {
        match socket.read(&mut byte) {
            Ok(1) => got.push(byte[0]),
            _ => return false,
        }
    }
    let head = String::from_utf8_lossy(&got).to_lowercase();
    let length = head
        .lines()
        .find_map(|l| l.strip_prefix("content-length: "))
        .map_or(0, |n| n.parse().unwrap());
    socket.read_exact(&mut vec![0; length]).is_ok()
}

/// A server that runs `serve` on each connection in turn.
fn server(serve: impl Fn(usize, TcpStream) + Send + 'static) -> (Target, mpsc::Receiver<MonoNs>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (closed, when) = mpsc::channel();
    thread::spawn(move || {
        for (i, socket) in listener.incoming().enumerate() {
            let socket = socket.unwrap();
            let mut watched = socket.try_clone().unwrap();
            serve(i, socket);
            // The client's close shows as the end of its stream.
            let mut rest = Vec::new();
            let _ = watched.read_to_end(&mut rest);
            let _ = closed.send(MonoNs::now());
        }
    });
    (Target::parse(&url).unwrap(), when)
}

fn limits() -> Limits {
    Limits {
        first_byte: Duration::from_secs(5),
        idle: Duration::from_secs(5),
        total: Duration::from_secs(10),
        after_done: Duration::from_millis(100),
    }
}

fn request() -> http::Request<Full<Bytes>> {
    http::Request::post("/v1/chat/completions")
        .header("host", "x")
        .body(Full::new(Bytes::from_static(b"{}")))
        .unwrap()
}

async fn open(target: &Target) -> Connection {
    Connection::open(target, Duration::from_secs(5), KernelStamps::Auto)
        .await
        .unwrap()
}

async fn once(connection: Connection, limits: &Limits) -> (Exchange, Option<Connection>) {
    let (_keep, mut cut) = watch::channel(Cut::No);
    run(connection, request(), limits, true, &mut cut).await
}

#[tokio::test]
async fn pieces_of_one_read_share_its_stamp_and_stamps_rise() {
    let (next, go) = mpsc::channel::<()>();
    let (target, _) = server(move |_, mut s| {
        assert!(take_request(&mut s));
        let two = format!("{HEAD}{}{}", chunk("data: 1\n\n"), chunk("data: 2\n\n"));
        s.write_all(two.as_bytes()).unwrap();
        go.recv().unwrap();
        s.write_all(format!("{}0\r\n\r\n", chunk("data: 3\n\n")).as_bytes())
            .unwrap();
    });
    let connection = open(&target).await;
    let stamps = std::sync::Arc::clone(&connection.stamps);
    let (_keep, mut cut) = watch::channel(Cut::No);
    let limits = limits();
    let mut exchange = std::pin::pin!(run(connection, request(), &limits, true, &mut cut));
    // Both first chunks are in before the third is allowed to leave.
    let before_third = loop {
        tokio::select! {
            biased;
            _ = &mut exchange => panic!("ended early"),
            () = tokio::task::yield_now() => {}
        }
        if let Some(at) = stamps.last_read() {
            break at;
        }
    };
    next.send(()).unwrap();
    let (mut exchange, connection) = exchange.await;
    assert_eq!(exchange.ending, Ending::Clean);
    assert!(connection.is_some());
    let at: Vec<MonoNs> = exchange.marks.iter().map(|m| m.read.at).collect();
    assert_eq!(at.len(), 3);
    assert_eq!(at[0], before_third);
    assert_eq!(at[0], at[1]);
    assert!(at[2] > at[1]);
    assert!(exchange.sent_start.unwrap() <= exchange.sent_end.unwrap());
    assert!(exchange.sent_end.unwrap() < exchange.head.unwrap());
    assert_eq!(exchange.body, b"data: 1\n\ndata: 2\n\ndata: 3\n\n");
    exchange.fold_pieces();
    assert!(exchange.body.is_empty());
}

#[tokio::test]
async fn s18_after_the_end_mark_the_body_has_a_budget_and_then_the_connection_is_closed() {
    let (target, closed) = server(|_, mut s| {
        assert!(take_request(&mut s));
        let body = format!("{HEAD}{}{}", chunk("data: [DONE]\n\n"), chunk(": ping\n\n"));
        s.write_all(body.as_bytes()).unwrap();
    });
    let (exchange, connection) = once(open(&target).await, &limits()).await;
    assert_eq!(exchange.ending, Ending::AfterDone);
    assert!(connection.is_none());
    let waited = exchange.end.since(exchange.marks[0].read.at);
    assert!((90_000_000..1_000_000_000).contains(&waited), "{waited} ns");
    assert!(closed.recv_timeout(Duration::from_secs(5)).is_ok());
}

#[tokio::test]
async fn s18_a_clean_end_after_the_end_mark_keeps_the_connection() {
    let (target, _) = server(|_, mut s| {
        for _ in 0..2 {
            assert!(take_request(&mut s));
            let body = format!("{HEAD}{}0\r\n\r\n", chunk("data: [DONE]\n\n"));
            s.write_all(body.as_bytes()).unwrap();
        }
    });
    let (_, connection) = once(open(&target).await, &limits()).await;
    let (second, connection) = once(connection.unwrap(), &limits()).await;
    assert_eq!(second.status, Some(200));
    assert!(connection.is_some());
}

#[tokio::test]
async fn u05_silence_ends_by_the_idle_limit_and_keeps_what_came() {
    let (target, closed) = server(|_, mut s| {
        assert!(take_request(&mut s));
        s.write_all(format!("{HEAD}{}", chunk("data: 1\n\n")).as_bytes())
            .unwrap();
    });
    let limits = Limits {
        idle: Duration::from_millis(80),
        ..limits()
    };
    let (exchange, connection) = once(open(&target).await, &limits).await;
    assert!(matches!(
        exchange.ending,
        Ending::Broken {
            kind: "idle_timeout",
            ..
        }
    ));
    assert!(connection.is_none());
    assert_eq!(exchange.marks.len(), 1);
    assert!(closed.recv_timeout(Duration::from_secs(5)).is_ok());
}

#[tokio::test]
async fn a_server_that_never_answers_meets_the_first_byte_limit() {
    let (target, _) = server(|_, mut s| assert!(take_request(&mut s)));
    let limits = Limits {
        first_byte: Duration::from_millis(60),
        ..limits()
    };
    let (exchange, _) = once(open(&target).await, &limits).await;
    assert!(matches!(
        exchange.ending,
        Ending::Broken {
            kind: "first_byte_timeout",
            ..
        }
    ));
}

#[tokio::test]
async fn an_answer_that_never_ends_meets_the_total_limit() {
    let (target, closed) = server(|_, mut s| {
        assert!(take_request(&mut s));
        let _ = s.write_all(HEAD.as_bytes());
        while s.write_all(chunk("data: 1\n\n").as_bytes()).is_ok() {
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let limits = Limits {
        total: Duration::from_millis(120),
        ..limits()
    };
    let (exchange, connection) = once(open(&target).await, &limits).await;
    assert!(matches!(
        exchange.ending,
        Ending::Broken {
            kind: "total_timeout",
            ..
        }
    ));
    assert!(connection.is_none() && !exchange.marks.is_empty());
    assert!(closed.recv_timeout(Duration::from_secs(5)).is_ok());
}

#[tokio::test]
async fn a_body_cut_before_its_last_chunk_is_truncated_and_a_cut_answer_is_not_an_answer() {
    for (bytes, expected, status) in [
        (
            format!("{HEAD}{}", chunk("data: 1\n\n")),
            "truncated",
            Some(200),
        ),
        (String::new(), "closed_before_response", None),
        (
            "HTTP/1.1 abc\r\n\r\n".to_owned(),
            "malformed_response",
            None,
        ),
    ] {
        let (target, _) = server(move |_, mut s| {
            assert!(take_request(&mut s));
            s.write_all(bytes.as_bytes()).unwrap();
            s.shutdown(std::net::Shutdown::Both).unwrap();
        });
        let (exchange, connection) = once(open(&target).await, &limits()).await;
        let Ending::Broken { kind, .. } = &exchange.ending else {
            panic!("{:?}", exchange.ending);
        };
        assert_eq!(*kind, expected);
        assert_eq!(exchange.status, status);
        assert!(connection.is_none());
    }
}

#[tokio::test]
async fn what_is_in_flight_can_be_cut_and_keeps_what_came() {
    let (target, _) = server(|_, mut s| {
        assert!(take_request(&mut s));
        s.write_all(format!("{HEAD}{}", chunk("data: 1\n\n")).as_bytes())
            .unwrap();
    });
    let connection = open(&target).await;
    let stamps = std::sync::Arc::clone(&connection.stamps);
    let (cut, mut cut_rx) = watch::channel(Cut::No);
    let limits = limits();
    let mut exchange = std::pin::pin!(run(connection, request(), &limits, true, &mut cut_rx));
    while stamps.last_read().is_none() {
        tokio::select! {
            biased;
            _ = &mut exchange => panic!("ended early"),
            () = tokio::task::yield_now() => {}
        }
    }
    cut.send_replace(Cut::Interrupted);
    let (exchange, _) = exchange.await;
    assert_eq!(exchange.ending, Ending::Cut(Cut::Interrupted));
    assert_eq!(exchange.marks.len(), 1);
}

#[tokio::test]
async fn a_connection_that_the_server_closed_while_idle_is_not_used_again() {
    use super::super::connection::Pool;

    let (target, _) = server(|_, mut s| {
        assert!(take_request(&mut s));
        s.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            .unwrap();
        s.shutdown(std::net::Shutdown::Both).unwrap();
    });
    let second = Duration::from_secs(1);
    let mut pool = Pool::new(target.clone(), second, second);
    let (_, connection) = once(open(&target).await, &limits()).await;
    // The close may have been seen already; if not, the pool has to see it.
    if let Some(connection) = connection {
        pool.put(connection);
        let seen = tokio::time::timeout(Duration::from_secs(5), async {
            while pool.take().map(|c| pool.put(c)).is_some() {
                tokio::task::yield_now().await;
            }
        });
        seen.await.unwrap();
    }
    assert!(pool.take().is_none());
}

#[tokio::test]
async fn a_server_that_closes_after_its_answer_is_found_out() {
    let (target, _) = server(|i, mut s| {
        assert!(take_request(&mut s));
        s.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            .unwrap();
        if i == 0 {
            s.shutdown(std::net::Shutdown::Both).unwrap();
        }
    });
    for stays in [false, true] {
        let limit = Duration::from_millis(if stays { 20 } else { 5_000 });
        let (_, connection) = once(open(&target).await, &limits()).await;
        // A close that came with the answer has already made the connection unusable.
        if let Some(mut connection) = connection {
            assert_eq!(connection.stays_open(limit).await, stays);
        } else {
            assert!(!stays);
        }
    }
}

#[tokio::test]
async fn a_cut_behind_the_end_mark_leaves_a_whole_answer() {
    let (target, _) = server(|_, mut s| {
        assert!(take_request(&mut s));
        s.write_all(format!("{HEAD}{}", chunk("data: [DONE]\n\n")).as_bytes())
            .unwrap();
    });
    let connection = open(&target).await;
    let stamps = std::sync::Arc::clone(&connection.stamps);
    let (cut, mut cut_rx) = watch::channel(Cut::No);
    let limits = Limits {
        after_done: Duration::from_secs(5),
        ..limits()
    };
    let mut exchange = std::pin::pin!(run(connection, request(), &limits, true, &mut cut_rx));
    while stamps.last_read().is_none() {
        tokio::select! {
            biased;
            _ = &mut exchange => panic!("ended early"),
            () = tokio::task::yield_now() => {}
        }
    }
    cut.send_replace(Cut::RunEnd);
    assert_eq!(exchange.await.0.ending, Ending::AfterDone);
}

#[test]
fn the_end_mark_is_an_event_of_its_own_wherever_reads_cut_it() {
    let stream = b"data: {\"x\":\"[DONE]\"}\r\n\r\ndata:  [DONE]\r\n\r\n";
    let done_at = stream.len();
    for cut in 1..stream.len() {
        for forgets in [false, true] {
            let mut mark = EndMark::default();
            let mut body = stream[..cut].to_vec();
            let early = mark.completes(&body);
            if forgets {
                mark.forget(&body);
                body.clear();
            }
            body.extend_from_slice(&stream[cut..]);
            // The event is complete with the first line end of its blank line.
            assert_eq!(early, cut == done_at - 1, "cut at {cut}");
            assert_eq!(mark.completes(&body), !early, "cut at {cut}");
        }
    }
}

/// Events that each come with a read of their own: the next leaves when the last is in.
async fn three_reads(stamps: KernelStamps) -> Exchange {
    let (next, go) = mpsc::channel::<()>();
    let (target, _) = server(move |_, mut s| {
        assert!(take_request(&mut s));
        s.write_all(HEAD.as_bytes()).unwrap();
        for text in ["data: 1\n\n", "data: 2\n\n", "data: 3\n\n"] {
            go.recv().unwrap();
            s.write_all(chunk(text).as_bytes()).unwrap();
        }
        s.write_all(b"0\r\n\r\n").unwrap();
    });
    let limit = Duration::from_secs(5);
    let connection = Connection::open(&target, limit, stamps).await.unwrap();
    let arrivals = std::sync::Arc::clone(&connection.stamps);
    let (_keep, mut cut) = watch::channel(Cut::No);
    let limits = limits();
    let mut exchange = std::pin::pin!(run(connection, request(), &limits, true, &mut cut));
    let mut seen = None;
    for _ in 0..3 {
        while arrivals.last_read() == seen {
            tokio::select! {
                biased;
                _ = &mut exchange => panic!("ended early"),
                () = tokio::task::yield_now() => {}
            }
        }
        seen = arrivals.last_read();
        next.send(()).unwrap();
    }
    exchange.await.0
}

#[tokio::test]
async fn reads_over_loopback_carry_the_kernels_stamp_where_it_was_asked_for() {
    // The kernel begins to stamp some time after it was first asked, and goes on while anybody asks.
    let (target, _) = server(|_, _| {});
    let limit = Duration::from_secs(5);
    let asking = Connection::open(&target, limit, KernelStamps::Auto).await;
    let stamped = tokio::time::timeout(limit, async {
        loop {
            let exchange = three_reads(KernelStamps::Auto).await;
            assert_eq!(exchange.stamping, Stamping::On);
            assert_eq!(exchange.marks.len(), 3);
            if exchange.marks.iter().all(|m| m.read.kernel.is_some()) {
                return exchange;
            }
        }
    });
    let stamped = stamped.await.unwrap();
    drop(asking);
    let stamps: Vec<u64> = stamped
        .marks
        .iter()
        .map(|m| m.read.kernel.unwrap().get())
        .collect();
    assert!(stamps.is_sorted(), "{stamps:?}");
}

#[tokio::test]
async fn without_stamps_reads_are_plain_and_the_answer_is_the_same() {
    let plain = three_reads(KernelStamps::Off).await;
    assert_eq!(plain.stamping, Stamping::Off);
    assert!(plain.marks.iter().all(|m| m.read.kernel.is_none()));
    assert_eq!(plain.ending, Ending::Clean);
    assert_eq!(plain.body, three_reads(KernelStamps::Auto).await.body);
}

#[test]
fn what_takes_no_stamps_refuses_them_and_is_read_plainly() {
    let file = std::fs::File::open("/dev/null").unwrap();
    let refused = Stamping::ask(&file, KernelStamps::Auto);
    assert_eq!(refused, Stamping::Refused(nix::errno::Errno::ENOTSOCK));
    assert_eq!(Stamping::ask(&file, KernelStamps::Off), Stamping::Off);
}

#[tokio::test]
async fn an_answer_that_is_kept_whole_has_a_limit_of_size() {
    let (target, _) = server(|_, mut s| {
        assert!(take_request(&mut s));
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", 1 << 30);
        s.write_all(head.as_bytes()).unwrap();
        while s.write_all(&[b'x'; 65_536]).is_ok() {}
    });
    let (_keep, mut cut) = watch::channel(Cut::No);
    let connection = open(&target).await;
    let (exchange, connection) = run(connection, request(), &limits(), false, &mut cut).await;
    let Ending::Broken { kind, message } = exchange.ending else {
        panic!("{:?}", exchange.ending);
    };
    assert_eq!(kind, "too_large");
    assert!(message.contains("16 MiB"), "{message}");
    assert!(connection.is_none());
}

#[tokio::test]
async fn an_answer_without_end_or_pause_meets_its_limit_too() {
    let (target, _) = server(|_, mut s| {
        assert!(take_request(&mut s));
        let many = chunk(&"data: 1\n\n".repeat(2_000)).repeat(20);
        let _ = s.write_all(HEAD.as_bytes());
        while s.write_all(many.as_bytes()).is_ok() {}
    });
    let limits = Limits {
        total: Duration::from_millis(300),
        ..limits()
    };
    let all = once(open(&target).await, &limits);
    let (exchange, _) = tokio::time::timeout(Duration::from_secs(20), all)
        .await
        .expect("no limit held");
    assert!(
        matches!(&exchange.ending, Ending::Broken { kind, .. } if *kind == "total_timeout"),
        "{:?}",
        exchange.ending
    );
}
