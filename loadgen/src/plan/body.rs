//! From an arrival to the bytes of its request.
//!
//! Built on a thread of its own, ahead of time, so that neither prompt nor JSON costs the
//! measuring thread anything.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{Arrival, Content, Plan, Point, salted_arms};
use crate::client::target::Target;
use crate::config::{Endpoint, EngineKind, Resolved};

/// A request ready to be sent.
#[derive(Debug)]
pub struct Prepared {
    /// Index of its arrival within the point.
    pub index: usize,
    /// Value of `x-request-id`.
    pub request_id: String,
    /// Value of `traceparent`.
    pub traceparent: String,
    /// The request.
    pub request: Request<Full<Bytes>>,
}

/// How loadgen names itself.
pub const USER_AGENT: &str = concat!("inferscope-loadgen/", env!("CARGO_PKG_VERSION"));

/// Builds the requests of one arm.
#[derive(Debug)]
pub struct Builder<'a> {
    config: &'a Resolved,
    plan: &'a Plan,
    target: Target,
    api_key: Option<String>,
    extra: Map<String, Value>,
}

impl<'a> Builder<'a> {
    /// A builder for requests to `target`, with `api_key` as bearer.
    #[must_use]
    pub fn new(
        config: &'a Resolved,
        plan: &'a Plan,
        target: Target,
        api_key: Option<String>,
    ) -> Self {
        let extra = config
            .request
            .body
            .as_deref()
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default();
        Self {
            config,
            plan,
            target,
            api_key,
            extra,
        }
    }

    /// The request of one arrival.
    ///
    /// # Errors
    /// When a header value cannot be sent.
    pub fn build(
        &self,
        point: &Point,
        index: usize,
        arrival: &Arrival,
    ) -> Result<Prepared, http::Error> {
        let request_id = request_id(&self.config.run_id, &point.id, arrival.seq);
        let traceparent = traceparent(&request_id);
        let path = path(self.config.request.endpoint);
        let mut request = Request::post(self.target.path(path))
            .header("host", self.target.host_header())
            .header("user-agent", USER_AGENT)
            .header("accept", "text/event-stream")
            .header("accept-encoding", "identity")
            .header("content-type", "application/json")
            .header("x-request-id", &request_id)
            .header("traceparent", &traceparent);
        if let Some(key) = &self.api_key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let body = Value::Object(self.body(point, arrival)).to_string();
        Ok(Prepared {
            index,
            request_id,
            traceparent,
            request: request.body(Full::new(Bytes::from(body)))?,
        })
    }

    fn body(&self, point: &Point, arrival: &Arrival) -> Map<String, Value> {
        let mut body = Map::new();
        body.insert("model".into(), json!(self.config.request.model));
        body.insert("max_tokens".into(), json!(arrival.output_tokens));
        body.insert("stream".into(), json!(true));
        body.insert("stream_options".into(), json!({"include_usage": true}));
        if let Some(temperature) = self.config.request.temperature {
            body.insert("temperature".into(), json!(temperature));
        }
        if knows_ignore_eos(self.config.engine.kind) {
            body.insert("ignore_eos".into(), json!(true));
        }
        let arms = salted_arms(self.config);
        let (prompt, messages, own) = match &arrival.content {
            Content::Words { .. } => (
                Some(self.plan.prompt_text(&arrival.content, point.arm, arms)),
                None,
                None,
            ),
            Content::Replay(line) => match self.plan.workload.as_ref().map(|w| &w.lines[*line]) {
                Some(line) => (line.prompt.clone(), line.messages.clone(), Some(&line.body)),
                None => (None, None, None),
            },
        };
        match (self.config.request.endpoint, messages, prompt) {
            (_, Some(messages), _) => body.insert("messages".into(), messages),
            (Endpoint::Chat, None, prompt) => body.insert(
                "messages".into(),
                json!([{"role": "user", "content": prompt.unwrap_or_default()}]),
            ),
            (Endpoint::Completions, None, prompt) => {
                body.insert("prompt".into(), json!(prompt.unwrap_or_default()))
            }
        };
        for (key, value) in self.extra.iter().chain(own.into_iter().flatten()) {
            if value.is_null() {
                body.remove(key);
            } else {
                body.insert(key.clone(), value.clone());
            }
        }
        body
    }
}

/// Where requests of an endpoint go.
#[must_use]
pub fn path(endpoint: Endpoint) -> &'static str {
    match endpoint {
        Endpoint::Chat => "/v1/chat/completions",
        Endpoint::Completions => "/v1/completions",
    }
}

/// The body of a request outside of a plan, for a stream with usage.
#[must_use]
pub fn question(
    endpoint: Endpoint,
    model: &str,
    prompt: &str,
    max_tokens: u64,
) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("model".into(), json!(model));
    body.insert("max_tokens".into(), json!(max_tokens));
    body.insert("stream".into(), json!(true));
    body.insert("stream_options".into(), json!({"include_usage": true}));
    match endpoint {
        Endpoint::Chat => body.insert(
            "messages".into(),
            json!([{"role": "user", "content": prompt}]),
        ),
        Endpoint::Completions => body.insert("prompt".into(), json!(prompt)),
    };
    body
}

/// Whether synthetic requests of this configuration have the engine go on after an answer's end.
#[must_use]
pub fn ignores_end(config: &Resolved) -> bool {
    let own = config.request.body.as_deref().unwrap_or("{}");
    let own: Map<String, Value> = serde_json::from_str(own).unwrap_or_default();
    match own.get("ignore_eos") {
        Some(stated) => stated == &json!(true),
        None => knows_ignore_eos(config.engine.kind),
    }
}

/// Engines that take `ignore_eos`, without which an answer may be shorter than asked for.
pub(crate) fn knows_ignore_eos(kind: EngineKind) -> bool {
    matches!(
        kind,
        EngineKind::Fake | EngineKind::Vllm | EngineKind::Llamacpp
    )
}

/// `<run_id>.<arm>.<point>.<seq>`; a point id is `<arm>.<point>`.
#[must_use]
pub fn request_id(run_id: &str, point_id: &str, seq: u64) -> String {
    format!("{run_id}.{point_id}.{seq}")
}

/// A W3C trace context of its own for each request id, sampled.
#[must_use]
pub fn traceparent(request_id: &str) -> String {
    let digest = Sha256::digest(request_id.as_bytes());
    format!(
        "00-{}-{}-01",
        hex::encode(&digest[..16]),
        hex::encode(&digest[16..24])
    )
}
