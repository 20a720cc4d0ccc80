//! Destinations that the egress may connect to: none, except for what its configuration lists.
//!
//! # Rules
//!
//! A rule is `host:ports`. `ports` is a port, a range `8000-8100`, or `*`. `host` is one of
//!
//! | host | kind of rule | allows |
//! |---|---|---|
//! | `origin.example` | name | that name |
//! | `*.example.com` | name | every name that ends in `.example.com`, at any depth, but not `example.com` |
//! | `localhost` | name | that name, at loopback addresses only |
//! | `10.1.2.3`, `[2001:db8::1]` | address | that address |
//! | `10.0.0.0/8`, `[2001:db8::]/32` | address | the addresses of that network |
//! | `*` | everything | every name and every address |
//!
//! # Guarded addresses
//!
//! Some addresses mean the egress machine itself, its neighbors or the infrastructure under it, and
//! whoever controls a name can make it resolve to them (DNS rebinding). They are: unspecified and
//! "this network" (`0.0.0.0/8`, `::`), loopback (`127.0.0.0/8`, `::1`), link-local
//! (`169.254.0.0/16`, with the metadata service of most clouds, and `fe80::/10`), the metadata
//! services of other clouds (`100.100.100.200`, `168.63.129.16`, `fd00:ec2::254`), multicast
//! (`224.0.0.0/4`, `ff00::/8`) and broadcast (`255.255.255.255`). A name rule, `*`, or a wider
//! network such as `0.0.0.0/0` never allows them. Two things do: an address rule that lies wholly
//! within one of these networks, such as `127.0.0.1:5432` or `169.254.0.0/16:80`; and, for the
//! target `localhost` at loopback addresses, the name rule `localhost`.
//!
//! Private networks (`10.0.0.0/8` and so on) are not guarded, because names at the egress commonly
//! resolve to them: `*` allows them. Nor are the other addresses of the egress machine.
//!
//! # The decision
//!
//! An IPv6 address that carries an IPv4 address (`::ffff:0:0/96`, and `64:ff9b::/96` of NAT64) is
//! judged as that IPv4 address, also in rules.
//!
//! 1. A target that is an address is allowed if an address rule or `*` allows it.
//! 2. A target that is a name is first judged by name and port. It is not resolved unless a name
//!    rule or `*` allows it, or there is an address rule for its port.
//! 3. It is resolved once. Of its addresses, those remain that an address rule allows and, if a name
//!    rule or `*` allows the name, those that are not guarded. If none remain, the target is not
//!    allowed. The egress connects to those that remain and does not resolve again.
//!
//! A target that is not allowed only because its addresses are guarded is refused with
//! [`Refusal::Guarded`]: whoever wrote the rule for it has to know.

use crate::keys::redact;
use crate::refusal::Refusal;
use crate::sockets::MAX_ADDRESSES;
use crate::target::{Host, Target, TargetError, parse_port};
use ipnet::{IpNet, Ipv4Net};
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

/// Time limit for resolving a name.
const LOOKUP_TIME: Duration = Duration::from_secs(10);

/// The networks that names must not lead to; see the module documentation.
const GUARDED: [IpNet; 12] = [
    v4([0, 0, 0, 0], 8),
    v4([127, 0, 0, 0], 8),
    v4([169, 254, 0, 0], 16),
    // Metadata services of Alibaba Cloud and Azure (WireServer).
    v4([100, 100, 100, 200], 32),
    v4([168, 63, 129, 16], 32),
    v4([224, 0, 0, 0], 4),
    v4([255, 255, 255, 255], 32),
    v6([0; 8], 128),
    v6([0, 0, 0, 0, 0, 0, 0, 1], 128),
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10),
    v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128),
    v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8),
];

const fn v4([a, b, c, d]: [u8; 4], prefix: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix))
}

const fn v6([a, b, c, d, e, f, g, h]: [u16; 8], prefix: u8) -> IpNet {
    IpNet::V6(ipnet::Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, e, f, g, h), prefix))
}

/// Allowed destinations. Empty, as by `default()`, it allows nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowList {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    host: Pattern,
    ports: RangeInclusive<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    Everything,
    Name(String),
    /// `.example.com`, with its leading dot.
    Suffix(String),
    Network(IpNet),
}

/// A rule that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the allow rule {rule:?} is wrong: {reason}")]
pub struct RuleError {
    /// The rule as given; a secret key in it is redacted.
    pub rule: String,
    /// What is wrong with it.
    pub reason: RuleReason,
}

