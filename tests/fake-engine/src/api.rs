//! Paths to answers.
//!
//! Each submodule owns one part of vLLM's API; this one routes, and turns an inference request
//! into a paced answer. Sending and timing belong to `pacer` and `generate`.

use crate::engine::Engine;
use crate::generate::Generation;
use crate::http::request::Head;
use crate::http::{Link, Reply, stream_head};
use crate::pacer::Arrival;
use crate::program::Program;
use crate::script::Play;

pub(crate) mod chat;
pub(crate) mod completions;
pub(crate) mod intake;
mod refusal;
pub(crate) mod responses;
mod sequences;
pub(crate) mod service;

/// The three ways to ask for text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Chat,
    Completions,
    Responses,
}

/// What a request is answered with.
pub(crate) enum Answer {
    /// At once.
    Now(Reply),
    /// By the pacer, after `head` has been sent at once.
    Paced {
        head: Vec<u8>,
        program: Box<dyn Program>,
        work: Option<Work>,
        /// What the timing model is to generate, where it decides.
        arrival: Option<Arrival>,
    },
}

/// What a generation is counted as.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    /// Index of the model among those served.
    pub model: usize,
    pub prompt_tokens: u64,
    pub finish_reason: &'static str,
    /// `None` where the timing model decides.
    pub pace: Option<Pace>,
}

/// The exact mode's plan of an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// From the request's last byte to the first output.
    pub ttft_ns: u64,
    pub itl_ns: u64,
}

/// A scripted answer, its steps counted from `start_ns`.
pub(crate) fn scripted(engine: &Engine, name: &str, start_ns: u64) -> Answer {
    match engine.stage.take(name) {
        Some(script) => Answer::Paced {
            head: Vec::new(),
            program: Box::new(Play::new(script, start_ns)),
            work: None,
            arrival: None,
        },
        None => Answer::Now(Reply::error(
            404,
            "NotFoundError",
            Some("model"),
            &format!("There is no script `{name}`; add it to the engine's scripts."),
        )),
    }
}

/// The answer to a whole request.
pub(crate) fn answer(engine: &Engine, head: &Head, body: &[u8], recv_end_ns: u64) -> Answer {
    let endpoint = match head.path() {
        "/v1/chat/completions" => Endpoint::Chat,
        "/v1/completions" => Endpoint::Completions,
        "/v1/responses" => Endpoint::Responses,
        _ => return Answer::Now(service::answer(engine, head, body)),
    };
    if head.method != "POST" {
        return Answer::Now(service::method_not_allowed("POST"));
    }
    match inference(engine, endpoint, &head.link(), body, recv_end_ns) {
        Ok(answer) => answer,
        Err(reply) => Answer::Now(reply),
    }
}

fn inference(
    engine: &Engine,
    endpoint: Endpoint,
    link: &Link,
    body: &[u8],
    recv_end_ns: u64,
) -> Result<Answer, Reply> {
    let json = intake::json(body)?;
    if let Some(name) = intake::script_name(&json) {
        return Ok(scripted(engine, name, recv_end_ns));
    }
    let ask = intake::Ask::read(endpoint, &json, &engine.config)?;
    let arrival = engine.config.timing.as_ref().map(|parameters| Arrival {
        at_ns: recv_end_ns,
        sequences: sequences::of(&ask, parameters),
    });
    let work = Work {
        // As with vLLM, all names are one engine's, and its metrics carry the first.
        model: if arrival.is_some() { 0 } else { ask.model },
        prompt_tokens: ask.prompt_tokens,
        finish_reason: ask.finish_reason(),
        pace: arrival.is_none().then(|| exact_pace(engine, &ask)),
    };
    let stream = ask.stream;
    let generation = Generation::new(engine, ask, link, &work, recv_end_ns);
    let head = if stream && !engine.config.head_with_first_event {
        stream_head(link)
    } else {
        Vec::new()
    };
    Ok(Answer::Paced {
        head,
        program: Box::new(generation),
        work: Some(work),
        arrival,
    })
}

/// The exact mode's plan, and its count of what begins.
fn exact_pace(engine: &Engine, ask: &intake::Ask) -> Pace {
    let prefix = ask.prompt_prefix();
    let seen = engine.prefixes.seen(&prefix);
    engine.metrics.model(ask.model).admitted(ask, &prefix, seen);
    let ttft = match engine.config.ttft_seen {
        Some(short) if seen => short,
        _ => engine.config.ttft,
    };
    Pace {
        ttft_ns: crate::clock::ns(ttft),
        itl_ns: crate::clock::ns(engine.config.itl),
    }
}
