//! Arguments of `controller`.

use super::process::{AdminArgs, LogArgs};
use super::tunnel::{RoleName, file_args};
use super::values::{duration, parsed, text};
use crate::quantity::{parse_size, parse_time};
use clap::{Args, Subcommand};
use oncewire_net::listener::Bind;
use serde::{Deserialize, Deserializer};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    override_usage = "\
oncewire controller --key <FILE> --topology <FILE>
                           --store <FILE> [OPTIONS]
       oncewire controller --config <FILE>
       oncewire controller <COMMAND>",
    after_help = "\
Examples:
  oncewire controller --key c.key --topology net.json --store net.redb \\
    --listen 7080 --replan 10m
  oncewire controller --config /etc/oncewire/controller.toml
  oncewire controller status
  oncewire controller why Chicago Denver
  oncewire controller drain Denver

Nodes connect to it with `oncewire node --controller KEY@HOST:PORT`, where KEY is its public key. It plans from what they measure: at once when traffic, links or \
nodes change, and every --replan otherwise. A plan is stored before any node gets it. Nodes go on without a controller: it may stop and start at any time. \
The commands print JSON with --json. docs/NETWORK.md has an example with three nodes."
)]
pub(crate) struct ControllerArgs {
    #[command(flatten)]
    pub(crate) run: ControllerRunArgs,
    #[command(subcommand)]
    pub(crate) verb: Option<ControllerVerb>,
}

/// Options of a controller that runs: of the command line, and keys of the configuration file.
/// `docs/examples/controller.toml` shows all; a test compares.
#[derive(Clone, Debug, Args, Deserialize)]
#[serde(default)]
pub(crate) struct ControllerRunArgs {
    /// Read options from this file (TOML); options on the command line override it
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub(crate) config: Option<PathBuf>,
    /// Secret key of the controller, made by `oncewire keygen`
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// Topology of the network, with keys and prefixes of its nodes; the same file as at the nodes
    #[arg(long, value_name = "FILE")]
    pub(crate) topology: Option<PathBuf>,
    /// File that keeps the plan when the controller stops; made if missing. Or
    /// etcd://HOST:PORT[,HOST:PORT]/NETWORK, for several controllers of which one leads, if the program is
    /// built with etcd
    #[arg(long, value_name = "FILE")]
    pub(crate) store: Option<PathBuf>,
    /// Wait for nodes on this TCP port, [bind:]port. * is every address, IPv6 and IPv4
    #[arg(long, value_name = "ADDRESS", default_value = "*:7080")]
    #[serde(deserialize_with = "text")]
    pub(crate) listen: Bind,
    /// Time between plans while traffic stays as it is
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "10m")]
    #[serde(deserialize_with = "duration")]
    pub(crate) replan: Duration,
    /// Time between reports of nodes, 1s or more. When what enters at one differs from what was planned
    /// with by half or more, a plan is made after two of them
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "10s")]
    #[serde(deserialize_with = "duration")]
    pub(crate) interval: Duration,
    /// Memory for packets of nodes that run without --memory
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "256M")]
    #[serde(deserialize_with = "memory")]
    pub(crate) memory: u64,
    /// Unix socket for the commands [default: oncewire-controller.sock in $XDG_RUNTIME_DIR]
    #[arg(long, value_name = "PATH", help_heading = "Process")]
    pub(crate) socket: Option<PathBuf>,
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) watched: AdminArgs,
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) logging: LogArgs,
}

file_args!(ControllerRunArgs, RoleName::Controller, watched, logging);

fn memory<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    parsed(from, parse_size)
}

/// What is asked of a running controller.
#[derive(Debug, Subcommand)]
pub(crate) enum ControllerVerb {
    /// Show the plan, how far it has come, and every node
    #[command(after_help = "\
Examples:
  oncewire controller status
  oncewire controller status --json | jq '.nodes[] | select(.phase != \"done\")'")]
    Status(AskArgs),
    /// Print the plan that is handed out, as JSON, or make one now
    #[command(after_help = "\
Examples:
  oncewire controller plan --json
  oncewire controller plan --now")]
    Plan {
        /// Make a plan now, whether it is needed or not
        #[arg(long)]
        now: bool,
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Explain who caches the packets from one node to another
    #[command(after_help = "\
Examples:
  oncewire controller why Chicago Denver
  oncewire controller why Chicago Denver --json")]
    Why {
        /// Where packets enter
        from: String,
        /// Where they leave
        to: String,
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Empty a node before maintenance: it caches nothing, and paths go round it
    #[command(after_help = "\
Examples:
  oncewire controller drain Denver
  oncewire controller drain Denver --undo

`controller status` says when it is done. Packets to and from networks behind the node still pass. With --json, it prints one JSON document.")]
    Drain {
        /// The node
        node: String,
        /// Use it again
        #[arg(long)]
        undo: bool,
        #[command(flatten)]
        ask: AskArgs,
    },
}

/// How a running controller is asked.
#[derive(Debug, Args)]
pub(crate) struct AskArgs {
    /// The controller's --socket [default: oncewire-controller.sock in $XDG_RUNTIME_DIR, or that of
    /// the systemd unit]
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}
