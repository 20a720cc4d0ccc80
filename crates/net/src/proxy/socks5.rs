//! SOCKS5 (RFC 1928): CONNECT to IPv4 and IPv6 addresses and to names. A user name (RFC 1929) is
//! taken, and any password unless passwords are required.

use super::Refusal;
use super::access::Credentials;
use crate::target::{Host, Target, TargetError};
use std::net::IpAddr;

/// First byte of every message of a SOCKS5 client.
pub const VERSION: u8 = 5;
/// First byte of every message of a SOCKS4 client.
pub(super) const SOCKS4_VERSION: u8 = 4;
/// The answer to every SOCKS4 client: request rejected or failed (Y.-D. Lee, "SOCKS: A protocol for
/// TCP proxy across firewalls").
pub(super) const SOCKS4_REJECTED: [u8; 8] = [0, 0x5b, 0, 0, 0, 0, 0, 0];
/// The answer to a user name and password: welcome (RFC 1929 section 2).
pub(super) const WELCOME: [u8; 2] = [USER_NAME_VERSION, 0];

const NO_AUTHENTICATION: u8 = 0;
const USER_NAME: u8 = 2;
const USER_NAME_VERSION: u8 = 1;
const CONNECT: u8 = 1;

/// Why a SOCKS5 client is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Socks5Error {
    /// The request has another version than the greeting.
    #[error("bad SOCKS5: the request's version is {version}")]
    Version {
        /// The version in the request.
        version: u8,
    },
    /// The client offers neither to go without authentication nor a user name.
    #[error(
        "the SOCKS5 client requires an authentication that is not supported: configure it for none"
    )]
    Methods,
    /// Passwords are required, and the client offers none.
    #[error("the SOCKS5 client shows no user name and password, which are required here")]
    PasswordRequired,
    /// The user name and password are not known.
    #[error("the SOCKS5 client shows a wrong user name or password")]
    WrongPassword,
    /// The message with user name and password has another version than that of RFC 1929.
    #[error("bad SOCKS5: the version of the user name is {version}")]
    UserName {
        /// Its version.
        version: u8,
    },
    /// The client requests a listener or UDP.
    #[error("the SOCKS5 client requests command {command}: only CONNECT (1) is supported")]
    Command {
        /// The command in the request.
        command: u8,
    },
    /// The type of address is unknown.
    #[error("bad SOCKS5: the address is of type {kind}")]
    AddressType {
        /// Its type.
        kind: u8,
    },
    /// The target is invalid.
    #[error("bad SOCKS5 target: {0}")]
    Target(#[from] TargetError),
}

/// A message and its length in bytes, or `None` if it is incomplete.
pub type Parsed<T> = Result<Option<(T, usize)>, Socks5Error>;

impl Socks5Error {
    /// The answer to the client: 2 bytes after a greeting, 10 after a request.
    pub fn reply(&self) -> Vec<u8> {
        match self {
            Socks5Error::Methods | Socks5Error::PasswordRequired => vec![VERSION, 0xff],
            Socks5Error::UserName { .. } | Socks5Error::WrongPassword => {
                vec![USER_NAME_VERSION, 1]
            }
            Socks5Error::Command { .. } => reply(7).to_vec(),
            Socks5Error::AddressType { .. } => reply(8).to_vec(),
            Socks5Error::Target(_) | Socks5Error::Version { .. } => reply(1).to_vec(),
        }
    }
}

/// How a client says who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Not at all.
    None,
    /// By a user name, which comes next.
    UserName,
}

impl Method {
    /// The answer to a greeting.
    pub(super) fn reply(self) -> [u8; 2] {
        let method = match self {
            Method::None => NO_AUTHENTICATION,
            Method::UserName => USER_NAME,
        };
        [VERSION, method]
    }
}

/// Parses the greeting at the front of `bytes` (RFC 1928 section 3). Returns the method to use and
/// the greeting's length, or `None` if it is incomplete. A client that offers a user name has one.
///
/// # Errors
/// [`Socks5Error::Version`], [`Socks5Error::Methods`].
pub fn greeting(bytes: &[u8]) -> Parsed<Method> {
    let [version, count, rest @ ..] = bytes else { return Ok(None) };
    if *version != VERSION {
        return Err(Socks5Error::Version { version: *version });
    }
    let Some(methods) = rest.get(..usize::from(*count)) else { return Ok(None) };
    let method = if methods.contains(&USER_NAME) {
        Method::UserName
    } else if methods.contains(&NO_AUTHENTICATION) {
        Method::None
    } else {
        return Err(Socks5Error::Methods);
    };
    Ok(Some((method, 2 + methods.len())))
}

