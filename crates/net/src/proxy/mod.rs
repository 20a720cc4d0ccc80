//! The proxy: what a local program that has just connected requests, in SOCKS5 (RFC 1928) or HTTP
//! (RFC 9110, RFC 9112).
//!
//! One port serves both: a SOCKS5 client starts with the byte 5, an HTTP client with a method.
//! [`negotiate`] returns the target, the tunnel opens a flow to it, and [`accept`] or [`refuse`]
//! answers the client. A client may send data before it has the answer: [`Request::first`] has it,
//! to go to the origin before anything read later.

mod access;
pub mod http;
pub mod socks5;

pub use access::{
    ClientNetwork, ClientNetworkError, Credentials, Passwords, PasswordsError, ProxyAccess,
    SHORTEST_PASSWORD,
};

use crate::refusal::Refusal;
use crate::target::Target;
use http::HttpError;
use socks5::{Parsed, Socks5Error};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// Most bytes that are read before the target is known: the largest head of an HTTP request with
/// what follows it.
pub const MAX_HEAD: usize = 64 << 10;
/// Suggested time limit for [`negotiate`].
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(30);
/// How much is read and discarded of a refused client, and for how long; see `send_and_close`.
const LINGER_BYTES: usize = 256 << 10;
const LINGER_TIME: Duration = Duration::from_secs(1);

/// The protocol of a proxy client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProxyProtocol {
    /// SOCKS5 CONNECT.
    Socks5,
    /// HTTP CONNECT.
    Connect,
    /// A plain request to an HTTP proxy.
    Http,
}

/// What a proxy client requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The protocol it used.
    pub protocol: ProxyProtocol,
    /// Where it wants to connect.
    pub target: Target,
    /// The name that the client gave itself, in a SOCKS5 user name or HTTP's Basic scheme. It is
    /// checked only where passwords are required; clients with different names are different isolation domains.
    pub user: Option<Vec<u8>>,
    /// Bytes to send to the origin first: the rewritten head of a plain HTTP request, then what the
    /// client has sent already.
    pub first: Vec<u8>,
    /// How many more bytes of the client belong to this request; `None` if all do.
    ///
    /// It is `Some` only for a plain HTTP request whose body has a known length. What follows is
    /// another request, perhaps for another origin, and must not reach this one: read and discard
    /// it (the origin's `Connection: close` makes the client retry). Do not finish the flow's
    /// direction there, because origins take that for a client that has gone.
    pub rest: Option<u64>,
}

/// Why there is no request from a proxy client. The client has been answered, if its protocol
/// allows that.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// Reading or writing failed.
    #[error("the client's connection failed: {0}")]
    Io(#[from] io::Error),
    /// The client closed its connection in the middle of its request.
    #[error("the client closed its connection after {got} bytes, before the end of its request")]
    Ended {
        /// Bytes that it sent and got no answer to; 0 for a mere probe of the port.
        got: usize,
    },
    /// The client took too long.
    #[error("no complete request from the client within {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// The client sent too much.
    #[error("the client sent {limit} bytes without a complete request")]
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// SOCKS4 or SOCKS4a.
    #[error(
        "SOCKS4 is not supported: configure the client for SOCKS5 (socks5h://, so that the other end resolves names)"
    )]
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
        0x16 => " (TLS: connect to the proxy itself without TLS, http:// not https://)",
        _ => "",
    }
}

impl ProxyError {
    /// Whether the client showed no password that is known, where one is required.
    pub fn is_unauthorized(&self) -> bool {
        matches!(
            self,
            ProxyError::Http(HttpError::Password)
                | ProxyError::Socks5(Socks5Error::PasswordRequired | Socks5Error::WrongPassword)
        )
    }

    /// The answer to the client.
    fn reply(&self) -> Vec<u8> {
        match self {
            ProxyError::Socks5(error) => error.reply().to_vec(),
            ProxyError::Http(error) => error.reply(),
            ProxyError::Socks4 => socks5::SOCKS4_REJECTED.to_vec(),
            _ => Vec::new(),
        }
    }
}

/// Reads the request of a proxy client, which must show one of the `passwords` if there are any.
///
/// Reads at most `limit` bytes (and never more than [`MAX_HEAD`]) for at most `time`, such as
/// [`HANDSHAKE_TIME`].
///
/// # Errors
/// [`ProxyError`]. The client has been answered then and this end's side is shut down: drop the
/// connection.
pub async fn negotiate<S>(
    stream: &mut S,
    passwords: Option<&Passwords>,
    limit: usize,
    time: Duration,
) -> Result<Request, ProxyError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let error = match timeout(time, read_request(stream, passwords, limit.min(MAX_HEAD))).await {
        Ok(Ok(request)) => return Ok(request),
        Ok(Err(error)) => error,
        Err(_) => ProxyError::TimedOut(time),
    };
    if !matches!(error, ProxyError::Io(_)) {
        // The first error matters more.
        let _ = send_and_close(stream, &error.reply()).await;
    }
    Err(error)
}

