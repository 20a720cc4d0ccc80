//! SOCKS5 (RFC 1928): CONNECT without authentication, to IPv4 and IPv6 addresses and to names.

use super::Refusal;
use crate::target::{Host, Target, TargetError};
use std::net::IpAddr;

/// The first byte of everything a SOCKS5 client says.
pub const VERSION: u8 = 5;
/// The first byte of everything a SOCKS4 client says.
pub(super) const SOCKS4_VERSION: u8 = 4;
/// What a SOCKS4 client is told, whatever it asks for: request rejected or failed (Y.-D. Lee, "SOCKS: A protocol for TCP proxy across firewalls").
pub(super) const SOCKS4_REJECTED: [u8; 8] = [0, 0x5b, 0, 0, 0, 0, 0, 0];
/// The server's answer to a greeting: no authentication.
pub(super) const METHOD_CHOSEN: [u8; 2] = [VERSION, NO_AUTHENTICATION];

const NO_AUTHENTICATION: u8 = 0;
const CONNECT: u8 = 1;

/// What a client did wrong, or asked for in vain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Socks5Error {
    /// The request has another version than the greeting.
    #[error("bad SOCKS5: the request's version is {version}")]
    Version {
        /// The version in the request.
        version: u8,
    },
    /// The client insists on authentication.
    #[error("the SOCKS5 client insists on authentication: set it to none")]
    Methods,
    /// The client wants to listen, or UDP.
    #[error("the SOCKS5 client asks for command {command}: only CONNECT (1) is served")]
    Command {
        /// What it asked for.
        command: u8,
    },
    /// An unknown type of address.
    #[error("bad SOCKS5: the address is of type {kind}")]
    AddressType {
        /// Its type.
        kind: u8,
    },
    /// The target is impossible.
    #[error("bad SOCKS5 target: {0}")]
    Target(#[from] TargetError),
}

/// A message and how many bytes it took, or `None` if it is not complete.
pub type Parsed<T> = Result<Option<(T, usize)>, Socks5Error>;

impl Socks5Error {
    /// What the client is told: 2 bytes after a greeting, 10 after a request.
    pub fn reply(&self) -> Vec<u8> {
        match self {
            Socks5Error::Methods => vec![VERSION, 0xff],
            Socks5Error::Command { .. } => reply(7).to_vec(),
            Socks5Error::AddressType { .. } => reply(8).to_vec(),
            Socks5Error::Target(_) | Socks5Error::Version { .. } => reply(1).to_vec(),
        }
    }
}

/// Reads the greeting at the front of `bytes`: how long it is, or `None` if it is not complete (RFC 1928 section 3).
pub fn greeting(bytes: &[u8]) -> Parsed<()> {
    let [version, count, rest @ ..] = bytes else { return Ok(None) };
    if *version != VERSION {
        return Err(Socks5Error::Version { version: *version });
    }
    let Some(methods) = rest.get(..usize::from(*count)) else { return Ok(None) };
    if !methods.contains(&NO_AUTHENTICATION) {
        return Err(Socks5Error::Methods);
    }
    Ok(Some(((), 2 + methods.len())))
}

/// Reads the request at the front of `bytes`: its target and how long it is, or `None` if it is not complete (RFC 1928 sections 4 and 5).
pub fn request(bytes: &[u8]) -> Parsed<Target> {
    // What is wrong in the first bytes is told without waiting for more.
    match *bytes {
        [version, ..] if version != VERSION => return Err(Socks5Error::Version { version }),
        [_, command, ..] if command != CONNECT => return Err(Socks5Error::Command { command }),
        _ => {}
    }
    let [_, _, _, kind, rest @ ..] = bytes else { return Ok(None) };
    let taken = match kind {
        1 => rest.split_first_chunk::<4>().map(|(ip, rest)| (Ok(Host::Ip(IpAddr::from(*ip))), rest)),
        4 => rest.split_first_chunk::<16>().map(|(ip, rest)| (Ok(Host::Ip(IpAddr::from(*ip))), rest)),
        3 => rest
            .split_first()
            .and_then(|(len, rest)| rest.split_at_checked(usize::from(*len)))
            .map(|(name, rest)| (host(name), rest)),
        &kind => return Err(Socks5Error::AddressType { kind }),
    };
    let Some((host, rest)) = taken else { return Ok(None) };
    let Some((port, rest)) = rest.split_first_chunk() else { return Ok(None) };
    let target = Target::new(host?, u16::from_be_bytes(*port))?;
    Ok(Some((target, bytes.len() - rest.len())))
}

