//! An HTTP/1 proxy: CONNECT, and plain requests in absolute form (RFC 9112 section 3.2).
//!
//! A plain request is rewritten to the form that origins expect, and each connection carries one:
//! `Connection` becomes `close`, so that the origin ends the connection after its response and the
//! client sends its next request, perhaps for another origin, on a new one. Bodies, chunked ones
//! too, and `Expect: 100-continue` pass unchanged.
//!
//! - `Host` is taken from the request's target (RFC 9112 section 3.2.2).
//! - `Proxy-Connection`, `Proxy-Authorization`, `Keep-Alive` and all headers that `Connection`
//!   names are dropped (RFC 9110 section 7.6.1).
//! - A request with `Upgrade` keeps it, with `Connection: Upgrade`. `Upgrade: h2c` is dropped
//!   (RFC 9113 deprecates it): an origin that ignored it would keep the connection open, and some
//!   clients would then send requests for other origins on it.
//! - No `Via` is added: it makes common servers switch their compression off.
//! - Requests whose body has no certain length are refused (RFC 9112 section 6.3), because they can
//!   smuggle other requests.

use super::access::Credentials;
use super::{ProxyProtocol, Refusal, Request};
use crate::target::{Target, TargetError};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use httparse::{EMPTY_HEADER, Header, Status};

/// The response to a CONNECT that succeeded.
pub(super) const CONNECTED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";
/// Most header lines of a request.
pub const MAX_HEADERS: usize = 256;

/// What is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The head is longer than the limit.
    #[error("the head of the HTTP request has more than {limit} bytes")]
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// Too many header lines.
    #[error("the HTTP request has more than {MAX_HEADERS} header lines")]
    TooManyHeaders,
    /// The head is malformed.
    #[error("bad HTTP request: {0}")]
    Head(httparse::Error),
    /// The head is incomplete.
    #[error("bad HTTP request: its head is incomplete")]
    Incomplete,
    /// The request is for an origin, not for a proxy.
    #[error("this is an HTTP proxy: request http://host/path, or use CONNECT host:port")]
    NotForProxy,
    /// The scheme is not `http`.
    #[error("the HTTP proxy supports only http://: use CONNECT for other schemes")]
    Scheme,
    /// The host or the port is invalid.
    #[error("bad target in the HTTP request: {0}")]
    Target(TargetError),
    /// The target has a user name or a fragment.
    #[error("bad target in the HTTP request: a proxy takes no user name and no fragment")]
    Decoration,
    /// Passwords are required, and the client showed none or a wrong one.
    #[error("the HTTP client shows no user name and password that are known here")]
    Password,
    /// The headers do not agree on the length of the body.
    #[error("bad HTTP request: its headers do not agree on the length of its body")]
    BodyLength,
}

impl HttpError {
    /// The response to the client.
    pub fn reply(&self) -> Vec<u8> {
        let status = match self {
            HttpError::TooLong { .. } | HttpError::TooManyHeaders => {
                "431 Request Header Fields Too Large"
            }
            // With it, browsers ask for a name and a password (RFC 9110 section 11.7.1).
            HttpError::Password => {
                "407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"oncewire\""
            }
            _ => "400 Bad Request",
        };
        response(status, &self.to_string())
    }
}

/// The response to a client whose flow was not opened.
pub fn refused(target: &Target, refusal: Refusal) -> Vec<u8> {
    let status = match refusal {
        Refusal::NotAllowed | Refusal::Guarded { .. } => "403 Forbidden",
        Refusal::TimedOut => "504 Gateway Timeout",
        Refusal::NoSession | Refusal::Busy => "503 Service Unavailable",
        Refusal::Refused | Refusal::Unreachable | Refusal::NoSuchName | Refusal::Failed => {
            "502 Bad Gateway"
        }
    };
    response(status, &format!("cannot connect to {target}: {refusal}"))
}

