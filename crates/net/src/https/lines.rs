//! The lines at the begin of a `tls:` flow's content: `docs/PROTOCOL.md`, "TLS to the target".

use crate::driver::{Driver, FlowSignals};
use oncewire_session::{FlowId, Read};
use rustls::AlertDescription;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest line in bytes, its end included.
pub(crate) const MAX_LINE: usize = 1024;

/// What the opener of a flow says first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// The bytes that follow are carried as they are.
    Pass,
    /// TLS is to be begun, with these protocols.
    Tls(Vec<Vec<u8>>),
}

/// The answer to [`Opening::Tls`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// TLS is established, with this protocol.
    Tls(Option<Vec<u8>>),
    /// The same, though the origin asked for a certificate and got none.
    Asks(Option<Vec<u8>>),
    /// It failed.
    No(Reason, String),
}

/// Why TLS to an origin failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Reason {
    Expired,
    Issuer,
    Name,
    Pin,
    Certificate,
    ClientCertificate,
    Refused,
    Protocol,
    Timeout,
    Failed,
}

impl Reason {
    const ALL: [(Reason, &str, &str); 10] = [
        (Reason::Expired, "expired", "the origin's certificate is not valid now"),
        (
            Reason::Issuer,
            "issuer",
            "the origin's certificate is of a CA that the other end does not trust",
        ),
        (Reason::Name, "name", "the origin's certificate is for other names"),
        (Reason::Pin, "pin", "the origin has another key than the other end requires"),
        (Reason::Certificate, "certificate", "the origin's certificate is invalid"),
        (
            Reason::ClientCertificate,
            "client-certificate",
            "the origin requires a certificate that the other end does not have",
        ),
        (Reason::Refused, "refused", "the origin refused the other end"),
        (Reason::Protocol, "protocol", "the origin does not speak TLS as the other end does"),
        (Reason::Timeout, "timeout", "the origin did not answer in time"),
        (Reason::Failed, "failed", "the TLS connection to the origin failed"),
    ];

    pub(crate) fn name(self) -> &'static str {
        Reason::ALL[self as usize].1
    }

    /// The alert (RFC 8446, section 6.2) that ends an application's connection, because nobody should
    /// talk to this origin; `None` if the application can judge by itself.
    pub(crate) fn alert(self) -> Option<AlertDescription> {
        match self {
            Reason::Expired => Some(AlertDescription::CertificateExpired),
            Reason::Issuer => Some(AlertDescription::UnknownCA),
            Reason::Name => Some(AlertDescription::UnrecognisedName),
            Reason::Pin | Reason::Certificate => Some(AlertDescription::BadCertificate),
            Reason::ClientCertificate
            | Reason::Refused
            | Reason::Protocol
            | Reason::Timeout
            | Reason::Failed => None,
        }
    }

    fn parse(name: &str) -> Reason {
        let found = Reason::ALL.iter().find(|(_, other, _)| *other == name);
        found.map_or(Reason::Failed, |&(reason, ..)| reason)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Reason::ALL[*self as usize].2)
    }
}

impl Opening {
    /// The line, or `None` if it would be too long.
    pub(crate) fn line(&self) -> Option<Vec<u8>> {
        let text = match self {
            Opening::Pass => "pass\n".to_owned(),
            Opening::Tls(protocols) => {
                let all: Vec<_> = protocols.iter().map(|protocol| encode(protocol)).collect();
                let space = if all.is_empty() { "" } else { " " };
                format!("tls{space}{}\n", all.join(","))
            }
        };
        (text.len() <= MAX_LINE).then(|| text.into_bytes())
    }

    pub(crate) fn parse(line: &str) -> Option<Opening> {
        match line.split_once(' ') {
            None if line == "pass" => Some(Opening::Pass),
            None if line == "tls" => Some(Opening::Tls(Vec::new())),
            Some(("tls", list)) => {
                list.split(',').map(decode).collect::<Option<_>>().map(Opening::Tls)
            }
            _ => None,
        }
    }
}

impl Answer {
    pub(crate) fn line(&self) -> Vec<u8> {
        let text = match self {
            Answer::Tls(protocol) => established("tls", protocol.as_deref()),
            Answer::Asks(protocol) => established("asks", protocol.as_deref()),
            Answer::No(reason, text) => {
                // A line, and no longer than one may be.
                let plain = |c: char| if c.is_ascii_graphic() { c } else { ' ' };
                let text: String = text.chars().take(MAX_LINE / 2).map(plain).collect();
                format!("no {} {text}", reason.name())
            }
        };
        format!("{text}\n").into_bytes()
    }

