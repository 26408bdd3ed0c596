//! The socket under hyper, which stamps what crosses it.
//!
//! Owns the stamps of one connection: first write call and last write completion of the current
//! request, and the latest read. hyper decodes a body frame from the bytes of its latest read and
//! reads no further before the frame was taken, so whoever takes a frame finds the stamp of the
//! read that completed it in [`Stamps::last_read`].
//!
//! The surprise: reads land in a buffer of ours and are copied on (some hundred bytes), because
//! handing hyper's uninitialised buffer to the socket would need unsafe code.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBufCursor, Write};
use inferscope_shared::clock::MonoNs;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

const READ_BUFFER_BYTES: usize = 16 * 1024;

/// When bytes crossed the socket. Shared by the socket and the exchange that uses it; both live
/// in one task, so relaxed ordering is enough. Zero = not yet.
#[derive(Debug, Default)]
pub struct Stamps {
    first_write: AtomicU64,
    last_write: AtomicU64,
    last_read: AtomicU64,
}

impl Stamps {
    /// Forgets the previous request.
    pub fn reset(&self) {
        for stamp in [&self.first_write, &self.last_write, &self.last_read] {
            stamp.store(0, Ordering::Relaxed);
        }
    }

    /// Taken just before the request's first write call.
    #[must_use]
    pub fn first_write(&self) -> Option<MonoNs> {
        get(&self.first_write)
    }

    /// Taken just after the latest write call that took bytes.
    #[must_use]
    pub fn last_write(&self) -> Option<MonoNs> {
        get(&self.last_write)
    }

    /// Taken just after the latest read.
    #[must_use]
    pub fn last_read(&self) -> Option<MonoNs> {
        get(&self.last_read)
    }
}

fn get(stamp: &AtomicU64) -> Option<MonoNs> {
    match stamp.load(Ordering::Relaxed) {
        0 => None,
        ns => Some(MonoNs(ns)),
    }
}

/// A TCP stream that keeps [`Stamps`].
#[derive(Debug)]
pub struct StampedIo {
    socket: TcpStream,
    stamps: Arc<Stamps>,
    buffer: Box<[u8]>,
}

impl StampedIo {
    /// Wraps a connected socket.
    #[must_use]
    pub fn new(socket: TcpStream, stamps: Arc<Stamps>) -> Self {
        Self {
            socket,
            stamps,
            buffer: vec![0; READ_BUFFER_BYTES].into_boxed_slice(),
        }
    }

    fn stamped_write(
        &mut self,
        write: impl FnOnce(Pin<&mut TcpStream>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if self.stamps.first_write.load(Ordering::Relaxed) == 0 {
            let before = MonoNs::now();
            self.stamps.first_write.store(before.0, Ordering::Relaxed);
        }
        let written = ready!(write(Pin::new(&mut self.socket)))?;
        let after = MonoNs::now();
        self.stamps.last_write.store(after.0, Ordering::Relaxed);
        Poll::Ready(Ok(written))
    }
}

impl Read for StampedIo {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut cursor: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let room = cursor.remaining().min(READ_BUFFER_BYTES);
        let mut buffer = ReadBuf::new(&mut this.buffer[..room]);
        ready!(Pin::new(&mut this.socket).poll_read(cx, &mut buffer))?;
        let bytes = buffer.filled();
        if !bytes.is_empty() {
            let now = MonoNs::now();
            this.stamps.last_read.store(now.0, Ordering::Relaxed);
            cursor.put_slice(bytes);
        }
        Poll::Ready(Ok(()))
    }
}

impl Write for StampedIo {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut()
            .stamped_write(|socket| socket.poll_write(cx, bytes))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut()
            .stamped_write(|socket| socket.poll_write_vectored(cx, slices))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(cx)
    }
}
