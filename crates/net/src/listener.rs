//! Listeners: fixed forwards as in SSH, and the ports of proxies.

use crate::domain::{DomainName, DomainNameError};
use crate::target::{Host, Target, TargetError, parse_port};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// The address of a listener, written `[bind:]port`: `1080`, `10.0.0.1:1080`, `[::1]:1080`,
/// `localhost:1080`.
///
/// Without a host it is 127.0.0.1, so that nobody else gets access by accident. `*`, an empty host
/// and `[::]` mean all addresses, IPv6 and IPv4; on a machine without IPv6, all IPv4 addresses.
/// `0.0.0.0` means all IPv4 addresses. With port 0 the system chooses one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bind {
    /// The local address, or a name to resolve.
    pub host: Host,
    /// The TCP port; 0 lets the system choose.
    pub port: u16,
}

/// A fixed forward, written `[bind:]port:host:hostport[,domain=NAME]`, without the domain as with
/// `ssh -L` and `ssh -R`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Forward {
    /// The listener.
    pub bind: Bind,
    /// Where its connections go, as seen from the other end.
    pub target: Target,
    /// The isolation domain of its connections; `None`: one for each client address, or user of the
    /// machine.
    pub domain: Option<DomainName>,
}

/// A listener of the proxy, written `[bind:]port[,domain=NAME]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProxyListener {
    /// The listener.
    pub bind: Bind,
    /// As [`Forward::domain`]; with `None`, clients that send a user name are told apart by it.
    pub domain: Option<DomainName>,
}

/// A text that is not a listener or a forward.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Too few or too many parts.
    #[error("expected [bind:]port:host:hostport, with IPv6 addresses in brackets")]
    Forward,
    /// Too few or too many parts.
    #[error("expected [bind:]port, with an IPv6 address in brackets")]
    Bind,
    /// The port to listen on is not a number from 0 to 65535.
    #[error("the port to listen on is not a number from 0 to 65535")]
    Port,
    /// The host to listen on is neither a name nor an address.
    #[error("the host to listen on: {0}")]
    Host(#[source] TargetError),
    /// The target is wrong.
    #[error("the target of the forward: {0}")]
    Target(#[source] TargetError),
    /// Something else than `domain=NAME` after the comma.
    #[error("expected domain=NAME after the comma")]
    Option,
    /// The name of the domain is wrong.
    #[error(transparent)]
    Domain(#[from] DomainNameError),
}

/// Splits `,domain=NAME` off the end.
fn split_domain(text: &str) -> Result<(&str, Option<DomainName>), ListenError> {
    let Some((text, option)) = text.split_once(',') else { return Ok((text, None)) };
    let name = option.strip_prefix("domain=").ok_or(ListenError::Option)?;
    Ok((text, Some(name.parse()?)))
}

/// As it is read.
struct DomainSuffix<'a>(&'a Option<DomainName>);

impl fmt::Display for DomainSuffix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |name| write!(f, ",domain={name}"))
    }
}

/// The parts between colons outside brackets.
fn parts(text: &str) -> Vec<&str> {
    let mut inside = false;
    text.split(|c| {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            _ => {}
        }
        c == ':' && !inside
    })
    .collect()
}

fn bind(host: Option<&str>, port: &str) -> Result<Bind, ListenError> {
    let host = match host {
        None => Host::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        Some("" | "*") => Host::Ip(IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        Some(host) => host.parse().map_err(ListenError::Host)?,
    };
    Ok(Bind { host, port: parse_port(port).ok_or(ListenError::Port)? })
}

impl FromStr for Bind {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Bind, ListenError> {
        match parts(text)[..] {
            [port] => bind(None, port),
            [host, port] => bind(Some(host), port),
            _ => Err(ListenError::Bind),
        }
    }
}

impl fmt::Display for Bind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl FromStr for Forward {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Forward, ListenError> {
        let (text, domain) = split_domain(text)?;
        let (at, host, port) = match parts(text)[..] {
            [at, host, port] => (bind(None, at)?, host, port),
            [bind_host, at, host, port] => (bind(Some(bind_host), at)?, host, port),
            _ => return Err(ListenError::Forward),
        };
        let target = || Target::new(host.parse()?, parse_port(port).ok_or(TargetError::Port)?);
        Ok(Forward { bind: at, target: target().map_err(ListenError::Target)?, domain })
    }
}

impl fmt::Display for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}{}", self.bind, self.target, DomainSuffix(&self.domain))
    }
}

