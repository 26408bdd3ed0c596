//! A raw HTTP/1.1 client: exact bytes out, bytes in at the pace a test wants, and the end of a
//! connection told apart: clean, cut, or reset.
//!
//! It undoes framing by hand instead of through a library, because what a server does at the edges
//! is what the scenarios look at.

use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// No scenario waits longer than this for one read.
const READ_LIMIT: Duration = Duration::from_secs(30);

/// A request in the making.
#[derive(Debug, Clone)]
pub struct Request {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    chunk_size: Option<usize>,
}

impl Request {
    /// A `POST` with a JSON body.
    #[must_use]
    pub fn post(path: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            method: "POST".into(),
            path: path.into(),
            headers: vec![("content-type".into(), "application/json".into())],
            body: body.into(),
            chunk_size: None,
        }
    }

    /// A `GET`.
    #[must_use]
    pub fn get(path: &str) -> Self {
        Self {
            method: "GET".into(),
            path: path.into(),
            headers: vec![],
            body: vec![],
            chunk_size: None,
        }
    }

    /// Adds a header line.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sends the body in chunks of `size` bytes instead of with a length.
    #[must_use]
    pub fn chunked(mut self, size: usize) -> Self {
        self.chunk_size = Some(size);
        self
    }

    /// The bytes on the wire.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\nhost: test\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        match self.chunk_size {
            Some(_) => head.push_str("transfer-encoding: chunked\r\n"),
            None if self.body.is_empty() && self.method == "GET" => {}
            None => {
                let _ = write!(head, "content-length: {}\r\n", self.body.len());
            }
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        match self.chunk_size {
            Some(size) => {
                for piece in self.body.chunks(size.max(1)) {
                    bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                    bytes.extend_from_slice(piece);
                    bytes.extend_from_slice(b"\r\n");
                }
                bytes.extend_from_slice(b"0\r\n\r\n");
            }
            None => bytes.extend_from_slice(&self.body),
        }
        bytes
    }
}

/// How a body came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// As its framing promised.
    Clean,
    /// The connection ended before the framing did.
    Cut,
    /// The connection was reset.
    Reset,
}

/// An answer's status line and headers.
#[derive(Debug, Clone)]
pub struct Head {
    /// Status code.
    pub status: u16,
    /// Header lines in order, names in lower case.
    pub headers: Vec<(String, String)>,
}

impl Head {
    /// The first value of `name` (lower case).
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
    }
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Status line and headers.
    pub head: Head,
    /// Decoded body, as much of it as came.
    pub body: Vec<u8>,
    /// How the body ended.
    pub end: End,
}

impl Answer {
    /// Body as JSON.
    ///
    /// # Errors
    /// When it is none; the body is in the message.
    pub fn json(&self) -> Result<serde_json::Value> {
        serde_json::from_slice(&self.body)
            .with_context(|| format!("not JSON: {}", String::from_utf8_lossy(&self.body)))
    }
}

