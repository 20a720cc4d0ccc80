//! Arguments of `link`.

use super::Switch;
use super::process::{LogArgs, WatchArgs};
use super::tunnel::{RoleName, file_args};
use super::values::{choice, duration, parsed};
use crate::quantity::{parse_rate, parse_size, parse_time, size, time};
use clap::{Args, ValueEnum};
use oncewire_codec::DEFAULT_CACHE;
use oncewire_net::link::{
    IpNet, LEAST_LOG, LEAST_PATH_MTU, MOST_LOG, MOST_PATH_MTU, PATH_MTU, Policy, Sharing, Timing,
};
use oncewire_net::target::Target;
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU8;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// Longest name of a network device, in bytes (Linux: IFNAMSIZ, with its end).
const LONGEST_NAME: usize = 15;

/// MTUs of the device: from IPv6's least (RFC 8200 section 5) to that of jumbo frames.
const DEVICE_MTU: RangeInclusive<i64> = 1280..=9000;

/// A `[[peer]]` table of the configuration file. What its texts mean is checked when it is known
/// where each of them is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PeerArgs {
    /// What the status and log lines call it.
    pub(crate) name: Option<String>,
    /// Its public key.
    pub(crate) key: Option<String>,
    /// Where it listens.
    pub(crate) address: Option<String>,
    /// Networks behind it.
    pub(crate) allowed: Vec<String>,
}

/// Options of `link`. As for a tunnel, they are the only definition: one field makes an option of the
/// command line and a key of the configuration file, with its help. `docs/examples/link.toml` shows
/// all; a test compares.
#[derive(Clone, Debug, Args, Deserialize)]
#[serde(default)]
#[command(
    override_usage = "\
oncewire link [OPTIONS] <SERVER>
       oncewire link [OPTIONS] --listen <ADDRESS>
       oncewire link --config <FILE>",
    after_help = "\
Examples:
  oncewire link --listen 7077 --key b.key --peer \"$(cat a.pub)\" \\
    --allowed 10.1.0.0/16
  oncewire link site-b:7077 --key a.key --peer \"$(cat b.pub)\" \\
    --allowed 10.2.0.0/16
  oncewire link --config /etc/oncewire/link.toml

Needs root, or the capability CAP_NET_ADMIN. The first command is for site B with the networks 10.2.0.0/16, the second for site A with \
10.1.0.0/16. More than two sites need a configuration file, which has a table for each peer. Each end routes the networks of its peers \
to a tun device while it runs. While a peer is not connected, packets to its networks are dropped. When the program ends, its routes are \
gone: if packets must not leave by another route then, add an unreachable one with a higher metric.

