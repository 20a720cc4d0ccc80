//! `oncewire link`.

use crate::args::{LinkArgs, MatchName, PeerArgs, Switch, parse_network};
use crate::failure::{Failure, Outcome, without_number};
use crate::quantity::time;
use crate::status;
use crate::tunnel::{self, Options};
use clap::ArgMatches;
use oncewire_net::NetError;
use oncewire_net::daemon;
use oncewire_net::keys::{Peer, SecretKey};
use oncewire_net::link::{
    DeviceConfig, LinkConfig, LinkError, LinkStatus, Matching, PeerConfig, PeersError, Shaping,
    Timing, device_mtu, largest_datagram,
};
use oncewire_net::target::{Host, Target};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

pub(crate) fn run(given: &ArgMatches) -> Outcome {
    let options = Options::<LinkArgs>::read(given)?;
    let config = config(&options)?;
    let args = &options.args;
    let status = args
        .status
        .clone()
        .or_else(|| status::runtime_dir().map(|dir| dir.join("oncewire-link.sock")));
    let admin = tunnel::admin(&options, &args.watched)?;
    let log = tunnel::start_log(&args.logging, false);
    let ready = |status: &LinkStatus| {
        tracing::info!(address = %status.address, device = status.device, mtu = status.mtu, key = %status.key, "started");
    };
    let ended = daemon::run_link(
        config,
        status.as_deref(),
        (admin, crate::report::pages(args.watched.admin_price.clone())),
        args.watched.history.clone(),
        |document| crate::status::text::render(document),
        ready,
    );
    log.flush();
    ended.map_err(|error| {
        let hint = match &error {
            LinkError::Device { source, .. }
                if source.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                "; run it as root, or give it the capability CAP_NET_ADMIN"
            }
            LinkError::Port { .. } => "; choose another port, or stop the process that uses it",
            LinkError::Net(NetError::Listen { .. }) => {
                "; choose another --status or --admin, or stop the process that uses this one"
            }
            _ => "",
        };
        Failure::failed(without_number(&error) + hint)
    })
}

/// Least time between probes, and least age of keys.
const LEAST: Duration = Duration::from_millis(100);

fn timing(options: &Options<LinkArgs>) -> Outcome<Timing> {
    let &LinkArgs { keep_alive, dead_after: silence, renew_keys: renewal, .. } = &options.args;
    let why = format!(
        "keep-alive {}, dead-after {} and renew-keys {}: each must be at least {}, and dead-after at least twice keep-alive",
        time(keep_alive),
        time(silence),
        time(renewal),
        time(LEAST)
    );
    if keep_alive < LEAST || silence < 2 * keep_alive {
        let set = |key: &&str| options.is_flag(key) || options.is_of_file(key);
        let key = ["dead_after", "keep_alive"].into_iter().find(set);
        return Err(options.wrong(key.unwrap_or("keep_alive"), why));
    }
    if renewal < LEAST {
        return Err(options.wrong("renew_keys", why));
    }
    Ok(Timing { keep_alive, silence, renewal, ..Timing::default() })
}

/// From options to the parameters of a link.
fn config(options: &Options<LinkArgs>) -> Outcome<LinkConfig> {
    let args = &options.args;
    let key = args.key.as_ref().ok_or_else(|| {
        options.missing("no key: make one with `oncewire keygen FILE` and pass --key FILE")
    })?;
    let secret =
        SecretKey::load(key).map_err(|error| options.blame("key", tunnel::key_failure(&error)))?;
    let peers = if args.peers.is_empty() { vec![only_peer(options)?] } else { peers(options)? };
    if args.listen.is_none()
        && let Some(at) = peers.iter().position(|peer| peer.address.is_none())
    {
        let why = format!(
            "{} has no address, and this end does not listen: add `address` to it, or `listen`",
            label(&peers[at], at)
        );
        return Err(Failure::usage(options.place("peer", at) + &why));
    }
    let largest_datagram = largest_datagram(args.path_mtu);
    let networks = peers.iter().flat_map(|peer| peer.allowed.iter().copied());
    let config = LinkConfig {
        secret,
        listen: args.listen,
        device: DeviceConfig {
            name: args.device.clone(),
            addresses: args.address.clone(),
            mtu: args.mtu.unwrap_or(device_mtu(largest_datagram)),
            routes: if args.routes == Switch::On { networks.collect() } else { Vec::new() },
        },
        peers,
        matching: Matching {
            cache: if args.matching == MatchName::None { 0 } else { args.cache },
            policy: args.policy.into(),
            sharing: args.share.into(),
        },
        largest_datagram,
        shaping: Shaping {
            split: args.mtu.is_some(),
            rate: args.rate.map(|bits| (bits / 8.0) as u64),
            duplicate: args.duplicate,
        },
        timing: timing(options)?,
        agent: concat!("oncewire ", env!("CARGO_PKG_VERSION")).into(),
    };
    config.check().map_err(|error| {
        let (key, element) = match &error {
            PeersError::Own { at, .. } | PeersError::Repeated { at, .. } => {
                (format!("peer[{at}].key"), 0)
            }
            PeersError::Overlap { at, network_at, .. } => {
                (format!("peer[{at}].allowed"), *network_at)
            }
            PeersError::NoNetwork { at, .. } => ("peer".into(), *at),
            _ => ("peer".into(), 0),
        };
        Failure::usage(options.place(&key, element) + &error.to_string())
    })?;
    Ok(config)
}

