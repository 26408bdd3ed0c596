//! The socket under hyper, which stamps what crosses it.
//!
//! Owns the stamps of one connection: first write call and last write completion of the current
//! request, and the latest read, by the monotonic clock and by the kernel's receive stamp of its
//! last segment. hyper decodes a body frame from the bytes of its latest read and reads no further
//! before the frame was taken, so whoever takes a frame finds the stamps of the read that completed
//! it in [`Stamps::last_arrival`]. Converting the kernel's stamps is [`super::kernel_clock`]'s.
//!
//! The surprise: reads land in a buffer of ours and are copied on (some hundred bytes), because
//! handing hyper's uninitialised buffer to the socket would need unsafe code. All sockets of a
//! thread share it, so that it stays in the processor's cache however many there are.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBufCursor, Write};
use inferscope_shared::clock::MonoNs;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use super::kernel_clock::WallNs;
use crate::config::KernelStamps;

const READ_BUFFER_BYTES: usize = 16 * 1024;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch {
        bytes: vec![0; READ_BUFFER_BYTES],
        control: nix::cmsg_space!(TimeSpec),
    });
}

/// Where a read lands until it is copied on.
struct Scratch {
    bytes: Vec<u8>,
    /// The kernel's stamp.
    control: Vec<u8>,
}

/// Whether the kernel stamps what a socket receives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stamping {
    /// Nobody asked it to.
    #[default]
    Off,
    /// It does.
    On,
    /// It will not.
    Refused(Errno),
}

impl Stamping {
    /// Asks for stamps if the configuration wants them.
    pub fn ask(socket: &impl AsFd, wanted: KernelStamps) -> Self {
        match wanted {
            KernelStamps::Off => Self::Off,
            KernelStamps::Auto => match setsockopt(socket, sockopt::ReceiveTimestampns, &true) {
                Ok(()) => Self::On,
                Err(errno) => Self::Refused(errno),
            },
        }
    }
}

/// When a read was, and when its last segment had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Taken just after the read.
    pub at: MonoNs,
    /// The kernel's stamp, if there is one.
    pub kernel: Option<WallNs>,
}

/// When bytes crossed the socket. Shared by the socket and the exchange that uses it; both live
/// in one task, so relaxed ordering is enough. Zero = not yet.
#[derive(Debug, Default)]
pub struct Stamps {
    first_write: AtomicU64,
    last_write: AtomicU64,
    last_read: AtomicU64,
    last_kernel: AtomicU64,
}

impl Stamps {
    /// Forgets the previous request.
    pub fn reset(&self) {
        for stamp in [
            &self.first_write,
            &self.last_write,
            &self.last_read,
            &self.last_kernel,
        ] {
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

    /// The latest read; now, if there was none.
    #[must_use]
    pub fn last_arrival(&self) -> Arrival {
        Arrival {
            at: self.last_read().unwrap_or_else(MonoNs::now),
            kernel: WallNs::new(self.last_kernel.load(Ordering::Relaxed)),
        }
    }

    fn read(&self, at: MonoNs, kernel: Option<WallNs>) {
        self.last_read.store(at.0, Ordering::Relaxed);
        self.last_kernel
            .store(kernel.map_or(0, WallNs::get), Ordering::Relaxed);
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
    stamping: Stamping,
}

impl StampedIo {
    /// Wraps a connected socket that was asked for its stamps.
    #[must_use]
    pub fn new(socket: TcpStream, stamps: Arc<Stamps>, stamping: Stamping) -> Self {
        Self {
            socket,
            stamps,
            stamping,
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

    /// Reads into `buffer`: how many bytes, and the kernel's stamp of the last segment.
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
        control: &mut [u8],
    ) -> Poll<io::Result<(usize, Option<WallNs>)>> {
        if self.stamping != Stamping::On {
            let mut buffer = ReadBuf::new(buffer);
            ready!(Pin::new(&mut self.socket).poll_read(cx, &mut buffer))?;
            return Poll::Ready(Ok((buffer.filled().len(), None)));
        }
        loop {
            ready!(self.socket.poll_read_ready(cx))?;
            let mut received = None;
            let tried = self.socket.try_io(Interest::READABLE, || {
                let got = receive(&self.socket, buffer, control)?;
                received = Some(got);
                // A short read has emptied the socket. Saying so here spares the next one, which
                // would come back with nothing.
                if (1..buffer.len()).contains(&got.0) {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                Ok(())
            });
            match (received, tried) {
                (Some(received), _) => return Poll::Ready(Ok(received)),
                (None, Err(e)) if !is_for_now(&e) => return Poll::Ready(Err(e)),
                (None, _) => {}
            }
        }
    }
}

fn is_for_now(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

fn receive(
    socket: &TcpStream,
    buffer: &mut [u8],
    control: &mut [u8],
) -> io::Result<(usize, Option<WallNs>)> {
    let mut slices = [io::IoSliceMut::new(buffer)];
    let message = recvmsg::<()>(
        socket.as_raw_fd(),
        &mut slices,
        Some(control),
        MsgFlags::empty(),
    )?;
    // A control message that did not fit is a stamp that is missing, not a fault of the read.
    let stamp = message.cmsgs().ok().and_then(|mut all| {
        all.find_map(|one| match one {
            ControlMessageOwned::ScmTimestampns(at) => WallNs::of(at.tv_sec(), at.tv_nsec()),
            _ => None,
        })
    });
    Ok((message.bytes, stamp))
}

impl Read for StampedIo {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut cursor: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        SCRATCH.with_borrow_mut(|Scratch { bytes, control }| {
            let room = cursor.remaining().min(READ_BUFFER_BYTES);
            let (read, kernel) = ready!(this.poll_receive(cx, &mut bytes[..room], control))?;
            if read > 0 {
                this.stamps.read(MonoNs::now(), kernel);
                cursor.put_slice(&bytes[..read]);
            }
            Poll::Ready(Ok(()))
        })
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
