//! Cuts the usage event out of a stream again, for clients that did not ask for it.
//!
//! With `usage: inject` the gateway asks engines for usage on behalf of everybody. What they send
//! for that, an event without choices that only says usage, is cut out, from its first byte to the end
//! of its blank line; every other byte passes as it came. Whether an event is that one shows when it
//! is whole, so the bytes of an event that was cut by a read wait for its rest. An event that grows
//! past [`MOST_HELD`] is no usage event and passes at once.
//!
//! The surprise: a CR that ends an event may be half of a CRLF whose LF is still to come; that LF
//! goes the way of the event.

use bytes::{BufMut as _, Bytes, BytesMut};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// The most bytes of one event that wait.
const MOST_HELD: usize = 64 * 1024;

/// What becomes of a piece.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Passed {
    /// What goes on to the client.
    pub bytes: Bytes,
    /// Events that were cut out.
    pub cut: u64,
}

/// See the module head.
#[derive(Debug, Default)]
pub struct Excise {
    /// Bytes of the event that is not whole yet.
    held: BytesMut,
    /// The event is too large to be the one: its bytes pass.
    passing: bool,
    /// The present line has no byte yet.
    line_empty: Empty,
    /// The last byte was a CR.
    after_cr: bool,
    /// The last byte was a CR that ended an event: what became of that.
    ended_by_cr: Option<Fate>,
}

/// What becomes of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Passes,
    Cut,
}

/// A flag that is set at first.
#[derive(Debug)]
struct Empty(bool);

impl Default for Empty {
    fn default() -> Self {
        Self(true)
    }
}

impl Excise {
    /// The next piece of the stream.
    pub fn push(&mut self, piece: &Bytes) -> Passed {
        // Mostly a piece is whole events, none of them the one.
        if self.between_events() && piece.ends_with(b"\n\n") && !names_usage(piece) {
            return Passed {
                bytes: piece.clone(),
                cut: 0,
            };
        }
        let mut out = BytesMut::new();
        let mut cut = 0;
        let mut from = 0;
        // Up to here `piece` is in `out` or held or cut.
        for (at, &byte) in piece.iter().enumerate() {
            let ends_event = self.step(byte);
            if let Some(fate) = self.ended_by_cr.take()
                && byte == b'\n'
            {
                if fate == Fate::Passes {
                    out.put_u8(byte);
                }
                from = at + 1;
                continue;
            }
            if ends_event {
                let event = &piece[from..=at];
                let fate = if !std::mem::take(&mut self.passing) && self.is_usage(event) {
                    cut += 1;
                    Fate::Cut
                } else {
                    out.put_slice(&self.held);
                    out.put_slice(event);
                    Fate::Passes
                };
                self.held.clear();
                self.ended_by_cr = (byte == b'\r').then_some(fate);
                from = at + 1;
            }
        }
        let rest = &piece[from..];
        if self.passing {
            out.put_slice(rest);
        } else if self.held.len() + rest.len() > MOST_HELD {
            self.passing = true;
            out.put_slice(&self.held);
            self.held.clear();
            out.put_slice(rest);
        } else {
            self.held.put_slice(rest);
        }
        Passed {
            bytes: out.freeze(),
            cut,
        }
    }

    /// Nothing waits, and the last byte ended an event with an LF.
    fn between_events(&self) -> bool {
        self.held.is_empty() && self.line_empty.0 && !self.passing && !self.after_cr
    }

    /// The stream is over: what still waits passes.
    pub fn finish(&mut self) -> Bytes {
        std::mem::take(&mut self.held).freeze()
    }

    /// Follows the lines; true when `byte` ends a blank one, and with it an event.
    const fn step(&mut self, byte: u8) -> bool {
        let second_half = byte == b'\n' && self.after_cr;
        self.after_cr = byte == b'\r';
        if second_half {
            // The line has ended with its CR.
            return false;
        }
        let ends_line = byte == b'\n' || byte == b'\r';
        let ends_event = ends_line && self.line_empty.0;
        self.line_empty.0 = ends_line;
        ends_event
    }

    /// Whether what is held and `rest` are an event that only says usage.
    fn is_usage(&mut self, rest: &[u8]) -> bool {
        let mut whole = BytesMut::new();
        let event: &[u8] = if self.held.is_empty() {
            rest
        } else {
            whole.put_slice(&self.held);
            whole.put_slice(rest);
            &whole
        };
        if !names_usage(event) {
            return false;
        }
        let mut data = Vec::with_capacity(event.len());
        for line in event.split(|&b| b == b'\n' || b == b'\r') {
            if let Some(value) = line.strip_prefix(b"data:") {
                data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
                data.push(b'\n');
            }
        }
        serde_json::from_slice(&data).is_ok_and(|chunk: Chunk<'_>| chunk.only_says_usage())
    }
}

/// Whether there is anything in `bytes` that could be the member. (In a text its quotes would be
/// escaped.)
fn names_usage(bytes: &[u8]) -> bool {
    memchr::memmem::find(bytes, b"\"usage\"").is_some()
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(default)]
    choices: Option<Vec<IgnoredAny>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<IgnoredAny>,
}

