//! The exact mode: a generation with a fixed time to first token and fixed gaps.
//!
//! Step i is due at `recv_end + ttft + i * itl` (CLOCK_MONOTONIC ns), never re-anchored: a late
//! step does not move the next. Every JSON event carries its place in the stream and the stamp
//! taken just before its send; the first one also when the request's last byte was received
//! (`fake.recv_mono_ns`). What an event looks like belongs to the endpoint's [`Wire`].
//! The surprise: all choices of a step, and everything before the first and after the last
//! output, travel in one send, each event in an HTTP chunk of its own.

use std::io::Write as _;
use std::sync::Arc;

use crate::api::intake::Ask;
use crate::api::{Endpoint, Work, chat, completions, responses};
use crate::clock::unix_seconds;
use crate::engine::Engine;
use crate::http::{Link, Reply, stream_head};
use crate::metrics::ModelMetrics;
use crate::program::{After, Program, Sends};

/// What the answers of one generation have in common.
#[derive(Debug)]
pub(crate) struct Facts {
    /// Without the endpoint's prefix.
    pub id: String,
    /// The model's name as JSON.
    pub model: String,
    pub created: u64,
    pub ask: Ask,
}

impl Facts {
    /// `usage` of chat and completions after so many output tokens. `details` is what the place
    /// has beside the counts, with its leading comma.
    pub fn usage(&self, completion_tokens: u64, details: &str) -> String {
        let prompt = self.ask.prompt_tokens;
        let total = prompt + completion_tokens;
        format!(
            r#"{{"prompt_tokens":{prompt},"total_tokens":{total},"completion_tokens":{completion_tokens}{details}}}"#
        )
    }

    /// `usage` of a whole answer.
    pub fn whole_usage(&self) -> String {
        self.usage(
            self.ask.tokens * self.ask.choices,
            r#","prompt_tokens_details":null,"completion_tokens_details":null"#,
        )
    }

    /// The whole output of a choice.
    pub fn text(&self) -> String {
        (0..self.ask.tokens).map(word).collect()
    }
}

/// One output token of one choice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    pub choice: u64,
    pub token: &'static str,
    /// Output tokens of this choice so far, this one included.
    pub tokens: u64,
    pub last: bool,
}

/// How an endpoint writes a generation.
pub(crate) trait Wire: Send {
    /// What precedes the first output.
    fn open(&self, facts: &Facts, events: &mut Events<'_>);
    /// One output event.
    fn output(&self, facts: &Facts, output: Output, events: &mut Events<'_>);
    /// What follows the last output.
    fn close(&self, facts: &Facts, events: &mut Events<'_>);
    /// The answer without streaming.
    fn whole(&self, facts: &Facts) -> String;
}

/// Events on their way into one send.
pub(crate) struct Events<'a> {
    out: &'a mut Vec<u8>,
    now: u64,
    recv_end_ns: u64,
    seq: &'a mut u64,
}

impl Events<'_> {
    /// One JSON event. `open_object` lacks its closing brace: the stamp goes before it.
    pub fn json(&mut self, event: Option<&str>, open_object: &str) {
        let mut content = Vec::with_capacity(open_object.len() + 96);
        if let Some(event) = event {
            let _ = writeln!(content, "event: {event}");
        }
        let _ = write!(
            content,
            "data: {open_object},\"fake\":{{\"seq\":{},\"sent_mono_ns\":{}",
            self.seq, self.now
        );
        if *self.seq == 0 {
            let _ = write!(content, ",\"recv_mono_ns\":{}", self.recv_end_ns);
        }
        content.extend_from_slice(b"}}\n\n");
        *self.seq += 1;
        self.chunk(&content);
    }

    /// `data: [DONE]`
    pub fn done(&mut self) {
        self.chunk(b"data: [DONE]\n\n");
    }

    /// Place of the next event in the stream.
    pub fn seq(&self) -> u64 {
        *self.seq
    }

    fn chunk(&mut self, content: &[u8]) {
        let _ = write!(self.out, "{:x}\r\n", content.len());
        self.out.extend_from_slice(content);
        self.out.extend_from_slice(b"\r\n");
    }
}

/// A caller's request id as it can stand inside JSON.
fn harmless(id: &str) -> String {
    id.chars()
        .map(|c| match c {
            '"' | '\\' => '_',
            c if c.is_control() => '_',
            c => c,
        })
        .collect()
}

/// The i-th output token: a blank and a word, so that words and tokens count the same.
pub(crate) fn word(i: u64) -> &'static str {
    const WORDS: [&str; 16] = [
        " river", " stone", " amber", " cloud", " maple", " ember", " delta", " north", " silver",
        " harbor", " meadow", " cedar", " orbit", " lantern", " quartz", " willow",
    ];
    WORDS[(i % 16) as usize]
}

