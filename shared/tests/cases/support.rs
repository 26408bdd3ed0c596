//! Streams to write, and what a reader makes of them.

use inferscope_shared::openai::{self, OutputKind, Seen, StreamState};
use inferscope_shared::sse::{Event, Parser};

pub const DONE: &str = "data: [DONE]\n\n";
pub const ROLE: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";

/// An event with this JSON, on one line however it is written here.
pub fn event(json: &str) -> String {
    format!("data: {}\n\n", json.replace('\n', ""))
}

/// An event with a text delta of choice 0.
pub fn chunk(text: &str) -> String {
    chunk_of(0, text)
}

/// An event with a text delta.
pub fn chunk_of(index: u32, text: &str) -> String {
    let text = serde_json::to_string(text).expect("a string is JSON");
    event(&format!(
        r#"{{"choices":[{{"index":{index},"delta":{{"content":{text}}},"finish_reason":null}}]}}"#
    ))
}

/// An event with a finish reason of choice 0.
pub fn fin(reason: &str) -> String {
    fin_of(0, reason)
}

/// An event with a finish reason.
pub fn fin_of(index: u32, reason: &str) -> String {
    event(&format!(
        r#"{{"choices":[{{"index":{index},"delta":{{}},"finish_reason":"{reason}"}}]}}"#
    ))
}

/// An event with usage on its own.
pub fn usage(prompt: u64, completion: u64) -> String {
    event(&format!(
        r#"{{"choices":[],"usage":{{"prompt_tokens":{prompt},"completion_tokens":{completion}}}}}"#
    ))
}

/// An event, kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    pub data: String,
    pub name: Option<String>,
    pub start_offset: u64,
    pub end_offset: u64,
    pub oversized: bool,
}

impl From<Event<'_>> for Kept {
    fn from(event: Event<'_>) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            data: text(event.data),
            name: event.name.map(text),
            start_offset: event.start_offset,
            end_offset: event.end_offset,
            oversized: event.oversized,
        }
    }
}

/// Events of a body that comes in these pieces.
pub fn events<P: AsRef<[u8]>>(pieces: impl IntoIterator<Item = P>) -> Vec<Kept> {
    events_by(Parser::new(), pieces)
}

/// Events that this parser finds in a body that comes in these pieces.
pub fn events_by<P: AsRef<[u8]>>(
    mut parser: Parser,
    pieces: impl IntoIterator<Item = P>,
) -> Vec<Kept> {
    let mut kept = Vec::new();
    for piece in pieces {
        parser.push(piece.as_ref(), &mut |event| kept.push(event.into()));
    }
    kept
}

/// Data of the events of a body in one piece.
pub fn data(body: impl AsRef<[u8]>) -> Vec<String> {
    events([body]).into_iter().map(|it| it.data).collect()
}

/// What a client has understood at the end of a body.
#[derive(Debug)]
pub struct Read {
    pub state: StreamState,
    pub seen: Vec<Seen>,
}

impl Read {
    /// Text of choice 0.
    pub fn text(&self) -> &str {
        self.output(0, OutputKind::Text)
    }

    pub fn output(&self, choice: u32, kind: OutputKind) -> &str {
        self.state
            .texts()
            .expect("texts were asked for")
            .get(choice, kind)
    }

    /// The place, among all events, of the one that ends TTFT.
    pub fn first_output(&self) -> Option<usize> {
        self.seen.iter().position(|it| it.first_output)
    }

    /// Prompt and completion tokens of the request.
    pub fn tokens(&self) -> (Option<u64>, Option<u64>) {
        let usage = self.state.usage().unwrap_or_default();
        (usage.prompt_tokens, usage.completion_tokens)
    }
}

/// Reads a streamed body that comes in these pieces.
pub fn read<P: AsRef<[u8]>>(pieces: impl IntoIterator<Item = P>) -> Read {
    let mut parser = Parser::new();
    let mut state = StreamState::with_texts();
    let mut seen = Vec::new();
    for piece in pieces {
        parser.push(piece.as_ref(), &mut |event| {
            seen.push(state.absorb(&openai::chunk(&event)));
        });
    }
    Read { state, seen }
}
