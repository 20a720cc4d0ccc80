//! Transports: what carries a lane, TLS over TCP or a stream of a QUIC connection.

use crate::counted::Counted;
use std::io;
use std::net::SocketAddr;
use tokio::io::{AsyncRead, AsyncWrite, Join};
use tokio::net::TcpStream;
use tokio_rustls::{client, server};

/// Bytes that TLS encrypts for one system call: what a lane writes at once. The default of 64 KiB
/// would divide every block that cannot be reduced.
const AT_ONCE: usize = 256 << 10;

/// Both directions of a transport.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {
    /// The transport carries a lane from now on: the caller's runtime waits for the socket, instead
    /// of the one in which it was opened.
    ///
    /// # Errors
    /// The system's.
    fn carry_lane(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Duplex for server::TlsStream<Counted<TcpStream>> {
    fn carry_lane(&mut self) -> io::Result<()> {
        let (socket, tls) = self.get_mut();
        tls.set_buffer_limit(Some(AT_ONCE));
        socket.move_here()
    }
}

impl Duplex for client::TlsStream<Counted<TcpStream>> {
    fn carry_lane(&mut self) -> io::Result<()> {
        let (socket, tls) = self.get_mut();
        tls.set_buffer_limit(Some(AT_ONCE));
        socket.move_here()
    }
}

/// The sockets of QUIC are shared by all its connections, and stay where they are.
impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin> Duplex for Join<R, W> {}

#[cfg(test)]
impl Duplex for tokio::io::DuplexStream {}

/// An authenticated and encrypted byte stream to a peer.
pub(crate) struct Transport {
    pub(crate) stream: Box<dyn Duplex>,
    pub(crate) path: Path,
}

impl Transport {
    pub(crate) fn new(
        stream: impl Duplex + 'static,
        over: &'static str,
        address: SocketAddr,
    ) -> Transport {
        Transport { stream: Box::new(stream), path: Path { over, address } }
    }
}

/// The path of a transport, for log lines and `status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    /// `tcp` or `quic`.
    pub(crate) over: &'static str,
    /// The peer's address.
    pub(crate) address: SocketAddr,
}

/// Which kind of transport to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransportKind {
    /// TLS 1.3 over TCP.
    #[default]
    Tcp,
    /// QUIC.
    Quic,
    /// QUIC; TCP if QUIC does not get through.
    Auto,
}

/// How a transport ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportEnd {
    /// The peer closed it.
    #[error("the peer closed the connection")]
    Closed,
    /// The connection ended without a goodbye of TLS: the peer's process or machine is gone.
    #[error("the peer vanished")]
    Vanished,
    /// A newer transport took the lane over.
    #[error("a newer connection replaced this one")]
    Replaced,
    /// This end closed it.
    #[error("this end closed the connection")]
    ClosedHere,
    /// Reading or writing failed.
    #[error("the connection failed: {0}")]
    Failed(#[source] io::Error),
}

impl From<io::Error> for TransportEnd {
    fn from(error: io::Error) -> TransportEnd {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => TransportEnd::Vanished,
            _ => TransportEnd::Failed(error),
        }
    }
}
