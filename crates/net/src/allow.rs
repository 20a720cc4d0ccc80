//! Where the way out may connect to: nothing, except what its configuration lists.
//!
//! # Rules
//!
//! A rule is `host:ports`. `ports` is a port, a range `8000-8100`, or `*`. `host` is one of
//!
//! | host | a rule of | admits |
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
//! Some addresses mean the way out itself, its neighbours or the machinery under it, and a name that somebody else controls can be made to
//! resolve to them (DNS rebinding). They are: unspecified and "this network" (`0.0.0.0/8`, `::`), loopback (`127.0.0.0/8`, `::1`), link-local
//! (`169.254.0.0/16` with the metadata service of most clouds, `fe80::/10`), the metadata services of other clouds (`100.100.100.200`,
//! `168.63.129.16`, `fd00:ec2::254`), multicast
//! (`224.0.0.0/4`, `ff00::/8`) and broadcast (`255.255.255.255`). A name rule, `*`, or a wider network such as `0.0.0.0/0` never admits them.
//! Two things do: an address rule that lies wholly within one of these networks, such as `127.0.0.1:5432` or `169.254.0.0/16:80`; and, for
//! the target `localhost` at loopback addresses, the name rule `localhost`.
//!
//! Private networks (`10.0.0.0/8` and so on) are not guarded, since names at the way out commonly resolve to them: a `*` admits them. Nor are
//! the other addresses of the way out itself.
//!
//! # The decision
//!
//! An IPv6 address that carries an IPv4 address (`::ffff:0:0/96`, and `64:ff9b::/96` of NAT64) is judged as that IPv4 address, in rules too.
//!
//! 1. A target that is an address is admitted if an address rule or `*` admits it.
//! 2. A target that is a name is first judged by name and port. It is not even resolved unless a name rule or `*` admits it, or there is an
//!    address rule for its port.
//! 3. It is resolved once. Of the addresses found, those remain that an address rule admits, and, if a name rule or `*` admits the name,
//!    those that are not guarded. If none remain, the target is not allowed. Connect to those that remain, and do not resolve again.

use crate::keys::redact;
use crate::target::{Host, Target, TargetError, parse_port};
use crate::transport::MAX_ADDRESSES;
use crate::ways_in::Refusal;
use ipnet::{IpNet, Ipv4Net};
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

/// Longest time to resolve a name.
const LOOKUP_TIME: Duration = Duration::from_secs(10);

/// The networks that names must not lead to; see the module's documentation.
const GUARDED: [IpNet; 12] = [
    v4([0, 0, 0, 0], 8),
    v4([127, 0, 0, 0], 8),
    v4([169, 254, 0, 0], 16),
    // Alibaba Cloud, and Azure's WireServer.
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

/// Where the way out may connect to. Empty, as by `default()`, it admits nothing.
#[derive(Clone, Debug, Default)]
pub struct AllowList {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    host: Pattern,
    ports: RangeInclusive<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    Everything,
    Name(String),
    /// `.example.com`, with its first dot.
    Suffix(String),
    Network(IpNet),
}

/// A rule that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the allow rule {rule:?} is wrong: {reason}")]
pub struct RuleError {
    /// The rule as it was given, without a secret key.
    pub rule: String,
    /// What is wrong with it.
    pub reason: RuleReason,
}

/// What is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleReason {
    /// No port, or brackets missing.
    #[error("it has to be host:ports, with an IPv6 address in brackets")]
    Form,
    /// The ports are wrong.
    #[error("the ports have to be a number from 1 to 65535, a range such as 8000-8100, or *")]
    Ports,
    /// The host is neither a name nor an address.
    #[error("{0}")]
    Host(TargetError),
    /// `*` in another place than alone or in front of a dot.
    #[error("a * stands alone or for the first labels of a name, as in *.example.com")]
    Star,
    /// The number after the `/` is wrong, or follows a name.
    #[error("a / and the number of bits follow an address only: up to 32, or 128 in IPv6")]
    Prefix,
    /// The address is not the first of its network.
    #[error("the address is not the first of its network: write {0}, or the address alone")]
    Bits(IpNet),
}

