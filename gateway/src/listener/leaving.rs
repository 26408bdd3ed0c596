//! A client that leaves while an engine is being connected to.
//!
//! In every other phase of an exchange a read of the client's stream is pending, and pingora sees
//! the client's FIN or reset by that. While it connects it does not look. So for just that time the
//! client's socket is watched here, by a second descriptor of it: an event of its own, that takes no
//! byte from the stream.

use std::future::poll_fn;
use std::io;
use std::net::TcpStream as StdStream;
use std::os::fd::{AsFd as _, OwnedFd};
use std::pin::pin;
use std::task::Poll;

use tokio::io::Interest;
use tokio::net::TcpStream;

use super::stamped::OnFin;
use super::track::Track;

/// The client's socket, once more.
#[derive(Debug)]
pub struct Watched {
    socket: OwnedFd,
    on_fin: OnFin,
}

impl Watched {
    /// Watches `client`, whose FIN means what `on_fin` says.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub fn new(client: &TcpStream, on_fin: OnFin) -> io::Result<Self> {
        Ok(Self {
            socket: client.as_fd().try_clone_to_owned()?,
            on_fin,
        })
    }

    /// Ends when the client leaves while `track` says that an engine is being connected to.
    pub async fn left_while_connecting(&self, track: &Track) {
        loop {
            // Looked at whenever the exchange's task runs, which is where the mark is set.
            poll_fn(|_| match track.connecting() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
            let mut leaving = pin!(self.left());
            let left = poll_fn(|cx| {
                if !track.connecting() {
                    return Poll::Ready(false);
                }
                leaving.as_mut().poll(cx).map(|()| true)
            });
            if left.await {
                return;
            }
        }
    }

    /// Ends when the client has left.
    async fn left(&self) {
        let second = self.socket.try_clone().and_then(|socket| {
            // Both descriptors share the socket's flags, so this one does not block either.
            TcpStream::from_std(StdStream::from(socket))
        });
        let second = match second {
            Ok(second) => second,
            Err(error) => {
                tracing::warn!(%error, "a client's leaving cannot be seen while its engine is connected to");
                return std::future::pending().await;
            }
        };
        while let Ok(ready) = second.ready(Interest::READABLE | Interest::ERROR).await {
            let gone = match self.on_fin {
                OnFin::Gone => ready.is_read_closed() || ready.is_error(),
                OnFin::Tolerate => ready.is_error(),
            };
            if gone {
                return;
            }
            // Bytes of a later request: they stay where they are, and are no news any more.
            let _ = second.try_io(Interest::READABLE, || -> io::Result<()> {
                Err(io::ErrorKind::WouldBlock.into())
            });
            if ready.is_read_closed() {
                // A FIN that is tolerated would be news again and again.
                return std::future::pending().await;
            }
        }
    }
}
