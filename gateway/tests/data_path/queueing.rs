//! The queue before an engine that takes only so many.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use inferscope_gateway::auth::keys;
use inferscope_gateway::config::Secret;
use inferscope_shared::record::gateway::Outcome;

use crate::ASK;
use crate::engine::{Do, Engine, Load, hold, json};
use crate::harness::{Client, Gateway};
use crate::limits::{count, together};

const SECRET: &str = "a secret of the tests";

async fn gateway(engine: &Engine, pool: &str, extra: &str) -> Gateway {
    let urls = [format!("http://{}", engine.address)];
    Gateway::with(&urls, "{mode: none}", pool, extra).await
}

fn work(load: &Arc<Load>, ms: u64) -> Vec<Do> {
    vec![
        Do::Work(load.clone(), Duration::from_millis(ms)),
        json("{}"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn l05_no_more_than_its_places_ever_reach_an_engine() {
    for _ in 0..20 {
        let load = Arc::new(Load::default());
        let engine = Engine::start(vec![work(&load, 3)]).await;
        let gateway = gateway(&engine, "concurrency: 5", "queue: {max_requests: 150}").await;
        let answers = together(&gateway, 200, ASK).await;
        let (served, refused) = (count(&answers, 200), count(&answers, 503));
        assert_eq!(served + refused, 200);
        assert!(
            served >= 155,
            "{served}: those in line and those with a place"
        );
        assert!(load.most() <= 5, "{}", load.most());
    }
}

#[tokio::test]
async fn l15_who_leaves_the_queue_never_reaches_the_engine() {
    let (hold, release) = hold();
    let mut engine = Engine::start(vec![vec![hold, json("{}")], vec![json("{}")]]).await;
    let gateway = gateway(&engine, "concurrency: 1", "").await;
    let mut first = Client::connect(&gateway).await;
    first.ask(ASK, "").await;
    engine.request().await;
    let mut impatient = Vec::new();
    for i in 0..20 {
        let mut client = Client::connect(&gateway).await;
        client.ask(ASK, "").await;
        gateway.until("queue_waiting", f64::from(i + 1)).await;
        impatient.push(client);
    }
    let mut patient = Client::connect(&gateway).await;
    patient.ask(ASK, "").await;
    gateway.until("queue_waiting", 21.0).await;
    for (i, client) in impatient.into_iter().enumerate() {
        if i % 2 == 0 {
            client.reset()
        } else {
            drop(client)
        }
    }
    gateway.until("queue_waiting", 1.0).await;
    for _ in 0..20 {
        let record = gateway.record().await;
        assert_eq!((record.outcome, record.status), (Outcome::ClientGone, None));
    }
    release.notify_one();
    assert_eq!(first.answer().await.status, 200);
    assert_eq!(patient.answer().await.status, 200);
    engine.request().await;
    assert!(
        engine.events.try_recv().is_err(),
        "the engine saw two requests"
    );
    gateway.until("permits_outstanding", 0.0).await;
}

#[tokio::test]
async fn a_wait_ends_with_503_and_when_to_come_back() {
    let mut engine = Engine::start(vec![vec![Do::AwaitClose]]).await;
    let gateway = gateway(&engine, "concurrency: 1", "queue: {max_wait: 50ms}").await;
    let mut first = Client::connect(&gateway).await;
    first.ask(ASK, "").await;
    engine.request().await;
    let mut second = Client::connect(&gateway).await;
    second.ask(ASK, "").await;
    let answer = second.answer().await;
    assert_eq!(answer.status, 503);
    assert!(
        answer
            .text()
            .contains("no engine of pool `p` had a place within 50ms"),
        "{}",
        answer.text()
    );
    assert_eq!(answer.header("x-should-retry"), Some("true"));
    assert!(answer.header("retry-after").is_some());
    assert!(answer.header("retry-after-ms").is_some());
    let kind = gateway.record().await.error_kind;
    assert_eq!(kind.as_deref(), Some("queue_timeout"));
    first.reset();
    let kind = gateway.record().await.error_kind;
    assert_eq!(kind.as_deref(), Some("client_gone"));
}

#[tokio::test]
async fn l15_no_wait_is_longer_than_the_client_says_it_waits() {
    let mut engine = Engine::start(vec![vec![Do::AwaitClose]]).await;
    let gateway = gateway(&engine, "concurrency: 1", "").await;
    let mut first = Client::connect(&gateway).await;
    first.ask(ASK, "").await;
    engine.request().await;
    for header in [
        "x-stainless-read-timeout: 0.05",
        "X-Stainless-Timeout: 0.05",
    ] {
        let mut second = Client::connect(&gateway).await;
        second.ask(ASK, &format!("{header}\r\n")).await;
        let answer = second.answer().await;
        assert_eq!(answer.status, 503);
        assert!(answer.text().contains("within 50ms"), "{}", answer.text());
    }
}

#[tokio::test]
async fn a_full_queue_sheds_retries_first() {
    let (hold, release) = hold();
    let mut engine = Engine::start(vec![vec![hold, json("{}")], vec![json("{}")]]).await;
    let gateway = gateway(&engine, "concurrency: 1", "queue: {max_requests: 1}").await;
    let mut first = Client::connect(&gateway).await;
    first.ask(ASK, "").await;
    engine.request().await;
    let mut retry = Client::connect(&gateway).await;
    retry.ask(ASK, "x-stainless-retry-count: 1\r\n").await;
    gateway.until("queue_waiting", 1.0).await;
    let mut fresh = Client::connect(&gateway).await;
    fresh.ask(ASK, "").await;
    let answer = retry.answer().await;
    assert_eq!(answer.status, 503);
    assert!(answer.text().contains("repeated requests give way first"));
    let mut late = Client::connect(&gateway).await;
    late.ask(ASK, "").await;
    let answer = late.answer().await;
    assert_eq!(answer.status, 503);
    assert!(
        answer.text().contains("as many requests wait"),
        "{}",
        answer.text()
    );
    release.notify_one();
    assert_eq!(first.answer().await.status, 200);
    assert_eq!(fresh.answer().await.status, 200);
}

/// Keys for tenants `a` and `b`, whose names are the keys.
fn two_tenants(folder: &tempfile::TempDir) -> String {
    let secret = Secret::new(SECRET.to_owned());
    let file = folder.path().join("secret");
    std::fs::write(&file, SECRET).unwrap();
    let key = |name: &str| {
        let hash: String = keys::hash(&secret, name.as_bytes())
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        format!("{{id: {name}, tenant: {name}, hash: \"hmac-sha256:{hash}\"}}")
    };
    format!(
        "{{mode: keys, secret: \"file:{}\", keys: [{}, {}]}}",
        file.display(),
        key("a"),
        key("b")
    )
}

#[tokio::test]
async fn a_tenant_that_fills_the_queue_shuts_nobody_out() {
    let (hold, release) = hold();
    let mut engine = Engine::start(vec![vec![hold, json("{}")], vec![json("{}")]]).await;
    let folder = tempfile::tempdir().unwrap();
    let urls = [format!("http://{}", engine.address)];
    let auth = two_tenants(&folder);
    let gateway = Gateway::with(
        &urls,
        &auth,
        "concurrency: 1",
        "queue: {max_requests: 3}\ntenants: {a: {}, b: {}}",
    )
    .await;
    let ask = async |tenant: &str| {
        let mut client = Client::connect(&gateway).await;
        client
            .ask(ASK, &format!("authorization: Bearer {tenant}\r\n"))
            .await;
        client
    };
    let mut first = ask("a").await;
    engine.request().await;
    let mut heavy = Vec::new();
    for waiting in 1..=3 {
        heavy.push(ask("a").await);
        gateway.until("queue_waiting", f64::from(waiting)).await;
    }
    let mut light = ask("b").await;
    let answer = heavy.pop().unwrap().answer().await;
    assert_eq!(answer.status, 503);
    assert!(answer.text().contains("gave way"), "{}", answer.text());
    release.notify_one();
    for client in heavy.iter_mut().chain([&mut first, &mut light]) {
        assert_eq!(client.answer().await.status, 200);
    }
}

/// Two tenants, `a` with ten times the clients of `b`: what each was served while both waited.
async fn served(weights: [u32; 2]) -> [usize; 2] {
    let folder = tempfile::tempdir().unwrap();
    let auth = two_tenants(&folder);
    let tenants = format!(
        "tenants: {{a: {{weight: {}}}, b: {{weight: {}}}}}",
        weights[0], weights[1]
    );
    let load = Arc::new(Load::default());
    let engine = Engine::start(vec![work(&load, 5)]).await;
    let urls = [format!("http://{}", engine.address)];
    let gateway = Gateway::with(&urls, &auth, "concurrency: 2", &tenants).await;
    let gateway = Arc::new(gateway);
    let all = Arc::new(AtomicUsize::new(0));
    let mut clients = Vec::new();
    for i in 0..132 {
        let (gateway, all) = (gateway.clone(), all.clone());
        let name = if i < 120 { "a" } else { "b" };
        clients.push(tokio::spawn(async move {
            let mut client = Client::connect(&gateway).await;
            let mut counted = 0;
            // The first ones came before both tenants waited.
            while let n @ 0..900 = all.load(Ordering::SeqCst) {
                let fields = format!("authorization: Bearer {name}\r\n");
                client.ask(ASK, &fields).await;
                assert_eq!(client.answer().await.status, 200);
                all.fetch_add(1, Ordering::SeqCst);
                counted += usize::from(n >= 300);
            }
            (name, counted)
        }));
    }
    let mut served = [0; 2];
    for client in clients {
        let (name, n) = client.await.unwrap();
        served[usize::from(name == "b")] += n;
    }
    served
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_of_equal_weight_share_equally_whatever_they_offer() {
    let [a, b] = served([1, 1]).await;
    let share = a as f64 / (a + b) as f64;
    assert!((share - 0.5).abs() <= 0.025, "a has {share} of {}", a + b);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_weight_is_a_share() {
    let [a, b] = served([3, 1]).await;
    let share = a as f64 / (a + b) as f64;
    assert!((share - 0.75).abs() <= 0.04, "a has {share} of {}", a + b);
}
