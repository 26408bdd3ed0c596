//! The client's stream, wrapped: it stamps what the HTTP layer above cannot see.
//!
//! Owned here: the first byte of each request head, the instant the kernel took each run of
//! answer bytes, and the time that writes found the socket full. pingora gets it as any other
//! stream. What the stamps mean for a request is [`super::track`]'s and the relay's business.
//!
//! Small writes are gathered until the HTTP layer flushes, so that a chunk's size line, data and
//! line end leave as one packet. While an answer is under way a read never hands bytes up: what
//! a client pipelines is kept for the next request, so the read that pingora keeps pending sees
//! exactly two things, the client leaving and a tripped limit.
//!
//! The surprise: that read wakes nobody once it has [`AHEAD_BYTES`] of later requests in hand, or
//! a FIN that the port tolerates, for there is nothing more it may take from the socket. Such a
//! client's leaving is seen by the next write or a limit. A trip needs no waker: who trips polls
//! the proxy in the same task.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use async_trait::async_trait;
use inferscope_shared::clock::MonoNs;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::{
    GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl,
    TimingDigest, UniqueID, UniqueIDType,
};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use super::track::Track;

/// Writes up to this many bytes wait for the flush; larger ones go straight to the kernel.
const GATHER_BYTES: usize = 16 * 1024;
/// How much of the next request is taken in while an answer is under way.
const AHEAD_BYTES: usize = 64 * 1024;

/// Whether the connection of a client that has shut its sending side is still served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFin {
    /// FIN means the client is gone (what engines do).
    Gone,
    /// Only a reset or a failed write does.
    Tolerate,
}

/// See the module head.
#[derive(Debug)]
pub struct StampedStream<S> {
    inner: S,
    id: UniqueIDType,
    on_fin: OnFin,
    fin: bool,
    track: Arc<Track>,
    /// Accepted from above; `gathered[sent..]` is not yet taken by the kernel.
    gathered: Vec<u8>,
    sent: usize,
    /// Bytes of the next request and when the first of them came.
    ahead: Vec<u8>,
    ahead_at: Option<MonoNs>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> StampedStream<S> {
    /// Wraps `inner`; `id` is unique among open connections (its descriptor).
    pub fn new(inner: S, id: UniqueIDType, on_fin: OnFin, track: Arc<Track>) -> Self {
        Self {
            inner,
            id,
            on_fin,
            fin: false,
            track,
            gathered: Vec::new(),
            sent: 0,
            ahead: Vec::new(),
            ahead_at: None,
        }
    }

    /// Puts back bytes that were read past the end of a request.
    pub fn unread(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.ahead.splice(0..0, bytes.iter().copied());
            self.ahead_at.get_or_insert_with(MonoNs::now);
        }
    }

    /// The kernel took `bytes`; `all` when nothing is waiting behind them.
    fn delivered(track: &Track, bytes: &[u8], all: bool) {
        let now = MonoNs::now();
        let mut state = track.lock();
        state.delivery.unblocked(now);
        state.delivery.written(bytes, now);
        if all {
            state.watch.look();
        }
    }

    fn blocked(&self) -> Poll<io::Error> {
        if self.track.tripped().is_some() {
            return Poll::Ready(io::ErrorKind::TimedOut.into());
        }
        self.track.lock().delivery.blocked(MonoNs::now());
        Poll::Pending
    }

    /// Hands everything gathered to the kernel.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.gathered.len() {
            let rest = &self.gathered[self.sent..];
            match Pin::new(&mut self.inner).poll_write(cx, rest) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(n)) => {
                    Self::delivered(&self.track, &rest[..n], n == rest.len());
                    self.sent += n;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return self.blocked().map(Err),
            }
        }
        self.gathered.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }

    /// A large write: what was gathered and `bytes` in one call to the kernel.
    fn poll_write_large(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let waiting = &self.gathered[self.sent..];
            let slices = [IoSlice::new(waiting), IoSlice::new(bytes)];
            match Pin::new(&mut self.inner).poll_write_vectored(cx, &slices) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(n)) if n <= waiting.len() => {
                    Self::delivered(&self.track, &waiting[..n], false);
                    self.sent += n;
                }
                Poll::Ready(Ok(n)) => {
                    let n = n - waiting.len();
                    Self::delivered(&self.track, waiting, false);
                    Self::delivered(&self.track, &bytes[..n], n == bytes.len());
                    self.gathered.clear();
                    self.sent = 0;
                    return Poll::Ready(Ok(n));
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return self.blocked().map(Err),
            }
        }
    }

    /// A read while the answer is under way.
    fn poll_watch(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.track.tripped().is_some() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        if self.fin && self.on_fin == OnFin::Tolerate {
            return Poll::Pending;
        }
        let mut bytes = [std::mem::MaybeUninit::uninit(); 2048];
        while self.ahead.len() < AHEAD_BYTES {
            let mut buf = ReadBuf::uninit(&mut bytes);
            ready!(Pin::new(&mut self.inner).poll_read(cx, &mut buf))?;
            if buf.filled().is_empty() {
                self.fin = true;
                return match self.on_fin {
                    OnFin::Gone => Poll::Ready(Ok(())),
                    OnFin::Tolerate => Poll::Pending,
                };
            }
            self.ahead.extend_from_slice(buf.filled());
            self.ahead_at.get_or_insert_with(MonoNs::now);
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for StampedStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.track.in_exchange() {
            return this.poll_watch(cx);
        }
        let at = if this.ahead.is_empty() {
            let before = buf.filled().len();
            ready!(Pin::new(&mut this.inner).poll_read(cx, buf))?;
            if buf.filled().len() == before {
                return Poll::Ready(Ok(()));
            }
            None
        } else {
            let n = this.ahead.len().min(buf.remaining());
            buf.put_slice(&this.ahead[..n]);
            this.ahead.drain(..n);
            if this.ahead.is_empty() {
                this.ahead_at.take()
            } else {
                this.ahead_at
            }
        };
        this.track
            .lock()
            .head_started
            .get_or_insert_with(|| at.unwrap_or_else(MonoNs::now));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for StampedStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.gathered.len() - this.sent + bytes.len() > GATHER_BYTES {
            return this.poll_write_large(cx, bytes);
        }
        this.gathered.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let total = slices.iter().map(|s| s.len()).sum::<usize>();
        if this.gathered.len() - this.sent + total > GATHER_BYTES {
            let first = slices.iter().find(|s| !s.is_empty());
            return Pin::new(this).poll_write(cx, first.map_or(&[], |s| s));
        }
        for slice in slices {
            this.gathered.extend_from_slice(slice);
        }
        Poll::Ready(Ok(total))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_drain(cx))?;
        Pin::new(&mut this.inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_drain(cx))?;
        Pin::new(&mut this.inner).poll_shutdown(cx)
    }
}

#[async_trait]
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Shutdown for StampedStream<S> {
    async fn shutdown(&mut self) {
        // The peer may be gone already; there is nobody left to tell.
        let _ = AsyncWriteExt::shutdown(self).await;
    }
}

impl<S> UniqueID for StampedStream<S> {
    fn id(&self) -> UniqueIDType {
        self.id
    }
}

impl<S> Ssl for StampedStream<S> {}

impl<S> Peek for StampedStream<S> {}

impl<S> GetTimingDigest for StampedStream<S> {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        Vec::new()
    }
}

impl<S> GetProxyDigest for StampedStream<S> {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        None
    }
}

impl<S> GetSocketDigest for StampedStream<S> {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        None
    }
}

#[cfg(test)]
mod tests;
