//! `oncewire link`.

mod document;

pub(crate) use document::show;

use crate::args::LinkArgs;
use crate::failure::{Failure, Outcome, without_number};
use crate::quantity::time;
use crate::tunnel;
use oncewire_net::NetError;
use oncewire_net::daemon;
use oncewire_net::keys::{Peer, SecretKey};
use oncewire_net::link::{
    DeviceConfig, LinkConfig, LinkError, LinkStatus, Matching, PeerConfig, Policy, Sharing, Timing,
    device_mtu, largest_datagram,
};
use std::time::Duration;

pub(crate) fn run(args: &LinkArgs) -> Outcome {
    let config = config(args)?;
    let status = args
        .status
        .clone()
        .or_else(|| tunnel::runtime_dir().map(|dir| dir.join("oncewire-link.sock")));
    let log = tunnel::start_log(args.log.into(), args.log_json);
    let ready = |status: &LinkStatus| {
        tracing::info!(address = %status.address, device = status.device, mtu = status.mtu, key = %status.key, "started");
    };
    let ended = daemon::run_link(config, status.as_deref(), document::render, ready);
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
                "; choose another --status, or stop the process that uses this one"
            }
            _ => "",
        };
        Failure::failed(without_number(&error) + hint)
    })
}

/// Least time between probes, and least age of keys.
const LEAST: Duration = Duration::from_millis(100);

fn timing(args: &LinkArgs) -> Outcome<Timing> {
    let (keep_alive, silence, renewal) = (args.keep_alive, args.dead_after, args.renew_keys);
    if keep_alive < LEAST || renewal < LEAST || silence < 2 * keep_alive {
        return Err(Failure::usage(format!(
            "keep-alive {}, dead-after {} and renew-keys {}: each must be at least {}, and dead-after at least twice keep-alive",
            time(keep_alive),
            time(silence),
            time(renewal),
            time(LEAST)
        )));
    }
    Ok(Timing { keep_alive, silence, renewal, ..Timing::default() })
}

fn config(args: &LinkArgs) -> Outcome<LinkConfig> {
    let secret = SecretKey::load(&args.key).map_err(|error| tunnel::key_failure(&error))?;
    // What stands in the place of a key may be a secret: it is not quoted.
    let peer: Peer =
        args.peer.parse().map_err(|error| Failure::usage(format!("--peer: {error}")))?;
    let largest_datagram = largest_datagram(args.path_mtu);
    let routes = match args.routes {
        crate::args::Switch::On => args.allowed.clone(),
        crate::args::Switch::Off => Vec::new(),
    };
    Ok(LinkConfig {
        secret,
        listen: args.listen,
        peers: vec![PeerConfig {
            peer,
            address: args.server.clone(),
            allowed: args.allowed.clone(),
        }],
        matching: Matching { cache: 0, policy: Policy::Acked, sharing: Sharing::None },
        largest_datagram,
        device: DeviceConfig {
            name: args.device.clone(),
            addresses: args.address.clone(),
            mtu: device_mtu(largest_datagram),
            routes,
        },
        timing: timing(args)?,
        agent: concat!("oncewire ", env!("CARGO_PKG_VERSION")).into(),
    })
}