/// What messages call a peer: its name, or else its number.
fn label(peer: &PeerConfig, at: usize) -> String {
    peer.peer.name.clone().unwrap_or_else(|| format!("peer {}", at + 1))
}

/// The peer that the command line names.
fn only_peer(options: &Options<LinkArgs>) -> Outcome<PeerConfig> {
    let args = &options.args;
    if options.has_file() {
        return Err(options.missing("no peer: add a [[peer]] table with key and allowed"));
    }
    if args.server.is_none() && args.listen.is_none() {
        return Err(
            options.missing("name the other end as host:port, or wait for it with --listen PORT")
        );
    }
    let peer = args.peer.as_ref().ok_or_else(|| {
        options.missing("no peer: pass the other end's public key with --peer KEY")
    })?;
    // What stands in the place of a key may be a secret: it is not quoted.
    let peer: Peer = peer.parse().map_err(|error| Failure::usage(format!("--peer: {error}")))?;
    if has_rules(&peer) {
        return Err(Failure::usage(format!("--peer: {ONLY_TUNNELS}")));
    }
    if args.allowed.is_empty() {
        return Err(
            options.missing("no network: name those behind the other end with --allowed NETWORK")
        );
    }
    Ok(PeerConfig { peer, address: args.server.clone(), allowed: args.allowed.clone() })
}

const ONLY_TUNNELS: &str = "a link's peer has no allow=: its networks say what it may send";

fn has_rules(peer: &Peer) -> bool {
    peer.allow.is_some()
}

/// The peers of the configuration file.
fn peers(options: &Options<LinkArgs>) -> Outcome<Vec<PeerConfig>> {
    options
        .args
        .peers
        .iter()
        .enumerate()
        .map(|(at, peer)| peer_of_file(options, at, peer))
        .collect()
}

fn peer_of_file(options: &Options<LinkArgs>, at: usize, peer: &PeerArgs) -> Outcome<PeerConfig> {
    let wrong = |key: &str, element, why: &dyn std::fmt::Display| {
        let place = options.place(&format!("peer[{at}].{key}"), element);
        Failure::usage(format!("{place}peer {}: {key}: {why}", at + 1))
    };
    let lacks = |what: &str| {
        let place = options.place("peer", at);
        Failure::usage(format!("{place}peer {} has no {what}", at + 1))
    };
    let key = peer.key.as_ref().ok_or_else(|| lacks("key"))?;
    let parsed: Peer = key.parse().map_err(|error| wrong("key", 0, &error))?;
    let mut named = parsed;
    if let Some(name) = &peer.name {
        // As on the command line: one word.
        let with_name: Peer =
            format!("{} {name}", named.key).parse().map_err(|error| wrong("name", 0, &error))?;
        if has_rules(&with_name) || with_name.expires.is_some() {
            let why = "a name is one word without =; expires= goes after the key";
            return Err(wrong("name", 0, &why));
        }
        named.name = with_name.name;
    }
    if has_rules(&named) {
        return Err(wrong("key", 0, &ONLY_TUNNELS));
    }
    let address = peer.address.as_ref().map(|address| address.parse());
    let address = address.transpose().map_err(|error| wrong("address", 0, &error))?;
    if peer.allowed.is_empty() {
        return Err(lacks("allowed networks"));
    }
    let networks = peer.allowed.iter().enumerate().map(|(nth, text)| {
        parse_network(text).map_err(|error| wrong("allowed", nth, &format!("{text:?}: {error}")))
    });
    let allowed = networks.collect::<Outcome<Vec<_>>>()?;
    Ok(PeerConfig { peer: named, address, allowed })
}

/// What `check-config` found in the file, and why that will not work although it is valid.
pub(crate) fn describe(file: &Path) -> Outcome<(String, Vec<&'static str>)> {
    let config = config(&Options::of_file(file)?)?;
    let counted = |n: usize, what: &str| crate::format::counted(n as u64, what);
    let networks = config.peers.iter().map(|peer| peer.allowed.len()).sum();
    let listens = config
        .listen
        .map_or_else(|| "connects only".to_owned(), |address| format!("listens on UDP {address}"));
    let found = format!(
        "valid for `oncewire link`: public key {}, {listens}, {} with {}, device {} with an MTU of {} bytes",
        config.secret.public(),
        counted(config.peers.len(), "peer"),
        counted(networks, "network"),
        config.device.name,
        config.device.mtu,
    );
    let routed =
        |address: &IpAddr| config.device.routes.iter().any(|network| network.contains(address));
    let is_routed = |peer: &PeerConfig| match peer.address.as_ref().map(Target::host) {
        Some(Host::Ip(address)) => routed(address),
        _ => false,
    };
    let mut warnings = Vec::new();
    if config.peers.iter().any(is_routed) {
        warnings.push("the address of a peer is in networks that are routed to the device: it needs a route of its own beside the device");
    }
    Ok((found, warnings))
}