/// A name, or an address that the client wrote as text.
fn host(name: &[u8]) -> Result<Host, TargetError> {
    match str::from_utf8(name) {
        Ok(name) => name.parse(),
        Err(_) => Err(TargetError::Character { found: char::REPLACEMENT_CHARACTER }),
    }
}

/// The answer to a request that succeeded (RFC 1928 section 6). The bound address is given as 0.0.0.0:0: it is the other end's.
pub fn granted() -> [u8; 10] {
    reply(0)
}

/// The answer to a request that failed.
pub fn refused(refusal: Refusal) -> [u8; 10] {
    reply(match refusal {
        Refusal::NotAllowed => 2,
        Refusal::Unreachable | Refusal::NoSuchName => 4,
        Refusal::Refused => 5,
        Refusal::TimedOut => 6,
        Refusal::NoSession | Refusal::Busy | Refusal::Failed => 1,
    })
}

fn reply(code: u8) -> [u8; 10] {
    [VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings() {
        assert_eq!(greeting(&[5, 1, 0]), Ok(Some(((), 3))));
        assert_eq!(greeting(&[5, 3, 2, 1, 0, 5, 1]), Ok(Some(((), 5))));
        for cut in 0..3 {
            assert_eq!(greeting(&[5, 1, 0][..cut]), Ok(None));
        }
        assert_eq!(greeting(&[5, 0]), Err(Socks5Error::Methods));
        assert_eq!(greeting(&[5, 2, 1, 2]), Err(Socks5Error::Methods));
        assert_eq!(greeting(&[4, 1, 0]), Err(Socks5Error::Version { version: 4 }));
    }

    #[test]
    fn requests_of_each_kind_whole_and_cut() {
        let mut six = vec![5, 1, 0, 4, 0x20, 1, 0x0d, 0xb8];
        six.extend([0; 11]);
        six.extend([1, 1, 0xbb]);
        let mut name = vec![5, 1, 0, 3, 14];
        name.extend(b"origin.example\x00\x50");
        let mut text = vec![5, 1, 0, 3, 3];
        text.extend(b"::1\x00\x50");
        for (bytes, want) in [
            (vec![5, 1, 0, 1, 10, 0, 0, 1, 0, 80], "10.0.0.1:80"),
            (six, "[2001:db8::1]:443"),
            (name, "origin.example:80"),
            (text, "[::1]:80"),
        ] {
            for cut in 0..bytes.len() {
                assert_eq!(request(&bytes[..cut]), Ok(None), "{want} cut at {cut}");
            }
            let with_data = [bytes.as_slice(), b"GET"].concat();
            assert_eq!(request(&with_data), Ok(Some((want.parse().unwrap(), bytes.len()))));
        }
    }

    #[test]
    fn bad_requests_and_their_replies() {
        let cases: &[(&[u8], u8)] = &[
            (&[4], 1),
            (&[5, 2], 7),
            (&[5, 3, 0, 1, 0, 0, 0, 0, 0, 0], 7),
            (&[5, 1, 0, 2], 8),
            (&[5, 1, 0, 3, 0, 0, 80], 1),
            (&[5, 1, 0, 3, 2, b'a', b'/', 0, 80], 1),
            (&[5, 1, 0, 3, 2, 0xff, 0xfe, 0, 80], 1),
            (&[5, 1, 0, 1, 10, 0, 0, 1, 0, 0], 1),
        ];
        for (bytes, code) in cases {
            assert_eq!(request(bytes).unwrap_err().reply()[1], *code, "{bytes:?}");
        }
    }
}