impl FromStr for ProxyListener {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<ProxyListener, ListenError> {
        let (bind, domain) = split_domain(text)?;
        Ok(ProxyListener { bind: bind.parse()?, domain })
    }
}

impl fmt::Display for ProxyListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.bind, DomainSuffix(&self.domain))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwards_are_read_as_ssh_reads_them() {
        for (text, full) in [
            ("8080:origin:80", "127.0.0.1:8080:origin:80"),
            ("0:origin:80", "127.0.0.1:0:origin:80"),
            (":8080:origin:80", "[::]:8080:origin:80"),
            ("*:8080:origin:80", "[::]:8080:origin:80"),
            ("localhost:8080:10.0.0.1:80", "localhost:8080:10.0.0.1:80"),
            ("[::1]:8080:[2001:db8::1]:80", "[::1]:8080:[2001:db8::1]:80"),
            ("8080:[::1]:80", "127.0.0.1:8080:[::1]:80"),
            ("8080:origin:80,domain=web", "127.0.0.1:8080:origin:80,domain=web"),
        ] {
            let forward: Forward = text.parse().unwrap();
            assert_eq!(forward.to_string(), full);
            assert_eq!(full.parse(), Ok(forward));
        }
    }

    #[test]
    fn wrong_forwards_are_reported() {
        for text in ["", "8080", "origin:80", "a:b:c:d:e", "8080:::1:80", "[::1:8080:origin:80"] {
            assert_eq!(text.parse::<Forward>(), Err(ListenError::Forward), "{text}");
        }
        assert_eq!("x:origin:80".parse::<Forward>(), Err(ListenError::Port));
        assert_eq!("65536:origin:80".parse::<Forward>(), Err(ListenError::Port));
        assert_eq!("8080:origin:0".parse::<Forward>(), Err(ListenError::Target(TargetError::Port)));
        assert!(matches!("8080::80".parse::<Forward>(), Err(ListenError::Target(_))));
        assert!(matches!("a b:8080:origin:80".parse::<Forward>(), Err(ListenError::Host(_))));
    }

    #[test]
    fn proxies_and_domains() {
        let proxy: ProxyListener = "*:1080,domain=site-2".parse().unwrap();
        assert_eq!(proxy.to_string(), "[::]:1080,domain=site-2");
        assert_eq!("1080".parse::<ProxyListener>().unwrap().domain, None);
        assert_eq!("1080,web".parse::<ProxyListener>(), Err(ListenError::Option));
        let wrong = Err(ListenError::Domain(DomainNameError));
        assert_eq!("1080,domain=".parse::<ProxyListener>(), wrong);
        assert_eq!(
            "1:o:80,domain=a,b".parse::<Forward>(),
            Err(ListenError::Domain(DomainNameError))
        );
    }

    #[test]
    fn binds() {
        for (text, full) in [
            ("1080", "127.0.0.1:1080"),
            ("*:1080", "[::]:1080"),
            ("[::]:0", "[::]:0"),
            ("0.0.0.0:1080", "0.0.0.0:1080"),
        ] {
            assert_eq!(text.parse::<Bind>().unwrap().to_string(), full);
        }
        assert_eq!("a:1:2".parse::<Bind>(), Err(ListenError::Bind));
        assert_eq!("".parse::<Bind>(), Err(ListenError::Port));
    }
}
