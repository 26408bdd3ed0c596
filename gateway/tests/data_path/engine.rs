//! A scripted engine: what it was sent, byte by byte, and what it does about it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};

/// What an engine does with a request.
#[derive(Clone)]
pub enum Do {
    /// Writes these bytes.
    Write(Vec<u8>),
    /// Waits until the other side closes.
    AwaitClose,
    /// Waits until it is told to go on.
    Hold(Arc<Notify>),
    /// Works for so long, counted among the requests in work.
    Work(Arc<Load>, Duration),
    /// Writes these bytes so many times, and counts them.
    Flood(Vec<u8>, usize, Arc<AtomicU64>),
    /// Closes.
    Close,
    /// Closes with a reset.
    Reset,
}

/// How many requests an engine has in work, and the most it had.
#[derive(Debug, Default)]
pub struct Load {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Load {
    pub fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

/// A request as it came.
#[derive(Debug)]
pub struct Request {
    pub head: String,
    pub body: Vec<u8>,
}

/// Something that happened to an engine.
#[derive(Debug)]
pub enum Event {
    Request(Request),
    /// The gateway closed a connection.
    Closed,
}

pub struct Engine {
    pub address: SocketAddr,
    pub events: mpsc::UnboundedReceiver<Event>,
}

impl Engine {
    /// Request `i` of the engine's life gets `scripts[i]`, the last script again and again.
    pub async fn start(scripts: Vec<Vec<Do>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, events) = mpsc::unbounded_channel();
        let served = Arc::new(AtomicUsize::new(0));
        let scripts = Arc::new(scripts);
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let (sender, scripts, served) = (sender.clone(), scripts.clone(), served.clone());
                tokio::spawn(async move {
                    serve(tcp, &scripts, &served, &sender).await;
                });
            }
        });
        Self { address, events }
    }

    pub async fn request(&mut self) -> Request {
        loop {
            match self.events.recv().await.unwrap() {
                Event::Request(request) => return request,
                Event::Closed => {}
            }
        }
    }

    pub async fn closed(&mut self) {
        while !matches!(self.events.recv().await.unwrap(), Event::Closed) {}
    }
}

async fn serve(
    mut tcp: TcpStream,
    scripts: &[Vec<Do>],
    served: &AtomicUsize,
    events: &mpsc::UnboundedSender<Event>,
) {
    let mut pending = Vec::new();
    while let Some((head, body)) = read_request(&mut tcp, &mut pending).await {
        let i = served.fetch_add(1, Ordering::SeqCst);
        let _ = events.send(Event::Request(Request { head, body }));
        for step in &scripts[i.min(scripts.len() - 1)] {
            match step {
                Do::Write(bytes) => {
                    if tcp.write_all(bytes).await.is_err() {
                        break;
                    }
                }
                Do::AwaitClose => {
                    let _ = tcp.read(&mut [0; 1]).await;
                    let _ = events.send(Event::Closed);
                    return;
                }
                Do::Hold(go_on) => go_on.notified().await,
                Do::Work(load, time) => {
                    let now = load.now.fetch_add(1, Ordering::SeqCst) + 1;
                    load.most.fetch_max(now, Ordering::SeqCst);
                    tokio::time::sleep(*time).await;
                    load.now.fetch_sub(1, Ordering::SeqCst);
                }
                Do::Flood(bytes, times, written) => {
                    for _ in 0..*times {
                        if tcp.write_all(bytes).await.is_err() {
                            break;
                        }
                        written.fetch_add(bytes.len() as u64, Ordering::SeqCst);
                    }
                }
                Do::Close => return,
                Do::Reset => {
                    let _ = tcp.set_zero_linger();
                    return;
                }
            }
        }
    }
    let _ = events.send(Event::Closed);
}

/// The next request; its body has a length, for the gateway never sends chunks.
async fn read_request(tcp: &mut TcpStream, pending: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    let head_end = loop {
        if let Some(at) = pending.windows(4).position(|w| w == b"\r\n\r\n") {
            break at + 4;
        }
        read_more(tcp, pending).await?;
    };
    let head = String::from_utf8(pending[..head_end].to_vec()).unwrap();
    assert!(!head.to_lowercase().contains("transfer-encoding"));
    let length = head
        .lines()
        .find_map(|line| {
            line.to_lowercase()
                .strip_prefix("content-length: ")?
                .parse()
                .ok()
        })
        .unwrap_or(0);
    while pending.len() < head_end + length {
        read_more(tcp, pending).await?;
    }
    let body = pending[head_end..head_end + length].to_vec();
    pending.drain(..head_end + length);
    Some((head, body))
}

async fn read_more(tcp: &mut TcpStream, pending: &mut Vec<u8>) -> Option<()> {
    let mut buf = vec![0; 64 * 1024];
    let n = tcp.read(&mut buf).await.ok().filter(|n| *n > 0)?;
    pending.extend_from_slice(&buf[..n]);
    Some(())
}

/// A wait, and what ends it.
pub fn hold() -> (Do, Arc<Notify>) {
    let go_on = Arc::new(Notify::new());
    (Do::Hold(go_on.clone()), go_on)
}

/// An event of a chat stream.
pub fn event(content: &str) -> String {
    format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{content}\"}},\"finish_reason\":null}}]}}\n\n"
    )
}

/// The head of an event stream.
pub fn stream_head() -> Do {
    Do::Write(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            .to_vec(),
    )
}

/// One HTTP chunk.
pub fn chunk(body: impl AsRef<[u8]>) -> Do {
    let body = body.as_ref();
    let mut bytes = format!("{:x}\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    bytes.extend_from_slice(b"\r\n");
    Do::Write(bytes)
}

/// The last chunk.
pub fn last_chunk() -> Do {
    Do::Write(b"0\r\n\r\n".to_vec())
}

/// A whole JSON answer.
pub fn json(body: &str) -> Do {
    Do::Write(
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes(),
    )
}
