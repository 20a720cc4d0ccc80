//! Ways in: what a local program that has just connected wants, in the words of SOCKS5 (RFC 1928) or of an HTTP proxy (RFC 9110, RFC 9112).
//!
//! One port serves both: a SOCKS5 client begins with the byte 5, an HTTP client with a method. [`negotiate`] finds out the target, the tunnel
//! opens a flow to it, and [`accept`] or [`refuse`] tells the client. A client may send data before it has the answer: it is in
//! [`Wanted::first`], to go to the origin before anything read afterwards.

pub mod http;
pub mod socks5;

use crate::target::Target;
use http::HttpError;
use socks5::{Parsed, Socks5Error};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// Most bytes that are read before the target is known: the largest head of an HTTP request, and what follows it.
pub const MAX_HEAD: usize = 64 << 10;
/// A sensible time for a client to say what it wants.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(30);
/// How much is read, to no purpose, of a client that was refused, and for how long; see `last_words`.
const LINGER_BYTES: usize = 256 << 10;
const LINGER_TIME: Duration = Duration::from_secs(1);

/// Why a flow could not be opened. Both proxy protocols can say these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// The rules of the way out do not admit the target.
    #[error("the other end does not allow it")]
    NotAllowed,
    /// The origin refused the connection.
    #[error("connection refused")]
    Refused,
    /// No route to the origin.
    #[error("the host or its network cannot be reached")]
    Unreachable,
    /// The origin did not answer.
    #[error("no answer in time")]
    TimedOut,
    /// The name does not resolve.
    #[error("no such host name")]
    NoSuchName,
    /// The tunnel has no session: its server cannot be reached, or is draining.
    #[error("the tunnel is down")]
    NoSession,
    /// As many connections are open as either end of the tunnel takes.
    #[error("the tunnel has too many connections")]
    Busy,
    /// Anything else, such as no descriptors left.
    #[error("the connection failed")]
    Failed,
}

impl Refusal {
    /// What an error of connecting to the origin amounts to.
    pub fn of_connect(error: &io::Error) -> Refusal {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Refusal::Refused,
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable | io::ErrorKind::NetworkDown => {
                Refusal::Unreachable
            }
            io::ErrorKind::TimedOut => Refusal::TimedOut,
            _ => Refusal::Failed,
        }
    }
}

/// The words in which the client asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WayIn {
    /// SOCKS5 CONNECT.
    Socks5,
    /// HTTP CONNECT.
    Connect,
    /// A plain request to an HTTP proxy.
    Http,
}

/// What the client wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The words it used.
    pub way: WayIn,
    /// Where to.
    pub target: Target,
    /// Bytes for the origin before all others: the rewritten head of a plain HTTP request, then what the client has sent already.
    pub first: Vec<u8>,
    /// How many more bytes from the client belong to this request; `None` if all do.
    ///
    /// It is `Some` only for a plain HTTP request whose body has a known length. What the client sends beyond is another request, perhaps for
    /// another origin, which must not get to this one: read it and throw it away (the origin's `Connection: close` tells the client to ask
    /// again). Do not end the flow's direction at that point, because origins take that for a client that has gone.
    pub rest: Option<u64>,
}

/// Why a client's wish could not be found out. The client has been told, where its protocol has words for it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WayInError {
    /// Reading or writing failed.
    #[error("the client's connection failed: {0}")]
    Io(#[from] io::Error),
    /// The client went away before it had said everything.
    #[error("the client closed its connection after {got} bytes, before it had said where to")]
    Ended {
        /// Bytes that are still unanswered; 0 for a mere probe of the port.
        got: usize,
    },
    /// The client took too long.
    #[error("the client has not said where to within {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// The client said too much.
    #[error("the client sent {limit} bytes without saying where to")]
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// SOCKS4 or SOCKS4a.
    #[error("SOCKS4 is not supported: set the client to SOCKS5 (socks5h://, so that names are resolved at the other end)")]
    Socks4,
    /// Neither SOCKS5 nor HTTP.
    #[error("the client speaks neither SOCKS5 nor HTTP: its first byte is 0x{first:02x}{}", hint(*.first))]
    Unknown {
        /// The first byte.
        first: u8,
    },
    /// Bad SOCKS5.
    #[error(transparent)]
    Socks5(#[from] Socks5Error),
    /// Bad HTTP.
    #[error(transparent)]
    Http(#[from] HttpError),
}

fn hint(first: u8) -> &'static str {
    match first {
        0x16 => " (TLS: the proxy itself is spoken to without it)",
        _ => "",
    }
}

impl WayInError {
    /// What the client is told.
    fn reply(&self) -> Vec<u8> {
        match self {
            WayInError::Socks5(error) => error.reply().to_vec(),
            WayInError::Http(error) => error.reply(),
            WayInError::Socks4 => socks5::SOCKS4_REJECTED.to_vec(),
            _ => Vec::new(),
        }
    }
}

/// Finds out what the client wants.
///
/// Reads at most `limit` bytes (and never more than [`MAX_HEAD`]) for at most `time`; [`HANDSHAKE_TIME`] is a sensible one. After an error the
/// connection is of no further use: the client has been told, and our side of it is shut down.
pub async fn negotiate<S>(stream: &mut S, limit: usize, time: Duration) -> Result<Wanted, WayInError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let error = match timeout(time, listen(stream, limit.min(MAX_HEAD))).await {
        Ok(Ok(wanted)) => return Ok(wanted),
        Ok(Err(error)) => error,
        Err(_) => WayInError::TimedOut(time),
    };
    if !matches!(error, WayInError::Io(_)) {
        // The first error says more than one of telling it.
        let _ = last_words(stream, &error.reply()).await;
    }
    Err(error)
}

