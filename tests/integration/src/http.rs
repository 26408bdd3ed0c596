//! A client of exact bytes: it sends what it is told, reads as slowly as it is told, and reports
//! the answer's framing as well as its body.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

/// How an answer's body ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// As its framing says.
    Clean,
    /// The connection closed first.
    Cut,
    /// The connection was reset first.
    Reset,
}

/// One answer.
#[derive(Debug)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Decoded body.
    pub body: Vec<u8>,
    /// How the body ended.
    pub end: End,
}

impl Answer {
    /// The first header of that name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// It is none.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }
}

/// One connection.
pub type Client = Reader<TcpStream>;

/// Reads answers from a connection, or from bytes kept earlier.
#[derive(Debug)]
pub struct Reader<S> {
    stream: S,
    unread: Vec<u8>,
}

/// The answer that these bytes are.
///
/// # Errors
/// They hold no parsable head.
pub fn decode(bytes: &[u8]) -> Result<Answer> {
    let mut reader = Reader {
        stream: bytes,
        unread: Vec::new(),
    };
    reader.answer()
}

impl Reader<TcpStream> {
    /// Connects.
    ///
    /// # Errors
    /// Nobody listens there.
    pub fn connect(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).with_context(|| format!("connect {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Self {
            stream,
            unread: Vec::new(),
        })
    }

    /// Connects with a small receive buffer, which fills soon when nothing is read.
    ///
    /// # Errors
    /// Nobody listens there.
    pub fn connect_narrow(address: &str, receive_buffer_bytes: usize) -> Result<Self> {
        use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        // Before the connection is made: the window is agreed on then.
        sockopt::set_socket_recv_buffer_size(&socket, receive_buffer_bytes)?;
        connect(&socket, &address.parse::<SocketAddr>()?)?;
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Self {
            stream,
            unread: Vec::new(),
        })
    }

    /// The socket itself, for whatever a scenario does to it.
    #[must_use]
    pub const fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends these bytes.
    ///
    /// # Errors
    /// The peer is gone.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(bytes)?)
    }

    /// Sends a request with a body and its length.
    ///
    /// # Errors
    /// The peer is gone.
    pub fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<()> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: test\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            head.push_str(&format!(
                "content-type: application/json\r\ncontent-length: {}\r\n",
                body.len()
            ));
        }
        head.push_str("\r\n");
        self.send(head.as_bytes())?;
        self.send(body)
    }

    /// No more bytes will come from here.
    ///
    /// # Errors
    /// The connection is gone already.
    pub fn half_close(&self) -> Result<()> {
        Ok(self.stream.shutdown(Shutdown::Write)?)
    }
}

impl<S: Read> Reader<S> {
    /// Reads a whole answer (one to anything but HEAD).
    ///
    /// # Errors
    /// There is no parsable head, or nothing comes for a minute.
    pub fn answer(&mut self) -> Result<Answer> {
        let (status, headers) = self.head()?;
        let find = |name: &str| {
            headers
                .iter()
                .find(|(n, _)| n == name)
                .map(|(_, v)| v.as_str())
        };
        let mut body = Vec::new();
        let end = if status == 204 || status == 304 {
            End::Clean
        } else if find("transfer-encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked")) {
            self.chunked(&mut body)?
        } else if let Some(length) = find("content-length") {
            let length = length.parse().context("content-length")?;
            self.exactly(length, &mut body)?
        } else {
            while self.more()?.is_some() {}
            body.append(&mut self.unread);
            End::Clean
        };
        Ok(Answer {
            status,
            headers,
            body,
            end,
        })
    }

    /// Reads an answer's head; interim ones are skipped.
    ///
    /// # Errors
    /// As [`Client::answer`].
    pub fn head(&mut self) -> Result<(u16, Vec<(String, String)>)> {
        loop {
            let mut fields = [httparse::EMPTY_HEADER; 64];
            let mut response = httparse::Response::new(&mut fields);
            match response.parse(&self.unread)? {
                httparse::Status::Complete(length) => {
                    let status = response.code.context("no status")?;
                    let headers = response
                        .headers
                        .iter()
                        .map(|h| {
                            (
                                h.name.to_ascii_lowercase(),
                                String::from_utf8_lossy(h.value).into_owned(),
                            )
                        })
                        .collect();
                    self.unread.drain(..length);
                    if (100..200).contains(&status) {
                        continue;
                    }
                    return Ok((status, headers));
                }
                httparse::Status::Partial => {
                    if self.more()?.is_none() {
                        bail!(
                            "the connection ended inside the head: {:?}",
                            String::from_utf8_lossy(&self.unread)
                        );
                    }
                }
            }
        }
    }

    fn chunked(&mut self, body: &mut Vec<u8>) -> Result<End> {
        loop {
            let line = loop {
                if let Some(at) = self.unread.windows(2).position(|w| w == b"\r\n") {
                    break self.unread.drain(..at + 2).collect::<Vec<u8>>();
                }
                match self.more() {
                    Ok(Some(_)) => {}
                    Ok(None) => return Ok(End::Cut),
                    Err(e) => return reset(&e).ok_or(e),
                }
            };
            let size = std::str::from_utf8(&line)?.trim_end();
            let size =
                usize::from_str_radix(size, 16).with_context(|| format!("chunk size {size:?}"))?;
            let end = self.exactly(size, body)?;
            if end != End::Clean {
                return Ok(end);
            }
            let end = self.exactly(2, &mut Vec::new())?;
            if size == 0 || end != End::Clean {
                return Ok(end);
            }
        }
    }

    fn exactly(&mut self, mut length: usize, body: &mut Vec<u8>) -> Result<End> {
        loop {
            let take = length.min(self.unread.len());
            body.extend(self.unread.drain(..take));
            length -= take;
            if length == 0 {
                return Ok(End::Clean);
            }
            match self.more() {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(End::Cut),
                Err(e) => return reset(&e).ok_or(e),
            }
        }
    }

    /// Reads once; `None` at the end of the connection.
    ///
    /// # Errors
    /// A reset, or nothing for a minute.
    pub fn more(&mut self) -> Result<Option<usize>> {
        let mut buffer = [0; 64 * 1024];
        let n = self.stream.read(&mut buffer)?;
        self.unread.extend_from_slice(&buffer[..n]);
        Ok((n > 0).then_some(n))
    }
}

fn reset(error: &anyhow::Error) -> Option<End> {
    let kind = error.downcast_ref::<io::Error>()?.kind();
    (kind == io::ErrorKind::ConnectionReset).then_some(End::Reset)
}

/// One request on a connection of its own.
///
/// # Errors
/// As [`Client::answer`].
pub fn post(address: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Result<Answer> {
    let mut client = Client::connect(address)?;
    client.request("POST", path, headers, body)?;
    client.answer()
}

/// One request without a body on a connection of its own.
///
/// # Errors
/// As [`Client::answer`].
pub fn get(address: &str, path: &str, headers: &[(&str, &str)]) -> Result<Answer> {
    let mut client = Client::connect(address)?;
    client.request("GET", path, headers, b"")?;
    client.answer()
}

/// A chat request's body.
#[must_use]
pub fn chat(model: &str, stream: bool, max_tokens: u32) -> Vec<u8> {
    serde_json::json!({
        "model": model,
        "messages": [{"role": "user", "content": "say something"}],
        "max_tokens": max_tokens,
        "stream": stream,
    })
    .to_string()
    .into_bytes()
}