fn response(status: &str, line: &str) -> Vec<u8> {
    let body = format!("oncewire: {line}\n");
    let head =
        "Content-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\nConnection: close";
    format!("HTTP/1.1 {status}\r\n{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        .into_bytes()
}

/// Whether a request can start with this byte: one of a method, or of the empty lines that may
/// precede it.
pub(super) fn may_begin(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~\r\n".contains(&byte)
}

/// The end of the head, if it is there. The first `searched` bytes do not contain it.
pub(super) fn head_end(bytes: &[u8], searched: usize) -> Option<usize> {
    let start =
        bytes.iter().position(|byte| !b"\r\n".contains(byte))?.max(searched.saturating_sub(2));
    let line_ends = bytes
        .iter()
        .enumerate()
        .skip(start)
        .filter(|&(_, &byte)| byte == b'\n')
        .map(|(at, _)| at + 1);
    line_ends.into_iter().find_map(|at| match bytes[at..] {
        [b'\n', ..] => Some(at + 1),
        [b'\r', b'\n', ..] => Some(at + 2),
        _ => None,
    })
}

/// Parses a request with a complete head and writes the one for the origin. [`Request::first`] also
/// has what follows the head, as far as it belongs to the request.
///
/// # Errors
/// [`HttpError`].
pub fn parse(bytes: &[u8]) -> Result<Request, HttpError> {
    let mut headers = [EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let used = match request.parse(bytes) {
        Ok(Status::Complete(used)) => used,
        Ok(Status::Partial) => return Err(HttpError::Incomplete),
        Err(httparse::Error::TooManyHeaders) => return Err(HttpError::TooManyHeaders),
        Err(error) => return Err(HttpError::Head(error)),
    };
    let (Some(method), Some(uri), Some(version)) = (request.method, request.path, request.version)
    else {
        return Err(HttpError::Incomplete);
    };
    let after = &bytes[used..];
    let headers = Headers(request.headers);
    let user = headers.user();
    if method == "CONNECT" {
        let target = uri.parse().map_err(HttpError::Target)?;
        return Ok(Request {
            protocol: ProxyProtocol::Connect,
            target,
            user,
            first: after.to_vec(),
            rest: None,
        });
    }
    let (target, path) = split(uri)?;
    let length = headers.body_length(version)?;
    let upgrade = version >= 1 && headers.upgrades();
    let path = match path {
        "" if method == "OPTIONS" => "*".to_string(),
        path if path.starts_with('/') => path.to_string(),
        query => format!("/{query}"),
    };
    let host = if target.port() == 80 { target.host().to_string() } else { target.to_string() };
    let mut first = format!("{method} {path} HTTP/1.{version}\r\nHost: {host}\r\n").into_bytes();
    for header in headers.0.iter().filter(|header| headers.passes(header, upgrade)) {
        first.extend([header.name.as_bytes(), b": ", header.value, b"\r\n"].concat());
    }
    first.extend(if upgrade {
        b"Connection: Upgrade\r\n\r\n".as_slice()
    } else {
        b"Connection: close\r\n\r\n"
    });
    let rest = match length {
        Some(length) if !upgrade => {
            let here = after.len().min(usize::try_from(length).unwrap_or(usize::MAX));
            first.extend(&after[..here]);
            Some(length - here as u64)
        }
        _ => {
            first.extend(after);
            None
        }
    };
    Ok(Request { protocol: ProxyProtocol::Http, target, user, first, rest })
}

/// The name and password that a request with a complete head shows the proxy, by the Basic scheme
/// (RFC 7617 section 2).
pub(super) fn credentials(bytes: &[u8]) -> Option<Credentials> {
    let mut headers = [EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    request.parse(bytes).ok()?;
    let mut pair = Headers(request.headers).basic()?;
    let colon = pair.iter().position(|&byte| byte == b':')?;
    let password = pair.split_off(colon + 1);
    pair.pop();
    Some(Credentials { name: pair, password })
}

/// The target of an absolute URI, and what follows its authority.
fn split(uri: &str) -> Result<(Target, &str), HttpError> {
    if uri.starts_with('/') || uri == "*" {
        return Err(HttpError::NotForProxy);
    }
    let (scheme, rest) = uri.split_once("://").ok_or(HttpError::NotForProxy)?;
    if !scheme.eq_ignore_ascii_case("http") {
        return Err(HttpError::Scheme);
    }
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if authority.contains('@') || path.contains('#') {
        return Err(HttpError::Decoration);
    }
    let target = match authority.rsplit_once(':') {
        Some((host, "")) => format!("{host}:80").parse(),
        Some((_, port)) if !port.ends_with(']') => authority.parse(),
        _ => format!("{authority}:80").parse(),
    };
    Ok((target.map_err(HttpError::Target)?, path))
}

struct Headers<'h, 'b>(&'h [Header<'b>]);

impl<'b> Headers<'_, 'b> {
    fn values(&self, name: &str) -> impl Iterator<Item = &'b [u8]> {
        self.0
            .iter()
            .filter(move |header| header.name.eq_ignore_ascii_case(name))
            .map(|header| header.value)
    }

    /// The members of a header that is a list.
    fn members(&self, name: &str) -> impl Iterator<Item = &'b [u8]> {
        self.values(name)
            .flat_map(|value| value.split(|&byte| byte == b','))
            .map(<[u8]>::trim_ascii)
    }

    /// The name that the client gives itself to the proxy: the user of the Basic scheme (RFC 7617
    /// section 2), or the whole credentials of another scheme.
    fn user(&self) -> Option<Vec<u8>> {
        let credentials = self.values("Proxy-Authorization").next()?;
        match self.basic() {
            Some(mut pair) => {
                pair.truncate(pair.iter().position(|&byte| byte == b':').unwrap_or(pair.len()));
                Some(pair)
            }
            None => Some(credentials.to_vec()),
        }
    }

    /// The name, a colon and the password that the client shows the proxy.
    fn basic(&self) -> Option<Vec<u8>> {
        let credentials = self.values("Proxy-Authorization").next()?;
        let (_, encoded) = credentials
            .split_at_checked(6)
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"basic "))?;
        STANDARD.decode(encoded.trim_ascii()).ok()
    }

    /// The length of the body, or `None` if it is chunked (RFC 9112 section 6.3).
    fn body_length(&self, version: u8) -> Result<Option<u64>, HttpError> {
        let mut lengths = self.values("Content-Length");
        let length = lengths.next();
        if lengths.next().is_some() {
            return Err(HttpError::BodyLength);
        }
        match (length, self.members("Transfer-Encoding").last()) {
            (None, None) => Ok(Some(0)),
            (None, Some(last)) if version >= 1 && last.eq_ignore_ascii_case(b"chunked") => Ok(None),
            (Some(digits), None) if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) => {
                let length = str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
                length.map(Some).ok_or(HttpError::BodyLength)
            }
            _ => Err(HttpError::BodyLength),
        }
    }

    /// Whether the request asks to upgrade to a protocol that may pass.
    fn upgrades(&self) -> bool {
        self.values("Upgrade").next().is_some()
            && !self.members("Upgrade").any(|protocol| protocol.eq_ignore_ascii_case(b"h2c"))
    }

    /// Whether a header is sent to the origin.
    fn passes(&self, header: &Header<'_>, upgrade: bool) -> bool {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        // Whatever `Connection` names: without these the body would have no end.
        if is("Transfer-Encoding") || is("Content-Length") {
            return true;
        }
        if is("Upgrade") {
            return upgrade;
        }
        let ours = ["Host", "Connection", "Proxy-Connection", "Proxy-Authorization", "Keep-Alive"]
            .into_iter()
            .any(is);
        !ours
            && !self
                .members("Connection")
                .any(|named| named.eq_ignore_ascii_case(header.name.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(head: &str) -> Request {
        parse(head.as_bytes()).unwrap()
    }

    fn first(head: &str) -> String {
        String::from_utf8(request(head).first).unwrap()
    }

    fn error(head: &str) -> HttpError {
        parse(head.as_bytes()).unwrap_err()
    }

    #[test]
    fn connect() {
        let head = "CONNECT origin.example:443 HTTP/1.1\r\nHost: other:1\r\nProxy-Authorization: Basic eA==\r\n\r\n\x16\x03";
        let target = "origin.example:443".parse().unwrap();
        assert_eq!(
            request(head),
            Request {
                protocol: ProxyProtocol::Connect,
                target,
                user: Some(b"x".to_vec()),
                first: b"\x16\x03".to_vec(),
                rest: None
            }
        );
        for (credentials, user) in [
            ("basic YWxpY2U6c2VjcmV0", &b"alice"[..]),
            ("Basic Og==", b""),
            ("Basic ?", b"Basic ?"),
            ("Bearer token", b"Bearer token"),
        ] {
            let head = format!(
                "GET http://origin.example/ HTTP/1.1\r\nProxy-Authorization: {credentials}\r\n\r\n"
            );
            assert_eq!(request(&head).user.as_deref(), Some(user), "{credentials}");
        }
        assert_eq!(request("CONNECT [::1]:443 HTTP/1.0\r\n\r\n").target.to_string(), "[::1]:443");
        for bad in
            ["origin.example", "http://origin.example/", "origin:0", "a@origin:443", "::1:443"]
        {
            assert!(
                matches!(error(&format!("CONNECT {bad} HTTP/1.1\r\n\r\n")), HttpError::Target(_)),
                "{bad}"
            );
        }
    }

    #[test]
    fn a_plain_request_is_rewritten() {
        let head = "GET http://Origin.example:8080/a/b?c=d HTTP/1.1\r\nhost: evil\r\nUser-Agent: x\r\nProxy-Connection: keep-alive\r\n\
                    proxy-authorization: Basic eA==\r\nConnection: keep-alive, X-Hop\r\nKeep-Alive: 5\r\nx-hop: 1\r\nX: \u{e9}\r\n\r\n";
        let got = request(head);
        assert_eq!(
            (got.protocol, got.target.to_string().as_str(), got.rest),
            (ProxyProtocol::Http, "origin.example:8080", Some(0))
        );
        let want = "GET /a/b?c=d HTTP/1.1\r\nHost: origin.example:8080\r\nUser-Agent: x\r\nX: \u{e9}\r\nConnection: close\r\n\r\n";
        assert_eq!(String::from_utf8(got.first).unwrap(), want);
    }

    #[test]
    fn targets_of_plain_requests() {
        for (uri, target, line) in [
            ("http://o", "o:80", "GET / HTTP/1.1\r\nHost: o\r\n"),
            ("HTTP://o:/", "o:80", "GET / HTTP/1.1\r\nHost: o\r\n"),
            ("http://o:80?q=http://x/", "o:80", "GET /?q=http://x/ HTTP/1.1\r\nHost: o\r\n"),
            ("http://[::1]/x@y", "[::1]:80", "GET /x@y HTTP/1.1\r\nHost: [::1]\r\n"),
            ("http://[::1]:81//", "[::1]:81", "GET // HTTP/1.1\r\nHost: [::1]:81\r\n"),
        ] {
            let head = format!("GET {uri} HTTP/1.1\r\n\r\n");
            assert_eq!(request(&head).target.to_string(), target);
            assert!(first(&head).starts_with(line), "{}", first(&head));
        }
        assert!(first("OPTIONS http://o HTTP/1.1\r\n\r\n").starts_with("OPTIONS * HTTP/1.1\r\n"));
        assert!(first("OPTIONS http://o/ HTTP/1.1\r\n\r\n").starts_with("OPTIONS / HTTP/1.1\r\n"));
        for (uri, want) in [
            ("/", HttpError::NotForProxy),
            ("*", HttpError::NotForProxy),
            ("origin:80", HttpError::NotForProxy),
            ("https://o/", HttpError::Scheme),
            ("ftp://o/", HttpError::Scheme),
            ("http://user:pass@o/", HttpError::Decoration),
            ("http://o/#x", HttpError::Decoration),
            ("http:///x", HttpError::Target(TargetError::Length { len: 0 })),
            ("http://::1/", HttpError::Target(TargetError::Form)),
            ("http://o:0/", HttpError::Target(TargetError::Port)),
        ] {
            assert_eq!(error(&format!("GET {uri} HTTP/1.1\r\n\r\n")), want, "{uri}");
        }
    }

    #[test]
    fn bodies_pass_and_other_requests_do_not() {
        let head = "POST http://o/ HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
        assert!(first(head).contains("Expect: 100-continue\r\n"));
        assert_eq!(request(head).rest, Some(5));
        let part = request(&format!("{head}ab"));
        assert!(part.first.ends_with(b"\r\n\r\nab"));
        assert_eq!(part.rest, Some(3));
        let more =
            request(&format!("{head}abcdeGET http://other/ HTTP/1.1\r\nCookie: secret\r\n\r\n"));
        assert!(more.first.ends_with(b"\r\n\r\nabcde"));
        assert_eq!(more.rest, Some(0));
        let chunked = request(
            "POST http://o/ HTTP/1.1\r\nConnection: transfer-encoding\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n5\r\nab",
        );
        assert!(
            chunked
                .first
                .ends_with(b"Transfer-Encoding: gzip, Chunked\r\nConnection: close\r\n\r\n5\r\nab")
        );
        assert_eq!(chunked.rest, None);
    }

    #[test]
    fn doubtful_bodies_are_refused() {
        for headers in [
            "Content-Length: 5\r\nContent-Length: 5",
            "Content-Length: 5\r\nTransfer-Encoding: chunked",
            "Content-Length: 5, 5",
            "Content-Length: +5",
            "Content-Length:",
            "Content-Length: 99999999999999999999",
            "Transfer-Encoding: chunked, gzip",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        ] {
            assert_eq!(
                error(&format!("POST http://o/ HTTP/1.1\r\n{headers}\r\n\r\n")),
                HttpError::BodyLength,
                "{headers}"
            );
        }
        assert_eq!(
            error("POST http://o/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"),
            HttpError::BodyLength
        );
    }

    #[test]
    fn upgrades() {
        let head = "GET http://o/ HTTP/1.1\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Key: x\r\n\r\ny";
        let want = "GET / HTTP/1.1\r\nHost: o\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nConnection: Upgrade\r\n\r\ny";
        assert_eq!(first(head), want);
        assert_eq!(request(head).rest, None);
        let head = "GET http://o/ HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n\r\n";
        assert_eq!(first(head), "GET / HTTP/1.1\r\nHost: o\r\nConnection: close\r\n\r\n");
    }

    #[test]
    fn bad_heads_are_refused() {
        for head in [
            "GET http://o/ HTTP/2.0\r\n\r\n",
            "GET http://o/\r\n\r\n",
            "GET  http://o/ HTTP/1.1\r\n\r\n",
            "GET http://o/ HTTP/1.1\r\nA : b\r\n\r\n",
            "GET http://o/ HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
            "GET http://o/ HTTP/1.1\r\nA: b\rX: c\r\n\r\n",
            "GET http://o/ HTTP/1.1\r\nA: b\0\r\n\r\n",
            "GET http://o/ HTTP/1.1\r\n: b\r\n\r\n",
        ] {
            assert!(matches!(error(head), HttpError::Head(_)), "{head:?}");
        }
        assert_eq!(error("GET http://o/ HTTP/1.1\r\n"), HttpError::Incomplete);
        let many = format!("GET http://o/ HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(257));
        assert_eq!(error(&many), HttpError::TooManyHeaders);
        assert!(HttpError::TooManyHeaders.reply().starts_with(b"HTTP/1.1 431 "));
    }

    #[test]
    fn the_end_of_a_head_is_found_in_pieces() {
        for head in [
            "\r\n\r\nGET / HTTP/1.1\r\na: b\r\n\r\n",
            "GET / HTTP/1.1\na: b\n\n",
            "GET / HTTP/1.1\r\na: b\n\r\n",
        ] {
            let bytes = [head.as_bytes(), b"body\r\n\r\n"].concat();
            let mut searched = 0;
            for have in 0..=bytes.len() {
                let end = head_end(&bytes[..have], searched);
                assert_eq!(
                    end,
                    (have >= head.len()).then_some(head.len()),
                    "{head:?} with {have} bytes"
                );
                if end.is_none() {
                    searched = have;
                }
            }
        }
    }

    #[test]
    fn replies_are_whole() {
        let target = "o:80".parse().unwrap();
        for (refusal, status) in [
            (Refusal::NotAllowed, "403"),
            (Refusal::TimedOut, "504"),
            (Refusal::Refused, "502"),
            (Refusal::NoSession, "503"),
        ] {
            let reply = String::from_utf8(refused(&target, refusal)).unwrap();
            assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")));
            let (head, body) = reply.split_once("\r\n\r\n").unwrap();
            assert!(head.contains(&format!("Content-Length: {}", body.len())));
            assert_eq!(body.matches('\n').count(), 1);
        }
    }
}
