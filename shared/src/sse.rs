//! Server-sent events: body bytes in, events with their place in the body out.
//!
//! The parser owns framing only; what an event's data means is [`crate::openai`]'s business. It
//! has no clock: the caller stamps a read, then pushes it, and each event reported during that
//! push arrived with that read.
//!
//! Positions are offsets in the decoded body (no HTTP framing, byte order mark included). An
//! event **ends just past the byte that makes its blank line a blank line**: its LF, or its CR
//! when the line ends in CR or CRLF. So an event is reported as early as it can be known, and its
//! end is the same wherever the network cut the stream: the LF of a CRLF, which may be a read
//! away, belongs to no event. Two readers of one body agree on every offset, which is what the
//! join of client and gateway records rests on; the piece that carries byte `end_offset - 1`
//! brought the event.
//!
//! The surprise: `id` and `retry` are skipped like unknown fields. Nobody resumes a generation.

mod block;

/// Largest event the parser keeps by default, in bytes of its raw lines. Well above a
/// long-context or image answer sent as one event, and low enough that a stream without blank
/// lines can't exhaust the process.
pub const DEFAULT_MAX_EVENT_BYTES: usize = 32 * 1024 * 1024;

/// Buffers larger than this are given back once their event is reported, so that one large event
/// doesn't stay in memory for the rest of a stream.
const KEEP_BUFFER_BYTES: usize = 64 * 1024;

const LF: u8 = b'\n';
const CR: u8 = b'\r';
const BYTE_ORDER_MARK: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// One event with data. Comments, and events whose data is empty, are never reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// Data lines joined with LF, one leading blank of each removed. Never empty, unless
    /// `oversized`. Borrowed from the pushed bytes when the event lies within one push and has
    /// one data line.
    pub data: &'a [u8],
    /// Value of the last `event:` line.
    pub name: Option<&'a [u8]>,
    /// Offset of the first byte of the event's first line that is no comment.
    pub start_offset: u64,
    /// Offset just past the byte that completed the event (see the module head).
    pub end_offset: u64,
    /// The event was larger than the parser's cap: its place is known, its content was dropped.
    pub oversized: bool,
}

impl<'a> Event<'a> {
    /// An event of data alone, for text that did not come through a [`Parser`].
    #[must_use]
    pub const fn of(data: &'a [u8]) -> Self {
        Self {
            data,
            name: None,
            start_offset: 0,
            end_offset: data.len() as u64,
            oversized: false,
        }
    }
}

/// A push parser, resumable at any byte: any cut of a body gives the same events.
///
/// ```
/// use inferscope_shared::sse::Parser;
///
/// let mut parser = Parser::new();
/// let mut events = Vec::new();
/// for piece in ["data: one\r\n\r", "\ndata: t", "wo\n\n: a comment\n\n"] {
///     parser.push(piece.as_bytes(), &mut |event| {
///         events.push((event.end_offset, event.data.to_vec()));
///     });
/// }
/// assert_eq!(events, [(12, b"one".to_vec()), (24, b"two".to_vec())]);
/// ```
#[derive(Debug)]
pub struct Parser {
    max_event_bytes: usize,
    /// Bytes pushed so far.
    offset: u64,
    /// Bytes of a leading byte order mark matched so far; its length once that is settled.
    mark: usize,
    at: At,
    /// The last byte was a CR, so an LF now belongs to it.
    after_cr: bool,
    /// Where the event in progress starts.
    start: Option<u64>,
    /// Raw bytes of the event in progress, from earlier pushes.
    held: Vec<u8>,
    /// Where data of several lines is joined.
    joined: Vec<u8>,
}

/// Where the next byte stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    LineStart,
    InLine,
}

impl Default for Parser {
    fn default() -> Self {
        Self::new()
    }
}

impl Parser {
    /// A parser at the start of a body, with [`DEFAULT_MAX_EVENT_BYTES`].
    #[must_use]
    pub const fn new() -> Self {
        Self::with_cap(DEFAULT_MAX_EVENT_BYTES)
    }

    /// A parser that keeps events of up to `max_event_bytes` (raw, from the first line to the
    /// blank one). A larger event is reported without content and the stream goes on.
    #[must_use]
    pub const fn with_cap(max_event_bytes: usize) -> Self {
        Self {
            max_event_bytes,
            offset: 0,
            mark: 0,
            at: At::LineStart,
            after_cr: false,
            start: None,
            held: Vec::new(),
            joined: Vec::new(),
        }
    }

