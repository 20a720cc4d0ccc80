//! Transports: what carries a lane, TLS over TCP or a stream of a QUIC connection.

use std::io;
use std::net::SocketAddr;
use tokio::io::{AsyncRead, AsyncWrite};

/// Both directions of a transport.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

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