/// Parses the user name and password at the front of `bytes` (RFC 1929 section 2). Returns them and
/// the message's length, or `None` if it is incomplete.
///
/// # Errors
/// [`Socks5Error::UserName`].
pub fn user_name(bytes: &[u8]) -> Parsed<Credentials> {
    let [version, len, rest @ ..] = bytes else { return Ok(None) };
    if *version != USER_NAME_VERSION {
        return Err(Socks5Error::UserName { version: *version });
    }
    let Some((name, rest)) = rest.split_at_checked(usize::from(*len)) else { return Ok(None) };
    let Some((len, rest)) = rest.split_first() else { return Ok(None) };
    let Some((password, rest)) = rest.split_at_checked(usize::from(*len)) else {
        return Ok(None);
    };
    let credentials = Credentials { name: name.to_vec(), password: password.to_vec() };
    Ok(Some((credentials, bytes.len() - rest.len())))
}

/// Parses the request at the front of `bytes` (RFC 1928 sections 4 and 5). Returns its target and
/// length, or `None` if it is incomplete.
///
/// # Errors
/// [`Socks5Error`].
pub fn request(bytes: &[u8]) -> Parsed<Target> {
    // Reports errors in the first bytes without waiting for more.
    match *bytes {
        [version, ..] if version != VERSION => return Err(Socks5Error::Version { version }),
        [_, command, ..] if command != CONNECT => return Err(Socks5Error::Command { command }),
        _ => {}
    }
    let [_, _, _, kind, rest @ ..] = bytes else { return Ok(None) };
    let taken = match kind {
        1 => {
            rest.split_first_chunk::<4>().map(|(ip, rest)| (Ok(Host::Ip(IpAddr::from(*ip))), rest))
        }
        4 => {
            rest.split_first_chunk::<16>().map(|(ip, rest)| (Ok(Host::Ip(IpAddr::from(*ip))), rest))
        }
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

/// A name, or an address that the client sent as text.
fn host(name: &[u8]) -> Result<Host, TargetError> {
    match str::from_utf8(name) {
        Ok(name) => name.parse(),
        Err(_) => Err(TargetError::Character { found: char::REPLACEMENT_CHARACTER }),
    }
}

/// The answer to a request that succeeded (RFC 1928 section 6). The bound address is given as
/// 0.0.0.0:0, because it is the other end's.
pub fn granted() -> [u8; 10] {
    reply(0)
}

/// The answer to a request that failed.
pub fn refused(refusal: Refusal) -> [u8; 10] {
    reply(match refusal {
        Refusal::NotAllowed | Refusal::Guarded { .. } => 2,
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
        assert_eq!(greeting(&[5, 1, 0]), Ok(Some((Method::None, 3))));
        assert_eq!(greeting(&[5, 3, 2, 1, 0, 5, 1]), Ok(Some((Method::UserName, 5))));
        for cut in 0..3 {
            assert_eq!(greeting(&[5, 1, 0][..cut]), Ok(None));
        }
        assert_eq!(greeting(&[5, 0]), Err(Socks5Error::Methods));
        assert_eq!(greeting(&[5, 2, 1, 3]), Err(Socks5Error::Methods));
        assert_eq!(greeting(&[4, 1, 0]), Err(Socks5Error::Version { version: 4 }));
    }

    #[test]
    fn user_names() {
        let message = [&[1, 5][..], b"alice", &[2], b"pw"].concat();
        for cut in 0..message.len() {
            assert_eq!(user_name(&message[..cut]), Ok(None), "cut at {cut}");
        }
        let more = [&message[..], b"\x05"].concat();
        let shown = |name: &[u8], password: &[u8]| Credentials {
            name: name.to_vec(),
            password: password.to_vec(),
        };
        assert_eq!(user_name(&more), Ok(Some((shown(b"alice", b"pw"), message.len()))));
        assert_eq!(user_name(&[1, 0, 0]), Ok(Some((shown(b"", b""), 3))));
        assert_eq!(user_name(&[5, 1, 0]), Err(Socks5Error::UserName { version: 5 }));
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
