//! Arguments of `node`.

use super::link::{device, listen, networks, parse_device, parse_listen, parse_network, path_mtu};
use super::process::{AdminArgs, LogArgs};
use super::tunnel::{RoleName, file_args};
use super::values::{duration, parsed};
use crate::quantity::{parse_size, parse_time};
use clap::Args;
use oncewire_net::link::{IpNet, LEAST_PATH_MTU, MOST_PATH_MTU, PATH_MTU};
use serde::{Deserialize, Deserializer};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Options of `node`: of the command line, and keys of the configuration file.
/// `docs/examples/node.toml` shows all; a test compares.
#[derive(Clone, Debug, Args, Deserialize)]
#[serde(default)]
#[command(
    override_usage = "\
oncewire node --key <FILE> --topology <FILE> --name <NODE>
                     --manifests <DIR> --listen <ADDRESS> [OPTIONS]
       oncewire node --key <FILE> --topology <FILE> --name <NODE>
                     --controller <KEY@HOST:PORT> --plan-file <FILE>
                     --listen <ADDRESS> [OPTIONS]
       oncewire node --config <FILE>",
    after_help = "\
Examples:
  oncewire plan net.json --manifests-dir plan
  oncewire node --key denver.key --topology net.json --name Denver \\
    --manifests plan --listen 7081 --address 10.3.0.1/32
  oncewire node --key denver.key --topology net.json --name Denver \\
    --controller \"$(cat c.pub)@c.example:7080\" --plan-file denver.plan \\
    --listen 7081 --address 10.3.0.1/32 --memory 6G
  oncewire node --config /etc/oncewire/node.toml

Needs root, or the capability CAP_NET_ADMIN, at nodes with prefixes. The topology is in Oncewire's JSON form; its nodes also have `key` (the \
public key), `address` (host:port, where neighbors reach it) and `prefixes` (the networks behind it). A packet whose source is behind no \
prefix of this node is refused. All nodes need the same topology and network secret: others do not connect. SIGHUP reads the manifests \
again: a new plan, made with `plan --against`, is brought in while packets flow. With --controller, plans come from there; the node keeps the newest in \
--plan-file, and starts and runs with it while the controller is away. docs/NETWORK.md has an example with three nodes."
)]
pub(crate) struct NodeArgs {
    /// Read options from this file (TOML); options on the command line override it
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub(crate) config: Option<PathBuf>,
    /// Secret key of this node, made by `oncewire keygen`
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// Topology of the network, with keys, addresses and prefixes of its nodes
    #[arg(long, value_name = "FILE")]
    pub(crate) topology: Option<PathBuf>,
    /// Which node of the topology this is
    #[arg(long, value_name = "NODE")]
    pub(crate) name: Option<String>,
    /// Directory with the manifests of all nodes, which `oncewire plan --manifests-dir` wrote; read again
    /// on SIGHUP
    #[arg(long, value_name = "DIR")]
    pub(crate) manifests: Option<PathBuf>,
    /// Controller that makes the plans: its public key, and where it listens for nodes. Of several with one
    /// etcd, name all, with commas between them
    #[arg(long, value_name = "KEY@HOST:PORT")]
    pub(crate) controller: Option<String>,
    /// File in which the node keeps the newest plan of its controller; made if missing
    #[arg(long, value_name = "FILE")]
    pub(crate) plan_file: Option<PathBuf>,
    /// Wait for neighbors on this UDP port, [address:]port
    #[arg(long, value_name = "ADDRESS", value_parser = parse_listen)]
    #[serde(deserialize_with = "listen")]
    pub(crate) listen: Option<SocketAddr>,
    /// File with a secret that all nodes of the network share, any bytes. Without it, outsiders can
    /// choose packets that all fall to one node
    #[arg(long, value_name = "FILE")]
    pub(crate) network_secret: Option<PathBuf>,
    /// Memory for packets at most: refuse manifests that need more
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    #[serde(deserialize_with = "memory")]
    pub(crate) memory: Option<u64>,
    /// Packets that it encodes in a second at most; plans of a controller heed it [default: measured at
    /// start]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(crate) encodings: Option<u64>,
    /// Operations that it does in a second at most: packets to cache, matches to decode. Plans of a
    /// controller heed it, and ingresses send it less when there are more [default: measured at start]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(crate) operations: Option<u64>,
    /// Name of the access device, a tun device, which a node with prefixes makes
    #[arg(long, value_name = "NAME", default_value = "oncewire0", value_parser = parse_device)]
    #[serde(deserialize_with = "device")]
    pub(crate) device: String,
    /// Address of this node on the access device, with the length of its network; repeatable
    #[arg(long, value_name = "ADDRESS", value_parser = parse_network)]
    #[serde(deserialize_with = "networks")]
    pub(crate) address: Vec<IpNet>,
    /// Leave routes to the prefixes of other nodes alone, instead of routing them to the device
    #[arg(long)]
    pub(crate) no_routes: bool,
    #[arg(long, value_name = "BYTES", default_value_t = PATH_MTU,
        value_parser = clap::value_parser!(u16).range(i64::from(LEAST_PATH_MTU)..=i64::from(MOST_PATH_MTU)),
        help = format!("MTU of the narrowest path between neighbors, the same at all nodes, {LEAST_PATH_MTU} to {MOST_PATH_MTU}; that of the access device is 81 less"))]
    #[serde(deserialize_with = "path_mtu")]
    pub(crate) path_mtu: u16,
    /// Time between hellos to a neighbor
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "100ms", help_heading = "Timeouts")]
    #[serde(deserialize_with = "duration")]
    pub(crate) keep_alive: Duration,
    /// Silence after which a neighbor is down, and paths go round it if there is a controller; at least
    /// twice --keep-alive
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "600ms", help_heading = "Timeouts")]
    #[serde(deserialize_with = "duration")]
    pub(crate) dead_after: Duration,
    /// Unix socket for `oncewire status --socket`, which also has --json
    #[arg(long, value_name = "PATH", help_heading = "Process")]
    pub(crate) status: Option<PathBuf>,
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) watched: AdminArgs,
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) logging: LogArgs,
}

file_args!(NodeArgs, RoleName::Node, watched, logging);

fn memory<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    parsed(from, parse_size).map(Some)
}
