use super::*;
use crate::config::{Config, EjectionConfig};
use crate::routing::Router;

const T0: MonoNs = MonoNs(1_000_000_000);

fn later(seconds: u64) -> MonoNs {
    T0.plus(Duration::from_secs(seconds))
}

/// A pool `p` with these endpoints and `more` keys.
fn config(endpoints: &[&str], more: &str) -> Config {
    let urls: Vec<_> = endpoints
        .iter()
        .map(|name| format!("{{name: {name}, url: 'http://{name}:1'}}"))
        .collect();
    let text = format!(
        "version: 1\nlisten: [{{addr: '127.0.0.1:0'}}]\nauth: {{mode: none}}\npools: {{p: {{endpoints: [{}], {more}}}}}\n",
        urls.join(", ")
    );
    Config::parse("t", &text).unwrap()
}

fn router(endpoints: &[&str], more: &str, before: Option<&Router>) -> Router {
    let metrics = Metrics::new([], []).unwrap();
    Router::new(&config(endpoints, more), before, &metrics)
}

fn pool(endpoints: &[&str], more: &str) -> Arc<Pool> {
    let router = router(endpoints, more, None);
    Arc::clone(router.pool("p").unwrap())
}

fn lease(pool: &Arc<Pool>, now: MonoNs) -> Lease {
    pool.lease(&[], Wants::default(), now).unwrap()
}

/// Fails so often that it is ejected, if it may be.
fn fail(pool: &Arc<Pool>, index: usize, now: MonoNs) {
    for _ in 0..EjectionConfig::default().consecutive_failures {
        pool.judge(index, Sign::Failed, now);
    }
}

fn drain(pool: &Pool, name: &str, drained: bool, now: MonoNs) {
    let endpoint = pool.endpoints.iter().find(|e| e.name == name).unwrap();
    pool.drain(endpoint, drained, now);
}

fn states(pool: &Pool, now: MonoNs) -> Vec<&'static str> {
    let states = pool.endpoints.iter().map(|e| e.state(now).label());
    states.collect()
}

#[test]
fn the_endpoint_with_the_fewest_requests_is_next() {
    let pool = pool(&["a", "b", "c"], "");
    let mut first: Vec<Lease> = (0..3).map(|_| lease(&pool, T0)).collect();
    let mut taken: Vec<usize> = first.iter().map(Lease::index).collect();
    taken.sort_unstable();
    assert_eq!(taken, [0, 1, 2], "each has one");
    let freed = first.remove(1).index();
    assert_eq!(lease(&pool, T0).index(), freed);
}

#[test]
fn tokens_can_be_what_is_even() {
    let pool = pool(&["a", "b"], "policy: least_tokens");
    let take = |tokens| {
        let wants = Wants {
            tokens,
            session: None,
        };
        pool.lease(&[], wants, T0).unwrap()
    };
    let long = take(1_000);
    let short: Vec<_> = (0..5).map(|_| take(100)).collect();
    assert!(short.iter().all(|short| short.index() != long.index()));
    drop(short);
    assert_eq!(pool.endpoints[long.index()].load(), (1, 1_000));
    drop(long);
    assert!(pool.endpoints.iter().all(|e| e.load() == (0, 0)));
}

#[test]
fn credit_is_used_up_everywhere_before_it_is_overdrawn_anywhere() {
    let pool = pool(&["a", "b"], "concurrency: 2, affinity: {header: x-session}");
    let headers = HeaderMap::from_iter([(
        http::HeaderName::from_static("x-session"),
        http::HeaderValue::from_static("one"),
    )]);
    let wants = Wants {
        session: pool.session(&headers),
        tokens: 1,
    };
    let leases: Vec<_> = (0..4)
        .map(|_| pool.lease(&[], wants, T0).unwrap())
        .collect();
    let index: Vec<_> = leases.iter().map(Lease::index).collect();
    assert_eq!(index[0], index[1], "the session's own while it has a place");
    assert_eq!(index[2], index[3], "then the other one");
    assert_ne!(index[0], index[2]);
}