/// Tells the client that its flow is open. For a plain HTTP request the origin's response does
/// that.
///
/// # Errors
/// If the client cannot be written to.
pub async fn accept<S: AsyncWrite + Unpin>(stream: &mut S, request: &Request) -> io::Result<()> {
    match request.protocol {
        ProxyProtocol::Socks5 => stream.write_all(&socks5::granted()).await?,
        ProxyProtocol::Connect => stream.write_all(http::CONNECTED).await?,
        ProxyProtocol::Http => {}
    }
    stream.flush().await
}

/// Tells the client why its flow was not opened, and shuts this end's side down. Takes at most a
/// second.
///
/// # Errors
/// If the client cannot be written to.
pub async fn refuse<S>(stream: &mut S, request: &Request, refusal: Refusal) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match request.protocol {
        ProxyProtocol::Socks5 => send_and_close(stream, &socks5::refused(refusal)).await,
        ProxyProtocol::Connect | ProxyProtocol::Http => {
            send_and_close(stream, &http::refused(&request.target, refusal)).await
        }
    }
}

/// Writes, shuts this end's side down and then reads a little: closing a socket with unread bytes
/// resets the connection, and the reset can overtake what was written.
async fn send_and_close<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    bytes: &[u8],
) -> io::Result<()> {
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
    // A client that does not read or close in time misses the answer.
    timeout(LINGER_TIME, talk).await.unwrap_or(Ok(()))
}

async fn read_request<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    passwords: Option<&Passwords>,
    limit: usize,
) -> Result<Request, ProxyError> {
    let mut input = Input { bytes: Vec::new(), limit };
    input.more(stream).await?;
    match input.bytes[0] {
        socks5::VERSION => {
            let method = input.wait_for(stream, socks5::greeting).await?;
            if passwords.is_some() && method != socks5::Method::UserName {
                return Err(Socks5Error::PasswordRequired.into());
            }
            stream.write_all(&method.reply()).await?;
            stream.flush().await?;
            let mut user = None;
            if method == socks5::Method::UserName {
                let shown = input.wait_for(stream, socks5::user_name).await?;
                if passwords.is_some_and(|known| !known.accept(&shown)) {
                    return Err(Socks5Error::WrongPassword.into());
                }
                user = Some(shown.name);
                stream.write_all(&socks5::WELCOME).await?;
                stream.flush().await?;
            }
            let target = input.wait_for(stream, socks5::request).await?;
            Ok(Request {
                protocol: ProxyProtocol::Socks5,
                target,
                user,
                first: input.bytes,
                rest: None,
            })
        }
        socks5::SOCKS4_VERSION => Err(ProxyError::Socks4),
        first if http::may_begin(first) => {
            let mut searched = 0;
            while http::head_end(&input.bytes, searched).is_none() {
                searched = input.bytes.len();
                input.more(stream).await.map_err(|error| match error {
                    ProxyError::TooLong { limit } => HttpError::TooLong { limit }.into(),
                    other => other,
                })?;
            }
            let is_known = |known: &Passwords| {
                http::credentials(&input.bytes).is_some_and(|shown| known.accept(&shown))
            };
            if !passwords.is_none_or(is_known) {
                return Err(HttpError::Password.into());
            }
            Ok(http::parse(&input.bytes)?)
        }
        first => Err(ProxyError::Unknown { first }),
    }
}

/// Bytes from the client that have not been used.
struct Input {
    bytes: Vec<u8>,
    limit: usize,
}

impl Input {
    /// Waits for at least one more byte.
    async fn more<S: AsyncRead + Unpin>(&mut self, stream: &mut S) -> Result<(), ProxyError> {
        let room = self.limit.saturating_sub(self.bytes.len());
        if room == 0 {
            return Err(ProxyError::TooLong { limit: self.limit });
        }
        self.bytes.reserve(room.min(4096));
        match stream.take(room as u64).read_buf(&mut self.bytes).await? {
            0 => Err(ProxyError::Ended { got: self.bytes.len() }),
            _ => Ok(()),
        }
    }

    /// Waits for a complete message and takes it from the front.
    async fn wait_for<S: AsyncRead + Unpin, T>(
        &mut self,
        stream: &mut S,
        parse: fn(&[u8]) -> Parsed<T>,
    ) -> Result<T, ProxyError> {
        loop {
            if let Some(message) = self.take(parse)? {
                return Ok(message);
            }
            self.more(stream).await?;
        }
    }

    /// Takes a complete message from the front.
    fn take<T>(&mut self, parse: fn(&[u8]) -> Parsed<T>) -> Result<Option<T>, Socks5Error> {
        let Some((message, used)) = parse(&self.bytes)? else { return Ok(None) };
        self.bytes.drain(..used);
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests;
