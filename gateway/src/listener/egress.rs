//! Follows the HTTP/1.1 bytes that leave towards a client and says which of them are body.
//!
//! The parser is fed what the kernel has accepted, in any cut, and keeps the **decoded** offset:
//! chunk sizes, chunk line ends and heads do not count. It reads only what this gateway itself
//! writes, so it trusts the framing; bytes it cannot follow make it [`Egress::lost`] and it stops
//! counting rather than guess. 1xx heads are followed by another head; an answer to HEAD and a
//! 204 or 304 have no body whatever their fields say.

/// A head longer than this is not ours.
const MAX_HEAD_BYTES: usize = 256 * 1024;

/// Where the next byte belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In a response head; the bytes so far are kept aside.
    Head,
    /// In a body of known length.
    Length { left: u64 },
    /// In a body that ends with the connection.
    UntilClose,
    /// In a chunk-size line; `in_size` until a byte that is no hexadecimal digit.
    ChunkSize { size: u64, in_size: bool },
    /// In a chunk's data.
    ChunkData { left: u64 },
    /// At the line end behind a chunk's data.
    ChunkEnd,
    /// Behind the last chunk; `line` counts the bytes of the current trailer line.
    Trailer { line: u32 },
    /// The response is over.
    Done,
    /// The framing could not be followed.
    Lost,
}

/// The incremental parser of one response.
#[derive(Debug)]
pub struct Egress {
    state: State,
    head: Vec<u8>,
    no_body: bool,
    offset: u64,
    status: Option<u16>,
}

impl Default for Egress {
    fn default() -> Self {
        Self::new(false)
    }
}

impl Egress {
    /// A parser at the start of a response; `no_body` when the request was a HEAD.
    #[must_use]
    pub const fn new(no_body: bool) -> Self {
        Self {
            state: State::Head,
            head: Vec::new(),
            no_body,
            offset: 0,
            status: None,
        }
    }

    /// Decoded body bytes seen so far.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Status of the final response head, once it has passed whole.
    #[must_use]
    pub const fn status(&self) -> Option<u16> {
        self.status
    }

    /// Whether the response has passed whole (never for a body that ends with the connection).
    #[cfg(test)]
    fn done(&self) -> bool {
        self.state == State::Done
    }

    /// Whether the framing could not be followed.
    #[must_use]
    pub fn lost(&self) -> bool {
        self.state == State::Lost
    }

    /// Takes the next bytes of the connection; `on_body` gets each run of decoded body bytes.
    pub fn advance(&mut self, mut bytes: &[u8], mut on_body: impl FnMut(&[u8])) {
        while !bytes.is_empty() {
            bytes = match self.state {
                State::Head => self.head(bytes),
                State::Length { left } => {
                    let (run, rest) = split(bytes, left);
                    self.body(run, &mut on_body);
                    let left = left - run.len() as u64;
                    self.state = if left == 0 {
                        State::Done
                    } else {
                        State::Length { left }
                    };
                    rest
                }
                State::UntilClose => {
                    self.body(bytes, &mut on_body);
                    &[]
                }
                State::ChunkData { left } => {
                    let (run, rest) = split(bytes, left);
                    self.body(run, &mut on_body);
                    let left = left - run.len() as u64;
                    self.state = if left == 0 {
                        State::ChunkEnd
                    } else {
                        State::ChunkData { left }
                    };
                    rest
                }
                State::ChunkSize { .. } | State::ChunkEnd | State::Trailer { .. } => {
                    self.line_byte(bytes[0]);
                    &bytes[1..]
                }
                State::Done | State::Lost => return,
            };
        }
    }

    fn body(&mut self, run: &[u8], on_body: &mut impl FnMut(&[u8])) {
        self.offset += run.len() as u64;
        on_body(run);
    }

    /// One byte of the chunked framing.
    fn line_byte(&mut self, byte: u8) {
        self.state = match self.state {
            State::ChunkSize { size, in_size } => match (byte, char::from(byte).to_digit(16)) {
                (b'\n', _) if size == 0 => State::Trailer { line: 0 },
                (b'\n', _) => State::ChunkData { left: size },
                (_, Some(digit)) if in_size => match size.checked_mul(16) {
                    Some(high) => State::ChunkSize {
                        size: high + u64::from(digit),
                        in_size,
                    },
                    None => State::Lost,
                },
                _ => State::ChunkSize {
                    size,
                    in_size: false,
                },
            },
            State::ChunkEnd if byte == b'\n' => State::ChunkSize {
                size: 0,
                in_size: true,
            },
            State::Trailer { line: 0 } if byte == b'\n' => State::Done,
            State::Trailer { .. } if byte == b'\n' => State::Trailer { line: 0 },
            State::Trailer { line } if byte != b'\r' => State::Trailer {
                line: line.saturating_add(1),
            },
            other => other,
        };
    }