#[test]
fn a_repeat_goes_elsewhere_while_there_is_an_elsewhere() {
    let pool = pool(&["a", "b"], "concurrency: 1");
    let tried = |tried: &[usize]| {
        let lease = pool.lease(tried, Wants::default(), T0).unwrap();
        lease.index()
    };
    assert_eq!(tried(&[0]), 1);
    let full = pool.lease(&[0], Wants::default(), T0).unwrap();
    assert_eq!(full.index(), 1);
    assert_eq!(tried(&[0]), 1, "a full one before the one that failed");
    assert!(pool.offers_another(&[0], T0) && !pool.offers_another(&[0, 1], T0));
    tried(&[0, 1]);
    drain(&pool, "b", true, T0);
    assert!(!pool.offers_another(&[0], T0));
    assert_eq!(tried(&[0]), 0);
}

#[test]
fn capacity_is_the_credit_of_those_that_get_requests() {
    let pool = pool(&["a", "b", "c"], "concurrency: 4");
    assert_eq!(pool.capacity(T0), Some(12));
    fail(&pool, 0, T0);
    assert_eq!(pool.capacity(T0), Some(8));
    assert_eq!(pool.capacity(later(11)), Some(12));
    drain(&pool, "b", true, T0);
    drain(&pool, "c", true, T0);
    assert_eq!(
        pool.capacity(T0),
        Some(4),
        "the ejected one is better than none"
    );
    assert_eq!(lease(&pool, T0).index(), 0);
    assert!(pool.open(T0).is_ok());
    drain(&pool, "a", true, T0);
    assert_eq!(pool.capacity(T0), Some(0));
    assert!(pool.open(T0).is_err() && pool.lease(&[], Wants::default(), T0).is_none());
    drain(&pool, "b", false, T0);
    assert_eq!(lease(&pool, T0).index(), 1);
}

#[test]
fn where_none_is_well_those_that_failed_their_probes_serve() {
    let pool = pool(
        &["a", "b", "c"],
        "concurrency: 4, health: {unhealthy_after: 1}",
    );
    drain(&pool, "c", true, T0);
    pool.probed(0, Err("silent".to_owned()), T0);
    assert_eq!(pool.capacity(T0), Some(4));
    assert_eq!(lease(&pool, T0).index(), 1);
    pool.probed(1, Err("silent".to_owned()), T0);
    assert_eq!(pool.capacity(T0), Some(8), "a probe can be wrong");
    assert!(pool.offers_another(&[0], T0) && !pool.offers_another(&[0, 1], T0));
    let tried = pool.lease(&[0], Wants::default(), T0).unwrap();
    assert_eq!(tried.index(), 1);
}

#[test]
fn ejection_takes_no_more_than_half_of_a_pool_nor_its_last_endpoint() {
    for (names, most) in [
        (&["a", "b", "c", "d", "e"][..], 2),
        (&["a", "b"], 1),
        (&["a"], 0),
    ] {
        let pool = pool(names, "");
        for index in 0..names.len() {
            fail(&pool, index, T0);
        }
        let ejected = |now| {
            states(&pool, now)
                .iter()
                .filter(|s| **s == "ejected")
                .count()
        };
        assert_eq!(ejected(T0), most, "{names:?}");
        assert_eq!(ejected(later(10)), 0);
    }
    let pool = pool(&["a", "b", "c", "d"], "");
    for name in ["a", "b", "c"] {
        drain(&pool, name, true, T0);
    }
    fail(&pool, 3, T0);
    assert_eq!(states(&pool, T0)[3], "well");
}

#[test]
fn answers_between_failures_eject_nobody() {
    let pool = pool(&["a", "b"], "");
    for _ in 0..20 {
        pool.judge(0, Sign::Failed, T0);
        pool.judge(0, Sign::Failed, T0);
        pool.judge(0, Sign::Began, T0);
    }
    assert_eq!(states(&pool, T0), ["well", "well"]);
}