    /// Bytes pushed so far: the offset of the next byte.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Where the event in progress starts: the offset of its first byte, null between events.
    ///
    /// Asked after a push, it tells whether that push brought an event's first byte. Asked at
    /// the end of the body, anything but null is an event cut off before its blank line; the
    /// standard says to drop it.
    #[must_use]
    pub const fn unfinished(&self) -> Option<u64> {
        self.start
    }

    /// Takes the next bytes of the body and reports every event that they complete, in order.
    pub fn push(&mut self, bytes: &[u8], on_event: &mut dyn FnMut(Event<'_>)) {
        let base = self.offset;
        self.offset += bytes.len() as u64;
        let mut pos = self.skip_byte_order_mark(bytes);
        // Where the part of the event in progress that lies in `bytes` begins.
        let mut from = pos;

        while let Some(&byte) = bytes.get(pos) {
            if self.at == At::LineStart {
                let ends_crlf = std::mem::take(&mut self.after_cr) && byte == LF;
                if ends_crlf {
                    pos += 1;
                    continue;
                }
                if byte == LF || byte == CR {
                    self.after_cr = byte == CR;
                    pos += 1;
                    if let Some(start) = self.start.take() {
                        self.report(&bytes[from..pos], start, base + pos as u64, on_event);
                    }
                    continue;
                }
                if byte != b':' && self.start.is_none() {
                    self.start = Some(base + pos as u64);
                    from = pos;
                }
                self.at = At::InLine;
            }
            match memchr::memchr2(LF, CR, &bytes[pos..]) {
                Some(len) => {
                    pos += len;
                    self.after_cr = bytes[pos] == CR;
                    self.at = At::LineStart;
                    pos += 1;
                }
                None => break,
            }
        }
        if let Some(start) = self.start {
            self.hold(&bytes[from..], start);
        }
    }

    /// Steps over the one byte order mark that may open a stream, cut anywhere, and returns the
    /// position of the first byte after it.
    fn skip_byte_order_mark(&mut self, bytes: &[u8]) -> usize {
        let mut pos = 0;
        while self.mark < BYTE_ORDER_MARK.len() {
            match bytes.get(pos) {
                None => break,
                Some(&byte) if byte == BYTE_ORDER_MARK[self.mark] => {
                    self.mark += 1;
                    pos += 1;
                }
                Some(_) => {
                    // Not a mark after all: what matched is the start of a field's name.
                    if self.mark > 0 {
                        self.start = Some(0);
                        self.at = At::InLine;
                        self.held.extend_from_slice(&BYTE_ORDER_MARK[..self.mark]);
                    }
                    self.mark = BYTE_ORDER_MARK.len();
                }
            }
        }
        pos
    }

    /// Keeps the part of an unfinished event, or nothing of it once it is too large.
    fn hold(&mut self, part: &[u8], start: u64) {
        if self.is_oversized(start, self.offset) {
            self.held = Vec::new();
        } else {
            self.held.extend_from_slice(part);
        }
    }

    fn is_oversized(&self, start: u64, end: u64) -> bool {
        end - start > self.max_event_bytes as u64
    }

    /// Reports the event at `start..end` whose last bytes are `part` and whose earlier ones are
    /// held.
    fn report(&mut self, part: &[u8], start: u64, end: u64, on_event: &mut dyn FnMut(Event<'_>)) {
        if self.is_oversized(start, end) {
            on_event(Event {
                data: &[],
                name: None,
                start_offset: start,
                end_offset: end,
                oversized: true,
            });
        } else {
            let raw = if self.held.is_empty() {
                part
            } else {
                self.held.extend_from_slice(part);
                &self.held
            };
            let fields = block::read(raw, &mut self.joined);
            if !fields.data.is_empty() {
                on_event(Event {
                    data: fields.data,
                    name: fields.name,
                    start_offset: start,
                    end_offset: end,
                    oversized: false,
                });
            }
        }
        for buffer in [&mut self.held, &mut self.joined] {
            buffer.clear();
            buffer.shrink_to(KEEP_BUFFER_BYTES);
        }
    }
}