    pub(crate) fn parse(line: &str) -> Option<Answer> {
        match line.split_once(' ') {
            None if line == "tls" => Some(Answer::Tls(None)),
            None if line == "asks" => Some(Answer::Asks(None)),
            Some(("tls", protocol)) => decode(protocol).map(|protocol| Answer::Tls(Some(protocol))),
            Some(("asks", protocol)) => {
                decode(protocol).map(|protocol| Answer::Asks(Some(protocol)))
            }
            Some(("no", rest)) => {
                let (reason, text) = rest.split_once(' ').unwrap_or((rest, ""));
                Some(Answer::No(Reason::parse(reason), text.to_owned()))
            }
            _ => None,
        }
    }
}

fn established(how: &str, protocol: Option<&[u8]>) -> String {
    match protocol {
        None => how.to_owned(),
        Some(protocol) => format!("{how} {}", encode(protocol)),
    }
}

/// Whether a byte is written as it is: a character of a token (RFC 9110, section 5.6.2), but not the
/// percent sign.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte)
}

/// RFC 7639, section 2.2: all other bytes are percent-encoded.
fn encode(protocol: &[u8]) -> String {
    let one = |&byte: &u8| {
        if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    protocol.iter().map(one).collect()
}

/// `None` unless it is 1 to 255 bytes, as ALPN has them.
fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if is_plain(byte) {
            bytes.push(byte);
            continue;
        }
        if byte != b'%' {
            return None;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        rest = after;
        let digits =
            str::from_utf8(digits).ok().filter(|_| digits.iter().all(u8::is_ascii_hexdigit));
        bytes.push(u8::from_str_radix(digits?, 16).ok()?);
    }
    (1..=255).contains(&bytes.len()).then_some(bytes)
}

/// Reads the first line of a flow's content, for at most `limit`. Returns it without its end, and
/// what follows it. `None` if there is none.
pub(crate) async fn read_line(
    driver: &Arc<Driver>,
    flow: FlowId,
    signals: &FlowSignals,
    limit: Duration,
) -> Option<(String, Vec<u8>)> {
    let read = async {
        let mut bytes = Vec::new();
        loop {
            match driver.with(|session| session.read(flow))? {
                Read::Data(chunk) => {
                    driver.with(|session| session.consumed(flow, chunk.len(), Instant::now()));
                    bytes.extend_from_slice(&chunk);
                    if let Some(end) = bytes.iter().take(MAX_LINE).position(|&byte| byte == b'\n') {
                        let rest = bytes.split_off(end + 1);
                        bytes.pop();
                        return String::from_utf8(bytes).ok().map(|line| (line, rest));
                    }
                    if bytes.len() >= MAX_LINE {
                        return None;
                    }
                }
                Read::Nothing => signals.readable.notified().await,
                Read::Finished | Read::Cut | Read::Gone => return None,
            }
        }
    };
    tokio::time::timeout(limit, read).await.ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: &[u8]) -> &str {
        str::from_utf8(line).unwrap().strip_suffix('\n').unwrap()
    }

    #[test]
    fn lines_are_read_as_written() {
        let protocol = |name: &str| name.as_bytes().to_vec();
        for (opening, line) in [
            (Opening::Pass, "pass"),
            (Opening::Tls(Vec::new()), "tls"),
            (Opening::Tls(vec![protocol("h2"), protocol("http/1.1")]), "tls h2,http%2F1.1"),
            (Opening::Tls(vec![vec![0x0a, b',', b'%', 0xff]]), "tls %0A%2C%25%FF"),
        ] {
            assert_eq!(text(&opening.line().unwrap()), line);
            assert_eq!(Opening::parse(line), Some(opening));
        }
        for (answer, line) in [
            (Answer::Tls(None), "tls"),
            (Answer::Tls(Some(protocol("h2"))), "tls h2"),
            (Answer::Asks(None), "asks"),
            (Answer::Asks(Some(protocol("http/1.1"))), "asks http%2F1.1"),
            (Answer::No(Reason::Name, "a b".into()), "no name a b"),
            (Answer::No(Reason::Timeout, String::new()), "no timeout "),
        ] {
            assert_eq!(text(&answer.line()), line);
            assert_eq!(Answer::parse(line), Some(answer));
        }
        assert_eq!(Answer::parse("no news"), Some(Answer::No(Reason::Failed, String::new())));
        for bad in
            ["", "tls ", "tls a,", "tls %", "tls %2", "tls %+1", "Pass", "pass ", "yes h2", "asks "]
        {
            assert_eq!((Opening::parse(bad), Answer::parse(bad)), (None, None), "{bad}");
        }
        for (at, (reason, name, _)) in Reason::ALL.into_iter().enumerate() {
            assert_eq!((reason as usize, Reason::parse(name)), (at, reason));
        }
    }

    #[test]
    fn lines_stay_short_and_whole() {
        assert_eq!(Opening::Tls(vec![vec![0xff; 255]; 2]).line(), None);
        let line = Answer::No(Reason::Failed, "x\ny\u{1b}".repeat(1000)).line();
        assert!(line.len() <= MAX_LINE && line.iter().filter(|&&byte| byte == b'\n').count() == 1);
    }
}