impl AllowList {
    /// Reads the rules, and tells the first one that is wrong.
    pub fn parse<S: AsRef<str>>(rules: &[S]) -> Result<AllowList, RuleError> {
        let parse = |rule: &S| {
            let rule = rule.as_ref();
            parse_rule(rule).map_err(|reason| RuleError { rule: redact(rule).into_owned(), reason })
        };
        Ok(AllowList { rules: rules.iter().map(parse).collect::<Result<_, _>>()? })
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether nothing is admitted.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether the target may be admitted as far as can be told without resolving its name; for an address, whether it is admitted.
    pub fn permits_name(&self, target: &Target) -> bool {
        match target.host() {
            Host::Ip(ip) => self.permits_address(target, *ip),
            Host::Name(name) => self.admits(name, target.port()) || self.networks(target.port()).next().is_some(),
        }
    }

    /// Whether the way out may connect to this address for this target, whose name (if it is one) resolved to it.
    pub fn permits_address(&self, target: &Target, ip: IpAddr) -> bool {
        let ip = judged(ip);
        let guard = GUARDED.iter().find(|guard| guard.contains(&ip));
        let explicit = |network: &IpNet| network.contains(&ip) && guard.is_none_or(|guard| guard.contains(network));
        if self.networks(target.port()).any(explicit) {
            return true;
        }
        match target.host() {
            Host::Name(name) if name == "localhost" => {
                let named = |host: &Pattern| matches!(host, Pattern::Name(rule) if rule == name);
                if ip.is_loopback() { self.any(target.port(), named) } else { false }
            }
            Host::Name(name) => guard.is_none() && self.admits(name, target.port()),
            Host::Ip(_) => guard.is_none() && self.any(target.port(), |host| *host == Pattern::Everything),
        }
    }

    /// Resolves the target once and gives the addresses that the way out may connect to, in the resolver's order, at least 1 and at most 16.
    ///
    /// Refuses with [`Refusal::NotAllowed`] what the rules do not admit, with [`Refusal::NoSuchName`] what does not resolve, and with
    /// [`Refusal::TimedOut`] what does not within 10 seconds.
    pub async fn resolve(&self, target: &Target) -> Result<Vec<SocketAddr>, Refusal> {
        self.resolve_with(target, |name, port| async move {
            let lookup = tokio::time::timeout(LOOKUP_TIME, tokio::net::lookup_host((name, port)));
            Ok(lookup.await.map_err(|_| io::ErrorKind::TimedOut)??.collect())
        })
        .await
    }

    /// [`AllowList::resolve`] with another resolver, which is given the name and the port. It is asked at most once, and never for an address.
    pub async fn resolve_with<F, R>(&self, target: &Target, resolver: F) -> Result<Vec<SocketAddr>, Refusal>
    where
        F: FnOnce(String, u16) -> R,
        R: Future<Output = io::Result<Vec<SocketAddr>>>,
    {
        if !self.permits_name(target) {
            return Err(Refusal::NotAllowed);
        }
        let name = match target.host() {
            Host::Ip(ip) => return Ok(vec![SocketAddr::new(*ip, target.port())]),
            Host::Name(name) => name.clone(),
        };
        let mut found = resolver(name, target.port()).await.map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => Refusal::TimedOut,
            _ => Refusal::NoSuchName,
        })?;
        if found.is_empty() {
            return Err(Refusal::NoSuchName);
        }
        found.retain(|address| self.permits_address(target, address.ip()));
        found.truncate(MAX_ADDRESSES);
        // The port is the one that was judged, whatever a resolver says.
        found.iter_mut().for_each(|address| address.set_port(target.port()));
        if found.is_empty() { Err(Refusal::NotAllowed) } else { Ok(found) }
    }

    /// Whether a name rule or `*` admits the name.
    fn admits(&self, name: &str, port: u16) -> bool {
        self.any(port, |host| match host {
            Pattern::Everything => true,
            Pattern::Name(rule) => rule == name,
            Pattern::Suffix(suffix) => name.len() > suffix.len() && name.ends_with(suffix.as_str()),
            Pattern::Network(_) => false,
        })
    }

    fn any(&self, port: u16, admits: impl Fn(&Pattern) -> bool) -> bool {
        self.rules.iter().any(|rule| rule.ports.contains(&port) && admits(&rule.host))
    }

    /// The address rules for a port.
    fn networks(&self, port: u16) -> impl Iterator<Item = &IpNet> {
        self.rules.iter().filter(move |rule| rule.ports.contains(&port)).filter_map(|rule| match &rule.host {
            Pattern::Network(network) => Some(network),
            _ => None,
        })
    }
}

