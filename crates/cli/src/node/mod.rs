//! `oncewire node`.

mod page;

use crate::args::NodeArgs;
use crate::failure::{Failure, Outcome, note, without_number};
use crate::format::counted;
use crate::quantity::time;
use crate::tunnel::{self, Options};
use clap::ArgMatches;
use oncewire_net::keys::SecretKey;
use oncewire_net::link::{LinkError, Timing};
use oncewire_net::node::{
    Manifests, MemberConfig, NodeConfig, NodeError, RunningNetwork, SetupError, measure_speeds,
    saved_plan,
};
use oncewire_net::status::NodeStatus;
use oncewire_net::{NetError, daemon};
use oncewire_plan::manifest::{DeviceManifest, IngressManifest, MAX_DOCUMENT, NodePart};
use std::fs;
use std::path::Path;

/// Most bytes of a network secret.
const MOST_SECRET: u64 = 1 << 20;

pub(crate) fn run(given: &ArgMatches) -> Outcome {
    let options = Options::<NodeArgs>::read(given)?;
    let mut config = config(&options)?;
    measure(&mut config);
    let args = &options.args;
    let admin = tunnel::plain_admin(&options, &args.watched)?;
    let log = tunnel::start_log(&args.logging, false);
    let ready = |status: &NodeStatus| {
        let NodeStatus { name, plan_version, hops, .. } = status;
        tracing::info!(name, address = %hops.address, plan = plan_version, neighbors = hops.peers.len(), "started");
    };
    let ended = daemon::run_node(
        config,
        args.status.as_deref(),
        (admin, page::site()),
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

/// What `check-config` found in the file, and why that will not work although it is valid.
pub(crate) fn describe(file: &Path) -> Outcome<(String, Vec<&'static str>)> {
    let NodeConfig { secret, network, name, manifests, listen, addresses, controller, .. } =
        config(&Options::of_file(file)?)?;
    let fits = network.check(&name, &secret.public());
    fits.map_err(|error| about(file, &error))?;
    let plan = match &controller {
        Some(controller) => {
            let at: Vec<String> =
                controller.controllers.iter().map(|(_, address)| address.to_string()).collect();
            format!("plans of the controller at {}", at.join(" or "))
        }
        None => format!("plan {}", manifests.version()),
    };
    let neighbors = network.node(&name).map(|node| network.neighbors(node).len());
    let found = format!(
        "valid for `oncewire node`: {name} of network {} with {}, public key {}, listens on UDP {listen}, {plan}",
        network.map().name,
        counted(neighbors.unwrap_or(0) as u64, "neighbor"),
        secret.public(),
    );
    let has_prefixes = network.node(&name).is_ok_and(|node| network.ends()[node]);
    let none = "the node has prefixes, but no `address` on the access device: this machine itself cannot use the network, hosts behind it can";
    Ok((found, if has_prefixes && addresses.is_empty() { vec![none] } else { Vec::new() }))
}

fn config(options: &Options<NodeArgs>) -> Outcome<NodeConfig> {
    let args = &options.args;
    let missing = |what: &str| options.missing(what);
    let key = args.key.as_ref().ok_or_else(|| {
        missing("no key: make one with `oncewire keygen FILE` and pass --key FILE")
    })?;
    let topology = args.topology.as_ref().ok_or_else(|| {
        missing("no topology: pass the file that all nodes have, --topology FILE")
    })?;
    let name = args
        .name
        .clone()
        .ok_or_else(|| missing("no name: say which node of the topology this is, --name NODE"))?;
    let listen = args
        .listen
        .ok_or_else(|| missing("no port: say where neighbors reach this node, --listen PORT"))?;
    if args.keep_alive.is_zero() || args.dead_after < 2 * args.keep_alive {
        let why = format!(
            "keep-alive {} and dead-after {}: dead-after must be at least twice keep-alive",
            time(args.keep_alive),
            time(args.dead_after)
        );
        let set = |key: &&str| options.is_flag(key) || options.is_of_file(key);
        let key = ["dead_after", "keep_alive"].into_iter().find(set);
        return Err(options.wrong(key.unwrap_or("dead_after"), why));
    }
    let secret =
        SecretKey::load(key).map_err(|error| options.blame("key", tunnel::key_failure(&error)))?;
    let network = text(topology).map_err(|failure| options.blame("topology", failure))?;
    let network = RunningNetwork::parse(&network)
        .map_err(|error| options.blame("topology", about(topology, &error)))?;
    let network_secret = match &args.network_secret {
        Some(file) => {
            network_secret(file).map_err(|error| options.blame("network_secret", error))?
        }
        None => Vec::new(),
    };
    let timing =
        Timing { keep_alive: args.keep_alive, silence: args.dead_after, ..Timing::default() };
    let controller = controller(options)?;
    let (manifests, saved) = match (&args.manifests, &controller) {
        (Some(directory), None) => {
            (manifests(directory).map_err(|failure| options.blame("manifests", failure))?, None)
        }
        (None, Some(controller)) => (Manifests::default(), saved(&controller.plan)),
        (Some(_), Some(_)) => {
            let why = "plans come from a controller or from files: give a controller or manifests, not both";
            return Err(options.wrong("manifests", why));
        }
        (None, None) => {
            return Err(missing(
                "no plans: pass --controller KEY@HOST:PORT and --plan-file FILE, or --manifests DIR",
            ));
        }
    };
    Ok(NodeConfig {
        secret,
        network,
        name,
        manifests,
        saved,
        network_secret,
        listen,
        path_mtu: args.path_mtu,
        memory: args.memory,
        encodings: args.encodings,
        operations: args.operations,
        device: args.device.clone(),
        addresses: args.address.clone(),
        routes: !args.no_routes,
        timing,
        agent: concat!("oncewire ", env!("CARGO_PKG_VERSION")).into(),
        controller,
    })
}

/// What was not given is measured.
fn measure(config: &mut NodeConfig) {
    if (config.encodings.is_none() || config.operations.is_none())
        && let Some(speeds) = measure_speeds()
    {
        config.encodings.get_or_insert(speeds.encodings as u64);
        config.operations.get_or_insert(speeds.operations as u64);
    }
}

/// Share of a node's memory for packets that it measures with, beside that, and its bounds in bytes.
const MEASURE: (u64, u64, u64) = (8, 1 << 20, 256 << 20);

fn network_secret(file: &Path) -> Outcome<Vec<u8>> {
    let failed = |error| Failure::io("read", file.display(), &error);
    if fs::metadata(file).map_err(failed)?.len() > MOST_SECRET {
        return Err(Failure::usage(format!("{}: more than 1 MiB", file.display())));
    }
    fs::read(file).map_err(failed)
}

fn controller(options: &Options<NodeArgs>) -> Outcome<Option<MemberConfig>> {
    let args = &options.args;
    let (text, plan) = match (&args.controller, &args.plan_file) {
        (Some(text), Some(plan)) => (text, plan),
        (None, None) => return Ok(None),
        (Some(_), None) => {
            let why = "a controller's plan needs a file that keeps it: pass --plan-file FILE";
            return Err(options.wrong("controller", why));
        }
        (None, Some(_)) => {
            let why = "the plan file is for plans of a controller: pass --controller KEY@HOST:PORT";
            return Err(options.wrong("plan_file", why));
        }
    };
    let wrong = |why: &dyn std::fmt::Display| {
        options.wrong("controller", format!("controller {text}: {why}; write KEY@HOST:PORT"))
    };
    let one = |text: &str| {
        let (key, address) = text.split_once('@').ok_or_else(|| wrong(&"it has no @"))?;
        let key = key.trim().parse().map_err(|error| wrong(&error))?;
        Ok((key, address.trim().parse().map_err(|error| wrong(&error))?))
    };
    let (share, least, most) = MEASURE;
    Ok(Some(MemberConfig {
        controllers: text.split(',').map(one).collect::<Outcome<_>>()?,
        plan: plan.clone(),
        measure: (args.memory.unwrap_or(most) / share).clamp(least, most),
    }))
}

/// The plan that the node saved. Without one that can be used, packets wait for the controller's.
fn saved(path: &Path) -> Option<NodePart> {
    match saved_plan(path) {
        Ok(part) => part,
        Err(error) => {
            note(&format!("{error}; the controller will send another plan"));
            None
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
