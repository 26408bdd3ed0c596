//! A raw HTTP/1.1 client that hides nothing: exact bytes out, chunks as framed in.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use inferscope_fake_engine::Handle;
use serde_json::Value;

/// Longer than anything here should take.
pub const LIMIT: Duration = Duration::from_secs(20);

pub struct Client {
    pub stream: TcpStream,
    seen: Vec<u8>,
}

/// A response as framed.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub head: String,
    /// The body's chunks, or its one piece when it had a length.
    pub pieces: Vec<Vec<u8>>,
}

impl Response {
    pub fn body(&self) -> Vec<u8> {
        self.pieces.concat()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body()).unwrap()
    }

    /// The data of each piece, which must be one event.
    pub fn events(&self) -> Vec<String> {
        self.pieces.iter().map(|piece| event_data(piece)).collect()
    }

    /// The JSON events, without `[DONE]`.
    pub fn json_events(&self) -> Vec<Value> {
        self.events()
            .iter()
            .filter(|data| *data != "[DONE]")
            .map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }
}

fn event_data(piece: &[u8]) -> String {
    let text = std::str::from_utf8(piece).unwrap();
    let block = text.strip_suffix("\n\n").unwrap();
    assert!(!block.contains("\n\n"), "two events in a chunk: {text}");
    let data = block.lines().find_map(|line| line.strip_prefix("data: "));
    data.unwrap().to_owned()
}

impl Client {
    pub fn new(engine: &Handle) -> Self {
        let stream = TcpStream::connect(engine.addr()).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        Self {
            stream,
            seen: Vec::new(),
        }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    pub fn post(&mut self, path: &str, body: &str) -> Response {
        self.send(post(path, body));
        self.response()
    }

    pub fn get(&mut self, path: &str) -> Response {
        self.send(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n"));
        self.response()
    }

    fn more(&mut self) {
        let mut buffer = [0; 65_536];
        let n = self.stream.read(&mut buffer).unwrap();
        assert_ne!(
            n,
            0,
            "closed after {:?}",
            String::from_utf8_lossy(&self.seen)
        );
        self.seen.extend_from_slice(&buffer[..n]);
    }

    /// Takes `n` bytes.
    pub fn take(&mut self, n: usize) -> Vec<u8> {
        while self.seen.len() < n {
            self.more();
        }
        self.seen.drain(..n).collect()
    }

    /// Takes bytes up to and with the next CRLF, or the next empty line.
    fn take_to(&mut self, end: &[u8]) -> String {
        loop {
            if let Some(at) = self.seen.windows(end.len()).position(|w| w == end) {
                return String::from_utf8(self.take(at + end.len())).unwrap();
            }
            self.more();
        }
    }

    pub fn head(&mut self) -> String {
        self.take_to(b"\r\n\r\n")
    }

    /// One HTTP chunk; empty for the last one, whose end is taken too.
    pub fn chunk(&mut self) -> Vec<u8> {
        let size = self.take_to(b"\r\n");
        let size = usize::from_str_radix(size.trim_end(), 16).unwrap();
        let mut piece = self.take(size + 2);
        assert!(piece.ends_with(b"\r\n"));
        piece.truncate(size);
        piece
    }

    pub fn response(&mut self) -> Response {
        let head = self.head();
        let field = |name: &str| {
            head.lines().find_map(|line| {
                line.strip_prefix(name)?
                    .strip_prefix(": ")
                    .map(str::to_owned)
            })
        };
        let pieces = if field("transfer-encoding").as_deref() == Some("chunked") {
            std::iter::from_fn(|| Some(self.chunk()).filter(|piece| !piece.is_empty())).collect()
        } else {
            let length = field("content-length").unwrap().parse().unwrap();
            vec![self.take(length)]
        };
        Response {
            status: head[9..12].parse().unwrap(),
            head,
            pieces,
        }
    }

    /// All that comes until the connection ends, and how it ends.
    pub fn rest(mut self) -> (Vec<u8>, std::io::Result<()>) {
        let result = self.stream.read_to_end(&mut self.seen).map(|_| ());
        (self.seen, result)
    }
}

pub fn post(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A streamed chat request for so many tokens.
pub fn chat(tokens: u64) -> String {
    format!(
        r#"{{"messages":[{{"role":"user","content":"a b c"}}],"stream":true,"max_tokens":{tokens}}}"#
    )
}
