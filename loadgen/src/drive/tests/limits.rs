//! Nothing hangs, and what a limit holds back or ends is recorded.

use super::*;
use crate::config::OverLimit;

/// A server that goes on answering, an event each 10 ms, until its peer is gone.
fn trickle() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            std::thread::spawn(move || {
                take_request(&mut socket);
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
                let event = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";
                let _ = socket.write_all(head.as_bytes());
                let chunk = format!("{:x}\r\n{event}\r\n", event.len());
                while socket.write_all(chunk.as_bytes()).is_ok() {
                    std::thread::sleep(Duration::from_millis(10));
                }
            });
        }
    });
    addr
}

/// Answers after `service`, each connection by itself, and keeps connections open.
fn slow(service: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            std::thread::spawn(move || {
                while take_request(&mut socket) {
                    std::thread::sleep(service);
                    let _ = socket.write_all(whole("").as_bytes());
                }
            });
        }
    });
    addr
}

#[tokio::test]
async fn m01_who_waits_for_the_limit_is_sent_late_in_order_and_never_dropped() {
    let settings = Settings {
        rate: Some(vec![100.0]),
        arrival: Some(crate::config::Arrival::Constant),
        requests: Some(6),
        max_in_flight: Some(1),
        over_limit: Some(OverLimit::Wait),
        ..Settings::default()
    };
    let (end, mut rows) = drive(
        slow(Duration::from_millis(40)),
        settings,
        |_| {},
        whole_point,
    )
    .await;
    assert_eq!((end.stop_reason, end.planned), (StopReason::Requests, 6));
    rows.sort_by_key(|r| r.intended_ns);
    assert!(rows.iter().all(|r| r.outcome == Outcome::Ok), "{rows:?}");
    let seqs: Vec<u64> = rows.iter().map(|r| r.seq).collect();
    assert_eq!(seqs, [0, 1, 2, 3, 4, 5]);
    for (earlier, later) in rows.iter().zip(&rows[1..]) {
        // The schedule stays as it was; the sending waits for its turn.
        let (planned, next) = (earlier.intended_ns.unwrap(), later.intended_ns.unwrap());
        assert_eq!(next.since(planned), 10_000_000);
        assert!(later.sent_start_ns >= earlier.end_ns);
        let released = later.released_ns.unwrap();
        assert!(Some(released) >= earlier.end_ns && Some(released) <= later.dispatched_ns);
        assert!(later.late, "{later:?}");
    }
    assert_eq!(rows[0].released_ns, None);
}

#[tokio::test]
async fn a_point_limited_by_requests_alone_ends_though_its_answers_do_not() {
    let mut settings = Settings {
        requests: Some(5),
        concurrency: Some(vec![2]),
        ..Settings::default()
    };
    settings.timeouts.point = Some(Duration::from_millis(200));
    let (end, rows) = drive(trickle(), settings, |_| {}, whole_point).await;
    assert_eq!(
        (end.stop_reason, end.planned),
        (StopReason::PointTimeout, 5)
    );
    assert_eq!(kinds(&rows, "point_timeout"), 5);
    let cut: Vec<_> = rows
        .iter()
        .filter(|r| r.outcome == Outcome::Incomplete)
        .collect();
    assert_eq!(cut.len(), 2);
    for row in cut {
        assert!(row.first_output_ns.is_some() && row.events.at_ns.len() > 1);
    }
}

#[tokio::test]
async fn a_point_of_an_open_loop_ends_too_and_drops_what_waited() {
    let mut settings = Settings {
        rate: Some(vec![1_000.0]),
        requests: Some(4),
        max_in_flight: Some(1),
        over_limit: Some(OverLimit::Wait),
        ..Settings::default()
    };
    settings.timeouts.point = Some(Duration::from_millis(200));
    let (end, rows) = drive(trickle(), settings, |_| {}, whole_point).await;
    assert_eq!(
        (end.stop_reason, end.planned),
        (StopReason::PointTimeout, 4)
    );
    assert_eq!(kinds(&rows, "point_timeout"), 4);
    let dropped = rows.iter().filter(|r| r.outcome == Outcome::Dropped);
    assert_eq!(dropped.clone().count(), 3);
    assert!(dropped.clone().all(|r| r.intended_ns.is_some()));
}