    /// Takes head bytes up to and including the blank line.
    fn head<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        // A whole head in one write is the rule: no copy then.
        if self.head.is_empty()
            && let Some(end) = head_end(bytes, 0)
        {
            self.state = self.framing(&bytes[..end]);
            return &bytes[end..];
        }
        let before = self.head.len();
        self.head.extend_from_slice(bytes);
        match head_end(&self.head, before.saturating_sub(3)) {
            Some(end) => {
                let head = std::mem::take(&mut self.head);
                self.state = self.framing(&head[..end]);
                &bytes[end - before..]
            }
            None => {
                if self.head.len() > MAX_HEAD_BYTES {
                    self.head = Vec::new();
                    self.state = State::Lost;
                }
                &[]
            }
        }
    }

    /// What a head says about the body behind it.
    fn framing(&mut self, head: &[u8]) -> State {
        let mut lines = head.split(|&b| b == b'\n');
        let Some(status) = lines.next().and_then(status_of) else {
            return State::Lost;
        };
        if (100..200).contains(&status) && status != 101 {
            return State::Head;
        }
        self.status = Some(status);
        if self.no_body || matches!(status, 204 | 304) {
            return State::Done;
        }
        let mut length = None;
        for (name, value) in lines.filter_map(field) {
            if name.eq_ignore_ascii_case(b"transfer-encoding") {
                return State::ChunkSize {
                    size: 0,
                    in_size: true,
                };
            }
            if name.eq_ignore_ascii_case(b"content-length") {
                match std::str::from_utf8(value).ok().and_then(|v| v.parse().ok()) {
                    Some(n) => length = Some(n),
                    None => return State::Lost,
                }
            }
        }
        match length {
            Some(0) => State::Done,
            Some(left) => State::Length { left },
            None => State::UntilClose,
        }
    }
}

/// The first `n` bytes, or all, and the rest.
fn split(bytes: &[u8], n: u64) -> (&[u8], &[u8]) {
    bytes.split_at(usize::try_from(n).unwrap_or(usize::MAX).min(bytes.len()))
}

/// Just past the first blank line at or after `from`.
fn head_end(bytes: &[u8], from: usize) -> Option<usize> {
    bytes[from..]
        .windows(4)
        .position(|w| w == b"\r\n\r\n")
        .map(|at| from + at + 4)
}

/// The status of `HTTP/1.1 200 OK`.
fn status_of(line: &[u8]) -> Option<u16> {
    let digits = line.split(|&b| b == b' ').nth(1)?;
    std::str::from_utf8(digits.trim_ascii_end())
        .ok()?
        .parse()
        .ok()
}

/// Name and value of a header line.
fn field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|&b| b == b':')?;
    Some((&line[..colon], line[colon + 1..].trim_ascii()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Offsets and body after each cut of `wire`.
    fn run(wire: &[u8], cuts: &[usize], no_body: bool) -> (Vec<u8>, Egress) {
        let mut parser = Egress::new(no_body);
        let mut body = Vec::new();
        let mut at = 0;
        for &cut in cuts.iter().chain([&wire.len()]) {
            let cut = cut.clamp(at, wire.len());
            parser.advance(&wire[at..cut], |run| body.extend_from_slice(run));
            assert_eq!(parser.offset(), body.len() as u64);
            at = cut;
        }
        (body, parser)
    }

    const CHUNKED: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
        Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1A;x=y\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\nA: b\r\n\r\n";
    const LENGTH: &[u8] = b"HTTP/1.1 404 Not Found\r\ncontent-length: 7\r\n\r\n{\"a\":1}";
    const CLOSE: &[u8] = b"HTTP/1.0 200 OK\r\n\r\nall of it\r\n\r\nto the end";

    #[test]
    fn each_framing_gives_its_body() {
        let (body, parser) = run(CHUNKED, &[], false);
        assert_eq!(body, b"helloabcdefghijklmnopqrstuvwxyz");
        assert!(parser.done());
        assert_eq!(parser.status(), Some(200));

        let (body, parser) = run(LENGTH, &[], false);
        assert_eq!(body, b"{\"a\":1}");
        assert!(parser.done());
        assert_eq!(parser.status(), Some(404));

        let (body, parser) = run(CLOSE, &[], false);
        assert_eq!(body, b"all of it\r\n\r\nto the end");
        assert!(!parser.done());
    }

    #[test]
    fn answers_without_a_body_have_none() {
        for (wire, head) in [
            (&b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"[..], true),
            (b"HTTP/1.1 204 No Content\r\n\r\n", false),
            (
                b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
                false,
            ),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false),
        ] {
            let (body, parser) = run(wire, &[], head);
            assert!(body.is_empty() && parser.done());
        }
    }

    #[test]
    fn a_foreign_protocol_is_lost_and_never_counted() {
        let (body, parser) = run(b"GARBAGE\r\n\r\nmore", &[3], false);
        assert!(parser.lost() && body.is_empty());
        let (_, parser) = run(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\nx",
            &[],
            false,
        );
        assert!(parser.lost());
    }

    proptest! {
        #[test]
        fn any_split_of_writes_gives_the_same_body(
            which in 0usize..3,
            mut cuts in proptest::collection::vec(0usize..200, 0..40),
        ) {
            let wire = [CHUNKED, LENGTH, CLOSE][which];
            cuts.sort_unstable();
            let (whole, at_once) = run(wire, &[], false);
            let (cut, in_pieces) = run(wire, &cuts, false);
            prop_assert_eq!(whole, cut);
            prop_assert_eq!(at_once.offset(), in_pieces.offset());
            prop_assert_eq!(at_once.done(), in_pieces.done());
        }

        #[test]
        fn any_chunking_of_a_body_gives_its_offsets(
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..300), 0..12),
            write in 1usize..64,
        ) {
            let mut wire = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
            for piece in &pieces {
                wire.extend(format!("{:X}\r\n", piece.len()).bytes());
                wire.extend(piece);
                wire.extend(b"\r\n");
            }
            wire.extend(b"0\r\n\r\n");
            let cuts: Vec<usize> = (0..wire.len()).step_by(write).collect();
            let (body, parser) = run(&wire, &cuts, false);
            prop_assert_eq!(body, pieces.concat());
            prop_assert!(parser.done());
        }
    }
}
