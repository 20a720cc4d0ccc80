//! What quinn waits with until a UDP socket of ours can be written to.

use quinn::UdpPoller;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::net::UdpSocket;

/// Who has a UDP socket.
pub(crate) trait HasSocket: Send + Sync + 'static {
    fn socket(&self) -> &UdpSocket;
}

/// Waits until the socket can be written to.
pub(crate) struct WhenWritable<P> {
    port: Arc<P>,
    waiting: Option<Waiting>,
}

type Waiting = Pin<Box<dyn Future<Output = io::Result<()>> + Send + Sync>>;

impl<P: HasSocket> WhenWritable<P> {
    pub(crate) fn of(port: Arc<P>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(WhenWritable { port, waiting: None })
    }
}

impl<P> fmt::Debug for WhenWritable<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WhenWritable")
    }
}

impl<P: HasSocket> UdpPoller for WhenWritable<P> {
    fn poll_writable(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let port = self.port.clone();
        let wait = || -> Waiting { Box::pin(async move { port.socket().writable().await }) };
        let result = ready!(self.waiting.get_or_insert_with(wait).as_mut().poll(cx));
        self.waiting = None;
        Poll::Ready(result)
    }
}