#[tokio::test]
async fn m27_drain_ends_what_time_left_in_flight_and_keeps_what_came() {
    let mut settings = Settings {
        duration: Some(Duration::from_millis(100)),
        concurrency: Some(vec![2]),
        ..Settings::default()
    };
    settings.timeouts.drain = Some(Duration::from_millis(50));
    let (end, rows) = drive(trickle(), settings, |_| {}, whole_point).await;
    assert_eq!(end.stop_reason, StopReason::Duration);
    assert_eq!(kinds(&rows, "run_end"), rows.len());
    assert!(rows.iter().all(|r| r.first_output_ns.is_some()));
}

#[tokio::test]
async fn a_server_that_takes_no_connection_meets_the_connect_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // Room for one connection that nobody accepts; the handshake of the next one is not answered.
    rustix::net::listen(&listener, 0).unwrap();
    let addr = listener.local_addr().unwrap();
    let _first = std::net::TcpStream::connect(addr).unwrap();
    let mut settings = Settings {
        requests: Some(1),
        ..Settings::default()
    };
    settings.timeouts.connect = Some(Duration::from_millis(100));
    let (end, rows) = drive(addr, settings, |_| {}, whole_point).await;
    assert_eq!((end.planned, rows.len()), (1, 1));
    assert_eq!(kinds(&rows, "connect_timeout"), 1);
    assert_eq!(rows[0].sent_start_ns, None);
    assert!(rows[0].connect.start_ns.is_some());
}

#[tokio::test]
async fn m13_without_reuse_each_request_has_a_connect_of_its_own_before_its_write() {
    for reuse in [false, true] {
        let settings = Settings {
            requests: Some(4),
            reuse: Some(reuse),
            ..Settings::default()
        };
        let (_, rows) = drive(
            slow(Duration::from_millis(1)),
            settings,
            |_| {},
            whole_point,
        )
        .await;
        assert_eq!(rows.len(), 4);
        let reused = rows.iter().filter(|r| r.connect.reused).count();
        assert_eq!(reused, if reuse { 3 } else { 0 });
        for row in rows.iter().filter(|r| !r.connect.reused) {
            // Connect, request, answer: one stage after the other, each with its own stamps.
            let stamps = [
                row.dispatched_ns,
                row.connect.start_ns,
                row.connect.tcp_ns,
                row.sent_start_ns,
                row.sent_end_ns,
                row.head_ns,
                row.first_output_ns,
            ];
            assert!(stamps.iter().all(Option::is_some), "{row:?}");
            assert!(stamps.is_sorted(), "{row:?}");
        }
        for row in rows.iter().filter(|r| r.connect.reused) {
            assert_eq!(row.connect.tcp_ns, None);
        }
    }
}

/// Whether a handshake with this port of this machine is under way and not answered.
fn is_connecting(port: u16) -> bool {
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let peer = format!(":{port:04X} 02 ");
    sockets.lines().any(|line| line.contains(&peer))
}

#[tokio::test]
async fn m13_a_slow_handshake_is_in_the_connect_time_and_not_in_the_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let addr = listener.local_addr().unwrap();
    let first = std::net::TcpStream::connect(addr).unwrap();
    // The client's first SYN finds no room and is sent again after a second.
    let server = std::thread::spawn(move || {
        while !is_connecting(addr.port()) {
            std::thread::yield_now();
        }
        drop((first, listener.accept().unwrap()));
        let (mut socket, _) = listener.accept().unwrap();
        take_request(&mut socket);
        socket.write_all(whole("").as_bytes()).unwrap();
    });
    let mut settings = Settings {
        requests: Some(1),
        ..Settings::default()
    };
    settings.timeouts.connect = Some(Duration::from_secs(10));
    let (_, rows) = drive(addr, settings, |_| {}, whole_point).await;
    server.join().unwrap();
    let row = &rows[0];
    let between = |a: Option<MonoNs>, b: Option<MonoNs>| b.unwrap().since(a.unwrap());
    let connect = between(row.connect.start_ns, row.connect.tcp_ns);
    assert!(connect >= 250_000_000, "connected in {connect} ns");
    assert!(row.sent_start_ns >= row.connect.tcp_ns);
    let from_sent = between(row.sent_start_ns, row.first_output_ns);
    let from_dispatch = between(row.dispatched_ns, row.first_output_ns);
    assert!(from_sent + connect <= from_dispatch);
}
