use std::time::Duration;

use tokio::io::{AsyncReadExt as _, duplex};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::listener::track::Limit;

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

fn wrap<S: AsyncRead + AsyncWrite + Unpin>(inner: S) -> (StampedStream<S>, Arc<Track>) {
    let track = Arc::new(Track::default());
    track.begin();
    let stream = StampedStream::new(inner, 7, OnFin::Gone, Arc::clone(&track));
    (stream, track)
}

#[tokio::test]
async fn a_flush_marks_the_decoded_offset_that_left() {
    let (mut client, server) = duplex(1 << 16);
    let (mut stream, track) = wrap(server);
    track.expect_answer(false, true);

    stream.write_all(HEAD).await.unwrap();
    stream.write_all(b"5\r\nhello\r\n").await.unwrap();
    assert!(track.lock().delivery.marks().is_empty(), "nothing left yet");
    stream.flush().await.unwrap();
    stream.write_all(b"6\r\n world\r\n").await.unwrap();
    stream.flush().await.unwrap();
    stream.write_all(b"0\r\n\r\n").await.unwrap();
    stream.flush().await.unwrap();
    drop(stream);

    let mut wire = Vec::new();
    client.read_to_end(&mut wire).await.unwrap();
    assert!(wire.ends_with(b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"));
    let state = track.lock();
    let offsets: Vec<u64> = state
        .delivery
        .marks()
        .iter()
        .map(|m| m.end_offset)
        .collect();
    assert_eq!(offsets, [5, 11]);
    assert!(state.delivery.marks()[0].at <= state.delivery.marks()[1].at);
    assert_eq!(state.delivery.status(), Some(200));
    assert_eq!(
        state.delivery.sha256(),
        Some(hex::encode(<sha2::Sha256 as sha2::Digest>::digest(
            b"hello world"
        )))
    );
}

#[tokio::test]
async fn each_request_head_is_stamped_with_its_own_first_byte() {
    let (mut client, server) = duplex(1 << 16);
    let (mut stream, track) = wrap(server);
    let mut buf = [0; 64];

    client.write_all(b"GET / ").await.unwrap();
    stream.read_exact(&mut buf[..6]).await.unwrap();
    let first = track.lock().head_started.unwrap();
    client.write_all(b"HTTP/1.1\r\n\r\n").await.unwrap();
    stream.read_exact(&mut buf[..12]).await.unwrap();
    assert_eq!(
        track.lock().head_started,
        Some(first),
        "a head has one first byte"
    );

    track.begin();
    assert_eq!(track.lock().head_started, None);
    client.write_all(b"G").await.unwrap();
    stream.read_exact(&mut buf[..1]).await.unwrap();
    assert!(track.lock().head_started.unwrap() > first);
}

#[tokio::test]
async fn a_pipelined_request_waits_for_the_answer_and_keeps_its_stamp() {
    let (mut client, server) = duplex(1 << 16);
    let (mut stream, track) = wrap(server);
    let mut buf = [0; 64];

    track.exchange();
    client.write_all(b"GET /next").await.unwrap();
    let watching = stream.read(&mut buf);
    assert!(
        futures::FutureExt::now_or_never(watching).is_none(),
        "an exchange reads nothing"
    );
    let before_begin = MonoNs::now();
    track.begin();
    assert_eq!(stream.read(&mut buf).await.unwrap(), 9);
    assert_eq!(&buf[..9], b"GET /next");
    assert!(track.lock().head_started.unwrap() < before_begin);
}

#[tokio::test]
async fn the_client_leaving_ends_the_watch_and_so_does_a_limit() {
    let (client, server) = duplex(64);
    let (mut stream, track) = wrap(server);
    track.exchange();
    let mut buf = [0; 1];
    track.trip(Limit::FirstByte);
    track.trip(Limit::Total);
    let error = stream.read(&mut buf).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert_eq!(
        track.tripped(),
        Some(Limit::FirstByte),
        "the first one counts"
    );

    track.begin();
    track.exchange();
    drop(client);
    assert_eq!(stream.read(&mut buf).await.unwrap(), 0);
}

#[tokio::test]
async fn a_tolerated_fin_is_not_reported() {
    let (client, server) = duplex(64);
    let track = Arc::new(Track::default());
    let mut stream = StampedStream::new(server, 7, OnFin::Tolerate, Arc::clone(&track));
    track.exchange();
    drop(client);
    let mut buf = [0; 1];
    assert!(futures::FutureExt::now_or_never(stream.read(&mut buf)).is_none());
    track.trip(Limit::Drain);
    assert!(stream.read(&mut buf).await.is_err());
}

/// The client of the contract: it stops reading for 2 s while more is sent than sockets hold.
#[tokio::test]
async fn a_client_that_stops_reading_shows_as_blocked_time() {
    const PIECES: usize = 400;
    const PIECE: usize = 64 * 1024;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap());
    let (client, server) = tokio::join!(client, listener.accept());
    let (mut client, (mut stream, track)) = (client.unwrap(), wrap(server.unwrap().0));
    track.expect_answer(false, false);

    let mut reads = Vec::new();
    let sending = async {
        stream.write_all(HEAD).await.unwrap();
        let piece = vec![b'x'; PIECE];
        for _ in 0..PIECES {
            reads.push(MonoNs::now());
            let mut chunk = format!("{PIECE:X}\r\n").into_bytes();
            chunk.extend_from_slice(&piece);
            chunk.extend_from_slice(b"\r\n");
            stream.write_all(&chunk).await.unwrap();
            stream.flush().await.unwrap();
        }
        drop(stream);
    };
    let reading = async {
        // The stall is the scenario, not a way to wait for something.
        tokio::time::sleep(Duration::from_secs(2)).await;
        tokio::io::copy(&mut client, &mut tokio::io::sink())
            .await
            .unwrap()
    };
    let started = MonoNs::now();
    tokio::join!(sending, reading);

    let state = track.lock();
    assert_eq!(state.delivery.bytes(), (PIECES * PIECE) as u64);
    let blocked = state.delivery.write_blocked_ns(MonoNs::now());
    assert!(
        (1_500_000_000..MonoNs::now().since(started)).contains(&blocked),
        "{blocked}"
    );
    // One piece was in hand all through the stall: taken early, written late.
    let pieces: Vec<crate::relay::Piece> = (0..PIECES)
        .map(|i| crate::relay::Piece {
            read: reads[i],
            end_offset: ((i + 1) * PIECE) as u64,
            events: 0,
        })
        .collect();
    let series = crate::relay::chunks(started, &pieces, state.delivery.marks());
    assert_eq!(series.written_ns.len(), PIECES);
    assert_ne!(series.read_ns, series.written_ns);
    let slowest = inferscope_shared::record::delta::decode(started.0, &series.written_ns)
        .into_iter()
        .zip(&reads)
        .map(|(written, read)| written - read.0)
        .max();
    assert!(slowest > Some(1_500_000_000), "{slowest:?}");
}