What repeats is sent as a reference to the content log that the other end keeps. A host's packets are searched for what the same host has sent before, whatever the flow or protocol, unless they are encrypted."
)]
pub(crate) struct LinkArgs {
    /// Where the other end listens, host:port
    #[serde(skip)]
    pub(crate) server: Option<Target>,
    /// Read options and peers from this file (TOML); options on the command line override it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["server", "peer", "allowed"])]
    #[serde(skip)]
    pub(crate) config: Option<PathBuf>,
    /// Wait for peers on this UDP port, [address:]port. An end may wait and connect: then whichever
    /// end comes up later connects
    #[arg(long, value_name = "ADDRESS", value_parser = parse_listen)]
    #[serde(deserialize_with = "listen")]
    pub(crate) listen: Option<SocketAddr>,
    /// Secret key of this end, made by `oncewire keygen`
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// Public key of the other end, with an optional name: "KEY NAME"
    #[arg(long, value_name = "KEY")]
    #[serde(skip)]
    pub(crate) peer: Option<String>,
    /// Network behind the other end; repeatable. Only packets to these networks are sent, and only
    /// packets from them are accepted
    #[arg(long, value_name = "NETWORK", value_parser = parse_network)]
    #[serde(skip)]
    pub(crate) allowed: Vec<IpNet>,
    /// The peers of the configuration file.
    #[arg(skip)]
    #[serde(rename = "peer")]
    pub(crate) peers: Vec<PeerArgs>,
    /// How to find repeats
    #[arg(id = "match", long = "match", value_name = "HOW", default_value = "log")]
    #[serde(rename = "match", deserialize_with = "choice")]
    pub(crate) matching: MatchName,
    #[arg(long, value_name = "SIZE", value_parser = parse_cache, default_value = size(DEFAULT_CACHE), help = format!(
        "Size of the content log of each peer and direction, {} to {}; the smaller number of the two ends applies", size(LEAST_LOG), size(MOST_LOG)
    ))]
    #[serde(deserialize_with = "cache")]
    pub(crate) cache: u64,
    /// Which content this end refers to
    #[arg(long, value_name = "WHICH", default_value = "auto")]
    #[serde(deserialize_with = "choice")]
    pub(crate) policy: PolicyName,
    /// What this end may refer to across isolation domains. A domain is the source address of a
    /// packet. With `all`, sizes on the path let one host guess what others send
    #[arg(long, value_name = "WHAT", default_value = "none")]
    #[serde(deserialize_with = "choice")]
    pub(crate) share: LinkShareName,
    /// Name of the tun device
    #[arg(long, value_name = "NAME", default_value = "oncewire0", value_parser = parse_device)]
    #[serde(deserialize_with = "device")]
    pub(crate) device: String,
    /// Address of this end on the device, with the length of its network: 192.0.2.1/30; repeatable
    #[arg(long, value_name = "ADDRESS", value_parser = parse_network)]
    #[serde(deserialize_with = "networks")]
    pub(crate) address: Vec<IpNet>,
    /// Whether to route the peers' networks to the device
    #[arg(long, value_name = "WHEN", default_value = "on")]
    #[serde(deserialize_with = "choice")]
    pub(crate) routes: Switch,
    #[arg(long, value_name = "BYTES", default_value_t = PATH_MTU,
        value_parser = clap::value_parser!(u16).range(i64::from(LEAST_PATH_MTU)..=i64::from(MOST_PATH_MTU)),
        help = format!("MTU of the path between the ends at most, {LEAST_PATH_MTU} to {MOST_PATH_MTU}; that of the device is 84 less. If the path carries less, the link finds out"))]
    #[serde(deserialize_with = "path_mtu")]
    pub(crate) path_mtu: u16,
    /// MTU of the device, 1280 to 9000, if it is to be another than --path-mtu says: packets that do
    /// not fit are sent in pieces
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(DEVICE_MTU))]
    #[serde(deserialize_with = "mtu")]
    pub(crate) mtu: Option<u16>,
    /// Rate of the path to all peers, such as 20Mbit, with IP and UDP headers: packets wait in fair
    /// queues at this end, and not in a router [default: send as fast as packets come]
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    #[serde(deserialize_with = "rate")]
    pub(crate) rate: Option<f64>,
    /// Send small datagrams once more after this time, such as 10ms, for paths that lose many
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    #[serde(deserialize_with = "duplicate")]
    pub(crate) duplicate: Option<Duration>,
    /// Silence after which the end that connects probes the other one
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = time(Timing::default().keep_alive), help_heading = "Timeouts")]
    #[serde(deserialize_with = "duration")]
    pub(crate) keep_alive: Duration,
    /// Silence after which a peer is not connected any more, even if one end waits longer; at least
    /// twice --keep-alive
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = time(Timing::default().silence), help_heading = "Timeouts")]
    #[serde(deserialize_with = "duration")]
    pub(crate) dead_after: Duration,
    /// Age at which keys are renewed, by the end that connected
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = time(Timing::default().renewal), help_heading = "Timeouts")]
    #[serde(deserialize_with = "duration")]
    pub(crate) renew_keys: Duration,
    /// Unix socket for `oncewire status` [default: oncewire-link.sock in $XDG_RUNTIME_DIR, if that
    /// is set]
    #[arg(long, value_name = "PATH", help_heading = "Process")]
    pub(crate) status: Option<PathBuf>,
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) watched: WatchArgs,
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) logging: LogArgs,
}

file_args!(LinkArgs, RoleName::Link, watched, logging);

pub(super) fn listen<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    parsed(from, parse_listen).map(Some)
}

pub(super) fn device<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    parsed(from, parse_device)
}

pub(super) fn networks<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<IpNet>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    texts.iter().map(|text| parse_network(text).map_err(D::Error::custom)).collect()
}

pub(super) fn path_mtu<'de, D: Deserializer<'de>>(from: D) -> Result<u16, D::Error> {
    let mtu = u16::deserialize(from)?;
    if (LEAST_PATH_MTU..=MOST_PATH_MTU).contains(&mtu) {
        Ok(mtu)
    } else {
        Err(D::Error::custom(format!("write {LEAST_PATH_MTU} to {MOST_PATH_MTU}")))
    }
}

fn mtu<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u16>, D::Error> {
    let mtu = u16::deserialize(from)?;
    if DEVICE_MTU.contains(&i64::from(mtu)) {
        Ok(Some(mtu))
    } else {
        Err(D::Error::custom("write 1280 to 9000"))
    }
}

fn rate<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    parsed(from, parse_rate).map(Some)
}

fn duplicate<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    duration(from).map(Some)
}

