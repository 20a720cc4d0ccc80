//! Arguments of `link`.

use super::Switch;
use super::tunnel::{FileArgs, LogLevel, RoleName, choice, defaults, duration, parsed};
use crate::quantity::{parse_time, time};
use clap::{Args, ValueEnum};
use oncewire_net::link::{IpNet, LEAST_PATH_MTU, MOST_PATH_MTU, PATH_MTU, Timing};
use oncewire_net::target::Target;
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Longest name of a network device, in bytes (Linux: IFNAMSIZ, with its end).
const LONGEST_NAME: usize = 15;

/// The keys of a `[[peer]]` table.
pub(super) const PEER_KEYS: [&str; 4] = ["name", "key", "address", "allowed"];

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
    --allowed 10.1.0.0/16 --match none
  oncewire link site-b:7077 --key a.key --peer \"$(cat b.pub)\" \\
    --allowed 10.2.0.0/16 --match none
  oncewire link --config /etc/oncewire/link.toml

Needs root, or the capability CAP_NET_ADMIN. The first command is for site B with the networks 10.2.0.0/16, the second for site A with \
10.1.0.0/16. More than two sites need a configuration file, which has a table for each peer. Each end routes the networks of its peers \
to a tun device while it runs. While a peer is not connected, packets to its networks are dropped. When the program ends, its routes are \
gone: if packets must not leave by another route then, add an unreachable one with a higher metric.

This version encrypts and carries packets. It does not reduce them yet."
)]
pub(crate) struct LinkArgs {
    /// Where the other end listens, host:port
    #[arg(conflicts_with = "listen")]
    #[serde(skip)]
    pub(crate) server: Option<Target>,
    /// Read options and peers from this file (TOML); options on the command line override it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["server", "peer", "allowed"])]
    #[serde(skip)]
    pub(crate) config: Option<PathBuf>,
    /// Wait for peers on this UDP port, [address:]port
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
    /// How to find repeats. This version has only `none`
    #[arg(id = "match", long = "match", value_name = "HOW")]
    #[serde(rename = "match", deserialize_with = "some_choice")]
    pub(crate) matching: Option<MatchName>,
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
        help = format!("MTU of the path between the ends, {LEAST_PATH_MTU} to {MOST_PATH_MTU}; that of the device is 84 less"))]
    #[serde(deserialize_with = "path_mtu")]
    pub(crate) path_mtu: u16,
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
    /// Least severe messages to log, on standard error
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = "info",
        ignore_case = true,
        help_heading = "Process"
    )]
    #[serde(deserialize_with = "choice")]
    pub(crate) log: LogLevel,
    /// Log one JSON object per line
    #[arg(long, help_heading = "Process")]
    pub(crate) log_json: bool,
}

impl Default for LinkArgs {
    fn default() -> LinkArgs {
        defaults()
    }
}

impl FileArgs for LinkArgs {
    const ROLE: RoleName = RoleName::Link;

    fn from_toml(text: &str) -> Result<LinkArgs, toml::de::Error> {
        toml::from_str(text)
    }
}

fn listen<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    parsed(from, parse_listen).map(Some)
}

fn device<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    parsed(from, parse_device)
}

fn networks<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<IpNet>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    texts.iter().map(|text| parse_network(text).map_err(D::Error::custom)).collect()
}

fn path_mtu<'de, D: Deserializer<'de>>(from: D) -> Result<u16, D::Error> {
    let mtu = u16::deserialize(from)?;
    if (LEAST_PATH_MTU..=MOST_PATH_MTU).contains(&mtu) {
        Ok(mtu)
    } else {
        Err(D::Error::custom(format!("write {LEAST_PATH_MTU} to {MOST_PATH_MTU}")))
    }
}

fn some_choice<'de, D: Deserializer<'de>, T: ValueEnum>(from: D) -> Result<Option<T>, D::Error> {
    choice(from).map(Some)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MatchName {
    /// Not at all: packets are encrypted and carried as they are
    None,
}

/// `7077` and `*:7077` are every address, IPv6 and IPv4.
fn parse_listen(text: &str) -> Result<SocketAddr, String> {
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

fn parse_device(text: &str) -> Result<String, String> {
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
}
