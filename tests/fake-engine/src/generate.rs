//! A generation: its output, and when each step of it is due (CLOCK_MONOTONIC ns).
//!
//! In exact mode step i is due at `recv_end + ttft + i * itl`; otherwise the timing model tells
//! when each token is ready. Neither is ever re-anchored: a late step does not move the next.
//! Every JSON event carries its place in the stream and the stamp
//! taken just before its send; the first one also when the request's last byte was received
//! (`fake.recv_mono_ns`). What an event looks like belongs to the endpoint's [`Wire`].
//! The surprise: all choices of an exact step, and everything before the first and after the last
//! output, travel in one send, each event in an HTTP chunk of its own.

use std::collections::VecDeque;
use std::io::Write as _;
use std::sync::Arc;

use crate::api::intake::Ask;
use crate::api::{Endpoint, Work, chat, completions, responses};
use crate::clock::unix_seconds;
use crate::engine::Engine;
use crate::http::{Link, Reply, stream_head};
use crate::metrics::ModelMetrics;
use crate::program::{After, Due, Program, Sends};

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

/// When a generation's steps are due.
enum Steps {
    /// At fixed gaps, all choices at once.
    Exact { first_due: u64, itl_ns: u64 },
    /// As the timing model tells: instant and choice of the tokens that are ready.
    Modelled(VecDeque<(u64, u64)>),
}

/// A generation being paced.
pub(crate) struct Generation {
    facts: Facts,
    wire: Box<dyn Wire>,
    head: Option<Vec<u8>>,
    link: Link,
    recv_end_ns: u64,
    role_due: Option<u64>,
    steps: Steps,
    /// Tokens sent of each choice.
    sent: Vec<u64>,
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
            steps: match work.pace {
                Some(pace) => Steps::Exact {
                    first_due: recv_end_ns.saturating_add(pace.ttft_ns),
                    itl_ns: pace.itl_ns,
                },
                None => Steps::Modelled(VecDeque::new()),
            },
            sent: (0..ask.choices).map(|_| 0).collect(),
            seq: 0,
            sends: Sends::default(),
            metrics: Arc::clone(engine.metrics.model(work.model)),
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

    /// Output tokens of all choices together.
    const fn all_tokens(&self) -> u64 {
        self.facts.ask.tokens * self.facts.ask.choices
    }

    fn stream_step(&mut self, now: u64, out: &mut Vec<u8>) {
        if let Some(head) = self.head.take() {
            out.extend_from_slice(&head);
        }
        let all_tokens = self.all_tokens();
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
        let choices: Vec<u64> = match &mut self.steps {
            Steps::Exact { .. } => (0..facts.ask.choices).collect(),
            Steps::Modelled(ready) => ready.drain(..).map(|(_, choice)| choice).collect(),
        };
        for &choice in &choices {
            let Some(sent) = self.sent.get_mut(choice as usize) else {
                continue;
            };
            let token = word(*sent);
            *sent += 1;
            let output = Output {
                choice,
                token,
                tokens: *sent,
                last: *sent == facts.ask.tokens,
            };
            self.wire.output(facts, output, &mut events);
        }
        self.sends.tokens += choices.len() as u64;
        if self.sends.tokens == all_tokens {
            self.wire.close(facts, &mut events);
            out.extend_from_slice(b"0\r\n\r\n");
            self.sends.done = Some(now);
        }
        self.sends.outputs.push(now);
        self.count(choices.len() as u64);
    }

    fn whole_step(&mut self, now: u64, out: &mut Vec<u8>) {
        let body = self.wire.whole(&self.facts);
        out.extend_from_slice(&Reply::json(200, body).bytes(&self.link));
        self.sends.outputs.push(now);
        self.sends.done = Some(now);
        self.sends.tokens = self.all_tokens();
        self.count(self.sends.tokens);
    }

    /// Counts tokens, which the timing model does itself.
    fn count(&self, tokens: u64) {
        if matches!(self.steps, Steps::Exact { .. }) {
            self.metrics.generated(tokens);
        }
    }
}

impl Program for Generation {
    fn due(&self) -> Due {
        let ask = &self.facts.ask;
        if let Some(role_due) = self.role_due {
            return Due::At(role_due);
        }
        if self.sends.tokens >= self.all_tokens() {
            return Due::Never;
        }
        match &self.steps {
            Steps::Exact { first_due, itl_ns } => {
                let sent = self.sent.first().copied().unwrap_or(0);
                let step = if ask.stream { sent } else { ask.tokens - 1 };
                Due::At(first_due.saturating_add(itl_ns.saturating_mul(step)))
            }
            Steps::Modelled(ready) => {
                let step = if ask.stream {
                    ready.front()
                } else if ready.len() as u64 == self.all_tokens() {
                    ready.back()
                } else {
                    None
                };
                step.map_or(Due::Waiting, |&(at_ns, _)| Due::At(at_ns))
            }
        }
    }

    fn token(&mut self, choice: u64, at_ns: u64) {
        if let Steps::Modelled(ready) = &mut self.steps {
            ready.push_back((at_ns, choice));
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
