//! What carries a lane: TLS over TCP, or a stream of a QUIC connection.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// Both directions of a transport.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// An authenticated and encrypted byte stream to a peer.
pub(crate) struct Transport {
    pub(crate) stream: Box<dyn Duplex>,
    pub(crate) path: Path,
}

impl Transport {
    pub(crate) fn new(stream: impl Duplex + 'static, over: &'static str, address: SocketAddr) -> Transport {
        Transport { stream: Box::new(stream), path: Path { over, address } }
    }
}

/// What a transport goes over, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    /// `tcp` or `quic`.
    pub(crate) over: &'static str,
    /// The peer's address.
    pub(crate) address: SocketAddr,
}

/// Which transports to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransportKind {
    /// TLS 1.3 over TCP.
    #[default]
    Tcp,
    /// QUIC.
    Quic,
    /// QUIC where it can be had, else TCP.
    Auto,
}

/// Bytes that TCP may hold unsent. What the session has encoded can no longer be overtaken by small flows, so this is kept short; below
/// a few times the largest frame the socket would run dry between two of them.
const NOT_SENT: u32 = 256 << 10;
/// Silence on an application's connection after which TCP asks whether the other end is there.
const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// Sets up a TCP connection that carries a lane. Buffer sizes are left to the system's auto-tuning, which suits long fat paths better
/// than any fixed size.
pub(crate) fn tune_lane(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = socket2::SockRef::from(stream);
    #[cfg(any(target_os = "linux", target_os = "android"))]
    socket.set_tcp_notsent_lowat(NOT_SENT)?;
    socket.set_tcp_keepalive(&keep_alive())
}

/// Sets up a TCP connection of an application.
pub(crate) fn tune_application(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    socket2::SockRef::from(stream).set_tcp_keepalive(&keep_alive())
}

fn keep_alive() -> socket2::TcpKeepalive {
    socket2::TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(KEEP_ALIVE / 4)
}

/// Makes dropping the stream send a reset.
pub(crate) fn reset_on_drop(stream: &TcpStream) {
    // A socket that is closed already cannot be told, and need not be.
    let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

/// Connects to the first of `addresses` that answers.
pub(crate) async fn dial(addresses: &[SocketAddr], each: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match tokio::time::timeout(each, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}
