//! From a connection's bytes to a request that may go upstream, or the answer that says no.
//!
//! head -> authenticate -> route -> size -> body -> model -> admit. All of it happens before
//! pingora's proxy sees the request: bodies of any size and framing are whole and at hand then, so an
//! attempt can be repeated, and an `Expect: 100-continue` is answered only after the caller and
//! the size are known to be good.
//!
//! Limits: the head and the body have a deadline each, counted from the head's first byte and
//! its end. A client that leaves is noticed by the read that fails.

pub mod answer;
mod body;
pub mod edit;
pub mod facts;
pub mod ids;

use std::sync::Arc;

use http::{HeaderMap, Method, Version, header};
use inferscope_shared::clock::MonoNs;
use inferscope_shared::record::gateway::Outcome;
use pingora::ErrorType;
use pingora::protocols::Stream;
use pingora::protocols::http::v1::server::HttpSession as ClientSession;

use crate::admission::{Ask, Denied};
use crate::config::{OnFull, RecordsFile, Usage};
use crate::errors::{Kind, Refusal};
use crate::exchange::Exchange;
use crate::fault::Cause;
use crate::listener::Connection;
use crate::routing::Wants;
use crate::server::Current;
use crate::upstream;
use answer::Reply;
use edit::Edit;
use ids::Ids;

/// Longest text of a client that goes into a record, in characters.
const MAX_KEPT: usize = 256;

/// What became of the next request of a connection.
pub enum Received {
    /// There is none: the connection is over.
    Closed,
    /// It was answered here, and the connection goes on.
    Answered(Stream),
    /// It may go upstream.
    Ready(Box<Exchange>, Envelope, Stream),
}

/// What pingora's proxy has to know of a request that stays with us.
#[derive(Debug)]
pub struct Envelope {
    /// Its method.
    pub method: Method,
    /// Its version.
    pub version: Version,
    /// Whether the connection may serve another one.
    pub keep_alive: bool,
}

/// Why a request does not go upstream.
enum Stop {
    /// The gateway answers it: mostly with a no.
    Answered(Reply),
    /// The client left.
    Gone,
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Answered(Reply::from(&refusal))
    }
}

/// Receives the next request of `connection`.
pub async fn receive(stream: Stream, connection: &mut Connection) -> Received {
    let mut session = ClientSession::new(stream);
    session.set_read_timeout(None);
    session.set_pipelining_enabled(true);
    let head = tokio::select! {
        biased;
        head = session.read_request() => Some(head),
        () = connection.no_head_in_time() => None,
    };
    let now = MonoNs::now();
    let Some(accept) = connection.track.lock().head_started else {
        return Received::Closed;
    };
    let refusal = match head {
        Some(Ok(Some(_))) => None,
        Some(Ok(None)) => return Received::Closed,
        Some(Err(error)) if *error.etype() == ErrorType::InvalidHTTPHeader => {
            Some(Refusal::malformed_request())
        }
        Some(Err(_)) => return Received::Closed,
        None => Some(Refusal::request_timeout()),
    };
    let ids = match &refusal {
        None => Ids::of(&session.req_header().headers),
        Some(_) => Ids::of(&HeaderMap::new()),
    };
    let mut exchange = Box::new(Exchange::new(
        connection.current.get(),
        connection.track.clone(),
        ids,
        accept,
    ));
    if let Some(refusal) = refusal {
        session.set_server_keepalive(None);
        return answer::answer(session, exchange, &Reply::from(&refusal), connection).await;
    }
    exchange.times.head = Some(now);
    match admit(&mut session, &mut exchange, &connection.current).await {
        Ok(()) => hand_over(session, exchange, connection).await,
        Err(Stop::Answered(reply)) => answer::answer(session, exchange, &reply, connection).await,
        Err(Stop::Gone) => {
            exchange.ended(Outcome::ClientGone, Cause::ClientGone);
            exchange.settle();
            Received::Closed
        }
    }
}