/// One connection.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    /// Bytes read and not yet consumed.
    buffer: Vec<u8>,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// When nobody listens.
    pub fn connect(to: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(to).with_context(|| format!("connecting to {to}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_LIMIT))?;
        stream.set_write_timeout(Some(READ_LIMIT))?;
        Ok(Self {
            stream,
            buffer: Vec::new(),
        })
    }

    /// Connects with a small receive buffer, so that a client that does not read fills it soon.
    ///
    /// # Errors
    /// When nobody listens.
    pub fn connect_narrow(to: SocketAddr, receive_buffer_bytes: usize) -> Result<Self> {
        use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};
        let fd = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        sockopt::set_socket_recv_buffer_size(&fd, receive_buffer_bytes)?;
        connect(&fd, &to)?;
        let stream = TcpStream::from(fd);
        stream.set_read_timeout(Some(READ_LIMIT))?;
        Ok(Self {
            stream,
            buffer: Vec::new(),
        })
    }

    /// Writes exactly these bytes.
    ///
    /// # Errors
    /// When the other side has closed.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(bytes)?)
    }

    /// Sends a request.
    ///
    /// # Errors
    /// When the other side has closed.
    pub fn send(&mut self, request: &Request) -> Result<()> {
        self.write(&request.bytes())
    }

    /// Sends FIN and goes on reading.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn half_close(&self) -> Result<()> {
        Ok(self.stream.shutdown(Shutdown::Write)?)
    }

    /// Ends the connection with a reset.
    ///
    /// # Errors
    /// When the option can't be set.
    pub fn reset(self) -> Result<()> {
        rustix::net::sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO))?;
        Ok(())
    }

    /// Reads once into the buffer; `None` when the connection has ended.
    fn fill(&mut self) -> Result<Option<End>> {
        let mut piece = [0; 65_536];
        match self.stream.read(&mut piece) {
            Ok(0) => Ok(Some(End::Cut)),
            Ok(n) => {
                self.buffer.extend_from_slice(&piece[..n]);
                Ok(None)
            }
            Err(e) if e.kind() == ErrorKind::ConnectionReset => Ok(Some(End::Reset)),
            Err(e) => Err(e).context("reading"),
        }
    }

    /// Reads whatever comes next, decoded by nobody; empty at the end.
    ///
    /// # Errors
    /// When the connection breaks.
    pub fn read_some(&mut self) -> Result<Vec<u8>> {
        if self.buffer.is_empty() {
            self.fill()?;
        }
        Ok(std::mem::take(&mut self.buffer))
    }

    /// Reads until the connection ends, and gives everything.
    ///
    /// # Errors
    /// When nothing comes for too long.
    pub fn read_to_end(&mut self) -> Result<(Vec<u8>, End)> {
        loop {
            if let Some(end) = self.fill()? {
                return Ok((std::mem::take(&mut self.buffer), end));
            }
        }
    }

    /// Reads an answer's head.
    ///
    /// # Errors
    /// When the connection ends before, or the head is no HTTP.
    pub fn read_head(&mut self) -> Result<Head> {
        loop {
            let mut lines = [httparse::EMPTY_HEADER; 64];
            let mut parsed = httparse::Response::new(&mut lines);
            if let httparse::Status::Complete(length) = parsed.parse(&self.buffer)? {
                let head = Head {
                    status: parsed.code.context("no status")?,
                    headers: parsed
                        .headers
                        .iter()
                        .map(|h| {
                            (
                                h.name.to_ascii_lowercase(),
                                String::from_utf8_lossy(h.value).into_owned(),
                            )
                        })
                        .collect(),
                };
                self.buffer.drain(..length);
                if head.status == 100 {
                    continue;
                }
                return Ok(head);
            }
            if let Some(end) = self.fill()? {
                bail!(
                    "the connection ended ({end:?}) before an answer's head: {:?}",
                    String::from_utf8_lossy(&self.buffer)
                );
            }
        }
    }

    /// Reads one answer; `on_piece` sees each piece of the decoded body with its instant.
    ///
    /// # Errors
    /// When there is no answer, or its framing is wrong.
    pub fn read_answer_with(&mut self, mut on_piece: impl FnMut(&[u8], Instant)) -> Result<Answer> {
        let head = self.read_head()?;
        let mut body = Vec::new();
        let mut take = |client: &mut Self, n: usize| {
            let piece: Vec<u8> = client.buffer.drain(..n).collect();
            on_piece(&piece, Instant::now());
            body.extend_from_slice(&piece);
        };
        let chunked = head
            .header("transfer-encoding")
            .is_some_and(|v| v.eq_ignore_ascii_case("chunked"));
        let length = head
            .header("content-length")
            .map(str::parse::<usize>)
            .transpose()?;
        let end = if chunked {
            self.read_chunks(&mut take)?
        } else {
            let mut left = match length {
                _ if matches!(head.status, 204 | 304) => 0,
                Some(length) => length,
                None => usize::MAX,
            };
            loop {
                let n = left.min(self.buffer.len());
                if n > 0 {
                    take(self, n);
                    left -= n;
                }
                if left == 0 {
                    break End::Clean;
                }
                if let Some(end) = self.fill()? {
                    // Without a length the connection's end is the body's.
                    break if length.is_none() && end == End::Cut {
                        End::Clean
                    } else {
                        end
                    };
                }
            }
        };
        Ok(Answer { head, body, end })
    }

    fn read_chunks(&mut self, take: &mut impl FnMut(&mut Self, usize)) -> Result<End> {
        loop {
            let line = match self.read_line()? {
                Ok(line) => line,
                Err(end) => return Ok(end),
            };
            let digits = line.split(';').next().unwrap_or_default().trim();
            let mut left = usize::from_str_radix(digits, 16)
                .with_context(|| format!("chunk size {line:?}"))?;
            let last = left == 0;
            while left > 0 {
                if self.buffer.is_empty()
                    && let Some(end) = self.fill()?
                {
                    return Ok(end);
                }
                let n = left.min(self.buffer.len());
                take(self, n);
                left -= n;
            }
            match self.read_line()? {
                Ok(rest) if rest.is_empty() && last => return Ok(End::Clean),
                Ok(rest) if rest.is_empty() => {}
                Ok(rest) => bail!("bytes after a chunk: {rest:?}"),
                Err(end) => return Ok(end),
            }
        }
    }

    fn read_line(&mut self) -> Result<Result<String, End>> {
        loop {
            if let Some(at) = self.buffer.windows(2).position(|w| w == b"\r\n") {
                let line: Vec<u8> = self.buffer.drain(..at + 2).take(at).collect();
                return Ok(Ok(String::from_utf8_lossy(&line).into_owned()));
            }
            if let Some(end) = self.fill()? {
                return Ok(Err(end));
            }
        }
    }

    /// Reads one answer.
    ///
    /// # Errors
    /// As [`Client::read_answer_with`].
    pub fn read_answer(&mut self) -> Result<Answer> {
        self.read_answer_with(|_, _| {})
    }
}

/// Sends one request on a connection of its own and reads the answer.
///
/// # Errors
/// As [`Client::connect`] and [`Client::read_answer_with`].
pub fn exchange(to: SocketAddr, request: &Request) -> Result<Answer> {
    let mut client = Client::connect(to)?;
    client.send(request)?;
    client.read_answer()
}
