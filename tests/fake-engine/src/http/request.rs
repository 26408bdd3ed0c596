//! Request bytes to requests, resumable at any byte.
//!
//! [`parse_head`] and [`Body`] are fed what has been read so far and say how much of it is theirs;
//! what follows (a pipelined request) is left alone. Sockets and stamps belong to `conn`.
//! Limits: heads of 64 KiB and 128 fields, decoded bodies of 64 MiB.

use crate::http::{Link, Reply};

/// Longest request head, bytes.
pub(crate) const MAX_HEAD: usize = 64 << 10;
/// Longest decoded request body, bytes.
pub(crate) const MAX_BODY: usize = 64 << 20;
const MAX_FIELDS: usize = 128;
/// Longest line of chunk size and extensions, and of one trailer field.
const MAX_LINE: usize = 16 << 10;

/// A request head.
#[derive(Debug, Clone, Default)]
pub(crate) struct Head {
    pub method: String,
    pub target: String,
    /// Names as sent.
    pub headers: Vec<(String, Vec<u8>)>,
    pub raw: Vec<u8>,
    pub http_1_0: bool,
}

impl Head {
    /// The first field of that name, if it is text.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .and_then(|(_, v)| std::str::from_utf8(v).ok())
    }

    /// The target's path, without a query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    fn has_token(&self, name: &str, token: &str) -> bool {
        self.headers
            .iter()
            .filter(|(n, _)| n.eq_ignore_ascii_case(name))
            .filter_map(|(_, v)| std::str::from_utf8(v).ok())
            .flat_map(|v| v.split(','))
            .any(|t| t.trim().eq_ignore_ascii_case(token))
    }

    pub fn expects_continue(&self) -> bool {
        !self.http_1_0 && self.has_token("expect", "100-continue")
    }

    pub fn link(&self) -> Link {
        let keep_alive = if self.http_1_0 {
            self.has_token("connection", "keep-alive")
        } else {
            !self.has_token("connection", "close")
        };
        Link {
            keep_alive,
            head_only: self.method == "HEAD",
            request_id: self.get("x-request-id").map(str::to_owned),
        }
    }
}

/// The head at the start of `bytes`, once it is complete.
///
/// # Errors
/// The answer to bytes that are no request head; the connection is beyond use.
pub(crate) fn parse_head(bytes: &[u8]) -> Result<Option<Head>, Reply> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let length = match request.parse(bytes) {
        Ok(httparse::Status::Complete(n)) => n,
        Ok(httparse::Status::Partial) if bytes.len() <= MAX_HEAD => return Ok(None),
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Err(Reply::text(431, "Request head too large."));
        }
        Err(_) => return Err(Reply::text(400, "Invalid HTTP request received.")),
    };
    Ok(Some(Head {
        method: request.method.unwrap_or_default().to_owned(),
        target: request.path.unwrap_or_default().to_owned(),
        headers: request
            .headers
            .iter()
            .map(|h| (h.name.to_owned(), h.value.to_vec()))
            .collect(),
        raw: bytes.get(..length).unwrap_or_default().to_vec(),
        http_1_0: request.version == Some(0),
    }))
}

/// A request body on its way in.
#[derive(Debug)]
pub(crate) struct Body {
    framing: Framing,
    pub decoded: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
enum Framing {
    Length(usize),
    ChunkSize,
    ChunkData(usize),
    ChunkEnd,
    Trailer,
    Complete,
}

impl Body {
    /// The body that a head announces.
    ///
    /// # Errors
    /// The answer to a body that is too long or badly announced.
    pub fn of(head: &Head) -> Result<Self, Reply> {
        let framing = if head.has_token("transfer-encoding", "chunked") {
            Framing::ChunkSize
        } else {
            match head
                .get("content-length")
                .map(|v| v.trim().parse::<usize>())
            {
                None | Some(Ok(0)) => Framing::Complete,
                Some(Ok(n)) if n > MAX_BODY => return Err(too_long()),
                Some(Ok(n)) => Framing::Length(n),
                Some(Err(_)) => return Err(Reply::text(400, "Invalid HTTP request received.")),
            }
        };
        Ok(Self {
            framing,
            decoded: Vec::new(),
        })
    }

    pub fn complete(&self) -> bool {
        self.framing == Framing::Complete
    }

    /// Takes what it can use off the front of `bytes`.
    ///
    /// # Errors
    /// The answer to a body that is too long or breaks its framing.
    pub fn take(&mut self, bytes: &mut Vec<u8>) -> Result<(), Reply> {
        let mut at = 0;
        while let Some(used) = self.advance(bytes.get(at..).unwrap_or_default())? {
            at += used;
        }
        bytes.drain(..at);
        Ok(())
    }

