//! A TLS connection in two halves that one task uses.

use crate::pump::Application;
use crate::sockets::reset_on_drop;
use crate::sync::lock;
use rustls::{AlertDescription, Error};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

/// What comes first of a connection after its handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    Content,
    /// It was closed, or reset, without any content.
    Closed,
    Alert(AlertDescription),
}

/// Hears once what comes first.
type Listener = Box<dyn FnOnce(First) + Send>;

/// A TLS connection, and who wants to know how it begins.
pub(super) struct Heard {
    stream: TlsStream<TcpStream>,
    listener: Option<Listener>,
}

impl Heard {
    pub(super) fn new(
        stream: TlsStream<TcpStream>,
        listener: impl FnOnce(First) + Send + 'static,
    ) -> Heard {
        Heard { stream, listener: Some(Box::new(listener)) }
    }

    /// Takes note of an attempt to read, which found this many bytes.
    fn note(&mut self, read: &Poll<io::Result<()>>, len: usize) {
        let first = match read {
            Poll::Pending => return,
            Poll::Ready(Ok(())) if len > 0 => First::Content,
            Poll::Ready(Ok(())) => First::Closed,
            Poll::Ready(Err(error)) => {
                match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
                    Some(Error::AlertReceived(alert)) => First::Alert(*alert),
                    _ => First::Closed,
                }
            }
        };
        if let Some(listener) = self.listener.take() {
            listener(first);
        }
    }
}

impl From<TlsStream<TcpStream>> for Heard {
    /// Nobody wants to know.
    fn from(stream: TlsStream<TcpStream>) -> Heard {
        Heard { stream, listener: None }
    }
}

/// Either half. The lock is never contended, because one task has both, and never held across an
/// await.
pub(crate) struct Half(Arc<Mutex<Heard>>);

impl Half {
    fn with<T>(&self, act: impl FnOnce(Pin<&mut TlsStream<TcpStream>>) -> T) -> T {
        act(Pin::new(&mut lock(&self.0).stream))
    }
}

impl Application for Heard {
    type Reader = Half;
    type Writer = Half;

    fn divide(self) -> (Half, Half) {
        let both = Arc::new(Mutex::new(self));
        (Half(both.clone()), Half(both))
    }

    async fn cut(writer: &mut Half) -> io::Result<()> {
        poll_fn(|context| writer.with(|stream| stream.poll_flush(context))).await?;
        writer.with(|stream| socket2::SockRef::from(stream.get_ref().0).shutdown(Shutdown::Write))
    }

    fn reset(writer: &Half) {
        writer.with(|stream| reset_on_drop(stream.get_ref().0));
    }

    fn discard(writer: Half) {
        // Without close_notify.
        drop(writer);
    }
}

impl AsyncRead for Half {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let mut both = lock(&self.0);
        let read = Pin::new(&mut both.stream).poll_read(context, buffer);
        both.note(&read, buffer.filled().len() - before);
        read
    }
}

impl AsyncWrite for Half {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.with(|stream| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.with(|stream| stream.poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_shutdown(context))
    }
}
