//! Clients that leave, in any phase, at any instant: nothing they held stays held.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::ASK;
use crate::engine::{Do, Engine, Load, chunk, event, json, last_chunk, stream_head};
use crate::harness::{Client, Gateway};

/// Clients at a time; most of them find no place and wait.
const CLIENTS: usize = 64;

const LIMITED: &str = "tenants: {anonymous: {limits: {concurrency: 48, budget: {daily: 1000000000}}}}\n\
                       queue: {max_requests: 40}";

/// What an engine does with one request after the other: answers of both kinds, and silence.
fn scripts() -> Vec<Vec<Do>> {
    let load = Arc::new(Load::default());
    let work = |ms| Do::Work(load.clone(), Duration::from_millis(ms));
    let stream = vec![
        stream_head(),
        chunk(event("a")),
        work(2),
        chunk(event("b")),
        work(2),
        chunk(event("c")),
        last_chunk(),
    ];
    let cycle = [
        vec![work(3), json("{}")],
        stream,
        vec![json("{}")],
        vec![work(1), Do::Close],
    ];
    (0..20_000)
        .map(|i| cycle[i % cycle.len()].clone())
        .collect()
}

/// One client that asks and leaves at some instant, by FIN or reset.
async fn abort(gateway: &Gateway, random: &mut SmallRng) {
    let mut client = Client::connect(gateway).await;
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
        ASK.len()
    );
    let request = [head.as_bytes(), ASK.as_bytes()].concat();
    match random.random_range(0..10) {
        // Inside the head, or the body.
        0 | 1 => {
            client
                .send(&request[..random.random_range(1..request.len())])
                .await
        }
        // As the answer begins; it may be a refusal.
        2 | 3 => {
            client.send(&request).await;
            let _ = client.at_end().await;
        }
        // In the queue, connecting, in front of an engine that works, in a stream.
        _ => {
            client.send(&request).await;
            tokio::time::sleep(Duration::from_micros(random.random_range(0..15_000))).await;
        }
    }
    if random.random() {
        client.reset();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn l01_ten_thousand_aborts_at_any_instant_leave_nothing_held() {
    let engine = Engine::start(scripts()).await;
    let urls = [format!("http://{}", engine.address)];
    let gateway = Gateway::with(&urls, "{mode: none}", "concurrency: 8", LIMITED).await;
    let (gateway, left) = (Arc::new(gateway), Arc::new(AtomicUsize::new(10_000)));
    let clients = (0..CLIENTS as u64).map(|seed| {
        let (gateway, left) = (gateway.clone(), left.clone());
        tokio::spawn(async move {
            let mut random = SmallRng::seed_from_u64(seed);
            let more = || {
                let take = |n: usize| n.checked_sub(1);
                left.try_update(Ordering::SeqCst, Ordering::SeqCst, take)
                    .is_ok()
            };
            while more() {
                abort(&gateway, &mut random).await;
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    gateway.until("permits_outstanding", 0.0).await;
    gateway.until("queue_waiting", 0.0).await;
    assert_eq!(gateway.held(), [0, 0, 0]);
    let endpoint = format!(
        "endpoint_requests{{endpoint=\"{}\",pool=\"p\"}}",
        engine.address
    );
    assert_eq!(gateway.metric(&endpoint), 0.0);
    let up = endpoint.replace("requests", "up");
    assert_eq!(gateway.metric(&up), 1.0, "the series is there");
    for seen in [
        "queue_wait_seconds_count",
        "phase_seconds_count{phase=\"engine\"}",
    ] {
        let times = gateway.metric(seen);
        assert!(times >= 50.0, "{seen}: {times}");
    }
    let mut client = Client::connect(&gateway).await;
    client.ask(ASK, "").await;
    let status = client.answer().await.status;
    assert!([200, 502].contains(&status), "{status}");
}