/// Everything that can refuse a request, in the order of what it costs.
async fn admit(
    session: &mut ClientSession,
    exchange: &mut Exchange,
    current: &Current,
) -> Result<(), Stop> {
    let services = exchange.services.clone();
    let config = &services.config;
    let request = session.req_header();
    let path = request.raw_path().split(|&b| b == b'?').next();
    exchange.path = kept(&String::from_utf8_lossy(path.unwrap_or_default()));
    exchange
        .track
        .expect_answer(request.method == Method::HEAD, config.records.hash);

    let principal = services.auth.authenticate(&request.headers)?;
    exchange.times.auth = Some(MonoNs::now());
    exchange.principal = Some(principal.clone());
    if services.draining() {
        return Err(Refusal::draining().into());
    }
    let must_record = |file: &RecordsFile| file.on_full == OnFull::Refuse;
    if config.records.file.as_ref().is_some_and(must_record) && !services.records.writable() {
        return Err(Refusal::from(Kind::Unrecorded).into());
    }
    if !plainly_framed(session) {
        return Err(Refusal::unclear_framing().into());
    }
    let route = services
        .routes
        .resolve(&request.method, request.raw_path())?;
    exchange.path = kept(&route.path);
    if route.path == "/v1/models" && !config.models.is_empty() {
        // The engine knows its own names, not the aliases that can be asked for here.
        let list = services
            .router
            .list(|alias| principal.may_use(alias).is_ok());
        return Err(Stop::Answered(Reply::document(list)));
    }

    let read = body::read(session, config).await;
    if read.is_err() {
        // Where the next request begins is not known any more.
        session.set_server_keepalive(None);
    }
    exchange.body = read?;
    exchange.bytes_in = exchange.body.len() as u64;
    exchange.times.body = Some(MonoNs::now());

    let facts = body::facts(session, &exchange.body, &services).await?;
    exchange.stream = facts.stream;
    let name = facts.model.as_ref().map(|m| m.name.as_str());
    exchange.model = name.map(kept);
    match name {
        Some(name) => principal.may_use(name)?,
        // The engine would choose a model by itself, past the table and the caller's list.
        None if !config.models.is_empty() && session.req_header().method == Method::POST => {
            return Err(Refusal::model_required().into());
        }
        None => {}
    }
    let mut target = services.router.target(name)?;
    target.pool.open(MonoNs::now())?;
    let mut ask = Ask::new(exchange, &facts, &target, &session.req_header().headers);
    let mut edits = services.admission.limits.fit(&mut ask, &facts)?;
    if let (Some(model), Some(upstream)) = (&facts.model, &target.upstream_model) {
        edits.extend(Edit::model(model, upstream));
    }
    let injects = config.usage == Usage::Inject && ask.generates && facts.stream;
    if injects
        && facts.first_member > 0
        && let Some(edit) = edit::ask_for_usage(&exchange.body, &facts)
    {
        edits.push(edit);
        exchange.cut_usage = true;
    }
    exchange.body = edit::apply(&exchange.body, edits);
    exchange.wants = Wants {
        tokens: ask.tokens(),
        session: target.pool.session(&session.req_header().headers),
    };
    exchange.target = Some(target.clone());
    // From here on the client's stream only says whether the client is still there.
    exchange.track.exchange();
    let gone = async {
        let _ = session.read_body_or_idle(true).await;
    };
    exchange.permit = match services.admission.admit(ask, gone).await {
        Ok(permit) => Some(permit),
        Err(Denied::Refused(refusal)) => return Err(refusal.into()),
        Err(Denied::Gone) => return Err(Stop::Gone),
    };
    exchange.times.admitted = Some(MonoNs::now());
    // A reload may have come while it waited, and its place may be at an endpoint that is new.
    if let Some(pool) = current.get().router.pool(&target.pool.name) {
        target.pool = Arc::clone(pool);
    }
    exchange.upstream_head = Some(upstream::head_for_pool(
        session.req_header(),
        &route,
        &target,
        &exchange.ids,
        exchange.body.len(),
    )?);
    exchange.target = Some(target);
    Ok(())
}

/// The connection's stream out of the session that read the request.
async fn hand_over(
    session: ClientSession,
    exchange: Box<Exchange>,
    connection: &Connection,
) -> Received {
    let envelope = Envelope {
        method: session.req_header().method.clone(),
        version: session.req_header().version,
        keep_alive: session.will_keepalive(),
    };
    match connection.release(session).await {
        Some(stream) => Received::Ready(exchange, envelope, stream),
        None => Received::Closed,
    }
}

/// As much of a client's text as a record keeps.
fn kept(text: &str) -> String {
    match text.char_indices().nth(MAX_KEPT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Whether it is beyond doubt where the body ends: no transfer coding but `chunked`, and no
/// length beside it. (pingora drops such a length from the parsed head, so the raw one is asked.)
fn plainly_framed(session: &ClientSession) -> bool {
    let mut codings = session
        .req_header()
        .headers
        .get_all(header::TRANSFER_ENCODING)
        .iter()
        .peekable();
    if codings.peek().is_none() {
        return true;
    }
    let has_length = session
        .get_headers_raw_bytes()
        .split(|b| *b == b'\n')
        .any(|line| line.len() > 14 && line[..14].eq_ignore_ascii_case(b"content-length"));
    !has_length && codings.all(|v| v.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"))
}

/// Whether the client waits for a word before it sends its body.
fn expects_continue(session: &ClientSession) -> bool {
    session.req_header().version >= Version::HTTP_11
        && session
            .get_header(header::EXPECT)
            .is_some_and(|v| v.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}