/// A generation being paced.
pub(crate) struct Generation {
    facts: Facts,
    wire: Box<dyn Wire>,
    head: Option<Vec<u8>>,
    link: Link,
    recv_end_ns: u64,
    role_due: Option<u64>,
    first_due: u64,
    itl_ns: u64,
    step: u64,
    seq: u64,
    sends: Sends,
    metrics: Arc<ModelMetrics>,
}

impl Generation {
    pub fn new(engine: &Engine, ask: Ask, link: &Link, work: &Work, recv_end_ns: u64) -> Self {
        let wire: Box<dyn Wire> = match ask.endpoint {
            Endpoint::Chat => Box::new(chat::Chat),
            Endpoint::Completions => Box::new(completions::Completions),
            Endpoint::Responses => Box::new(responses::Responses),
        };
        let model = &engine.config.models[ask.model];
        let head_is_held = ask.stream && engine.config.head_with_first_event;
        Self {
            wire,
            head: head_is_held.then(|| stream_head(link)),
            link: link.clone(),
            recv_end_ns,
            role_due: (ask.stream && engine.config.role_at_once).then_some(recv_end_ns),
            first_due: recv_end_ns.saturating_add(work.ttft_ns),
            itl_ns: work.itl_ns,
            step: 0,
            seq: 0,
            sends: Sends::default(),
            metrics: Arc::clone(engine.metrics.model(ask.model)),
            facts: Facts {
                id: match &link.request_id {
                    Some(id) => harmless(id),
                    None => engine.fresh_id(),
                },
                model: serde_json::Value::from(model.as_str()).to_string(),
                created: unix_seconds(),
                ask,
            },
        }
    }

    fn due(&self, step: u64) -> u64 {
        self.first_due
            .saturating_add(self.itl_ns.saturating_mul(step))
    }

    fn stream_step(&mut self, now: u64, out: &mut Vec<u8>) {
        if let Some(head) = self.head.take() {
            out.extend_from_slice(&head);
        }
        let facts = &self.facts;
        let mut events = Events {
            out,
            now,
            recv_end_ns: self.recv_end_ns,
            seq: &mut self.seq,
        };
        if self.role_due.take().is_some() {
            self.wire.open(facts, &mut events);
            return;
        }
        if events.seq() == 0 {
            self.wire.open(facts, &mut events);
        }
        let last = self.step + 1 == facts.ask.tokens;
        for choice in 0..facts.ask.choices {
            let output = Output {
                choice,
                token: word(self.step),
                tokens: self.step + 1,
                last,
            };
            self.wire.output(facts, output, &mut events);
        }
        if last {
            self.wire.close(facts, &mut events);
            out.extend_from_slice(b"0\r\n\r\n");
            self.sends.done = Some(now);
        }
        self.sends.outputs.push(now);
        self.sends.tokens += facts.ask.choices;
        self.metrics.generated(facts.ask.choices);
        self.step += 1;
    }

    fn whole_step(&mut self, now: u64, out: &mut Vec<u8>) {
        let body = self.wire.whole(&self.facts);
        out.extend_from_slice(&Reply::json(200, body).bytes(&self.link));
        let tokens = self.facts.ask.tokens * self.facts.ask.choices;
        self.sends.outputs.push(now);
        self.sends.done = Some(now);
        self.sends.tokens = tokens;
        self.metrics.generated(tokens);
        self.step = self.facts.ask.tokens;
    }
}

impl Program for Generation {
    fn deadline(&self) -> Option<u64> {
        let ask = &self.facts.ask;
        if self.role_due.is_some() {
            self.role_due
        } else if self.step >= ask.tokens {
            None
        } else if ask.stream {
            Some(self.due(self.step))
        } else {
            Some(self.due(ask.tokens - 1))
        }
    }

    fn step(&mut self, now: u64, out: &mut Vec<u8>) -> After {
        if self.facts.ask.stream {
            self.stream_step(now, out);
        } else {
            self.whole_step(now, out);
        }
        After::Continue
    }

    fn into_sends(self: Box<Self>) -> Sends {
        self.sends
    }
}
