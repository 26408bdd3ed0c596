//! Several engines behind one pool: their places, and what changes them while requests wait.

use std::sync::Arc;
use std::time::Duration;

use crate::ASK;
use crate::engine::{Do, Engine, Load, hold, json};
use crate::harness::{Client, Gateway, closed_port};
use crate::limits::{count, together};

fn url(engine: &Engine) -> String {
    format!("http://{}", engine.address)
}

async fn gateway(engines: &[&Engine], pool: &str) -> Gateway {
    let urls: Vec<_> = engines.iter().map(|engine| url(engine)).collect();
    Gateway::with(&urls, "{mode: none}", pool, "").await
}

async fn asking(gateway: &Gateway) -> Client {
    let mut client = Client::connect(gateway).await;
    client.ask(ASK, "").await;
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn l05_no_endpoint_gets_more_than_its_own_places() {
    let loads = [(); 3].map(|()| Arc::new(Load::default()));
    let work = |load: &Arc<Load>| {
        let work = Do::Work(Arc::clone(load), Duration::from_millis(2));
        Engine::start(vec![vec![work, json("{}")]])
    };
    let engines = [
        work(&loads[0]).await,
        work(&loads[1]).await,
        work(&loads[2]).await,
    ];
    let all: Vec<_> = engines.iter().collect();
    for policy in ["policy: least_tokens", "affinity: {header: content-type}"] {
        let gateway = gateway(&all, &format!("concurrency: 2, {policy}")).await;
        let answers = together(&gateway, 200, ASK).await;
        assert_eq!(count(&answers, 200), 200);
    }
    for load in loads {
        assert_eq!(load.most(), 2, "all places are used, and no more");
    }
}

#[tokio::test]
async fn a_waiter_goes_to_an_endpoint_that_is_let_in_again() {
    let (wait, go_on) = hold();
    let mut busy = Engine::start(vec![vec![wait, json("{}")]]).await;
    let mut idle = Engine::start(vec![vec![json("{}")]]).await;
    let gateway = gateway(&[&busy, &idle], "concurrency: 1").await;
    let name = idle.address.to_string();
    gateway.drain_endpoint(&name, true);
    let mut first = asking(&gateway).await;
    busy.request().await;
    let mut second = asking(&gateway).await;
    gateway.until("queue_waiting", 1.0).await;
    assert!(idle.events.try_recv().is_err());

    gateway.drain_endpoint(&name, false);
    assert_eq!(second.answer().await.status, 200);
    idle.request().await;
    go_on.notify_one();
    assert_eq!(first.answer().await.status, 200);
}

#[tokio::test]
async fn o02_a_waiter_goes_to_an_endpoint_that_a_reload_brings() {
    let (wait, go_on) = hold();
    let (wait_busy, release_busy) = hold();
    let (wait_new, release_new) = hold();
    let scripts = vec![vec![wait, Do::Close], vec![wait_busy, json("{}")]];
    let mut busy = Engine::start(scripts).await;
    let scripts = vec![vec![json("{}")], vec![wait_new, json("{}")]];
    let mut new = Engine::start(scripts).await;
    let pool = "concurrency: 1, ejection: {consecutive_failures: 1, max_share: 100%}";
    let gateway = gateway(&[&busy], pool).await;
    let mut first = asking(&gateway).await;
    busy.request().await;
    let mut second = asking(&gateway).await;
    gateway.until("queue_waiting", 1.0).await;
    let more = format!("endpoints: [{{url: \"{}\"}}, ", url(&new));
    gateway
        .reload(|text| text.replace("endpoints: [", &more))
        .unwrap();
    assert_eq!(second.answer().await.status, 200);
    new.request().await;

    // The failure of a request from before is one of the pool as it was: its only endpoint.
    go_on.notify_one();
    assert_eq!(first.answer().await.status, 502);
    gateway.until("permits_outstanding", 0.0).await;
    // Each of them has its place.
    let mut both = [asking(&gateway).await, asking(&gateway).await];
    busy.request().await;
    new.request().await;
    release_busy.notify_one();
    release_new.notify_one();
    for client in &mut both {
        assert_eq!(client.answer().await.status, 200);
    }
}

#[tokio::test]
async fn probes_that_a_reload_ends_leave_nobody_out() {
    // It answers requests, and what it is probed for it does not have.
    let refusal = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
    let wrong = Engine::start(vec![vec![Do::Write(refusal.as_bytes().to_vec())]]).await;
    let well = Engine::start(vec![vec![json("{}")]]).await;
    let probes = "health: {path: /x, interval: 5ms}";
    let gateway = gateway(&[&wrong, &well], probes).await;
    let up = format!("endpoint_up{{endpoint=\"{}\",pool=\"p\"}}", wrong.address);
    gateway.until(&up, 0.0).await;
    gateway.reload(|text| text.replace(probes, "")).unwrap();
    gateway.until(&up, 1.0).await;
}

#[tokio::test]
async fn a_connect_that_fails_goes_to_no_endpoint_that_is_out() {
    let mut drained = Engine::start(vec![vec![json("{}")]]).await;
    let urls = [format!("http://{}", closed_port().await), url(&drained)];
    let gateway = Gateway::with(&urls, "{mode: none}", "", "").await;
    gateway.drain_endpoint(&drained.address.to_string(), true);
    let mut client = asking(&gateway).await;
    assert_eq!(client.answer().await.status, 502);
    let record = gateway.record().await;
    assert_eq!(record.attempts, 1, "there is no elsewhere");
    assert_eq!(record.error_kind.as_deref(), Some("connect_refused"));
    assert!(drained.events.try_recv().is_err());
}

#[tokio::test]
async fn a_name_is_well_when_one_of_its_addresses_is() {
    // localhost may be ::1 first, where nobody listens.
    let engine = Engine::start(vec![vec![json("{}")]]).await;
    let urls = [format!("http://localhost:{}", engine.address.port())];
    let gateway = Gateway::with(&urls, "{mode: none}", "health: {interval: 1m}", "").await;
    let labels = |outcome: &str| {
        let endpoint = format!("localhost:{}", engine.address.port());
        format!("{{endpoint=\"{endpoint}\",outcome=\"{outcome}\",pool=\"p\"}}")
    };
    let probes = |outcome| format!("endpoint_probes_total{}", labels(outcome));
    gateway.until(&probes("good"), 1.0).await;
    assert_eq!(gateway.metric(&probes("bad")), 0.0);
}