/// The IPv4 address inside an IPv6 address that leads to it, or the address itself.
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
    let bits = bits.map_or(Some(most), parse_port).and_then(|bits| u8::try_from(bits).ok()).ok_or(RuleReason::Prefix)?;
    let network = IpNet::new(ip, bits).map_err(|_| RuleReason::Prefix)?;
    if network != network.trunc() {
        return Err(RuleReason::Bits(network.trunc()));
    }
    Ok(Pattern::Network(match (ip, bits.checked_sub(96)) {
        // Judged as IPv4, like the addresses themselves.
        (IpAddr::V6(v6), Some(bits)) => match carried(v6) {
            Some(v4) => Ipv4Net::new(v4, bits).map(IpNet::V4).map_err(|_| RuleReason::Prefix)?,
            None => network,
        },
        _ => network,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(rules: &[&str]) -> AllowList {
        AllowList::parse(rules).unwrap()
    }

    fn target(text: &str) -> Target {
        text.parse().unwrap()
    }

    /// Resolves with a resolver that answers with these addresses.
    async fn resolve(list: &AllowList, text: &str, answers: &[&str]) -> Result<Vec<String>, Refusal> {
        let answers = answers.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 0)).collect();
        let found = list.resolve_with(&target(text), |_, _| async { Ok(answers) }).await?;
        Ok(found.iter().map(ToString::to_string).collect())
    }

    #[tokio::test]
    async fn nothing_is_admitted_by_default() {
        let list = AllowList::default();
        assert!(list.is_empty());
        for text in ["origin.example:80", "localhost:80", "127.0.0.1:80", "[::1]:80", "10.0.0.1:80"] {
            let target = target(text);
            let asked = list.resolve_with(&target, |_, _| async { panic!("asked the resolver") });
            assert_eq!(asked.await, Err(Refusal::NotAllowed), "{text}");
        }
    }

    #[test]
    fn names_and_ports() {
        let list = list(&["origin.example:80", "*.Example.com:443", "10.0.0.0/8:1000-2000", "*:8443"]);
        for yes in [
            "origin.example:80",
            "ORIGIN.example.:80",
            "a.example.com:443",
            "a.b.example.com:443",
            "10.1.2.3:1000",
            "10.1.2.3:2000",
        ] {
            assert!(list.permits_name(&target(yes)), "{yes}");
        }
        for no in [
            "origin.example:81",
            "x.origin.example:80",
            "origin.example.evil:80",
            "example.com:443",
            "badexample.com:443",
            "a.example.com.evil:443",
            "10.1.2.3:999",
            "10.1.2.3:2001",
            "11.1.2.3:1000",
            "[::1]:8443",
            "127.0.0.1:8443",
        ] {
            assert!(!list.permits_name(&target(no)), "{no}");
        }
        assert!(list.permits_name(&target("any.example:8443")) && list.permits_name(&target("192.0.2.1:8443")));
        // May turn out to be in 10.0.0.0/8.
        assert!(list.permits_name(&target("any.example:1500")));
    }

    #[tokio::test]
    async fn a_name_does_not_lead_to_guarded_addresses() {
        let guarded = [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "169.254.0.1",
            "100.100.100.200",
            "168.63.129.16",
            "::ffff:100.100.100.200",
            "64:ff9b::168.63.129.16",
            "224.0.0.1",
            "239.1.2.3",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "febf::1",
            "ff02::1",
            "fd00:ec2::254",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0.0.0.0",
            "64:ff9b::127.0.0.1",
            "64:ff9b::a9fe:a9fe",
        ];
        let rules = ["evil.example:80", "*.evil.example:80", "*:80", "0.0.0.0/0:80", "[::]/0:80", "localhost:80"];
        for rules in [&rules[..1], &rules[1..2], &rules[2..3], &rules[3..5], &rules[..]] {
            let list = list(rules);
            for ip in guarded {
                for name in ["evil.example:80", "a.evil.example:80"] {
                    assert_eq!(resolve(&list, name, &[ip]).await, Err(Refusal::NotAllowed), "{name} at {ip} with {rules:?}");
                }
                let literal = Target::new(Host::Ip(ip.parse().unwrap()), 80).unwrap();
                assert!(!list.permits_name(&literal), "{ip} with {rules:?}");
            }
        }
    }

    #[tokio::test]
    async fn the_good_addresses_of_a_name_remain() {
        let list = list(&["origin.example:80"]);
        let answers = ["127.0.0.1", "192.0.2.1", "::ffff:10.0.0.1", "::1", "2001:db8::1"];
        let found = resolve(&list, "origin.example:80", &answers).await.unwrap();
        assert_eq!(found, ["192.0.2.1:80", "[::ffff:10.0.0.1]:80", "[2001:db8::1]:80"]);
        assert_eq!(resolve(&list, "origin.example:80", &["192.0.2.1"; 99]).await.unwrap().len(), 16);
    }

    #[tokio::test]
    async fn an_address_rule_admits_guarded_addresses_by_name() {
        let list = list(&["127.0.0.1:5432", "169.254.0.0/16:80", "[fe80::]/10:80", "app.example:5432"]);
        assert_eq!(resolve(&list, "app.example:5432", &["127.0.0.1", "127.0.0.2"]).await.unwrap(), ["127.0.0.1:5432"]);
        assert_eq!(resolve(&list, "other.example:80", &["169.254.169.254", "192.0.2.1"]).await.unwrap(), ["169.254.169.254:80"]);
        assert!(list.permits_name(&target("127.0.0.1:5432")) && list.permits_name(&target("[::ffff:127.0.0.1]:5432")));
        assert!(list.permits_name(&target("[fe80::1]:80")));
        assert!(!list.permits_name(&target("127.0.0.1:5433")) && !list.permits_name(&target("[::1]:5432")));
    }

    #[tokio::test]
    async fn localhost_is_loopback_and_only_for_its_own_rule() {
        let named = list(&["localhost:5432"]);
        let answers = ["127.0.0.1", "::1", "192.0.2.1", "169.254.169.254", "0.0.0.0"];
        assert_eq!(resolve(&named, "localhost:5432", &answers).await.unwrap(), ["127.0.0.1:5432", "[::1]:5432"]);
        assert_eq!(resolve(&named, "localhost:5433", &answers).await, Err(Refusal::NotAllowed));
        assert_eq!(resolve(&named, "evil.localhost:5432", &answers).await, Err(Refusal::NotAllowed));
        assert!(!named.permits_name(&target("127.0.0.1:5432")));
        for rules in [["*:5432"], ["*.localhost:5432"]] {
            assert_eq!(resolve(&list(&rules), "localhost:5432", &answers[..2]).await, Err(Refusal::NotAllowed));
        }
    }

    #[tokio::test]
    async fn a_network_admits_names_that_resolve_into_it() {
        let list = list(&["10.0.0.0/8:*", "[2001:db8::]/32:*", "[::ffff:192.0.2.0]/120:*"]);
        assert_eq!(resolve(&list, "db.internal:1", &["10.1.2.3", "11.1.2.3"]).await.unwrap(), ["10.1.2.3:1"]);
        assert_eq!(resolve(&list, "db.internal:1", &["64:ff9b::10.1.2.3"]).await.unwrap(), ["[64:ff9b::a01:203]:1"]);
        assert_eq!(resolve(&list, "db.internal:1", &["2001:db8:9::1", "2001:db9::1"]).await.unwrap(), ["[2001:db8:9::1]:1"]);
        assert_eq!(resolve(&list, "db.internal:1", &["192.0.2.9", "192.0.3.9"]).await.unwrap(), ["192.0.2.9:1"]);
        assert_eq!(resolve(&list, "db.internal:1", &["192.0.3.9"]).await, Err(Refusal::NotAllowed));
    }

    #[tokio::test]
    async fn the_resolver_is_asked_once_and_its_failures_are_told() {
        let list = list(&["origin.example:80", "192.0.2.1:80"]);
        assert_eq!(resolve(&list, "origin.example:80", &[]).await, Err(Refusal::NoSuchName));
        let origin = target("origin.example:80");
        let asked = |kind: io::ErrorKind| list.resolve_with(&origin, move |_, _| async move { Err(kind.into()) });
        assert_eq!(asked(io::ErrorKind::TimedOut).await, Err(Refusal::TimedOut));
        assert_eq!(asked(io::ErrorKind::Other).await, Err(Refusal::NoSuchName));
        let literal = target("192.0.2.1:80");
        let found = list.resolve_with(&literal, |_, _| async { panic!("asked the resolver for an address") });
        assert_eq!(found.await, Ok(vec!["192.0.2.1:80".parse().unwrap()]));
        // The port that was judged counts.
        let found = list.resolve_with(&origin, |_, _| async { Ok(vec!["192.0.2.1:22".parse().unwrap()]) });
        assert_eq!(found.await, Ok(vec!["192.0.2.1:80".parse().unwrap()]));
    }

    #[tokio::test]
    async fn the_system_resolver_knows_localhost() {
        let found = list(&["localhost:80"]).resolve(&target("localhost:80")).await.unwrap();
        assert!(found.iter().all(|address| address.ip().is_loopback() && address.port() == 80));
    }

    #[test]
    fn wrong_rules_are_told() {
        let reason = |rule: &str| AllowList::parse(&["ok:1", rule]).unwrap_err().reason;
        assert_eq!(reason("origin"), RuleReason::Form);
        assert_eq!(reason("::1:80"), RuleReason::Form);
        for rule in ["a:", "a:0", "a:80-", "a:90-80", "a:65536", "a:**", "a:+1", "a:1-2-3"] {
            assert_eq!(reason(rule), RuleReason::Ports, "{rule}");
        }
        for rule in ["*a:80", "a.*:80", "a.*.b:80", "*.10.0.0.1:80", "**:80"] {
            assert!(matches!(reason(rule), RuleReason::Star), "{rule}");
        }
        for rule in ["10.0.0.0/33:80", "10.0.0.0/:80", "10.0.0.0/+8:80", "[::]/129:80", "[::]/400:80", "a.b/8:80"] {
            assert_eq!(reason(rule), RuleReason::Prefix, "{rule}");
        }
        assert_eq!(reason("10.1.0.0/8:80"), RuleReason::Bits("10.0.0.0/8".parse().unwrap()));
        assert!(matches!(reason("a b:80"), RuleReason::Host(_)));
        assert!(matches!(reason("[10.0.0.1]:80"), RuleReason::Host(_)));
        assert!(matches!(reason("*.:80"), RuleReason::Host(_)));
        let error = AllowList::parse(&["10.1.0.0/8:80"]).unwrap_err().to_string();
        assert_eq!(
            error,
            "the allow rule \"10.1.0.0/8:80\" is wrong: the address is not the first of its network: write 10.0.0.0/8, or the address alone"
        );
    }
}
