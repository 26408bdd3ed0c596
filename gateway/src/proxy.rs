//! pingora's side of a request: each phase notes what it saw and asks one module.
//!
//! By the time pingora gets a request, [`crate::intake`] has read, checked and buffered it, so
//! the session here stands for a request with a one-byte body; the real one, of any size, is put
//! in its place in [`ProxyHttp::request_body_filter`], again on each attempt. That is what makes
//! a body larger than pingora's 64 KiB retry buffer work at all.
//!
//! The surprise: a request comes in as the "context of the connection's previous request", which
//! is the one way to hand a value to pingora's own context.

use std::any::Any;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{StatusCode, Version, header};
use inferscope_shared::clock::MonoNs;
use inferscope_shared::record::gateway::Outcome;
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::modules::http::HttpModules;
use pingora::prelude::{HttpPeer, Session};
use pingora::protocols::Digest;
use pingora::proxy::{FailToProxy, ProxyHttp, ProxyWarnLogContext};
use pingora::upstreams::peer::Peer as _;
use pingora::{Error, ErrorType, Result};

use crate::exchange::Exchange;
use crate::fault::Cause;
use crate::metrics::labels::Retry;
use crate::relay::excise::Excise;
use crate::relay::observe::Body;
use crate::{fault, upstream};

/// Attempts towards engines, the first included.
const MAX_ATTEMPTS: u32 = 4;

/// See the module head.
#[derive(Debug, Default)]
pub struct Gateway;

/// Null only between pingora's making the context and its handing in the request.
pub type Context = Option<Box<Exchange>>;

/// Whether a request that found no connection goes on elsewhere; if so, that is counted.
fn connect_again(exchange: &Exchange) -> bool {
    let again = exchange.may_try_another() && exchange.attempts < MAX_ATTEMPTS;
    if again {
        exchange.services.metrics.retried(Retry::Connect);
    }
    again
}

fn exchange(ctx: &mut Context) -> Result<&mut Exchange> {
    ctx.as_deref_mut()
        .ok_or_else(|| Error::explain(ErrorType::InternalError, "a session without a request"))
}

#[async_trait]
impl ProxyHttp for Gateway {
    type CTX = Context;

    fn new_ctx(&self) -> Context {
        None
    }

    fn init_downstream_modules(&self, _modules: &mut HttpModules) {}

    fn on_connection_reuse(
        &self,
        _session: &mut Session,
        ctx: &mut Context,
        request: Box<dyn Any + Send + Sync>,
    ) {
        *ctx = request.downcast().ok();
    }

    async fn upstream_peer(
        &self,
        _session: &mut Session,
        ctx: &mut Context,
    ) -> Result<Box<HttpPeer>> {
        let exchange = exchange(ctx)?;
        exchange.track.set_connecting(true);
        let mut lease = exchange
            .next_lease()
            .ok_or_else(|| Error::explain(fault::NO_ENDPOINT, "all endpoints are drained"))?;
        let services = exchange.services.clone();
        let timeouts = &services.config.timeouts;
        let found = lease.endpoint().address.resolve(timeouts.connect).await;
        let (address, addresses) = match found {
            Ok(found) => found,
            Err(cause) => {
                lease.failed();
                let name = lease.endpoint().name.clone();
                let mut error = Error::because(fault::UNRESOLVED, name, cause);
                error.set_retry(connect_again(exchange));
                return Err(error);
            }
        };
        let idle = lease.idle();
        let mut peer = upstream::peer(address, timeouts, idle);
        if exchange.replayed {
            upstream::make_fresh(&mut peer, exchange.times.accept);
        }
        exchange.found(addresses);
        exchange.lease = Some(lease);
        Ok(peer)
    }

    fn fail_to_connect(
        &self,
        _session: &mut Session,
        peer: &HttpPeer,
        ctx: &mut Context,
        mut error: Box<Error>,
    ) -> Box<Error> {
        if let Ok(exchange) = exchange(ctx) {
            if let Some(lease) = &mut exchange.lease {
                lease.failed();
                if let Some(address) = peer.address().as_inet() {
                    lease.endpoint().address.failed(*address);
                }
            }
            error.set_retry(connect_again(exchange));
        }
        error
    }

    async fn connected_to_upstream(
        &self,
        _session: &mut Session,
        reused: bool,
        _peer: &HttpPeer,
        _fd: std::os::unix::io::RawFd,
        _digest: Option<&Digest>,
        ctx: &mut Context,
    ) -> Result<()> {
        let exchange = exchange(ctx)?;
        exchange.track.set_connecting(false);
        exchange.times.connected = Some(MonoNs::now());
        exchange.conn_reused = Some(reused);
        Ok(())
    }

