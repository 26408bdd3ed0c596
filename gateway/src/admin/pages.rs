//! What the inner ports answer.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use http::header::{ALLOW, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, ORIGIN, WWW_AUTHENTICATE};
use http::{HeaderMap, Method, Response, StatusCode};
use inferscope_shared::clock::MonoNs;
use pingora::apps::http_app::ServeHttp;
use pingora::protocols::http::ServerSession;
use serde_json::json;

use super::query;
use crate::auth::{bearer, keys};
use crate::config::{Admin, Change, Secret};
use crate::server::{Current, Phase, ReloadError, Reloaded, Reloader, Services};

const TEXT: &str = "text/plain; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON: &str = "application/json";
const NDJSON: &str = "application/x-ndjson";

type Answer = Response<Vec<u8>>;

/// `/metrics`, `/livez`, `/readyz`.
pub(super) struct MetricsPort {
    current: Current,
}

impl MetricsPort {
    pub(super) fn new(current: &Current) -> Self {
        Self {
            current: current.clone(),
        }
    }

    fn page(&self, path: &str) -> Answer {
        match path {
            "/metrics" => match self.current.get().metrics.render() {
                Ok(text) => answer(StatusCode::OK, PROMETHEUS, text),
                Err(error) => {
                    tracing::error!(%error, "the metrics cannot be written");
                    let text = "the metrics cannot be written; the log says why\n";
                    answer(StatusCode::INTERNAL_SERVER_ERROR, TEXT, text)
                }
            },
            "/livez" => answer(StatusCode::OK, TEXT, "ok\n"),
            "/readyz" if self.current.get().draining() => {
                answer(StatusCode::SERVICE_UNAVAILABLE, TEXT, "draining\n")
            }
            "/readyz" => answer(StatusCode::OK, TEXT, "ok\n"),
            _ => not_found("/metrics, /livez and /readyz are served here\n"),
        }
    }
}

#[async_trait]
impl ServeHttp for MetricsPort {
    async fn response(&self, session: &mut ServerSession) -> Answer {
        let request = session.req_header();
        let page = refuse_method(&request.method).unwrap_or_else(|| self.page(request.uri.path()));
        without_body_for_head(&request.method, page)
    }
}

/// `/status`, `/records`, `/reload`.
pub(super) struct AdminPort {
    current: Current,
    reloader: Arc<Reloader>,
    token: Option<Secret>,
    started: Instant,
}

impl AdminPort {
    pub(super) fn new(current: &Current, reloader: &Arc<Reloader>, admin: &Admin) -> Self {
        Self {
            current: current.clone(),
            reloader: Arc::clone(reloader),
            token: admin.token.clone(),
            started: Instant::now(),
        }
    }

    fn refuse_caller(&self, headers: &HeaderMap) -> Option<Answer> {
        let token = self.token.as_ref()?;
        let shown = headers.get(AUTHORIZATION).and_then(bearer);
        if shown.is_some_and(|shown| keys::same_secret(shown, token)) {
            return None;
        }
        let mut refusal = answer(
            StatusCode::UNAUTHORIZED,
            TEXT,
            "send `Authorization: Bearer TOKEN` with the token of `admin.token`\n",
        );
        let challenge = http::HeaderValue::from_static("Bearer realm=\"inferscope-admin\"");
        refusal.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        Some(refusal)
    }

    async fn page(&self, method: &Method, path: &str, query: Option<&str>) -> Answer {
        let method = match (path, method) {
            ("/reload", &Method::POST) => return self.reload().await,
            ("/drain", &Method::POST) => return self.drain(query, true),
            ("/undrain", &Method::POST) => return self.drain(query, false),
            ("/reload" | "/drain" | "/undrain", _) => return wrong_method("POST"),
            _ => method,
        };
        if let Some(refusal) = refuse_method(method) {
            return refusal;
        }
        match path {
            "/status" => answer(StatusCode::OK, JSON, self.status()),
            "/records" => self.records(query).await,
            _ => not_found(
                "/status, /records?prefix=ID, and by POST /reload, /drain?pool=P&endpoint=E and \
                 /undrain?pool=P&endpoint=E are served here\n",
            ),
        }
    }

    fn drain(&self, query: Option<&str>, drained: bool) -> Answer {
        let done = query::endpoint(query).and_then(|(pool, endpoint)| {
            self.current.get().router.drain(&pool, &endpoint, drained)
        });
        match done {
            Ok(()) => answer(StatusCode::OK, JSON, self.status()),
            Err(why) => answer(StatusCode::BAD_REQUEST, TEXT, format!("{why}\n")),
        }
    }