/// Tells the client that its flow is open. For a plain HTTP request the origin's own response does.
pub async fn accept<S: AsyncWrite + Unpin>(stream: &mut S, wanted: &Wanted) -> io::Result<()> {
    match wanted.way {
        WayIn::Socks5 => stream.write_all(&socks5::granted()).await?,
        WayIn::Connect => stream.write_all(http::CONNECTED).await?,
        WayIn::Http => {}
    }
    stream.flush().await
}

/// Tells the client that its flow was not opened, and why, and shuts our side down. Takes a second at most.
pub async fn refuse<S>(stream: &mut S, wanted: &Wanted, refusal: Refusal) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match wanted.way {
        WayIn::Socks5 => last_words(stream, &socks5::refused(refusal)).await,
        WayIn::Connect | WayIn::Http => last_words(stream, &http::refused(&wanted.target, refusal)).await,
    }
}

/// Writes, shuts our side down and then reads a little: closing a socket with unread bytes in it resets the connection, and the reset can
/// overtake what was written.
async fn last_words<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, bytes: &[u8]) -> io::Result<()> {
    let talk = async {
        stream.write_all(bytes).await?;
        stream.shutdown().await?;
        let mut waste = [0; 4096];
        let mut read = 0;
        while read < LINGER_BYTES {
            match stream.read(&mut waste).await {
                Ok(0) | Err(_) => break,
                Ok(n) => read += n,
            }
        }
        Ok(())
    };
    // A client that does not read or close in time has had its chance.
    timeout(LINGER_TIME, talk).await.unwrap_or(Ok(()))
}

async fn listen<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, limit: usize) -> Result<Wanted, WayInError> {
    let mut heard = Heard { bytes: Vec::new(), limit };
    heard.more(stream).await?;
    match heard.bytes[0] {
        socks5::VERSION => {
            while heard.take(socks5::greeting)?.is_none() {
                heard.more(stream).await?;
            }
            stream.write_all(&socks5::METHOD_CHOSEN).await?;
            stream.flush().await?;
            loop {
                if let Some(target) = heard.take(socks5::request)? {
                    return Ok(Wanted { way: WayIn::Socks5, target, first: heard.bytes, rest: None });
                }
                heard.more(stream).await?;
            }
        }
        socks5::SOCKS4_VERSION => Err(WayInError::Socks4),
        first if http::may_begin(first) => {
            let mut searched = 0;
            while http::head_end(&heard.bytes, searched).is_none() {
                searched = heard.bytes.len();
                heard.more(stream).await.map_err(|error| match error {
                    WayInError::TooLong { limit } => HttpError::TooLong { limit }.into(),
                    other => other,
                })?;
            }
            Ok(http::parse(&heard.bytes)?)
        }
        first => Err(WayInError::Unknown { first }),
    }
}

/// What the client has said and we have not used.
struct Heard {
    bytes: Vec<u8>,
    limit: usize,
}

impl Heard {
    /// Waits for at least one byte more.
    async fn more<S: AsyncRead + Unpin>(&mut self, stream: &mut S) -> Result<(), WayInError> {
        let room = self.limit.saturating_sub(self.bytes.len());
        if room == 0 {
            return Err(WayInError::TooLong { limit: self.limit });
        }
        self.bytes.reserve(room.min(4096));
        match stream.take(room as u64).read_buf(&mut self.bytes).await? {
            0 => Err(WayInError::Ended { got: self.bytes.len() }),
            _ => Ok(()),
        }
    }

    /// Takes a message from the front if it is complete.
    fn take<T>(&mut self, parse: fn(&[u8]) -> Parsed<T>) -> Result<Option<T>, Socks5Error> {
        let Some((message, used)) = parse(&self.bytes)? else { return Ok(None) };
        self.bytes.drain(..used);
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests;
