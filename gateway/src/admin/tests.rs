//! Both ports over real sockets.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::config::{Admin, Config, Endpoint, Quick, Secret};
use crate::metrics::sample_record;
use crate::server::{Phase, Services};

struct Ports {
    current: Current,
    phase: watch::Sender<Phase>,
    metrics: SocketAddr,
    admin: SocketAddr,
}

async fn ports(token: Option<&str>) -> Ports {
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let mut config = Config::quick(Quick {
        upstream: Endpoint::parse("http://127.0.0.1:9").unwrap(),
        listen: any,
        metrics: Some(any),
        admin: None,
        records: None,
        hash: false,
    });
    config.admin = Some(Admin {
        addr: any,
        token: token.map(|token| Secret::new(token.to_owned())),
    });
    let (phase, watched) = watch::channel(Phase::Serving);
    let current = Current::new(Services::new(Arc::new(config), watched).unwrap());
    let reloader = Arc::new(Reloader::new(None, current.clone()));
    let (metrics, admin) = serve(&current, &reloader).await.unwrap();
    Ports {
        current,
        phase,
        metrics: metrics.unwrap(),
        admin: admin.unwrap(),
    }
}

/// Status and body of one request.
async fn ask(at: SocketAddr, line: &str, headers: &str) -> (u16, String) {
    let mut tcp = TcpStream::connect(at).await.unwrap();
    let request = format!("{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n");
    tcp.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    tcp.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_metrics_port_serves_its_three_pages_and_nothing_else() {
    let ports = ports(None).await;
    let (status, text) = ask(ports.metrics, "GET /metrics", "").await;
    assert_eq!(status, 200);
    assert!(text.contains("inferscope_gateway_build_info{version="));
    assert_eq!(ask(ports.metrics, "GET /livez", "").await.0, 200);
    assert_eq!(ask(ports.metrics, "GET /readyz", "").await.0, 200);
    assert_eq!(ask(ports.metrics, "GET /status", "").await.0, 404);
    assert_eq!(ask(ports.metrics, "GET /records", "").await.0, 404);
    assert_eq!(
        ask(ports.metrics, "POST /metrics", "content-length: 0\r\n")
            .await
            .0,
        405
    );
    assert_eq!(
        ask(ports.metrics, "HEAD /livez", "").await,
        (200, String::new())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_goes_off_with_the_drain_and_liveness_stays() {
    let ports = ports(None).await;
    ports.phase.send(Phase::Draining).unwrap();
    assert_eq!(ask(ports.metrics, "GET /readyz", "").await.0, 503);
    assert_eq!(ask(ports.metrics, "GET /livez", "").await.0, 200);
    assert!(
        ask(ports.admin, "GET /status", "")
            .await
            .1
            .contains("\"draining\"")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn o11_the_admin_port_opens_with_its_token_only() {
    let ports = ports(Some("hunter2")).await;
    for headers in [
        "",
        "authorization: Bearer hunter3\r\n",
        "authorization: hunter2\r\n",
    ] {
        for page in ["GET /status", "GET /records", "GET /nope"] {
            assert_eq!(
                ask(ports.admin, page, headers).await.0,
                401,
                "{page} {headers}"
            );
        }
    }
    let good = "authorization: bearer hunter2\r\n";
    assert_eq!(ask(ports.admin, "GET /status", good).await.0, 200);
    assert_eq!(ask(ports.admin, "GET /nope", good).await.0, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_served_by_prefix_behind_a_header() {
    let ports = ports(None).await;
    for _ in 0..3 {
        ports.current.get().records.submit(sample_record());
    }
    let (status, text) = ask(ports.admin, "GET /records?prefix=run.gateway%2Ec1", "").await;
    assert_eq!((status, text.lines().count()), (200, 4));
    assert!(text.starts_with("{\"header\":"));
    assert_eq!(
        ask(ports.admin, "GET /records?prefix=other", "")
            .await
            .1
            .lines()
            .count(),
        1
    );
    assert_eq!(ask(ports.admin, "GET /records?limit=1", "").await.0, 400);
}
