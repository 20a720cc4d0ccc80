//! Arguments of `link`.

use super::Switch;
use super::tunnel::LogLevel;
use crate::quantity::{parse_time, time};
use clap::{Args, ValueEnum};
use oncewire_net::link::{IpNet, LEAST_PATH_MTU, MOST_PATH_MTU, PATH_MTU, Timing};
use oncewire_net::target::Target;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Longest name of a network device, in bytes (Linux: IFNAMSIZ, with its end).
const LONGEST_NAME: usize = 15;

#[derive(Debug, Args)]
#[command(
    override_usage = "\
oncewire link [OPTIONS] <SERVER>
       oncewire link [OPTIONS] --listen <ADDRESS>",
    after_help = "\
Examples:
  oncewire link --listen 7077 --key b.key --peer \"$(cat a.pub)\" \\
    --allowed 10.1.0.0/16 --match none
  oncewire link site-b:7077 --key a.key --peer \"$(cat b.pub)\" \\
    --allowed 10.2.0.0/16 --match none

Needs root, or the capability CAP_NET_ADMIN. The first command is for site B with the networks 10.2.0.0/16, the second for site A with \
10.1.0.0/16. Each end routes --allowed to a tun device while it runs. While the other end is not connected, packets to these networks are \
dropped. When the program ends, its routes are gone: if packets must not leave by another route then, add an unreachable one with a \
higher metric.

This version encrypts and carries packets. It does not reduce them yet."
)]
pub(crate) struct LinkArgs {
    /// Where the other end listens, host:port
    #[arg(required_unless_present = "listen", conflicts_with = "listen")]
    pub(crate) server: Option<Target>,
    /// Wait for the other end on this UDP port, [address:]port
    #[arg(long, value_name = "ADDRESS", value_parser = parse_listen)]
    pub(crate) listen: Option<SocketAddr>,
    /// Secret key of this end, made by `oncewire keygen`
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// Public key of the other end, with an optional name: "KEY NAME"
    #[arg(long, value_name = "KEY")]
    pub(crate) peer: String,
    /// Network behind the other end; repeatable. Only packets to these networks are sent, and only
    /// packets from them are accepted
    #[arg(long, value_name = "NETWORK", required = true, value_parser = parse_network)]
    pub(crate) allowed: Vec<IpNet>,
    /// How to find repeats. This version has only `none`
    #[arg(long = "match", value_name = "HOW")]
    pub(crate) matching: MatchName,
    /// Name of the tun device
    #[arg(long, value_name = "NAME", default_value = "oncewire0", value_parser = parse_device)]
    pub(crate) device: String,
    /// Address of this end on the device, with the length of its network: 192.0.2.1/30; repeatable
    #[arg(long, value_name = "ADDRESS", value_parser = parse_network)]
    pub(crate) address: Vec<IpNet>,
    /// Whether to route --allowed to the device
    #[arg(long, value_name = "WHEN", default_value = "on")]
    pub(crate) routes: Switch,
    #[arg(long, value_name = "BYTES", default_value_t = PATH_MTU,
        value_parser = clap::value_parser!(u16).range(i64::from(LEAST_PATH_MTU)..=i64::from(MOST_PATH_MTU)),
        help = format!("MTU of the path between the ends, {LEAST_PATH_MTU} to {MOST_PATH_MTU}; that of the device is 84 less"))]
    pub(crate) path_mtu: u16,
    /// Silence after which the end that connects probes the other one
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = time(Timing::default().keep_alive), help_heading = "Timeouts")]
    pub(crate) keep_alive: Duration,
    /// Silence after which the link is down, even if one end waits longer; at least twice
    /// --keep-alive
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = time(Timing::default().silence), help_heading = "Timeouts")]
    pub(crate) dead_after: Duration,
    /// Age at which keys are renewed, by the end that connects
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = time(Timing::default().renewal), help_heading = "Timeouts")]
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
    pub(crate) log: LogLevel,
    /// Log one JSON object per line
    #[arg(long, help_heading = "Process")]
    pub(crate) log_json: bool,
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
fn parse_network(text: &str) -> Result<IpNet, String> {
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