fn cache<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    parsed(from, parse_cache)
}

fn parse_cache(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    if (LEAST_LOG..=MOST_LOG).contains(&bytes) {
        Ok(bytes)
    } else {
        Err(format!("use {} to {}", size(LEAST_LOG), size(MOST_LOG)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MatchName {
    /// In content logs, which both ends keep for each direction
    Log,
    /// Not at all: packets are encrypted and carried as they are
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyName {
    /// All that was sent while the path loses nothing, otherwise what the other end has acknowledged
    Auto,
    /// What the other end has acknowledged: a lost datagram costs no other
    Acked,
    /// All that was sent: repeats are found earlier, and a lost datagram delays those that refer to
    /// it by a round trip
    Immediate,
    /// What was sent at least twice: as `immediate`, but fewer datagrams depend on a lost one
    #[value(name = "after-2")]
    After2,
    /// What was sent at least three times
    #[value(name = "after-3")]
    After3,
    /// What was sent at least four times
    #[value(name = "after-4")]
    After4,
}

impl From<PolicyName> for Policy {
    fn from(name: PolicyName) -> Policy {
        let after = |more| Policy::AfterK(NonZeroU8::MIN.saturating_add(more));
        match name {
            PolicyName::Auto => Policy::Auto,
            PolicyName::Acked => Policy::Acked,
            PolicyName::Immediate => Policy::Immediate,
            PolicyName::After2 => after(1),
            PolicyName::After3 => after(2),
            PolicyName::After4 => after(3),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LinkShareName {
    /// Everything, for sites whose hosts trust each other
    All,
    /// Nothing
    None,
}

impl From<LinkShareName> for Sharing {
    fn from(name: LinkShareName) -> Sharing {
        match name {
            LinkShareName::All => Sharing::All,
            LinkShareName::None => Sharing::None,
        }
    }
}

/// `7077` and `*:7077` are every address, IPv6 and IPv4.
pub(crate) fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let wrong = || "write [address:]port, such as 7077, 192.0.2.1:7077 or [2001:db8::1]:7077";
    let port = text.strip_prefix("*:").unwrap_or(text);
    if let Ok(port) = port.parse::<u16>() {
        return match port {
            0 => Err("the port is not a number from 1 to 65535".into()),
            port => Ok(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)),
        };
    }
    text.parse().map_err(|_| wrong().into())
}

/// A network, or an address, which is one of full length.
pub(crate) fn parse_network(text: &str) -> Result<IpNet, String> {
    let address = || text.parse::<IpAddr>().map(IpNet::from);
    text.parse::<IpNet>()
        .or_else(|_| address())
        .map_err(|_| "write a network such as 10.1.0.0/16 or 2001:db8::/32, or an address".into())
}

pub(crate) fn parse_device(text: &str) -> Result<String, String> {
    let is_name = (1..=LONGEST_NAME).contains(&text.len())
        && !matches!(text, "." | "..")
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if is_name {
        Ok(text.into())
    } else {
        Err(format!("use 1 to {LONGEST_NAME} letters, digits, -, _ and ."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_networks_and_names() {
        let any = |port| Ok(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)));
        assert_eq!(parse_listen("7077"), any(7077));
        assert_eq!(parse_listen("*:7078"), any(7078));
        assert_eq!(parse_listen("192.0.2.1:7"), Ok(SocketAddr::from(([192, 0, 2, 1], 7))));
        for bad in ["", "0", "*", "70777", "site-b:7077", "::1"] {
            assert!(parse_listen(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_network("10.1.2.3").map(|net| net.to_string()), Ok("10.1.2.3/32".into()));
        assert!(parse_network("10.1.0.0/33").is_err());
        assert_eq!(parse_device("wan-0.1"), Ok("wan-0.1".into()));
        for bad in ["", "..", "a/b", "sixteen-letters-", "a b"] {
            assert!(parse_device(bad).is_err(), "{bad}");
        }
    }
    #[test]
    fn policies_are_named_after_how_often_content_was_sent() {
        let named = |name| PolicyName::from_str(name, true).map(Policy::from).ok();
        assert_eq!(named("auto"), Some(Policy::Auto));
        assert_eq!(named("immediate"), Some(Policy::Immediate));
        for (name, times) in [("after-2", 2), ("after-3", 3), ("after-4", 4)] {
            assert_eq!(named(name), NonZeroU8::new(times).map(Policy::AfterK));
        }
        assert_eq!(named("after-1"), None);
        let config = "peer = []\npolicy = \"after-2\"";
        let args: Result<LinkArgs, _> = toml::from_str(config);
        assert_eq!(args.map(|args| args.policy), Ok(PolicyName::After2));
    }
}
