//! The gateway in this process, and a client that sees bytes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use inferscope_gateway::config::Config;
use inferscope_gateway::server::{
    Current, DataPorts, Phase, ReloadError, Reloaded, Reloader, Services,
};
use inferscope_shared::record::gateway::GatewayRecord;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::engine::Engine;

/// Nothing in these tests takes this long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// An address where nobody listens.
pub async fn closed_port() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap()
}

/// An engine whose connections are never accepted: a connect to it waits.
pub struct Unreachable {
    pub address: SocketAddr,
    _listener: std::os::fd::OwnedFd,
    _queued: Vec<std::net::TcpStream>,
}

impl Unreachable {
    pub fn start() -> Self {
        use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        bind(&socket, &any).unwrap();
        listen(&socket, 0).unwrap();
        let address = getsockname(&socket).unwrap().try_into().unwrap();
        // As many as its queue takes; the next one is not answered.
        let mut queued = Vec::new();
        while let Ok(stream) =
            std::net::TcpStream::connect_timeout(&address, Duration::from_millis(200))
        {
            queued.push(stream);
        }
        Self {
            address,
            _listener: socket,
            _queued: queued,
        }
    }
}

pub struct Gateway {
    address: SocketAddr,
    current: Current,
    /// Holds `gateway.yaml`, which a reload reads.
    folder: tempfile::TempDir,
    reloader: Reloader,
    phase: watch::Sender<Phase>,
    serving: JoinHandle<()>,
    taken: AtomicUsize,
}

impl Gateway {
    /// A gateway in front of `engine`; `extra` is more configuration, or a port's `half_close`.
    pub async fn start(engine: &Engine, extra: &str) -> Self {
        Self::at(&[format!("http://{}", engine.address)], extra).await
    }

    /// A gateway in front of a pool of endpoints, the first of which gets the first request.
    pub async fn at(urls: &[String], extra: &str) -> Self {
        Self::with(urls, "{mode: none}", "", extra).await
    }

    /// A gateway whose records go where `records` says.
    pub async fn with_records(urls: &[String], records: &str) -> Self {
        Self::configured(urls, "{mode: none}", "", records, "").await
    }

    /// A gateway for callers of `auth`; `pool` is more of the pool's configuration.
    pub async fn with(urls: &[String], auth: &str, pool: &str, extra: &str) -> Self {
        Self::configured(urls, auth, pool, "records: {hash: true}", extra).await
    }

