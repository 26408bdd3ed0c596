//! One connection, served by one thread: read a request, have it answered, again.
//!
//! This thread reads and stamps; paced answers are the pacer's, and meanwhile the thread watches
//! for the client leaving and moves what the socket did not take at once. As in vLLM, FIN from
//! the client means that it is gone, in every phase, and gets no answer.
//! The surprise: bytes that arrive during an answer are kept for the next request, up to 64 KiB,
//! after which the client is left to wait.

use std::sync::Arc;
use std::time::Duration;

use crate::api::{self, Answer, Work};
use crate::clock::now_ns;
use crate::engine::Engine;
use crate::http::request::{Body, Head, parse_head};
use crate::http::{Link, Reply};
use crate::line::Line;
use crate::log;
use crate::pacer::Arrival;
use crate::program::{After, End, Program};
use crate::recorder::{ClosedBy, RecordedRequest};

mod socket;

use socket::Socket;

/// Goes on, or says who ended the connection.
type Flow<T> = Result<T, ClosedBy>;

/// How long a refused request's rest is read away, so that the refusal isn't lost to a reset.
const LINGER: Duration = Duration::from_secs(1);

/// Serves a connection until it ends.
pub(crate) fn serve(engine: &Arc<Engine>, line: &Arc<Line>, id: u64) {
    let mut connection = Connection {
        engine,
        socket: Socket::new(line, engine.config.tolerate_half_close),
        id,
    };
    let by = loop {
        if let Err(by) = connection.exchange() {
            break by;
        }
    };
    engine.recorder.closed(id, by, now_ns());
}

struct Connection<'a> {
    engine: &'a Arc<Engine>,
    socket: Socket<'a>,
    id: u64,
}

/// A request's stamps and place, as far as they are known.
struct Received {
    head: Head,
    link: Link,
    seq: u64,
    first_ns: u64,
    head_ns: u64,
    end_ns: u64,
}

