//! Isolation domains: whose an application's connection is.
//!
//! The end that accepts a connection names its domain, and the name travels with the flow
//! (`docs/PROTOCOL.md`, "Isolation domains"). Connections of one client address are one domain; those
//! of this machine are one for each user. A rule (`domain=NAME`) says otherwise.

use crate::socket_owner;
use crate::target::Host;
use oncewire_session::MAX_DOMAIN;
use ring::digest;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::net::TcpStream;

/// Longest name of a domain in a rule, in bytes.
pub const MAX_NAME: usize = 32;

/// The name of a domain in a rule: `domain=NAME`. Equal names are one domain at both ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DomainName(String);

/// A text that is not the name of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a domain has 1 to {MAX_NAME} letters, digits, '.', '-' and '_'")]
pub struct DomainNameError;

impl FromStr for DomainName {
    type Err = DomainNameError;

    fn from_str(text: &str) -> Result<DomainName, DomainNameError> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        if (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(fits) {
            Ok(DomainName(text.into()))
        } else {
            Err(DomainNameError)
        }
    }
}

impl fmt::Display for DomainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A domain as it travels: at most [`MAX_DOMAIN`] bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WireDomain(String);

impl WireDomain {
    /// The domain of flows that carry no application's content.
    pub(crate) const NONE: WireDomain = WireDomain(String::new());

    /// The domain that the peer named for the connections of a listener; `None` if it named none,
    /// or something that is not text.
    pub(crate) fn of_peer(name: &[u8]) -> Option<WireDomain> {
        let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty())?;
        (name.len() <= MAX_DOMAIN).then(|| WireDomain(name.into()))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// An end of the tunnel, as a prefix of its names: equal addresses at two sites are different
/// clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Site {
    Client,
    Server,
}

impl Site {
    fn prefix(self) -> &'static str {
        match self {
            Site::Client => "client",
            Site::Server => "server",
        }
    }
}

/// Who connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    /// A user of this machine.
    User(u32),
    /// Another machine.
    Address(IpAddr),
    /// Somebody on this machine who could not be found out. Nobody else is of this domain.
    Unknown(u64),
}

/// The domain of a connection that this end accepted. `rule` is what the configuration says;
/// `proxy_user` tells apart those who share an address or a user of this machine.
pub(crate) fn of_connection(
    site: Site,
    stream: &TcpStream,
    rule: Option<&DomainName>,
    proxy_user: Option<&[u8]>,
) -> WireDomain {
    match rule {
        Some(name) => named(name),
        None => name(site, who(stream.peer_addr().ok(), stream.local_addr().ok()), proxy_user),
    }
}

/// The domain of a rule.
pub(crate) fn named(rule: &DomainName) -> WireDomain {
    WireDomain(format!("name/{rule}"))
}

fn who(peer: Option<SocketAddr>, local: Option<SocketAddr>) -> Who {
    static UNKNOWN: AtomicU64 = AtomicU64::new(0);
    let canonical =
        |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    let (peer, local) = (peer.map(canonical), local.map(canonical));
    let unknown = || Who::Unknown(UNKNOWN.fetch_add(1, Ordering::Relaxed));
    match (peer, local) {
        (Some(peer), Some(local)) if peer.ip().is_loopback() || peer.ip() == local.ip() => {
            socket_owner::of_connection(peer, local).map_or_else(unknown, Who::User)
        }
        (Some(peer), Some(_)) => Who::Address(peer.ip()),
        _ => unknown(),
    }
}

fn name(site: Site, who: Who, proxy_user: Option<&[u8]>) -> WireDomain {
    let mut name = match who {
        Who::User(user) => format!("{}/user {user}", site.prefix()),
        Who::Address(ip) => format!("{}/address {}", site.prefix(), Host::Ip(ip)),
        Who::Unknown(number) => format!("{}/connection {number}", site.prefix()),
    };
    if let Some(user) = proxy_user {
        let plain = user.iter().all(u8::is_ascii_graphic) && !user.is_empty();
        let text = format!("{name}/proxy {}", String::from_utf8_lossy(user));
        name = if plain && text.len() <= MAX_DOMAIN {
            text
        } else {
            // 128 bits keep names apart that somebody chose to be equal.
            let hash = digest::digest(&digest::SHA256, &[name.as_bytes(), b"\0", user].concat());
            let hex: String =
                hash.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{}/proxy {hex}", site.prefix())
        };
    }
    debug_assert!(name.len() <= MAX_DOMAIN);
    WireDomain(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    fn text(who: Who, proxy_user: Option<&[u8]>) -> String {
        name(Site::Client, who, proxy_user).0
    }

    #[test]
    fn names_tell_sites_machines_users_and_proxy_users_apart() {
        assert_eq!(text(Who::User(1000), None), "client/user 1000");
        assert_eq!(text(Who::User(1000), Some(b"alice")), "client/user 1000/proxy alice");
        assert_eq!(text(Who::Unknown(7), None), "client/connection 7");
        let ip: IpAddr = "10.0.0.7".parse().unwrap();
        assert_eq!(text(Who::Address(ip), None), "client/address 10.0.0.7");
        assert_eq!(name(Site::Server, Who::Address(ip), None).0, "server/address 10.0.0.7");
        assert_eq!(named(&"backup".parse().unwrap()).0, "name/backup");
    }

    #[test]
    fn names_stay_short_and_apart_whatever_a_proxy_user_is_called() {
        let long = "1234:5678:9abc:def0:1234:5678:9abc:def0".parse().unwrap();
        let mut seen = std::collections::HashSet::new();
        for who in [Who::Address(long), Who::User(u32::MAX), Who::Unknown(u64::MAX)] {
            let users: [&[u8]; 6] =
                [b"", b" ", b"a/proxy b", b"\xff\0", &[b'x'; 255], &[b'x'; 254]];
            assert!(seen.insert(text(who, None)));
            for user in users {
                let name = text(who, Some(user));
                assert!(name.len() <= MAX_DOMAIN && name.is_ascii(), "{name}");
                assert!(seen.insert(name.clone()), "{name}");
            }
        }
    }

    #[test]
    fn names_in_rules() {
        for good in ["a", "site-2.backup_7", &"x".repeat(MAX_NAME)] {
            assert_eq!(good.parse::<DomainName>().unwrap().to_string(), good);
        }
        for bad in ["", "a b", "a/b", "ü", "a,b", &"x".repeat(MAX_NAME + 1)] {
            assert_eq!(bad.parse::<DomainName>(), Err(DomainNameError), "{bad}");
        }
    }

    #[tokio::test]
    async fn a_connection_of_this_machine_belongs_to_its_user() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address).await else {
                eprintln!("skipped: there is no address {address}");
                continue;
            };
            let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (accepted, _) = listener.accept().await.unwrap();
            let user = nix::unistd::getuid();
            let domain = of_connection(Site::Client, &accepted, None, None);
            assert_eq!(domain.0, format!("client/user {user}"), "{address}");
            let rule = "web".parse().unwrap();
            let domain = of_connection(Site::Client, &accepted, Some(&rule), Some(b"alice"));
            assert_eq!(domain.0, "name/web");

            // Closed sockets have no owner; they must not count as the superuser's.
            drop(client);
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            let domain = of_connection(Site::Client, &accepted, None, None);
            assert!(domain.0.starts_with("client/connection "), "{domain:?}");
        }
    }
}
