//! An engine that is alive and takes its time to say so.

use std::io::{Read as _, Write as _, copy};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use inferscope_tests::engine;
use inferscope_tests::load::Lab;

/// Longer than a single probe waits.
const SLOW: Duration = Duration::from_secs(3);

/// What came by a [`porch`].
#[derive(Default)]
struct Seen {
    completion: AtomicBool,
    slow_probe: AtomicBool,
}

/// A door in front of `engine` that passes everything on at once, except the first question for
/// its models after a completion.
fn porch(engine: SocketAddr) -> Result<(SocketAddr, Arc<Seen>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let seen = Arc::new(Seen::default());
    let shared = Arc::clone(&seen);
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let seen = Arc::clone(&shared);
            thread::spawn(move || pass(client, engine, &seen));
        }
    });
    Ok((address, seen))
}

fn pass(mut client: TcpStream, engine: SocketAddr, seen: &Seen) -> Option<()> {
    let mut inner = TcpStream::connect(engine).ok()?;
    inner.set_nodelay(true).ok()?;
    client.set_nodelay(true).ok()?;
    let (mut back, mut out) = (inner.try_clone().ok()?, client.try_clone().ok()?);
    thread::spawn(move || {
        let _ = copy(&mut back, &mut out);
        let _ = out.shutdown(std::net::Shutdown::Both);
    });
    let mut buffer = [0; 64 * 1024];
    loop {
        let n = client.read(&mut buffer).ok().filter(|n| *n > 0)?;
        let bytes = &buffer[..n];
        if bytes.starts_with(b"POST /v1/chat/completions") {
            seen.completion.store(true, Ordering::SeqCst);
        }
        let asks = bytes.starts_with(b"GET /v1/models") && seen.completion.load(Ordering::SeqCst);
        if asks && !seen.slow_probe.swap(true, Ordering::SeqCst) {
            thread::sleep(SLOW);
        }
        inner.write_all(bytes).ok()?;
    }
}

#[test]
fn an_engine_that_lists_its_models_slowly_is_not_dead() -> Result<()> {
    let engine = engine::paced(2, 1)?;
    let (door, seen) = porch(engine.addr())?;
    let url = format!("http://{door}");
    let lab = Lab::new()?;
    let flags = ["--direct-url", &url, "--model", "fake-model"];
    let load = ["--concurrency", "1", "--requests", "20"];
    let run = lab.run("slow", &[&flags[..], &load].concat())?;
    ensure!(
        seen.slow_probe.load(Ordering::SeqCst),
        "nobody asked for the models after the point"
    );
    run.sound()?;
    ensure!(run.gate("engine_alive")? == ["PASS"]);
    Ok(())
}