impl Chunk<'_> {
    fn only_says_usage(&self) -> bool {
        self.usage.is_some_and(|usage| usage.get().starts_with('{'))
            && self.choices.as_ref().is_none_or(Vec::is_empty)
            && self.error.is_none()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\\\"usage\\\"\"}}],\"usage\":null}\n\n";
    const USAGE: &str =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}\n\n";
    const DONE: &str = "data: [DONE]\n\n";

    fn through(pieces: &[&[u8]]) -> (Vec<u8>, u64) {
        let mut excise = Excise::default();
        let (mut out, mut cut) = (Vec::new(), 0);
        for piece in pieces {
            let passed = excise.push(&Bytes::copy_from_slice(piece));
            out.extend_from_slice(&passed.bytes);
            cut += passed.cut;
        }
        out.extend_from_slice(&excise.finish());
        (out, cut)
    }

    #[test]
    fn r01_the_usage_event_goes_and_nothing_else() {
        let stream = [": hi\n\n", TEXT, USAGE, DONE].concat();
        let expected = [": hi\n\n", TEXT, DONE].concat();
        assert_eq!(through(&[stream.as_bytes()]), (expected.into_bytes(), 1));
    }

    #[test]
    fn d07_usage_without_choices_goes_and_beside_choices_stays() {
        for gone in [
            "data:{\"usage\":{}}\n\n",
            "data: {\"choices\":null,\"usage\":{\"a\":1}}\r\n\r\n",
            "data: {\"choices\":[],\ndata: \"usage\":{}}\n\n",
            "data: {\"choices\":[],\"usage\":{}}\r\r",
        ] {
            assert_eq!(through(&[gone.as_bytes()]), (Vec::new(), 1), "{gone:?}");
        }
        for stays in [
            TEXT,
            DONE,
            "data: {\"choices\":[{}],\"usage\":{}}\n\n",
            "data: {\"choices\":[],\"usage\":null}\n\n",
            "data: {\"error\":{},\"usage\":{}}\n\n",
            "data: {\"choices\":[],\"usage\":{}}\n",
            "event: x\n\n",
        ] {
            assert_eq!(
                through(&[stays.as_bytes()]),
                (stays.as_bytes().to_vec(), 0),
                "{stays:?}"
            );
        }
    }

    #[test]
    fn a_piece_of_whole_events_passes_without_a_copy() {
        let text = TEXT.replace(",\"usage\":null", "");
        let piece = Bytes::from([&text, DONE].concat());
        let mut excise = Excise::default();
        assert_eq!(excise.push(&piece).bytes.as_ptr(), piece.as_ptr());
    }

    #[test]
    fn a_large_event_is_not_held() {
        let mut excise = Excise::default();
        let start = Bytes::from(format!("data: \"{}", "x".repeat(MOST_HELD)));
        assert_eq!(excise.push(&start).bytes, start);
        let rest = Bytes::from([" \"usage\"\n\n", USAGE].concat());
        assert_eq!(excise.push(&rest).bytes, &b" \"usage\"\n\n"[..]);
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same(
            picks in prop::collection::vec(0_usize..6, 0..12),
            end in 0_usize..3,
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let line_end = ["\n", "\r\n", "\r"][end];
            let events = [TEXT, USAGE, DONE, ": c\n\n", "\n", "data: {\"usage\":{}}\n\n"];
            let text = |keep: fn(usize) -> bool| -> String {
                picks.iter().filter(|i| keep(**i)).map(|&i| events[i].replace('\n', line_end)).collect()
            };
            let stream = text(|_| true);
            let expected = text(|i| i != 1 && i != 5);
            let mut places: Vec<usize> = cuts.iter().map(|c| c.index(stream.len() + 1)).collect();
            places.extend([0, stream.len()]);
            places.sort_unstable();
            let pieces: Vec<&[u8]> = places.windows(2).map(|w| &stream.as_bytes()[w[0]..w[1]]).collect();
            let (out, cut) = through(&pieces);
            prop_assert_eq!(String::from_utf8(out).unwrap(), expected);
            prop_assert_eq!(cut as usize, picks.iter().filter(|i| **i == 1 || **i == 5).count());
        }
    }
}
