//! Isolation domains: whose an application's connection is.
//!
//! The end that accepts a connection names its owner, who travels with the flow (`docs/PROTOCOL.md`,
//! "Isolation domains"). Connections of one client address are one domain; those of this machine are
//! one for each user. A rule (`domain=NAME`) says otherwise.

use crate::log_limit::LogLimit;
use crate::socket_owner;
use crate::target::Host;
use crate::target::canonical;
use oncewire_session::{MAX_DOMAIN, Owner};
use ring::digest;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use tokio::net::TcpStream;
use tracing::warn;

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
}

/// Whose a connection is, by its listener: a rule's domain, or the client that connected.
///
/// Ask as soon as the connection was accepted. A socket that was closed has no owner on many
/// systems, and clients that send and close are common.
pub(crate) fn of_connection(site: Site, stream: &TcpStream, rule: Option<&DomainName>) -> Owner {
    match rule {
        Some(name) => named(name),
        None => owner(site, who(stream.peer_addr().ok(), stream.local_addr().ok())),
    }
}

/// The owner that a rule names: a client of its own.
pub(crate) fn named(rule: &DomainName) -> Owner {
    Owner { client: format!("name/{rule}").into(), name: Vec::new() }
}

/// The owner that a peer named for the connections of a listener; `None` if it named none.
pub(crate) fn of_peer(owner: Owner) -> Option<Owner> {
    (owner != Owner::default()).then_some(owner)
}

/// The owner of a proxy client's connection that was accepted from `owner`. Clients that share an
/// address or a user of this machine are told apart by the name that they give themselves.
pub(crate) fn of_proxy(owner: Owner, rule: Option<&DomainName>, user: Option<&[u8]>) -> Owner {
    // Whoever is unknown stays so, and a rule applies to all.
    let Some(user) = user.filter(|_| rule.is_none() && owner != Owner::unknown()) else {
        return owner;
    };
    let plain = user.iter().all(u8::is_ascii_graphic) && !user.is_empty();
    let text = [b"proxy ", user].concat();
    let name = if plain && text.len() <= MAX_DOMAIN {
        text
    } else {
        // 128 bits keep names apart that somebody chose to be equal.
        let hash = digest::digest(&digest::SHA256, user);
        let hex: String = hash.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        format!("proxy/{hex}").into()
    };
    Owner { name, ..owner }
}

fn who(peer: Option<SocketAddr>, local: Option<SocketAddr>) -> Option<Who> {
    let (peer, local) = (canonical(peer?), canonical(local?));
    if peer.ip().is_loopback() || peer.ip() == local.ip() {
        socket_owner::of_connection(peer, local).map(Who::User)
    } else {
        Some(Who::Address(peer.ip()))
    }
}

fn owner(site: Site, who: Option<Who>) -> Owner {
    let client = match who {
        Some(Who::User(user)) => format!("{}/user {user}", site.prefix()),
        Some(Who::Address(ip)) => format!("{}/address {}", site.prefix(), Host::Ip(ip)),
        None => {
            static UNKNOWN: LogLimit = LogLimit::new();
            if let Some(suppressed) = UNKNOWN.pass() {
                warn!(
                    suppressed,
                    "cannot find out which user of this machine owns a connection, perhaps because it was closed at once: nothing of it is shared (see --share; name a domain with ,domain=NAME)"
                );
            }
            return Owner::unknown();
        }
    };
    debug_assert!(client.len() <= MAX_DOMAIN);
    Owner { client: client.into(), name: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    fn text(owner: &Owner) -> String {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        format!("{} - {}", text(&owner.client), text(&owner.name))
    }

    fn client(who: Who) -> Owner {
        owner(Site::Client, Some(who))
    }

    #[test]
    fn owners_tell_sites_machines_users_and_proxy_users_apart() {
        let user = client(Who::User(1000));
        assert_eq!(text(&user), "client/user 1000 - ");
        assert_eq!(text(&of_proxy(user.clone(), None, None)), "client/user 1000 - ");
        let alice = of_proxy(user, None, Some(b"alice"));
        assert_eq!(text(&alice), "client/user 1000 - proxy alice");
        let ip: IpAddr = "10.0.0.7".parse().unwrap();
        assert_eq!(text(&client(Who::Address(ip))), "client/address 10.0.0.7 - ");
        let at_server = owner(Site::Server, Some(Who::Address(ip)));
        assert_eq!(text(&at_server), "server/address 10.0.0.7 - ");
        let rule: DomainName = "backup".parse().unwrap();
        assert_eq!(text(&named(&rule)), "name/backup - ");
        assert_eq!(of_proxy(named(&rule), Some(&rule), Some(b"alice")), named(&rule));
        // Nobody gets a name by not being found out.
        assert_eq!(owner(Site::Client, None), Owner::unknown());
        assert_eq!(of_proxy(Owner::unknown(), None, Some(b"alice")), Owner::unknown());
        assert_eq!(of_peer(Owner::default()), None);
    }

    #[test]
    fn owners_stay_short_and_apart_whatever_a_proxy_user_is_called() {
        let long = "1234:5678:9abc:def0:1234:5678:9abc:def0".parse().unwrap();
        let mut seen = std::collections::HashSet::new();
        for who in [Who::Address(long), Who::User(u32::MAX)] {
            let users: [&[u8]; 6] =
                [b"", b" ", b"a/proxy b", b"\xff\0", &[b'x'; 255], &[b'x'; 254]];
            assert!(seen.insert(client(who)));
            for user in users {
                let owner = of_proxy(client(who), None, Some(user));
                assert!(owner.client.len().max(owner.name.len()) <= MAX_DOMAIN, "{owner:?}");
                assert!(text(&owner).is_ascii() && owner.client == client(who).client);
                assert!(seen.insert(owner.clone()), "{owner:?}");
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
            let owner = of_connection(Site::Client, &accepted, None);
            assert_eq!(text(&owner), format!("client/user {user} - "), "{address}");
            let rule = "web".parse().unwrap();
            assert_eq!(text(&of_connection(Site::Client, &accepted, Some(&rule))), "name/web - ");
            drop(client);
        }
    }

    #[tokio::test]
    async fn a_listener_for_both_families_tells_owners_as_one_for_ipv4_does() {
        let everywhere = "*:0".parse().unwrap();
        let listener = crate::sockets::listen(&everywhere).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        let user = nix::unistd::getuid();
        let owner = of_connection(Site::Client, &accepted, None);
        assert_eq!(text(&owner), format!("client/user {user} - "));
        drop(client);
        let mapped = |text: &str| Some(text.parse().unwrap());
        let of = who(mapped("[::ffff:192.0.2.7]:9"), mapped("[::ffff:192.0.2.1]:7077"));
        assert_eq!(of, Some(Who::Address("192.0.2.7".parse().unwrap())));
    }
}