    async fn reload(&self) -> Answer {
        let reloader = Arc::clone(&self.reloader);
        let done = tokio::task::spawn_blocking(move || reloader.reload()).await;
        let texts = |changes: &[Change]| -> Vec<String> {
            changes.iter().map(ToString::to_string).collect()
        };
        match done {
            Ok(Ok(Reloaded {
                changes,
                need_restart,
            })) => {
                let body = json!({
                    "reloaded": true,
                    "changes": texts(&changes),
                    "need_restart": texts(&need_restart),
                });
                answer(StatusCode::OK, JSON, format!("{body}\n"))
            }
            Ok(Err(error)) => {
                let status = match error {
                    ReloadError::NoFile => StatusCode::CONFLICT,
                    ReloadError::Config(_) => StatusCode::UNPROCESSABLE_ENTITY,
                };
                let problems: Vec<String> = error.to_string().lines().map(str::to_owned).collect();
                let body = json!({"reloaded": false, "problems": problems});
                answer(status, JSON, format!("{body}\n"))
            }
            Err(error) => {
                tracing::error!(%error, "the reload broke off");
                let text = "the log says why\n";
                answer(StatusCode::INTERNAL_SERVER_ERROR, TEXT, text)
            }
        }
    }

    fn status(&self) -> String {
        let services = &self.current.get();
        let phase = match *services.phase.borrow() {
            Phase::Serving => "serving",
            Phase::Draining => "draining",
            Phase::Cut => "cut",
        };
        let records = services.records.status();
        let status = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "phase": phase,
            "uptime_seconds": self.started.elapsed().as_secs(),
            "boot_id": services.boot_id,
            "requests_in_flight": services.metrics.requests_in_flight(),
            "models": services.config.models.keys().collect::<Vec<_>>(),
            "pools": services.config.pools.keys().collect::<Vec<_>>(),
            "endpoints": endpoints(services),
            "queues": queues(services),
            "records": {
                "in_ring": records.in_ring,
                "ring_bytes": records.ring_bytes,
                "evicted": records.evicted,
                "ring_dropped": records.ring_dropped,
                "file_dropped": records.file_dropped,
            },
        });
        format!("{status}\n")
    }

    async fn records(&self, query: Option<&str>) -> Answer {
        let prefix = match query::prefix(query) {
            Ok(prefix) => prefix,
            Err(why) => return answer(StatusCode::BAD_REQUEST, TEXT, format!("{why}\n")),
        };
        let records = Arc::clone(&self.current.get().records);
        // It may wait a moment, and it copies what may be many megabytes.
        let lines = tokio::task::spawn_blocking(move || records.query(prefix.as_deref())).await;
        match lines {
            Ok(lines) => answer(StatusCode::OK, NDJSON, lines),
            Err(error) => {
                tracing::error!(%error, "the records cannot be read");
                answer(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    TEXT,
                    "the log says why\n",
                )
            }
        }
    }
}

#[async_trait]
impl ServeHttp for AdminPort {
    async fn response(&self, session: &mut ServerSession) -> Answer {
        let request = session.req_header();
        let (path, query) = (request.uri.path(), request.uri.query());
        // A page in a browser on this host must not be able to drain an engine.
        let from_a_page = request.headers.contains_key(ORIGIN);
        let refusal = match from_a_page && request.method == Method::POST {
            true => Some(answer(StatusCode::FORBIDDEN, TEXT, "not from a web page\n")),
            false => self.refuse_caller(&request.headers),
        };
        let page = match refusal {
            Some(refusal) => refusal,
            None => self.page(&request.method, path, query).await,
        };
        without_body_for_head(&request.method, page)
    }
}

fn endpoints(services: &Services) -> serde_json::Value {
    let now = MonoNs::now();
    let all = services.router.endpoints().map(|(pool, endpoint)| {
        let (requests, tokens) = endpoint.load();
        json!({
            "pool": pool.name,
            "endpoint": endpoint.name,
            "state": endpoint.state(now).label(),
            "requests": requests,
            "tokens": tokens,
            "ejections": endpoint.ejections(),
        })
    });
    all.collect()
}

fn queues(services: &Services) -> serde_json::Value {
    let counts = services.admission.queue.counts();
    let queues = counts.into_iter().map(|(pool, in_flight, waiting)| {
        json!({"pool": pool, "in_flight": in_flight, "waiting": waiting})
    });
    queues.collect()
}

fn answer(status: StatusCode, content_type: &'static str, body: impl Into<Vec<u8>>) -> Answer {
    let body = body.into();
    let length = body.len();
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    headers.insert(CONTENT_LENGTH, length.into());
    answer
}

fn not_found(what_there_is: &'static str) -> Answer {
    answer(StatusCode::NOT_FOUND, TEXT, what_there_is)
}

fn refuse_method(method: &Method) -> Option<Answer> {
    if matches!(*method, Method::GET | Method::HEAD) {
        return None;
    }
    Some(wrong_method("GET, HEAD"))
}

fn wrong_method(allowed: &'static str) -> Answer {
    let text = format!("this path takes {allowed} only\n");
    let mut refusal = answer(StatusCode::METHOD_NOT_ALLOWED, TEXT, text);
    let allow = http::HeaderValue::from_static(allowed);
    refusal.headers_mut().insert(ALLOW, allow);
    refusal
}

/// The length of the body stays in the head.
fn without_body_for_head(method: &Method, mut answer: Answer) -> Answer {
    if *method == Method::HEAD {
        answer.body_mut().clear();
    }
    answer
}