/// What is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleReason {
    /// There is no port, or brackets are missing.
    #[error("expected host:ports, with an IPv6 address in brackets")]
    Form,
    /// The ports are wrong.
    #[error("expected a port from 1 to 65535, a range such as 8000-8100, or *")]
    Ports,
    /// The host is neither a name nor an address.
    #[error("{0}")]
    Host(TargetError),
    /// `*` is neither alone nor in front of a dot.
    #[error("use * alone or for the first labels of a name, as in *.example.com")]
    Star,
    /// The number after the `/` is out of range, or follows a name.
    #[error("/ and a prefix length may follow only an address: up to 32, or 128 for IPv6")]
    Prefix,
    /// The address is not the first of its network.
    #[error("the address is not the first of its network: write {0}, or the address alone")]
    Bits(IpNet),
}

impl AllowList {
    /// Parses the rules.
    ///
    /// # Errors
    /// [`RuleError`] for the first rule that is wrong.
    pub fn parse<S: AsRef<str>>(rules: &[S]) -> Result<AllowList, RuleError> {
        let parse = |rule: &S| {
            let rule = rule.as_ref();
            parse_rule(rule).map_err(|reason| RuleError { rule: redact(rule).into_owned(), reason })
        };
        Ok(AllowList { rules: rules.iter().map(parse).collect::<Result<_, _>>()? })
    }

    /// Number of rules.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether nothing is allowed.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether the target can be allowed, as far as its name tells without resolving it. For an
    /// address, whether it is allowed.
    pub fn permits_name(&self, target: &Target) -> bool {
        match target.host() {
            Host::Ip(ip) => self.permits_address(target, *ip),
            Host::Name(name) => {
                self.allows(name, target.port()) || self.networks(target.port()).next().is_some()
            }
        }
    }

    /// Whether the egress may connect to `ip` for this target, of which `ip` is an address.
    pub fn permits_address(&self, target: &Target, ip: IpAddr) -> bool {
        let ip = judged(ip);
        let guard = GUARDED.iter().find(|guard| guard.contains(&ip));
        let explicit = |network: &IpNet| {
            network.contains(&ip) && guard.is_none_or(|guard| guard.contains(network))
        };
        if self.networks(target.port()).any(explicit) {
            return true;
        }
        match target.host() {
            Host::Name(name) if name == "localhost" => {
                let named = |host: &Pattern| matches!(host, Pattern::Name(rule) if rule == name);
                if ip.is_loopback() { self.any(target.port(), named) } else { false }
            }
            Host::Name(name) => guard.is_none() && self.allows(name, target.port()),
            Host::Ip(_) => {
                guard.is_none() && self.any(target.port(), |host| *host == Pattern::Everything)
            }
        }
    }

    /// The first of these addresses of the target that a rule would allow if it were not guarded.
    fn guarded(&self, target: &Target, found: &[SocketAddr]) -> Option<SocketAddr> {
        let port = target.port();
        let by_rule = |ip: IpAddr| match target.host() {
            Host::Name(name) => self.allows(name, port),
            Host::Ip(_) => self.any(port, |host| *host == Pattern::Everything),
        } || self.networks(port).any(|network| network.contains(&ip));
        found
            .iter()
            .map(|address| judged(address.ip()))
            .find(|&ip| GUARDED.iter().any(|guard| guard.contains(&ip)) && by_rule(ip))
            .map(|ip| SocketAddr::new(ip, port))
    }

    /// Resolves the target once. Returns the addresses that the egress may connect to, in the
    /// resolver's order, at least 1 and at most 16.
    ///
    /// # Errors
    /// [`Refusal::NotAllowed`] if the rules do not allow the target, [`Refusal::Guarded`] if that is
    /// only because its addresses are guarded, [`Refusal::NoSuchName`] if it
    /// does not resolve, [`Refusal::TimedOut`] if it does not resolve within 10 seconds.
    pub async fn resolve(&self, target: &Target) -> Result<Vec<SocketAddr>, Refusal> {
        self.resolve_with(target, |name, port| async move {
            let lookup = tokio::time::timeout(LOOKUP_TIME, tokio::net::lookup_host((name, port)));
            Ok(lookup.await.map_err(|_| io::ErrorKind::TimedOut)??.collect())
        })
        .await
    }

