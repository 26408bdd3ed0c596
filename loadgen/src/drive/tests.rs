use std::io::Write;
use std::net::{SocketAddr, TcpListener};

use inferscope_shared::record::request::{Outcome, RequestRecord};

use super::*;
use crate::artifacts::layout::Roots;
use crate::artifacts::writer::Writer;
use crate::client::exchange::tests::take_request;
use crate::config::settings::Settings;
use crate::plan::prompts::Vocabulary;

mod limits;

const ANSWER: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// A whole answer; `head` is more of its head.
fn whole(head: &str) -> String {
    let length = ANSWER.len();
    format!(
        "HTTP/1.1 200 OK\r\n{head}content-type: text/event-stream\r\ncontent-length: {length}\r\n\r\n{ANSWER}"
    )
}

/// A server that answers each request, or takes connections and never says a word.
fn server(answers: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut silent = Vec::new();
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            if !answers {
                silent.push(socket);
                continue;
            }
            take_request(&mut socket);
            let _ = socket.write_all(whole("connection: close\r\n").as_bytes());
        }
    });
    addr
}

/// Runs the one point of a plan by `how`; returns what that gave and the rows it left.
async fn drive<T>(
    addr: SocketAddr,
    settings: Settings,
    change: impl FnOnce(&mut Plan),
    how: impl AsyncFnOnce(&Arc<Session>, &Arc<Arm>, &Arc<Plan>, &Target) -> T,
) -> (T, Vec<RequestRecord>) {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = settings;
    settings.run_id = Some("r".to_owned());
    settings.direct.url = Some(format!("http://{addr}"));
    settings.model = Some("m".to_owned());
    settings.warmup = Some(0);
    let config = Arc::new(settings.resolve(false).unwrap());
    let mut plan = Plan::new(&config, Vocabulary::assumed(), None).unwrap();
    change(&mut plan);
    let plan = Arc::new(plan);
    let run = Roots::new(dir.path()).run("r");
    std::fs::create_dir_all(run.raw()).unwrap();
    let writer = Writer::start(&run, Arc::clone(&config), Arc::clone(&plan)).unwrap();
    let target = Target::parse(&config.arms[0].url).unwrap();
    let (_keep, interrupt) = watch::channel(false);
    let session = Arc::new(Session {
        config: Arc::clone(&config),
        sink: writer.sink(),
        gauges: Arc::default(),
        interrupt,
    });
    let timeouts = &config.timeouts;
    let arm = Arc::new(Arm {
        pool: Mutex::new(Pool::new(
            target.clone(),
            timeouts.connect,
            timeouts.keep_alive,
        )),
        probe: health::Probe {
            arm: target.clone(),
            engine: None,
            api_key: None,
            engine_key: None,
        },
    });
    let gave = how(&session, &arm, &plan, &target).await;
    assert_eq!(session.gauges.in_flight.load(Ordering::Relaxed), 0);
    drop(session);
    writer.finish().result.unwrap();
    let text = std::fs::read_to_string(run.requests()).unwrap();
    let rows = text.lines().map(|l| serde_json::from_str(l).unwrap());
    (gave, rows.collect())
}

async fn whole_point(
    session: &Arc<Session>,
    arm: &Arc<Arm>,
    plan: &Arc<Plan>,
    target: &Target,
) -> PointEnd {
    let config = Arc::clone(&session.config);
    let jobs = feed::start(config, Arc::clone(plan), 0, target.clone(), None).unwrap();
    run_point(session, arm, plan, 0, jobs).await
}

fn kinds(rows: &[RequestRecord], kind: &str) -> usize {
    rows.iter()
        .filter(|r| r.error_kind.as_deref() == Some(kind))
        .count()
}

#[tokio::test]
async fn no_burst_gets_past_the_limit_of_requests_in_flight() {
    let mut settings = Settings {
        rate: Some(vec![100_000.0]),
        arrival: Some(crate::config::Arrival::Constant),
        requests: Some(20),
        max_in_flight: Some(2),
        ..Settings::default()
    };
    settings.timeouts.total = Some(Duration::from_millis(300));
    let (end, rows) = drive(server(false), settings, |_| {}, whole_point).await;
    assert_eq!(end.stop_reason, StopReason::Requests);
    assert_eq!((end.planned, rows.len()), (20, 20));
    assert_eq!(kinds(&rows, "max_in_flight"), 18);
}

#[tokio::test]
async fn a_request_whose_task_is_lost_leaves_a_row() {
    let settings = Settings {
        requests: Some(1),
        ..Settings::default()
    };
    let lose = async |session: &Arc<Session>, arm: &Arc<Arm>, plan: &Arc<Plan>, _: &Target| {
        let running = Running::new(session, arm, plan, 0);
        drop(running.take_up(0, MonoNs::now(), None));
    };
    let ((), rows) = drive(server(false), settings, |_| {}, lose).await;
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].outcome, Outcome::Failed);
    assert_eq!(rows[0].request_id, "r.direct.c1.0");
    assert_eq!(kinds(&rows, "client_panic"), 1);
}

#[tokio::test]
async fn a_pool_that_is_used_up_before_its_time_is_named() {
    let settings = Settings {
        duration: Some(Duration::from_secs(3_600)),
        ..Settings::default()
    };
    let shorten = |plan: &mut Plan| plan.points[0].arrivals.truncate(3);
    let (end, rows) = drive(server(true), settings, shorten, whole_point).await;
    assert_eq!(end.stop_reason, StopReason::PoolExhausted);
    assert_eq!((end.planned, rows.len()), (3, 3));
    assert!(rows.iter().all(|r| r.outcome == Outcome::Ok), "{rows:?}");
}

#[tokio::test]
async fn m27_what_a_closed_loop_did_not_issue_in_time_was_not_planned() {
    let settings = Settings {
        requests: Some(1_000),
        duration: Some(Duration::from_micros(1)),
        ..Settings::default()
    };
    let (end, rows) = drive(server(true), settings, |_| {}, whole_point).await;
    assert_eq!(end.stop_reason, StopReason::Duration);
    assert_eq!(end.planned, rows.len() as u64);
    assert_eq!(kinds(&rows, "duration"), 0);
    assert!(rows.len() < 1_000);
}
