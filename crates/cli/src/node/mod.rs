//! `oncewire node`.

use crate::args::NodeArgs;
use crate::failure::{Failure, Outcome, note, without_number};
use crate::quantity::time;
use crate::tunnel;
use oncewire_net::keys::SecretKey;
use oncewire_net::link::{LinkError, Timing};
use oncewire_net::node::{
    Manifests, MemberConfig, NodeConfig, NodeError, RunningNetwork, SetupError, saved_plan,
};
use oncewire_net::status::NodeStatus;
use oncewire_net::{NetError, daemon};
use oncewire_plan::manifest::{DeviceManifest, IngressManifest, MAX_DOCUMENT};
use std::fs;
use std::path::Path;

/// Most bytes of a network secret.
const MOST_SECRET: u64 = 1 << 20;

pub(crate) fn run(args: &NodeArgs) -> Outcome {
    let config = config(args)?;
    let log = tunnel::start_log(&args.logging, false);
    let ready = |status: &NodeStatus| {
        let NodeStatus { name, plan_version, hops, .. } = status;
        tracing::info!(name, address = %hops.address, plan = plan_version, neighbors = hops.peers.len(), "started");
    };
    let ended = daemon::run_node(
        config,
        args.status.as_deref(),
        |status| crate::status::text::render(status),
        || match &args.manifests {
            Some(directory) => manifests(directory).map_err(|failure| failure.to_string()),
            None => Err("plans come from the controller".into()),
        },
        ready,
    );
    log.flush();
    ended.map_err(|error| {
        let hint = match &error {
            NodeError::Setup(_) | NodeError::Key { .. } | NodeError::Alone(_) => {
                return Failure::usage(error.to_string());
            }
            NodeError::Link(LinkError::Device { source, .. })
                if source.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                "; run it as root, or give it the capability CAP_NET_ADMIN"
            }
            NodeError::Link(LinkError::Port { .. }) => {
                "; choose another port, or stop the process that uses it"
            }
            NodeError::Link(LinkError::Net(NetError::Listen { .. })) => {
                "; choose another --status, or stop the process that uses this one"
            }
            _ => "",
        };
        Failure::failed(without_number(&error) + hint)
    })
}

fn config(args: &NodeArgs) -> Outcome<NodeConfig> {
    if args.keep_alive.is_zero() || args.dead_after < 2 * args.keep_alive {
        return Err(Failure::usage(format!(
            "keep-alive {} and dead-after {}: dead-after must be at least twice keep-alive",
            time(args.keep_alive),
            time(args.dead_after)
        )));
    }
    let secret = SecretKey::load(&args.key).map_err(|error| tunnel::key_failure(&error))?;
    let network = RunningNetwork::parse(&text(&args.topology)?)
        .map_err(|error| about(&args.topology, &error))?;
    let network_secret = match &args.network_secret {
        Some(file) => {
            let failed = |error| Failure::io("read", file.display(), &error);
            if fs::metadata(file).map_err(failed)?.len() > MOST_SECRET {
                return Err(Failure::usage(format!("{}: more than 1 MiB", file.display())));
            }
            fs::read(file).map_err(failed)?
        }
        None => Vec::new(),
    };
    let timing =
        Timing { keep_alive: args.keep_alive, silence: args.dead_after, ..Timing::default() };
    let controller = controller(args)?;
    let manifests = match (&args.manifests, &controller) {
        (Some(directory), _) => manifests(directory)?,
        (None, Some(controller)) => saved(&controller.plan),
        (None, None) => Manifests::default(),
    };
    Ok(NodeConfig {
        secret,
        network,
        name: args.name.clone(),
        manifests,
        network_secret,
        listen: args.listen,
        path_mtu: args.path_mtu,
        memory: args.memory,
        device: args.device.clone(),
        addresses: args.address.clone(),
        routes: !args.no_routes,
        timing,
        agent: concat!("oncewire ", env!("CARGO_PKG_VERSION")).into(),
        controller,
    })
}

/// Share of a node's memory for packets that it measures with, beside that, and its bounds in bytes.
const MEASURE: (u64, u64, u64) = (8, 1 << 20, 256 << 20);

fn controller(args: &NodeArgs) -> Outcome<Option<MemberConfig>> {
    let (Some(text), Some(plan)) = (&args.controller, &args.plan_file) else { return Ok(None) };
    let wrong = |why: &dyn std::fmt::Display| {
        Failure::usage(format!("--controller {text}: {why}; write KEY@HOST:PORT"))
    };
    let (key, address) = text.split_once('@').ok_or_else(|| wrong(&"it has no @"))?;
    let (share, least, most) = MEASURE;
    Ok(Some(MemberConfig {
        key: key.trim().parse().map_err(|error| wrong(&error))?,
        address: address.parse().map_err(|error| wrong(&error))?,
        plan: plan.clone(),
        measure: (args.memory.unwrap_or(most) / share).clamp(least, most),
    }))
}

/// The plan that the node saved. Without one that can be used, packets wait for the controller's.
fn saved(path: &Path) -> Manifests {
    match saved_plan(path) {
        Ok(plan) => plan.unwrap_or_default(),
        Err(error) => {
            note(&format!("{error}; the controller will send another plan"));
            Manifests::default()
        }
    }
}

/// The manifests in a directory: all files that end in `.json`.
fn manifests(directory: &Path) -> Outcome<Manifests> {
    let failed = |error| Failure::io("read the directory", directory.display(), &error);
    let (mut devices, mut ingresses) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !name.ends_with(".json") {
            continue;
        }
        if name.starts_with("device-") {
            let manifest = DeviceManifest::from_json(&text(&path)?);
            devices.push(manifest.map_err(|error| about(&path, &error))?);
        } else if name.starts_with("ingress-") {
            let manifest = IngressManifest::from_json(&text(&path)?);
            ingresses.push(manifest.map_err(|error| about(&path, &error))?);
        }
    }
    if devices.is_empty() || ingresses.is_empty() {
        return Err(Failure::usage(format!(
            "--manifests {}: no manifests in it; `oncewire plan TOPOLOGY --manifests-dir DIR` writes them",
            directory.display()
        )));
    }
    Manifests::new(devices, ingresses).map_err(|error: SetupError| about(directory, &error))
}

pub(crate) fn about(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::usage(format!("{}: {error}", path.display()))
}

pub(crate) fn text(path: &Path) -> Outcome<String> {
    let failed = |error| Failure::io("read", path.display(), &error);
    if fs::metadata(path).map_err(failed)?.len() > MAX_DOCUMENT as u64 {
        return Err(Failure::usage(format!("{}: too long", path.display())));
    }
    fs::read_to_string(path).map_err(failed)
}
