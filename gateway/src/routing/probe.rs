//! Asking an engine whether it is well, again and again.
//!
//! A probe is a GET of the configured path over a connection of its own; a status of 2xx is good,
//! everything else (a 503 while a model loads, silence, a refused connection) is not. Not
//! `/v1/models` by default: engines answer that before they can serve.

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use inferscope_shared::clock::MonoNs;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::Pool;
use crate::config::HealthConfig;

/// Probes every endpoint of `pool` until the pool is gone.
pub(super) async fn watch(pool: Weak<Pool>, config: HealthConfig) {
    let mut tick = tokio::time::interval(config.interval);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let Some(pool) = pool.upgrade() else { return };
        let probes = (0..pool.endpoints.len()).map(|i| {
            let (pool, config) = (Arc::clone(&pool), config.clone());
            tokio::spawn(async move {
                let ok = probe(&pool, i, &config).await;
                if let Err(error) = &ok {
                    let (pool, endpoint) = (&pool.name, &pool.endpoints[i].name);
                    tracing::debug!(%pool, %endpoint, %error, "a health probe failed");
                }
                pool.probed(i, ok.is_ok(), &config, MonoNs::now());
            })
        });
        for probe in probes.collect::<Vec<_>>() {
            let _ = probe.await;
        }
    }
}

async fn probe(pool: &Pool, i: usize, config: &HealthConfig) -> io::Result<()> {
    tokio::time::timeout(config.timeout, ask(pool, i, config)).await?
}

async fn ask(pool: &Pool, i: usize, config: &HealthConfig) -> io::Result<()> {
    let endpoint = &pool.endpoints[i];
    let (address, _) = endpoint.address.resolve(config.timeout).await?;
    let mut tcp = TcpStream::connect(address).await?;
    let credential = pool.credential.as_ref().and_then(|c| c.to_str().ok());
    let credential = credential.map_or(String::new(), |c| format!("authorization: {c}\r\n"));
    let request = format!(
        "GET {}{} HTTP/1.1\r\nhost: {}\r\n{credential}user-agent: inferscope-gateway\r\nconnection: close\r\n\r\n",
        endpoint.base_path,
        config.path,
        endpoint.address.authority()
    );
    tcp.write_all(request.as_bytes()).await?;
    // "HTTP/1.1 200" is all that is needed of the answer.
    let mut status = [0; 12];
    tcp.read_exact(&mut status).await?;
    match &status {
        [
            b'H',
            b'T',
            b'T',
            b'P',
            b'/',
            b'1',
            b'.',
            _,
            b' ',
            b'2',
            _,
            _,
        ] => Ok(()),
        other => Err(io::Error::other(format!(
            "answered {}",
            String::from_utf8_lossy(other)
        ))),
    }
}

/// How long until something about `pool` may change by itself: looks again then.
pub(super) fn look_again(pool: &Arc<Pool>, after: Duration) {
    let pool = Arc::downgrade(pool);
    tokio::spawn(async move {
        tokio::time::sleep(after).await;
        if let Some(pool) = pool.upgrade() {
            pool.tell_line(MonoNs::now());
        }
    });
}