    /// [`AllowList::resolve`] with another resolver, which gets the name and the port. It is called
    /// at most once, and never for an address.
    ///
    /// # Errors
    /// As [`AllowList::resolve`].
    pub async fn resolve_with<F, R>(
        &self,
        target: &Target,
        resolver: F,
    ) -> Result<Vec<SocketAddr>, Refusal>
    where
        F: FnOnce(String, u16) -> R,
        R: Future<Output = io::Result<Vec<SocketAddr>>>,
    {
        let refused = |found: &[SocketAddr]| match self.guarded(target, found) {
            Some(address) => Refusal::Guarded { address: Some(address) },
            None => Refusal::NotAllowed,
        };
        if !self.permits_name(target) {
            return Err(match target.host() {
                Host::Ip(ip) => refused(&[SocketAddr::new(*ip, target.port())]),
                Host::Name(_) => Refusal::NotAllowed,
            });
        }
        let name = match target.host() {
            Host::Ip(ip) => return Ok(vec![SocketAddr::new(*ip, target.port())]),
            Host::Name(name) => name.clone(),
        };
        let mut found =
            resolver(name, target.port()).await.map_err(|error| match error.kind() {
                io::ErrorKind::TimedOut => Refusal::TimedOut,
                _ => Refusal::NoSuchName,
            })?;
        if found.is_empty() {
            return Err(Refusal::NoSuchName);
        }
        let all = found.clone();
        found.retain(|address| self.permits_address(target, address.ip()));
        found.truncate(MAX_ADDRESSES);
        // The port that was judged counts, whatever a resolver says.
        found.iter_mut().for_each(|address| address.set_port(target.port()));
        if found.is_empty() { Err(refused(&all)) } else { Ok(found) }
    }

    /// Whether a name rule or `*` allows the name.
    fn allows(&self, name: &str, port: u16) -> bool {
        self.any(port, |host| match host {
            Pattern::Everything => true,
            Pattern::Name(rule) => rule == name,
            Pattern::Suffix(suffix) => name.len() > suffix.len() && name.ends_with(suffix.as_str()),
            Pattern::Network(_) => false,
        })
    }

    fn any(&self, port: u16, allows: impl Fn(&Pattern) -> bool) -> bool {
        self.rules.iter().any(|rule| rule.ports.contains(&port) && allows(&rule.host))
    }

    /// The address rules for a port.
    fn networks(&self, port: u16) -> impl Iterator<Item = &IpNet> {
        self.rules.iter().filter(move |rule| rule.ports.contains(&port)).filter_map(|rule| {
            match &rule.host {
                Pattern::Network(network) => Some(network),
                _ => None,
            }
        })
    }
}

/// The IPv4 address that an IPv6 address carries, or the address itself.
fn judged(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(v6) => carried(v6).map_or(ip, IpAddr::V4),
        IpAddr::V4(_) => ip,
    }
}

/// The IPv4 address that an IPv6 address carries: mapped (RFC 4291 section 2.5.5.2) or for NAT64 (RFC 6052 section 2.1).
fn carried(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    match ip.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            Some(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)))
        }
        _ => None,
    }
}

fn parse_rule(rule: &str) -> Result<Rule, RuleReason> {
    let (host, ports) = rule.rsplit_once(':').ok_or(RuleReason::Form)?;
    if host.contains(':') && !host.starts_with('[') {
        return Err(RuleReason::Form);
    }
    Ok(Rule { host: parse_host(host)?, ports: parse_ports(ports).ok_or(RuleReason::Ports)? })
}

fn parse_ports(text: &str) -> Option<RangeInclusive<u16>> {
    if text == "*" {
        return Some(1..=u16::MAX);
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (parse_port(first)?, parse_port(last)?);
    (first != 0 && first <= last).then_some(first..=last)
}

fn parse_host(text: &str) -> Result<Pattern, RuleReason> {
    if text == "*" {
        return Ok(Pattern::Everything);
    }
    if let Some(suffix) = text.strip_prefix("*.") {
        return match suffix.parse().map_err(RuleReason::Host)? {
            Host::Name(name) => Ok(Pattern::Suffix(format!(".{name}"))),
            Host::Ip(_) => Err(RuleReason::Star),
        };
    }
    if text.contains('*') {
        return Err(RuleReason::Star);
    }
    let (host, bits) = text.split_once('/').map_or((text, None), |(host, bits)| (host, Some(bits)));
    let ip = match host.parse().map_err(RuleReason::Host)? {
        Host::Ip(ip) => ip,
        Host::Name(name) if bits.is_none() => return Ok(Pattern::Name(name)),
        Host::Name(_) => return Err(RuleReason::Prefix),
    };
    let most = if ip.is_ipv4() { 32 } else { 128 };
    let bits = bits
        .map_or(Some(most), parse_port)
        .and_then(|bits| u8::try_from(bits).ok())
        .ok_or(RuleReason::Prefix)?;
    let network = IpNet::new(ip, bits).map_err(|_| RuleReason::Prefix)?;
    if network != network.trunc() {
        return Err(RuleReason::Bits(network.trunc()));
    }
    Ok(Pattern::Network(match (ip, bits.checked_sub(96)) {
        // Judged as IPv4, like the addresses.
        (IpAddr::V6(v6), Some(bits)) => match carried(v6) {
            Some(v4) => Ipv4Net::new(v4, bits).map(IpNet::V4).map_err(|_| RuleReason::Prefix)?,
            None => network,
        },
        _ => network,
    }))
}

#[cfg(test)]
mod tests;