    async fn configured(
        urls: &[String],
        auth: &str,
        pool: &str,
        records: &str,
        extra: &str,
    ) -> Self {
        let (half_close, extra) = match extra.strip_prefix("half_close: ") {
            Some(word) => (word.trim(), ""),
            None => ("gone", extra),
        };
        let endpoints: String = urls
            .iter()
            .map(|url| format!("{{url: \"{url}\"}}, "))
            .collect();
        let text = format!(
            "version: 1\nlisten: [{{addr: \"127.0.0.1:0\", half_close: {half_close}}}]\nauth: {auth}\n{records}\npools: {{p: {{endpoints: [{endpoints}], {pool}}}}}\n{extra}"
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gateway.yaml");
        std::fs::write(&path, text).unwrap();
        let config = Arc::new(Config::load(&path).unwrap());
        let (phase, watched) = watch::channel(Phase::Serving);
        let current = Current::new(Services::new(config, watched).unwrap());
        let ports = DataPorts::bind(&current).await.unwrap();
        let address = ports.addresses()[0];
        Self {
            address,
            reloader: Reloader::new(Some(path), current.clone()),
            folder,
            current,
            phase,
            serving: tokio::spawn(ports.serve()),
            taken: AtomicUsize::new(0),
        }
    }

    /// The next record, in the order in which they were written.
    pub async fn record(&self) -> GatewayRecord {
        let i = self.taken.fetch_add(1, Ordering::SeqCst);
        let waiting = async {
            loop {
                let current = self.current.clone();
                let lines = tokio::task::spawn_blocking(move || current.get().records.query(None))
                    .await
                    .unwrap();
                let mut lines = lines
                    .split(|&b| b == b'\n')
                    .skip(1)
                    .filter(|l| !l.is_empty());
                if let Some(line) = lines.nth(i) {
                    return serde_json::from_slice(line).unwrap();
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.unwrap()
    }

    /// Changes the configuration's text and reloads it.
    pub fn reload(&self, change: impl FnOnce(String) -> String) -> Result<Reloaded, ReloadError> {
        let path = self.folder.path().join("gateway.yaml");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, change(text)).unwrap();
        self.reloader.reload()
    }

    /// The metrics, and the value of one of them.
    pub fn metric(&self, series: &str) -> f64 {
        let text = self.current.get().metrics.render().unwrap();
        let line = text.lines().find_map(|line| {
            line.strip_prefix("inferscope_gateway_")?
                .strip_prefix(series)
        });
        line.map_or(0.0, |value| value.trim().parse().unwrap())
    }

    /// Waits until a metric has this value.
    pub async fn until(&self, series: &str, value: f64) {
        let waiting = async {
            while self.metric(series) != value {
                tokio::task::yield_now().await;
            }
        };
        let _ = tokio::time::timeout(PATIENCE, waiting).await;
        assert_eq!(self.metric(series), value, "{series}");
    }

    /// Takes an endpoint out as an operator does, or in again.
    pub fn drain_endpoint(&self, name: &str, drained: bool) {
        let router = &self.current.get().router;
        router.drain("p", name, drained).unwrap();
    }

    /// Requests under limits, with a place, and in line, over all accounts and pools.
    pub fn held(&self) -> [u64; 3] {
        let services = self.current.get();
        let limits = services.admission.limits.in_flight();
        let lines = services.admission.queue.counts();
        [
            limits.iter().map(|(_, _, n)| n).sum(),
            lines.iter().map(|(_, places, _)| places).sum(),
            lines.iter().map(|(_, _, waiting)| waiting).sum(),
        ]
    }

    pub fn drain(&self) {
        self.phase.send(Phase::Draining).unwrap();
    }

    pub fn cut(&self) {
        self.phase.send(Phase::Cut).unwrap();
    }

    pub fn ended(&self) -> bool {
        self.serving.is_finished()
    }

    pub async fn wait(self) {
        tokio::time::timeout(PATIENCE, self.serving)
            .await
            .unwrap()
            .unwrap();
    }
}

/// An answer as it came off the wire.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
    /// Its framing ended as HTTP says.
    pub whole: bool,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

pub struct Client {
    tcp: TcpStream,
    pending: Vec<u8>,
}

impl Client {
    pub async fn connect(gateway: &Gateway) -> Self {
        Self {
            tcp: TcpStream::connect(gateway.address).await.unwrap(),
            pending: Vec::new(),
        }
    }

    /// The same, unless nobody listens any more.
    pub async fn try_connect(gateway: &Gateway) -> Option<Self> {
        let tcp = TcpStream::connect(gateway.address).await.ok()?;
        Some(Self {
            tcp,
            pending: Vec::new(),
        })
    }

    /// Asks, and takes what comes, if anything does.
    pub async fn try_ask(&mut self, body: &str) -> std::io::Result<usize> {
        let request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.tcp.write_all(request.as_bytes()).await?;
        self.tcp.read(&mut [0; 4096]).await
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        self.tcp.write_all(bytes).await.unwrap();
    }

    /// Asks for a chat completion; `fields` are more header lines.
    pub async fn ask(&mut self, body: &str, fields: &str) {
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n{fields}content-length: {}\r\n\r\n",
            body.len()
        );
        self.send(head.as_bytes()).await;
        self.send(body.as_bytes()).await;
    }

    pub async fn ask_chunked(&mut self, body: &str, size: usize) {
        self.send(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n",
        )
        .await;
        for piece in body.as_bytes().chunks(size) {
            let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
            chunk.extend_from_slice(piece);
            chunk.extend_from_slice(b"\r\n");
            self.send(&chunk).await;
        }
        self.send(b"0\r\n\r\n").await;
    }

    /// Leaves with a reset.
    pub fn reset(self) {
        self.tcp.set_zero_linger().unwrap();
    }

    pub async fn shut_sending(&mut self) {
        self.tcp.shutdown().await.unwrap();
    }

    /// False at the end of the connection, reset or not.
    async fn more(&mut self) -> bool {
        let mut buf = [0; 16 * 1024];
        let read = tokio::time::timeout(PATIENCE, self.tcp.read(&mut buf)).await;
        match read.expect("the gateway hangs") {
            Ok(n @ 1..) => {
                self.pending.extend_from_slice(&buf[..n]);
                true
            }
            _ => false,
        }
    }

    pub async fn at_end(&mut self) -> bool {
        !self.more().await
    }

    /// Everything until the gateway closes.
    pub async fn remainder(&mut self) -> Vec<u8> {
        while self.more().await {}
        std::mem::take(&mut self.pending)
    }

    /// Everything up to and including `mark`.
    async fn until(&mut self, mark: &[u8]) -> Option<Vec<u8>> {
        loop {
            if let Some(at) = self.pending.windows(mark.len()).position(|w| w == mark) {
                return Some(self.pending.drain(..at + mark.len()).collect());
            }
            if !self.more().await {
                return None;
            }
        }
    }

    async fn exactly(&mut self, n: usize) -> (Vec<u8>, bool) {
        while self.pending.len() < n {
            if !self.more().await {
                return (std::mem::take(&mut self.pending), false);
            }
        }
        (self.pending.drain(..n).collect(), true)
    }

    /// Status and head of the next answer.
    pub async fn head(&mut self) -> (u16, String) {
        let head = self.until(b"\r\n\r\n").await.expect("no answer");
        let head = String::from_utf8(head).unwrap();
        (head[9..12].parse().unwrap(), head)
    }

    /// The next chunk of a chunked body; `None` when the connection ends before it is whole.
    pub async fn chunk(&mut self) -> Option<Vec<u8>> {
        let size = self.until(b"\r\n").await?;
        let size = usize::from_str_radix(std::str::from_utf8(&size).unwrap().trim(), 16).unwrap();
        let (mut chunk, whole) = self.exactly(size + 2).await;
        whole.then(|| {
            chunk.truncate(size);
            chunk
        })
    }

    /// The rest of a chunked body whose head was taken.
    pub async fn rest(&mut self) -> Answer {
        let (mut body, mut whole) = (Vec::new(), false);
        while let Some(chunk) = self.chunk().await {
            whole = chunk.is_empty();
            if whole {
                break;
            }
            body.extend_from_slice(&chunk);
        }
        Answer {
            status: 200,
            head: String::new(),
            body,
            whole,
        }
    }

    /// The next answer, to its end.
    pub async fn answer(&mut self) -> Answer {
        let (status, head) = self.head().await;
        let mut answer = Answer {
            status,
            head,
            body: Vec::new(),
            whole: false,
        };
        let length = answer.header("content-length").map(|n| n.parse().unwrap());
        if let Some(length) = length {
            (answer.body, answer.whole) = self.exactly(length).await;
        } else {
            let rest = self.rest().await;
            (answer.body, answer.whole) = (rest.body, rest.whole);
        }
        answer
    }
}