    async fn upstream_request_filter(
        &self,
        _session: &mut Session,
        request: &mut RequestHeader,
        ctx: &mut Context,
    ) -> Result<()> {
        let exchange = exchange(ctx)?;
        let (Some(head), Some(lease)) = (&exchange.upstream_head, &exchange.lease) else {
            // What stands in for the request must not go out in its place.
            return Err(Error::explain(
                ErrorType::InternalError,
                "a request without a head or an endpoint",
            ));
        };
        *request = upstream::head_for_endpoint(head, lease.endpoint())?;
        exchange.sent(MonoNs::now());
        Ok(())
    }

    async fn request_body_filter(
        &self,
        _session: &mut Session,
        body: &mut Option<Bytes>,
        end_of_stream: bool,
        ctx: &mut Context,
    ) -> Result<()> {
        let exchange = exchange(ctx)?;
        if !exchange.body.is_empty() {
            *body = Some(if end_of_stream {
                exchange.body.clone()
            } else {
                Bytes::new()
            });
        }
        exchange.sent(MonoNs::now());
        Ok(())
    }

    async fn upstream_response_filter(
        &self,
        _session: &mut Session,
        response: &mut ResponseHeader,
        ctx: &mut Context,
    ) -> Result<()> {
        if response.status == StatusCode::SWITCHING_PROTOCOLS {
            // Nobody asked for it, and behind it lie bytes that nothing here would follow.
            return Error::e_explain(ErrorType::InvalidHTTPHeader, "101 without an upgrade");
        }
        if response.status.is_informational() {
            return Ok(());
        }
        let exchange = exchange(ctx)?;
        exchange.times.response_head = Some(MonoNs::now());
        exchange.answer = Body::of(&response.headers);
        exchange.track.lock().watch.head(exchange.answer);
        if exchange.answer == Body::Events {
            exchange.open = Some(exchange.services.metrics.open_stream());
            exchange.excise = exchange.cut_usage.then(Excise::default);
            // With a length pingora would hold pieces back until its buffer is full.
            response.remove_header(&header::CONTENT_LENGTH);
        }
        if let Some(lease) = &mut exchange.lease {
            if response.status.is_server_error() {
                lease.failed();
            } else {
                lease.began();
            }
        }
        if response.status.is_server_error() {
            exchange.ended(Outcome::UpstreamError, Cause::Status5xx);
        }
        Ok(())
    }

    async fn response_filter(
        &self,
        session: &mut Session,
        response: &mut ResponseHeader,
        ctx: &mut Context,
    ) -> Result<()> {
        if response.status.is_informational() {
            return Ok(());
        }
        let exchange = exchange(ctx)?;
        response.insert_header("x-request-id", &exchange.ids.request)?;
        if let Some(permit) = &exchange.permit {
            for (name, value) in permit.fields() {
                response.insert_header(name, value)?;
            }
        }
        if session.req_header().version < Version::HTTP_11
            && response.remove_header(&header::TRANSFER_ENCODING).is_some()
        {
            // Such a client knows no chunks: its body ends with the connection.
            session.set_keepalive(None);
        }
        if exchange.services.draining() {
            session.set_keepalive(None);
        }
        Ok(())
    }

    fn upstream_response_body_filter(
        &self,
        _session: &mut Session,
        body: &mut Option<Bytes>,
        end_of_stream: bool,
        ctx: &mut Context,
    ) -> Result<Option<Duration>> {
        if let Some(exchange) = ctx {
            exchange.pass(body, end_of_stream, MonoNs::now());
        }
        Ok(None)
    }

    fn error_while_proxy(
        &self,
        _peer: &HttpPeer,
        session: &mut Session,
        mut error: Box<Error>,
        ctx: &mut Context,
        client_reused: bool,
    ) -> Box<Error> {
        let again = client_reused
            && fault::answered(session).is_none()
            && ctx.as_deref_mut().is_some_and(|exchange| {
                exchange.times.response_head.is_none()
                    && exchange.attempts < MAX_ATTEMPTS
                    && fault::is_stale(&error, exchange.since_sent(MonoNs::now()))
                    && !std::mem::replace(&mut exchange.replayed, true)
            });
        if again && let Some(exchange) = ctx {
            exchange.services.metrics.retried(Retry::Stale);
        }
        error.set_retry(again);
        error
    }

    async fn fail_to_proxy(
        &self,
        session: &mut Session,
        error: &Error,
        ctx: &mut Context,
    ) -> FailToProxy {
        let error_code = match ctx {
            Some(exchange) => fault::answer(session, error, exchange).await,
            None => StatusCode::INTERNAL_SERVER_ERROR.as_u16(),
        };
        FailToProxy {
            error_code,
            can_reuse_downstream: false,
        }
    }

    /// The record has it, under the names of the real request.
    fn suppress_error_log(&self, _: &Session, _: &Context, _: &Error) -> bool {
        true
    }

    fn suppress_proxy_warn_log(
        &self,
        _: &Session,
        _: &Context,
        _: &Error,
        _: ProxyWarnLogContext,
    ) -> bool {
        true
    }

    async fn logging(&self, _session: &mut Session, _error: Option<&Error>, ctx: &mut Context) {
        if let Some(exchange) = ctx {
            exchange.settle();
        }
    }
}
