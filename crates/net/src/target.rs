//! The target of a flow: a host and a port.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// Longest host name in bytes, without a final dot (RFC 1035 section 2.3.4: 255 on the wire).
pub const MAX_HOST: usize = 253;
/// Longest label of a host name in bytes (RFC 1035 section 2.3.4).
pub const MAX_LABEL: usize = 63;

/// A host name or an address.
///
/// A name is kept in lower case and without a final dot. It has 1 to 253 bytes, its labels 1 to 63,
/// of ASCII letters, digits, `-` and `_`. Names whose last label is a number, such as `127.1` or
/// `0x7f000001`, are refused, because resolvers read them as addresses, each in its own way.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// A name, which the egress resolves.
    Name(String),
    /// An address, which is not resolved.
    Ip(IpAddr),
}

/// The target of a flow. `Display` and `FromStr` use `host:port`, with an IPv6 address in brackets.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    host: Host,
    port: u16,
}

/// A text that is not a target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// There is no port or no host.
    #[error("expected host:port, with an IPv6 address in brackets")]
    Form,
    /// The port is not a number from 1 to 65535.
    #[error("the port is not a number from 1 to 65535")]
    Port,
    /// The name is empty or too long.
    #[error("a host name has 1 to {MAX_HOST} bytes; this one has {len}")]
    Length {
        /// Its length in bytes.
        len: usize,
    },
    /// A label is empty or too long.
    #[error("a label of a host name has 1 to {MAX_LABEL} bytes; one here has {len}")]
    Label {
        /// Its length in bytes.
        len: usize,
    },
    /// A character that is not allowed in host names.
    #[error(
        "{found:?} is not allowed in a host name: use letters, digits, - and _ (write other scripts as xn--...)"
    )]
    Character {
        /// The character.
        found: char,
    },
    /// The last label is a number.
    #[error("the last label of a host name must not be a number; write IPv4 addresses as a.b.c.d")]
    Number,
}

impl Host {
    /// Checks and normalizes a name that may not have been parsed.
    fn checked(self) -> Result<Host, TargetError> {
        match self {
            Host::Ip(_) => Ok(self),
            Host::Name(name) => check_name(&name).map(Host::Name),
        }
    }
}

/// The name in lower case and without a final dot.
fn check_name(name: &str) -> Result<String, TargetError> {
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() || name.len() > MAX_HOST {
        return Err(TargetError::Length { len: name.len() });
    }
    if let Some(found) =
        name.chars().find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | '.'))
    {
        return Err(TargetError::Character { found });
    }
    if let Some(label) = name.split('.').find(|label| label.is_empty() || label.len() > MAX_LABEL) {
        return Err(TargetError::Label { len: label.len() });
    }
    let name = name.to_ascii_lowercase();
    let last = name.rsplit('.').next().unwrap_or_default();
    let hexadecimal =
        last.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
    if hexadecimal || last.bytes().all(|b| b.is_ascii_digit()) {
        return Err(TargetError::Number);
    }
    Ok(name)
}

impl FromStr for Host {
    type Err = TargetError;

    /// Parses a name or an address; an IPv6 address with or without brackets.
    fn from_str(text: &str) -> Result<Host, TargetError> {
        if let Some(rest) = text.strip_prefix('[') {
            let ip = rest.strip_suffix(']').and_then(|inner| inner.parse::<Ipv6Addr>().ok());
            return ip.map(|ip| Host::Ip(ip.into())).ok_or(TargetError::Form);
        }
        match text.parse::<IpAddr>() {
            Ok(ip) => Ok(Host::Ip(ip)),
            Err(_) => check_name(text).map(Host::Name),
        }
    }
}

impl fmt::Display for Host {
    /// As before a port: an IPv6 address has brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => f.write_str(name),
            Host::Ip(IpAddr::V4(ip)) => ip.fmt(f),
            Host::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]"),
        }
    }
}

impl Target {
    /// Creates a target.
    ///
    /// # Errors
    /// [`TargetError`] if the name breaks the rules of [`Host`] or the port is 0.
    pub fn new(host: Host, port: u16) -> Result<Target, TargetError> {
        if port == 0 {
            return Err(TargetError::Port);
        }
        Ok(Target { host: host.checked()?, port })
    }

    /// The host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The TCP port, never 0.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Target, TargetError> {
        let (host, port) = text.rsplit_once(':').ok_or(TargetError::Form)?;
        // `::1:80` could be an address without a port.
        if host.contains(':') && !host.starts_with('[') {
            return Err(TargetError::Form);
        }
        Target::new(host.parse()?, parse_port(port).ok_or(TargetError::Port)?)
    }
}

/// A port in plain decimal digits, including 0; `u16::from_str` also accepts `+80`.
pub(crate) fn parse_port(text: &str) -> Option<u16> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// The address of a peer, in the form of its own family: a socket for both shows IPv4 addresses as
/// `::ffff:192.0.2.1`.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_read_and_print_the_same() {
        for text in [
            "origin.example:80",
            "10.0.0.1:65535",
            "[2001:db8::1]:443",
            "_dns.a-b.c:1",
            "xn--bcher-kva.example:80",
        ] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        assert_eq!(
            "Origin.EXAMPLE.:80".parse::<Target>().unwrap().to_string(),
            "origin.example:80"
        );
    }

    #[test]
    fn bad_targets_are_refused() {
        let long = format!("{}:80", "a.".repeat(127));
        assert!(long.parse::<Target>().is_ok(), "253 bytes and a final dot");
        let cases: &[(&str, TargetError)] = &[
            ("origin", TargetError::Form),
            ("::1:80", TargetError::Form),
            ("[::1:80", TargetError::Form),
            ("[fe80::1%eth0]:80", TargetError::Form),
            ("[10.0.0.1]:80", TargetError::Form),
            ("origin:", TargetError::Port),
            ("origin:0", TargetError::Port),
            ("origin:+80", TargetError::Port),
            ("origin:65536", TargetError::Port),
            (":80", TargetError::Length { len: 0 }),
            (".:80", TargetError::Length { len: 0 }),
            ("a..b:80", TargetError::Label { len: 0 }),
            ("a b:80", TargetError::Character { found: ' ' }),
            ("a\r\nb:80", TargetError::Character { found: '\r' }),
            ("bücher.example:80", TargetError::Character { found: 'ü' }),
            ("127.1:80", TargetError::Number),
            ("2130706433:80", TargetError::Number),
            ("0x7f.1:80", TargetError::Number),
            ("0X7F000001.:80", TargetError::Number),
            ("0177.0.0.1:80", TargetError::Number),
        ];
        for (text, error) in cases {
            assert_eq!(text.parse::<Target>().as_ref(), Err(error), "{text}");
        }
        assert_eq!(
            format!("{}a:80", "a.".repeat(127)).parse::<Target>(),
            Err(TargetError::Length { len: 255 })
        );
        assert_eq!(
            format!("{}.a:80", "b".repeat(64)).parse::<Target>(),
            Err(TargetError::Label { len: 64 })
        );
    }

    #[test]
    fn a_made_up_host_is_checked() {
        assert!(Target::new(Host::Name("a/b".into()), 80).is_err());
        assert!(Target::new(Host::Name("a".into()), 0).is_err());
        assert!(Target::new(Host::Name("A".into()), 1).unwrap() == "a:1".parse().unwrap());
    }
}
