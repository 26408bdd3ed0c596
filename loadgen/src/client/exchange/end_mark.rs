//! Where a growing body holds its end mark, `[DONE]`: the one thing that the measuring loop has to
//! know of an answer's content, since what follows it has a limit of its own.

use inferscope_shared::sse;
use memchr::memmem::Finder;

const END_MARK: &[u8] = b"[DONE]";

/// Looks for the end mark in a growing body. Only a body that holds its bytes is parsed, so most
/// reads cost one search of what they brought.
pub(super) struct EndMark {
    finder: Finder<'static>,
    parser: sse::Parser,
    /// Bytes of the body that were searched.
    searched: usize,
    /// Bytes of the body that were parsed.
    parsed: usize,
    near: bool,
    pub(super) seen: bool,
}

impl Default for EndMark {
    fn default() -> Self {
        Self {
            finder: Finder::new(END_MARK),
            parser: sse::Parser::new(),
            searched: 0,
            parsed: 0,
            near: false,
            seen: false,
        }
    }
}

impl EndMark {
    /// True when the bytes that `body` has gained complete the mark's event.
    pub(super) fn completes(&mut self, body: &[u8]) -> bool {
        if self.seen {
            return false;
        }
        let from = self.searched.saturating_sub(END_MARK.len() - 1);
        self.near |= self.finder.find(&body[from..]).is_some();
        self.searched = body.len();
        if self.near {
            self.parse(body);
        }
        self.seen
    }

    /// The body starts anew behind what it holds now. A mark cut in two there is found all the
    /// same: what is left of its event counts as near.
    pub(super) fn forget(&mut self, body: &[u8]) {
        self.parse(body);
        self.near |= END_MARK
            .iter()
            .enumerate()
            .skip(1)
            .any(|(cut, _)| body.ends_with(&END_MARK[..cut]));
        (self.searched, self.parsed) = (0, 0);
    }

    fn parse(&mut self, body: &[u8]) {
        let seen = &mut self.seen;
        self.parser.push(&body[self.parsed..], &mut |event| {
            *seen |= event.data.trim_ascii() == END_MARK;
        });
        self.parsed = body.len();
    }
}
