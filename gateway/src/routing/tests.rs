use std::time::Duration;

use super::*;
use crate::queue::line::Bounds;

fn pool(endpoints: usize, more: &str) -> Arc<Pool> {
    pool_after(endpoints, more, None)
}

fn pool_after(endpoints: usize, more: &str, before: Option<&Pool>) -> Arc<Pool> {
    let endpoints: String = (0..endpoints)
        .map(|i| format!("{{name: e{i}, url: \"http://127.0.0.1:{}\"}}, ", i + 1))
        .collect();
    let text = format!(
        "version: 1\nlisten: [{{addr: \"127.0.0.1:0\"}}]\nauth: {{mode: none}}\n\
         pools: {{p: {{endpoints: [{endpoints}], {more}}}}}"
    );
    let config = config::Config::parse("t", &text).unwrap_or_else(|error| panic!("{error}"));
    Arc::new(Pool::new("p", &config.pools["p"], before))
}

fn lease(pool: &Arc<Pool>, tried: &[usize]) -> Lease {
    pool.lease(tried, Wants::default()).unwrap()
}

const NOW: MonoNs = MonoNs(u64::MAX / 2);

fn out(pool: &Pool) -> Vec<usize> {
    let now = MonoNs::now();
    (0..pool.endpoints.len())
        .filter(|&i| pool.endpoints[i].state.health().out(now).is_some())
        .collect()
}

#[test]
fn the_endpoint_with_the_fewest_requests_is_next() {
    let pool = pool(3, "");
    let mut first: Vec<Lease> = (0..3).map(|_| lease(&pool, &[])).collect();
    let mut taken: Vec<usize> = first.iter().map(Lease::index).collect();
    taken.sort_unstable();
    assert_eq!(taken, [0, 1, 2], "each has one");
    let freed = first.remove(1).index();
    assert_eq!(lease(&pool, &[]).index(), freed);
}

#[test]
fn a_repeat_goes_elsewhere_while_there_is_an_elsewhere() {
    let pool = pool(2, "");
    let _busy = lease(&pool, &[0]);
    assert_eq!(lease(&pool, &[0]).index(), 1);
    assert!(pool.lease(&[0, 1], Wants::default()).is_some());
}

#[test]
fn tokens_can_be_the_load() {
    let pool = pool(2, "policy: least_tokens");
    let wants = |tokens| Wants {
        tokens,
        session: None,
    };
    let heavy = pool.lease(&[], wants(5_000)).unwrap();
    let light: Vec<Lease> = (0..4)
        .map(|_| pool.lease(&[], wants(1_000)).unwrap())
        .collect();
    assert!(light.iter().all(|lease| lease.index() != heavy.index()));
    drop((heavy, light));
    assert!(
        pool.endpoints
            .iter()
            .all(|e| e.state.tokens.load(Ordering::Relaxed) == 0)
    );
}

#[test]
fn a_session_keeps_its_endpoint_until_that_one_is_full() {
    let pool = pool(4, "affinity: {header: x-session-id}, concurrency: 2");
    let wants = Wants {
        tokens: 1,
        session: Some(choice::session(b"chat-7")),
    };
    let first = pool.lease(&[], wants).unwrap();
    let second = pool.lease(&[], wants).unwrap();
    assert_eq!(first.index(), second.index());
    assert_ne!(
        pool.lease(&[], wants).unwrap().index(),
        first.index(),
        "it has two"
    );
}

#[test]
fn failures_put_out_no_more_than_half_and_never_the_last() {
    let fail = |pool: &Arc<Pool>, index: usize| {
        for _ in 0..5 {
            let lease = Lease {
                pool: Arc::clone(pool),
                index,
                tokens: 0,
            };
            pool.endpoints[index]
                .state
                .requests
                .fetch_add(1, Ordering::Relaxed);
            lease.failed();
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let _in = runtime.enter();
    for (n, expected) in [(1, 0), (2, 1), (3, 1), (5, 2)] {
        let pool = pool(n, "");
        for index in 0..n {
            fail(&pool, index);
        }
        assert_eq!(out(&pool).len(), expected, "of {n}");
        let chosen: Vec<usize> = (0..20).map(|_| lease(&pool, &[]).index()).collect();
        assert!(chosen.iter().all(|i| !out(&pool).contains(i)));
    }
}

#[test]
fn when_all_probes_fail_all_are_used_but_those_drained() {
    let pool = pool(3, "health: {unhealthy_after: 1}, concurrency: 4");
    let config = pool.choosing.health.clone().unwrap();
    assert_eq!(pool.capacity(NOW), Some(12));
    pool.probed(0, false, &config, NOW);
    assert_eq!(pool.capacity(NOW), Some(8));
    pool.drain(2, true);
    assert_eq!(pool.capacity(NOW), Some(4));
    assert!((0..9).all(|_| lease(&pool, &[]).index() == 1));
    pool.probed(1, false, &config, NOW);
    assert_eq!(pool.capacity(NOW), Some(8), "a probe can be wrong");
    pool.drain(0, true);
    pool.drain(1, true);
    assert!(pool.lease(&[], Wants::default()).is_none());
    assert_eq!(pool.capacity(NOW), Some(0));
}

#[test]
fn those_who_wait_hear_of_places() {
    let pool = pool(2, "concurrency: 3");
    let line = Line::new(
        Some(0),
        Bounds {
            requests: 9,
            tokens: 9,
        },
    );
    pool.feeds(&line);
    assert_eq!(line.capacity(), Some(6));
    pool.drain(0, true);
    assert_eq!(line.capacity(), Some(3));
    pool.drain(0, false);
    assert_eq!(line.capacity(), Some(6));
}

#[test]
fn o02_health_survives_a_reload_by_name_and_address() {
    let before = pool(2, "");
    before.drain(0, true);
    let lease = lease(&before, &[]);
    let after = pool_after(3, "slow_start: 30s", Some(&before));
    assert_eq!(out(&after), [0]);
    let requests = |i: usize| after.endpoints[i].state.requests.load(Ordering::Relaxed);
    assert_eq!((requests(1), requests(2)), (1, 0));
    drop(lease);
    assert_eq!(requests(1), 0);
    assert_eq!(after.choosing.slow_start, Duration::from_secs(30));
}