#[test]
fn one_that_warms_up_gets_less_than_its_share() {
    let pool = pool(&["a", "b"], "slow_start: 100s");
    drain(&pool, "a", true, T0);
    drain(&pool, "a", false, later(1));
    let of_a = |now| {
        let taken = (0..120).filter(|_| lease(&pool, now).index() == 0);
        taken.count()
    };
    assert!(of_a(later(2)).abs_diff(120 / 11) <= 1);
    assert!(of_a(later(51)).abs_diff(40) <= 1);
    assert!(of_a(later(102)).abs_diff(60) <= 1);
}

#[test]
fn probes_take_an_endpoint_out_and_in_and_are_asked_for_when_due() {
    let pool = pool(
        &["a", "b"],
        "health: {interval: 5s, healthy_after: 1, unhealthy_after: 1}",
    );
    assert_eq!(pool.to_probe(T0), [0, 1]);
    assert_eq!(pool.to_probe(later(9)), [0_usize; 0], "they are under way");
    pool.probed(0, Err("/health answered 503".to_owned()), later(9));
    pool.probed(1, Ok(()), later(10));
    assert_eq!(states(&pool, later(10)), ["unhealthy", "well"]);
    assert_eq!(pool.show(later(10)), Some(later(14)));
    assert_eq!(pool.to_probe(later(14)), [0]);
    pool.probed(0, Ok(()), later(15));
    assert_eq!(states(&pool, later(15)), ["well", "well"]);
}

#[test]
fn a_reload_keeps_how_an_endpoint_is_and_what_it_has() {
    let health = "health: {healthy_after: 1, unhealthy_after: 1}";
    let before = router(&["a", "b", "c"], health, None);
    let pool = before.pool("p").unwrap();
    pool.probed(0, Err("dead".to_owned()), T0);
    drain(pool, "b", true, T0);
    let open = pool.lease(&[], Wants::default(), T0).unwrap();
    assert_eq!(open.index(), 2);

    let next = router(&["new", "c", "b", "a"], health, Some(&before));
    let pool = next.pool("p").unwrap();
    assert_eq!(states(pool, T0), ["well", "well", "drained", "unhealthy"]);
    assert_eq!(pool.endpoints[1].load().0, 1);
    drop(open);
    assert_eq!(pool.endpoints[1].load().0, 0, "given back through both");

    // Nobody would ever find out that it is well again.
    let unprobed = router(&["a", "b"], "", Some(&next));
    let pool = unprobed.pool("p").unwrap();
    assert_eq!(states(pool, T0), ["well", "drained"]);
}

#[test]
fn metrics_show_the_endpoints_that_are_configured() {
    let metrics = Metrics::new([], []).unwrap();
    let before = Router::new(&config(&["a", "b"], ""), None, &metrics);
    let pool = before.pool("p").unwrap();
    let _open = lease(pool, T0);
    drain(pool, "b", true, T0);
    pool.show(T0);
    let text = metrics.render().unwrap();
    for line in [
        r#"endpoint_up{endpoint="a",pool="p"} 1"#,
        r#"endpoint_up{endpoint="b",pool="p"} 0"#,
        r#"endpoint_requests{endpoint="a",pool="p"} 1"#,
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    let _after = Router::new(&config(&["a"], ""), Some(&before), &metrics);
    let text = metrics.render().unwrap();
    assert!(text.contains(r#"endpoint="a""#) && !text.contains(r#"endpoint="b""#));
}

#[test]
fn a_request_counts_once_against_its_endpoint() {
    let pool = pool(&["a", "b"], "ejection: {consecutive_failures: 2}");
    let mut failing = lease(&pool, MonoNs::now());
    failing.failed();
    failing.failed();
    failing.ended();
    assert_eq!(states(&pool, MonoNs::now()), ["well", "well"]);
    failing.stage = Stage::Fresh;
    failing.failed();
    assert_eq!(pool.endpoints[0].ejections(), 1);

    let mut breaking = lease(&pool, MonoNs::now());
    assert_eq!(breaking.index(), 1);
    for _ in 0..2 {
        breaking.began();
        breaking.failed();
    }
    assert_eq!(
        states(&pool, MonoNs::now()),
        ["ejected", "well"],
        "the last one"
    );
}