impl Connection<'_> {
    /// One request and its answer.
    fn exchange(&mut self) -> Flow<()> {
        let head = self.read_head()?;
        let (first_ns, head_ns) = (self.socket.first_ns, self.socket.last_ns);
        let mut body = match Body::of(&head) {
            Ok(body) => body,
            Err(refusal) => return Err(self.refuse(&refusal)),
        };
        let link = head.link();
        let route = self.engine.stage.route(head.path()).cloned();
        let early = route.as_ref().is_some_and(|r| r.before_body);
        if !early {
            self.read_body(&head, &mut body)?;
        }
        let end_ns = if early { head_ns } else { self.socket.last_ns };
        self.socket.begin_next();
        let mut received = Received {
            head,
            link,
            seq: 0,
            first_ns,
            head_ns,
            end_ns,
        };
        received.seq = self.record(&received, &body.decoded, early);
        let answer = match route {
            Some(route) => api::scripted(self.engine, &route.name, end_ns),
            None => api::answer(self.engine, &received.head, &body.decoded, end_ns),
        };
        match answer {
            Answer::Now(reply) => self.reply(&received, &reply)?,
            Answer::Paced {
                head,
                program,
                work,
                arrival,
            } => self.paced(&received, &head, (program, arrival), work)?,
        }
        if early {
            self.read_body(&received.head, &mut body)?;
            self.socket.begin_next();
        }
        Ok(())
    }

    fn read_head(&mut self) -> Flow<Head> {
        loop {
            match parse_head(&self.socket.buffer) {
                Ok(Some(head)) => {
                    self.socket.buffer.drain(..head.raw.len());
                    return Ok(head);
                }
                Ok(None) if self.socket.buffer.is_empty() => {
                    self.socket.fill(Some(self.engine.config.keep_alive))?;
                }
                Ok(None) => self.socket.fill(None)?,
                Err(refusal) => return Err(self.refuse(&refusal)),
            }
        }
    }

    fn read_body(&mut self, head: &Head, body: &mut Body) -> Flow<()> {
        let mut invite = head.expects_continue();
        loop {
            if let Err(refusal) = body.take(&mut self.socket.buffer) {
                return Err(self.refuse(&refusal));
            }
            if body.complete() {
                return Ok(());
            }
            if std::mem::take(&mut invite) {
                self.socket.send_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
            }
            self.socket.fill(None)?;
        }
    }

    /// Answers what is no request, then closes.
    fn refuse(&mut self, refusal: &Reply) -> ClosedBy {
        let sent = self.socket.send_all(&refusal.bytes(&Link::default()));
        match sent {
            Ok(()) => self.socket.linger(LINGER),
            Err(by) => by,
        }
    }

    fn record(&self, received: &Received, body: &[u8], early: bool) -> u64 {
        let recorder = &self.engine.recorder;
        let head = &received.head;
        recorder.request(RecordedRequest {
            seq: 0,
            connection: self.id,
            method: head.method.clone(),
            target: head.target.clone(),
            headers: head
                .headers
                .iter()
                .map(|(n, v)| (n.clone(), String::from_utf8_lossy(v).into_owned()))
                .collect(),
            head: head.raw.clone(),
            body: body[..body.len().min(recorder.max_body)].to_vec(),
            body_bytes: body.len() as u64,
            recv_first_ns: received.first_ns,
            recv_head_ns: received.head_ns,
            recv_end_ns: (!early).then_some(received.end_ns),
            end: None,
            end_ns: None,
        })
    }

    fn reply(&mut self, received: &Received, reply: &Reply) -> Flow<()> {
        let sent = self.socket.send_all(&reply.bytes(&received.link));
        let end = if sent.is_ok() {
            End::Done
        } else {
            End::ClientGone
        };
        self.engine.recorder.ended(received.seq, end, now_ns());
        sent?;
        if received.link.keep_alive {
            Ok(())
        } else {
            Err(ClosedBy::Engine)
        }
    }

    fn paced(
        &mut self,
        received: &Received,
        head: &[u8],
        (program, arrival): (Box<dyn Program>, Option<Arrival>),
        work: Option<Work>,
    ) -> Flow<()> {
        // A failed head shows up again in the watch, which has the job aborted.
        let _ = self.socket.send_all(head);
        let id = self.engine.pacer.submit(self.socket.line, program, arrival);
        let (outcome, left) = self.socket.watch(&self.engine.pacer, id);
        let ended_ns = now_ns();
        let end = match (outcome.end, work) {
            (End::Done, None) => End::Script,
            (end, _) => end,
        };
        if let Some(work) = &work {
            let model = self.engine.metrics.model(work.model);
            model.ended(work, end, &outcome.sends, received.end_ns);
        }
        if self.engine.log.is_on() {
            let sends = &outcome.sends;
            let pace = work.and_then(|w| w.pace);
            self.engine.log.write(&log::Entry {
                request_id: received.link.request_id.as_deref(),
                path: received.head.path(),
                connection: self.id,
                recv_first_ns: received.first_ns,
                recv_head_ns: received.head_ns,
                recv_end_ns: received.end_ns,
                ttft_ns: pace.map(|p| p.ttft_ns),
                itl_ns: pace.map(|p| p.itl_ns),
                first_output_sent_ns: sends.outputs.first().copied(),
                last_output_sent_ns: sends.outputs.last().copied(),
                done_sent_ns: sends.done,
                end_ns: ended_ns,
                events_sent_ns: log::deltas(&sends.outputs),
                blocked: outcome.blocked,
                prompt_tokens: work.map(|w| w.prompt_tokens),
                completion_tokens: sends.tokens,
                end,
            });
        }
        self.engine.recorder.ended(received.seq, end, ended_ns);
        match (outcome.after, left) {
            (_, Some(by)) => Err(by),
            (After::Reset, None) => {
                self.socket.reset_on_close();
                Err(ClosedBy::Engine)
            }
            (After::Close, None) => {
                self.socket.discard_unread();
                Err(if end == End::ClientGone {
                    ClosedBy::ClientReset
                } else {
                    ClosedBy::Engine
                })
            }
            // A script says itself when its connection ends.
            _ if received.link.keep_alive || work.is_none() => Ok(()),
            _ => Err(ClosedBy::Engine),
        }
    }
}
