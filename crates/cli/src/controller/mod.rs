//! `oncewire controller`.

mod ask;
mod map;
mod page;
mod text;

use crate::args::{ControllerArgs, ControllerRunArgs};
use crate::failure::{Failure, Outcome, without_number};
use crate::format::counted;
use crate::node;
use crate::tunnel::{self, Options};
use clap::ArgMatches;
use oncewire_net::NetError;
use oncewire_net::controller::{self, Answer, ControllerConfig, ControllerError, Request, StoreAt};
use oncewire_net::keys::SecretKey;
use oncewire_net::node::RunningNetwork;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Least time between plans, and between reports.
const LEAST: Duration = Duration::from_secs(1);

pub(crate) fn run(args: &ControllerArgs, given: &ArgMatches) -> Outcome {
    match &args.verb {
        Some(verb) => ask::run(verb),
        None => serve(&Options::read(given)?),
    }
}

/// What `check-config` found in the file, and why that will not work although it is valid.
pub(crate) fn describe(file: &Path) -> Outcome<(String, Vec<&'static str>)> {
    let ControllerConfig { secret, network, listen, .. } = config(&Options::of_file(file)?)?;
    let nodes = counted(network.map().nodes.len() as u64, "node");
    let found = format!(
        "valid for `oncewire controller`: public key {}, listens on TCP {listen}, network {} with {nodes}",
        secret.public(),
        network.map().name,
    );
    let ends = network.ends().iter().filter(|is_end| **is_end).count();
    let few = "fewer than two nodes have prefixes in the topology: there are no paths to plan";
    Ok((found, if ends < 2 { vec![few] } else { Vec::new() }))
}

/// Where operators ask, unless they say otherwise.
fn socket() -> Option<PathBuf> {
    crate::status::runtime_dir().map(|dir| dir.join("oncewire-controller.sock"))
}

fn serve(options: &Options<ControllerRunArgs>) -> Outcome {
    let (config, args) = (config(options)?, &options.args);
    let admin = tunnel::plain_admin(options, &args.watched)?;
    let socket = args.socket.clone().or_else(socket);
    let log = tunnel::start_log(&args.logging, false);
    if socket.is_none() {
        tracing::warn!("no socket for operators: pass --socket PATH, or set $XDG_RUNTIME_DIR");
    }
    let (key, network) = (config.secret.public(), config.network.map().name.clone());
    let ended = controller::run(
        config,
        socket.as_deref(),
        (admin, page::site()),
        |line| serde_json::from_slice::<Request>(line).map_err(|error| error.to_string()),
        |answer: &Answer| serde_json::to_string(answer).unwrap_or_default() + "\n",
        |address| tracing::info!(%address, %key, network, "started"),
    );
    log.flush();
    ended.map_err(|error| {
        let hint = match &error {
            ControllerError::Net(NetError::Listen { .. }) => {
                "; choose another --listen or --socket, or stop the process that uses this one"
            }
            ControllerError::NoKeys | ControllerError::OtherNetwork { .. } => {
                return Failure::usage(error.to_string());
            }
            _ => "",
        };
        Failure::failed(without_number(&error) + hint)
    })
}

fn config(options: &Options<ControllerRunArgs>) -> Outcome<ControllerConfig> {
    let args = &options.args;
    let key = args.key.as_ref().ok_or_else(|| {
        options.missing("no key: make one with `oncewire keygen FILE` and pass --key FILE")
    })?;
    let topology = args.topology.as_ref().ok_or_else(|| {
        options.missing("no topology: pass the file that the nodes have, --topology FILE")
    })?;
    let store = args.store.clone().ok_or_else(|| {
        options.missing("no store: name a file that keeps the plan, --store FILE")
    })?;
    let store = StoreAt::parse(&store)
        .map_err(|why| options.wrong("store", format!("store {}: {why}", store.display())))?;
    for (key, time) in [("replan", args.replan), ("interval", args.interval)] {
        if time < LEAST {
            return Err(options.wrong(key, format!("{key}: use at least 1s")));
        }
    }
    let secret =
        SecretKey::load(key).map_err(|error| options.blame("key", tunnel::key_failure(&error)))?;
    let network = node::text(topology).map_err(|failure| options.blame("topology", failure))?;
    let network = RunningNetwork::parse(&network)
        .map_err(|error| options.blame("topology", node::about(topology, &error)))?;
    Ok(ControllerConfig {
        secret,
        network,
        listen: args.listen.clone(),
        store,
        replan: args.replan,
        report: args.interval,
        memory: args.memory,
        agent: concat!("oncewire ", env!("CARGO_PKG_VERSION")).into(),
    })
}
