//! Counts what crosses a transport, encryption included.

use crate::services::{Service, Services};
use crate::status::ServiceStatus;
use crate::sync::lock;
use oncewire_session::Counters;
use std::fmt::Debug;
use std::io::{self, IoSlice};
#[cfg(unix)]
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A connection that counts its own bytes, such as one of QUIC.
pub(crate) trait SelfCounting: Debug + Send {
    /// Bytes sent and received so far.
    fn bytes(&self) -> (u64, u64);

    /// Whether the numbers are final.
    fn is_closed(&self) -> bool;
}

/// Bytes of all transports of one end: TLS, handshakes and QUIC packets included, headers of TCP,
/// UDP and IP not.
#[derive(Debug, Default)]
pub(crate) struct WireBytes {
    sent: AtomicU64,
    received: AtomicU64,
    live: Mutex<Vec<Box<dyn SelfCounting>>>,
}

/// Bytes of applications that all sessions of one end sent and received, those included that ended;
/// and the services that these were for.
#[derive(Debug, Default)]
pub(crate) struct ContentBytes {
    ended: Mutex<(u64, u64)>,
    shown: Mutex<(u64, u64)>,
    services: Services,
}

impl ContentBytes {
    /// The service that a flow to `target` belongs to: see [`Services::enter`].
    pub(crate) fn enter(&self, target: &[u8]) -> Option<Arc<Service>> {
        self.services.enter(target)
    }

    /// The services, those that carried most first.
    pub(crate) fn services(&self) -> Vec<ServiceStatus> {
        let list = self.services.list().into_iter();
        list.map(|(name, counters)| ServiceStatus { name, counters }).collect()
    }

    /// A session ended with these counters.
    pub(crate) fn ended(&self, last: &Counters) {
        let mut ended = lock(&self.ended);
        ended.0 += last.sent_bytes;
        ended.1 += last.received_bytes;
    }

    /// Bytes sent and received so far, `live` being the sessions that are open. Never less than
    /// before, although a session may just be on its way from these to those that ended.
    pub(crate) fn total<'a>(&self, live: impl IntoIterator<Item = &'a Counters>) -> (u64, u64) {
        let ended = *lock(&self.ended);
        let total = live
            .into_iter()
            .fold(ended, |sum, one| (sum.0 + one.sent_bytes, sum.1 + one.received_bytes));
        let mut shown = lock(&self.shown);
        *shown = (shown.0.max(total.0), shown.1.max(total.1));
        *shown
    }
}

impl WireBytes {
    /// Includes the bytes of `connection`.
    pub(crate) fn watch(&self, connection: impl SelfCounting + 'static) {
        lock(&self.live).push(Box::new(connection));
        // Lets go of connections that have closed.
        self.total();
    }

    /// Bytes sent and received so far.
    pub(crate) fn total(&self) -> (u64, u64) {
        let mut live = (0, 0);
        lock(&self.live).retain(|connection| {
            let ((sent, received), is_closed) = (connection.bytes(), connection.is_closed());
            if is_closed {
                self.sent.fetch_add(sent, Ordering::Relaxed);
                self.received.fetch_add(received, Ordering::Relaxed);
            } else {
                live = (live.0 + sent, live.1 + received);
            }
            !is_closed
        });
        (live.0 + self.sent.load(Ordering::Relaxed), live.1 + self.received.load(Ordering::Relaxed))
    }
}

/// A stream whose bytes are counted.
pub(crate) struct Counted<S> {
    inner: S,
    bytes: Arc<WireBytes>,
}

impl<S> Counted<S> {
    pub(crate) fn new(inner: S, bytes: Arc<WireBytes>) -> Counted<S> {
        Counted { inner, bytes }
    }
}

#[cfg(unix)]
impl Counted<TcpStream> {
    /// Registers the socket with the caller's runtime instead of the one in which it was opened.
    pub(crate) fn move_here(&mut self) -> io::Result<()> {
        // A runtime gives its socket back only by value: another descriptor of it stays.
        let socket = std::net::TcpStream::from(self.inner.as_fd().try_clone_to_owned()?);
        self.inner = TcpStream::from_std(socket)?;
        Ok(())
    }
}

#[cfg(not(unix))]
impl Counted<TcpStream> {
    /// The socket stays with the runtime in which it was opened.
    pub(crate) fn move_here(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.inner).poll_read(context, buffer);
        self.bytes.received.fetch_add((buffer.filled().len() - before) as u64, Ordering::Relaxed);
        result
    }
}

impl<S> Counted<S> {
    fn count(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(len)) = written {
            self.bytes.sent.fetch_add(len as u64, Ordering::Relaxed);
        }
        written
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.count(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.count(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