    /// One piece of framing; `None` when more bytes are needed or the body is complete.
    fn advance(&mut self, bytes: &[u8]) -> Result<Option<usize>, Reply> {
        let used;
        (self.framing, used) = match self.framing {
            Framing::Complete => return Ok(None),
            Framing::Length(left) | Framing::ChunkData(left) => {
                let piece = bytes.get(..left.min(bytes.len())).unwrap_or_default();
                if piece.is_empty() {
                    return Ok(None);
                }
                self.decoded.extend_from_slice(piece);
                let left = left - piece.len();
                let framing = match (&self.framing, left) {
                    (Framing::Length(_), 0) => Framing::Complete,
                    (Framing::Length(_), _) => Framing::Length(left),
                    (_, 0) => Framing::ChunkEnd,
                    _ => Framing::ChunkData(left),
                };
                (framing, piece.len())
            }
            Framing::ChunkSize => match httparse::parse_chunk_size(bytes) {
                Ok(httparse::Status::Complete((used, 0))) => (Framing::Trailer, used),
                Ok(httparse::Status::Complete((used, size))) => {
                    let size = usize::try_from(size).map_err(|_| too_long())?;
                    if size.saturating_add(self.decoded.len()) > MAX_BODY {
                        return Err(too_long());
                    }
                    (Framing::ChunkData(size), used)
                }
                Ok(httparse::Status::Partial) if bytes.len() <= MAX_LINE => return Ok(None),
                _ => return Err(Reply::text(400, "Invalid HTTP request received.")),
            },
            Framing::ChunkEnd => match bytes {
                [b'\r', b'\n', ..] => (Framing::ChunkSize, 2),
                [] | [b'\r'] => return Ok(None),
                _ => return Err(Reply::text(400, "Invalid HTTP request received.")),
            },
            Framing::Trailer => match bytes.windows(2).position(|w| w == b"\r\n") {
                Some(0) => (Framing::Complete, 2),
                Some(end) => (Framing::Trailer, end + 2),
                None if bytes.len() <= MAX_LINE => return Ok(None),
                None => return Err(Reply::text(431, "Request trailer too large.")),
            },
        };
        Ok(Some(used))
    }
}

fn too_long() -> Reply {
    Reply::text(413, "Request body too large: at most 64 MiB.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(wire: &[u8], step: usize) -> (Head, Vec<u8>, Vec<u8>) {
        let (mut seen, mut pieces) = (Vec::new(), wire.chunks(step));
        let head = loop {
            seen.extend_from_slice(pieces.next().unwrap());
            if let Some(head) = parse_head(&seen).unwrap() {
                break head;
            }
        };
        seen.drain(..head.raw.len());
        let mut body = Body::of(&head).unwrap();
        body.take(&mut seen).unwrap();
        while !body.complete() {
            seen.extend_from_slice(pieces.next().unwrap());
            body.take(&mut seen).unwrap();
        }
        pieces.for_each(|p| seen.extend_from_slice(p));
        (head, body.decoded, seen)
    }

    #[test]
    fn chunked_bodies_decode_at_any_cut_and_leave_what_follows() {
        let wire = b"POST /v1/x?y=1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nX-Request-Id: r\r\n\r\n\
            3;ext=1\r\nabc\r\nA\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\nGET / HTTP/1.1\r\n\r\n";
        for step in 1..=wire.len() {
            let (head, body, rest) = read(wire, step);
            assert_eq!(head.path(), "/v1/x");
            assert_eq!(head.link().request_id.as_deref(), Some("r"));
            assert_eq!(body, b"abc0123456789");
            assert_eq!(rest, b"GET / HTTP/1.1\r\n\r\n");
        }
    }

    #[test]
    fn lengths_at_any_cut() {
        let wire = b"POST / HTTP/1.0\r\ncontent-length: 5\r\n\r\nhello!";
        for step in 1..=wire.len() {
            let (head, body, rest) = read(wire, step);
            assert!(!head.link().keep_alive);
            assert_eq!(
                (body.as_slice(), rest.as_slice()),
                (&b"hello"[..], &b"!"[..])
            );
        }
    }

    #[test]
    fn what_is_too_long_or_broken_is_refused() {
        let head = |text: &str| parse_head(text.as_bytes()).unwrap().unwrap();
        let long = head("POST / HTTP/1.1\r\ncontent-length: 67108865\r\n\r\n");
        assert_eq!(Body::of(&long).unwrap_err().status, 413);
        let chunked = head("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n");
        for (wire, status) in [("4000001\r\n", 413), ("zz\r\n", 400), ("1\r\nab", 400)] {
            let mut body = Body::of(&chunked).unwrap();
            assert_eq!(
                body.take(&mut wire.as_bytes().to_vec()).unwrap_err().status,
                status
            );
        }
        assert_eq!(
            parse_head(b"\x16\x03\x01\x02\x00\x01").unwrap_err().status,
            400
        );
        assert_eq!(
            parse_head(&vec![b'A'; MAX_HEAD + 1]).unwrap_err().status,
            431
        );
    }
}
