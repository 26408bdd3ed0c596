//! HTTP/1.1 as the fake engine speaks it: requests in, fixed-length answers and stream heads out.
//!
//! Reading is [`request`]'s. Answers look like vLLM's behind uvicorn: lower-case header names,
//! `date` first, the caller's `x-request-id` given back, `connection: close` only where the
//! client asked for it. `server` tells the truth.

use crate::clock::{http_date, unix_seconds};

pub(crate) mod request;

/// The `server` header of every answer.
const SERVER: &str = "inferscope-fake-engine";

/// An answer whose length is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub status: u16,
    pub content_type: Option<&'static str>,
    pub allow: Option<&'static str>,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn json(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            content_type: Some("application/json"),
            allow: None,
            body: body.into(),
        }
    }

    pub fn text(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self {
            content_type: Some("text/plain; charset=utf-8"),
            ..Self::json(status, body)
        }
    }

    pub fn empty(status: u16) -> Self {
        Self {
            content_type: None,
            ..Self::json(status, Vec::new())
        }
    }

    /// An error in the shape of OpenAI's API as vLLM fills it in.
    pub fn error(status: u16, kind: &str, param: Option<&str>, message: &str) -> Self {
        let body = serde_json::json!({
            "error": {"message": message, "type": kind, "param": param, "code": status}
        });
        Self::json(status, body.to_string())
    }

    /// The whole answer; without its body for HEAD.
    pub fn bytes(&self, link: &Link) -> Vec<u8> {
        let mut out = begin(self.status);
        if let Some(allow) = self.allow {
            header(&mut out, "allow", allow);
        }
        header(&mut out, "content-length", &self.body.len().to_string());
        if let Some(content_type) = self.content_type {
            header(&mut out, "content-type", content_type);
        }
        link.finish(&mut out);
        if !link.head_only {
            out.extend_from_slice(&self.body);
        }
        out
    }
}

/// What the request decides about the form of its answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Link {
    pub keep_alive: bool,
    pub head_only: bool,
    pub request_id: Option<String>,
}

impl Link {
    fn finish(&self, out: &mut Vec<u8>) {
        if let Some(id) = &self.request_id {
            header(out, "x-request-id", id);
        }
        if !self.keep_alive {
            header(out, "connection", "close");
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// The head of a chunked event stream.
pub(crate) fn stream_head(link: &Link) -> Vec<u8> {
    let mut out = begin(200);
    header(&mut out, "content-type", "text/event-stream; charset=utf-8");
    if let Some(id) = &link.request_id {
        header(&mut out, "x-request-id", id);
    }
    if !link.keep_alive {
        header(&mut out, "connection", "close");
    }
    header(&mut out, "transfer-encoding", "chunked");
    out.extend_from_slice(b"\r\n");
    out
}

fn begin(status: u16) -> Vec<u8> {
    let mut out = format!("HTTP/1.1 {status} {}\r\n", reason(status)).into_bytes();
    header(&mut out, "date", &http_date(unix_seconds()));
    header(&mut out, "server", SERVER);
    out
}

fn header(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value.as_bytes());
    out.extend_from_slice(b"\r\n");
}

const fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        413 => "Content Too Large",
        417 => "Expectation Failed",
        431 => "Request Header Fields Too Large",
        _ => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_length_id_and_close_where_asked() {
        let link = Link {
            keep_alive: false,
            head_only: true,
            request_id: Some("abc".into()),
        };
        let text = String::from_utf8(Reply::json(404, "{}").bytes(&link)).unwrap();
        assert!(text.starts_with("HTTP/1.1 404 Not Found\r\ndate: "));
        assert!(text.ends_with(
            "content-length: 2\r\ncontent-type: application/json\r\nx-request-id: abc\r\nconnection: close\r\n\r\n"
        ));
    }
}
