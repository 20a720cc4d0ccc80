//! Where a tunnel listens: fixed forwards as SSH writes them, and the ports of proxies.

use crate::target::{Host, Target, TargetError, parse_port};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

/// Where to listen, written `[bind:]port`: `1080`, `10.0.0.1:1080`, `[::1]:1080`, `localhost:1080`.
///
/// Without a host it is 127.0.0.1, so that nobody else gets a way in by accident. `*` or an empty host means all IPv4 addresses, `[::]` all
/// addresses where the system serves IPv4 on IPv6 sockets. Port 0 lets the system choose.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bind {
    /// The local address, or a name to resolve.
    pub host: Host,
    /// The TCP port; 0 lets the system choose.
    pub port: u16,
}

/// A fixed forward, written `[bind:]port:host:hostport` as with `ssh -L` and `ssh -R`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Forward {
    /// Where connections come in.
    pub bind: Bind,
    /// Where they go, as seen from the other end.
    pub target: Target,
}

/// A text that says not where to listen or where to forward.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Too few or too many parts.
    #[error("a forward is written [bind:]port:host:hostport, with IPv6 addresses in brackets")]
    Forward,
    /// Too few or too many parts.
    #[error("a place to listen is written [bind:]port, with an IPv6 address in brackets")]
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
}

/// The parts between colons that are not inside brackets.
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
        Some("" | "*") => Host::Ip(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
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
        let (at, host, port) = match parts(text)[..] {
            [at, host, port] => (bind(None, at)?, host, port),
            [bind_host, at, host, port] => (bind(Some(bind_host), at)?, host, port),
            _ => return Err(ListenError::Forward),
        };
        let target = || Target::new(host.parse()?, parse_port(port).ok_or(TargetError::Port)?);
        Ok(Forward { bind: at, target: target().map_err(ListenError::Target)? })
    }
}

impl fmt::Display for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.bind, self.target)
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
            (":8080:origin:80", "0.0.0.0:8080:origin:80"),
            ("*:8080:origin:80", "0.0.0.0:8080:origin:80"),
            ("localhost:8080:10.0.0.1:80", "localhost:8080:10.0.0.1:80"),
            ("[::1]:8080:[2001:db8::1]:80", "[::1]:8080:[2001:db8::1]:80"),
            ("8080:[::1]:80", "127.0.0.1:8080:[::1]:80"),
        ] {
            let forward: Forward = text.parse().unwrap();
            assert_eq!(forward.to_string(), full);
            assert_eq!(full.parse(), Ok(forward));
        }
    }

    #[test]
    fn wrong_forwards_are_told() {
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
    fn binds() {
        for (text, full) in [("1080", "127.0.0.1:1080"), ("*:1080", "0.0.0.0:1080"), ("[::]:0", "[::]:0")] {
            assert_eq!(text.parse::<Bind>().unwrap().to_string(), full);
        }
        assert_eq!("a:1:2".parse::<Bind>(), Err(ListenError::Bind));
        assert_eq!("".parse::<Bind>(), Err(ListenError::Port));
    }
}
