//! The command line: what was asked for, as it was written. Nothing is opened or resolved here.

// Doc comments are help here, where [bind:]port is no link.
#![allow(rustdoc::broken_intra_doc_links)]

pub(crate) mod admin;
mod bench;
#[cfg(target_os = "linux")]
mod controller;
mod enroll;
mod https;
pub(crate) mod index;
#[cfg(target_os = "linux")]
mod link;
mod man;
#[cfg(target_os = "linux")]
mod node;
mod pack;
pub(crate) mod plan;
pub(crate) mod process;
pub(crate) mod profile;
mod report;
pub(crate) mod route;
mod status;
pub(crate) mod store;
mod study;
#[cfg(test)]
mod tests;
pub(crate) mod tunnel;
mod values;

use crate::family::{EntropyName, SamplerName, sampler_list};
pub(crate) use bench::{BenchArgs, MatcherName, TrainArgs};
use clap::{Args, Parser, Subcommand, ValueEnum};
#[cfg(target_os = "linux")]
pub(crate) use controller::{AskArgs, ControllerArgs, ControllerRunArgs, ControllerVerb};
pub(crate) use enroll::{EnrollArgs, InviteArgs};
pub(crate) use https::{CaArgs, OriginArgs, TerminateArgs};
#[cfg(target_os = "linux")]
pub(crate) use link::{LinkArgs, MatchName, PeerArgs, parse_network};
pub(crate) use man::{CompletionsArgs, ManArgs};
#[cfg(target_os = "linux")]
pub(crate) use node::NodeArgs;
use oncewire_codec::{DEFAULT_PERIOD, DEFAULT_WINDOW, Entropy};
pub(crate) use pack::{DemoArgs, PackArgs, PackStoreArgs, UnpackArgs};
pub(crate) use report::ReportArgs;
use serde::Deserialize;
pub(crate) use status::{StatusArgs, TopArgs};
use std::error::Error;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};
pub(crate) use store::StoreCommandArgs;
pub(crate) use study::StudyArgs;
pub(crate) use tunnel::{
    CheckConfigArgs, ConnectArgs, FileArgs, KeygenArgs, RoleName, ServeArgs, TunnelArgs,
};

/// The keys of a `[[peer]]` table of a link.
#[cfg(target_os = "linux")]
const PEER_KEYS: [&str; 4] = ["name", "key", "address", "allowed"];

/// Every byte crosses the wire once.
///
/// Oncewire removes repeated bytes from network traffic. Both ends of a link keep a copy of recent
/// traffic; when bytes repeat, Oncewire sends a short reference instead.
#[derive(Debug, Parser)]
#[command(
    name = "oncewire",
    version,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = "\
Exit status: 0 done; 1 failed (disk full, file missing); 2 wrong options, configuration or output names; 3 corrupt input; 130 interrupted, the result is partial.

Sizes: 64K and 64KiB are 65,536 bytes, 64KB is 64,000 bytes. Fractions (1.5G) and a space before the unit are fine."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Try it: send versions of files through a tunnel on loopback
    ///
    /// Three clients download and upload the files through one tunnel between two sites, all on
    /// this machine. Prints how many bytes crossed the tunnel, beside what gzip, zstd and ssh -C
    /// would send.
    Demo(DemoArgs),
    /// Make a key pair; print the public key for the other end
    Keygen(KeygenArgs),
    /// Make a CA, so that `connect` can open HTTPS of named services
    ///
    /// Writes its private key and its certificate, and prints how to install the certificate.
    Ca(CaArgs),
    /// Make a token with which one branch joins this hub
    ///
    /// `serve --invitations DIR` accepts it once, and authorizes the key that comes with it.
    Invite(InviteArgs),
    /// Join a hub with a token from `oncewire invite`
    ///
    /// Makes a key if there is none, has the hub authorize it, and prints how to connect.
    Enroll(EnrollArgs),
    /// Run the server end of a tunnel, near the servers
    Serve(Box<ServeArgs>),
    /// Run the client end of a tunnel, near the clients
    Connect(Box<ConnectArgs>),
    /// Carry all IP packets between sites, encrypted and in fewer bytes (Linux)
    ///
    /// TCP, UDP and anything else, IPv4 and IPv6, over paths that lose and reorder. `serve` and
    /// `connect` carry TCP connections only, and find more in them.
    #[cfg(target_os = "linux")]
    Link(Box<LinkArgs>),
    /// Run a node of a network, as a plan says
    ///
    /// Encodes packets that enter here against what nodes on their path have, caches and decodes what
    /// passes, and delivers what leaves.
    #[cfg(target_os = "linux")]
    Node(Box<NodeArgs>),
    /// Run the controller of a network, or ask a running one
    ///
    /// Plans from what nodes measure, and brings plans out to them while packets flow.
    #[cfg(target_os = "linux")]
    Controller(Box<ControllerArgs>),
    /// Show what a running `serve`, `connect`, `link` or `node` does
    Status(StatusArgs),
    /// Watch what running processes do, live
    ///
    /// Rates, savings, flows, caches and delays of each peer, in a terminal of 80 columns or more.
    Top(TopArgs),
    /// Report what running processes carried and saved, by day and peer, and in money
    ///
    /// From the history that `serve`, `connect` and `link` record with --history. As text, JSON, or
    /// a page for browsers.
    Report(ReportArgs),
    /// Look at the caches on disk of `serve` and `connect`: list, check, delete
    Store(StoreCommandArgs),
    /// Check a configuration file without starting anything
    CheckConfig(CheckConfigArgs),
    /// Compress a file or a stream
    Pack(PackArgs),
    /// Restore what `pack` compressed
    Unpack(UnpackArgs),
    /// Measure savings and speed on your files, beside other tools
    ///
    /// lz4, zstd and gzip get the same blocks. Every result is decoded and compared.
    Bench(Box<BenchArgs>),
    /// Analyze packet captures: what repeats, what you would save
    ///
    /// Opens with a recommendation of what to deploy, accounts for every packet, and draws up to 16
    /// figures.
    Study(Box<StudyArgs>),
    /// Plan redundancy elimination for a whole network
    ///
    /// Decides which device caches and decodes which share of each path's packets, and shows what
    /// that saves.
    Plan(Box<plan::PlanArgs>),
    /// Send packets through a planned network, and check every one
    ///
    /// Runs the real codec at every device, and compares what leaves the network with what entered
    /// it.
    Emulate(Box<plan::EmulateArgs>),
    /// Count which bytes of a capture go to which egresses, for `route`
    ///
    /// Interval by interval: what repeats, how many egresses have it, and whether routes still suit
    /// it.
    Profile(Box<profile::ProfileArgs>),
    /// Compute routes that put equal bytes on the same links
    ///
    /// Where links eliminate redundancy, a link carries what several egresses share once. Routes
    /// that bring such egresses together save more than shortest paths do. Prints how much, with a
    /// bound that no routes beat.
    Route(Box<route::RouteArgs>),
    /// Size and measure an index of small keys on a flash disk
    Index(index::IndexArgs),
    /// Make a table of marker bytes for --sampler samplebyte:FILE
    Train(TrainArgs),
    /// Write manual pages
    Man(ManArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
}

/// The codec's parameters.
#[derive(Clone, Debug, Args, Deserialize)]
#[serde(default)]
pub(crate) struct CodecArgs {
    /// Fingerprint window in bytes, 12 to 64: the shortest repeat that is found
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_WINDOW)]
    pub(crate) window: usize,
    /// Sampling period in bytes, 4 to 1024: one fingerprint is kept per this many bytes. Smaller
    /// finds shorter repeats but takes more time and memory
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_PERIOD)]
    pub(crate) period: usize,
    #[arg(long, value_name = "NAME", default_value = "samplehash", help = format!(
        "Sampler, which chooses the positions to fingerprint: {}. `oncewire train` makes the FILE",
        sampler_list()
    ))]
    #[serde(deserialize_with = "values::text")]
    pub(crate) sampler: SamplerName,
    /// Entropy stage, for bytes that do not repeat: none (fastest, for a link that compresses
    /// anyway), lz4 (each frame on its own), coded (smallest: short repeats and Huffman codes that
    /// stay from frame to frame), or coded-1 to coded-3
    #[arg(long, value_name = "STAGE", default_value = "coded")]
    #[serde(deserialize_with = "values::text")]
    pub(crate) entropy: EntropyName,
    #[arg(long, value_name = "N", help = level_help())]
    pub(crate) level: Option<i32>,
}

/// Whether to look inside compressed content, for commands that are not a tunnel.
#[derive(Clone, Debug, Args)]
pub(crate) struct InsideArgs {
    /// Whether to find repeats inside gzip, zlib, zip, PNG and zstd. Takes a seventh of the cache's
    /// size and 20 MB of memory, and time where there is such content. Needs the entropy stage coded
    /// [default: on]
    #[arg(long, value_name = "WHEN")]
    inside: Option<Switch>,
}

impl InsideArgs {
    pub(crate) fn looks_inside(&self) -> bool {
        self.inside != Some(Switch::Off)
    }

    /// Whether it was asked for.
    pub(crate) fn is_on(&self) -> bool {
        self.inside == Some(Switch::On)
    }
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

fn level_help() -> String {
    let Entropy::Coded { level } = Entropy::DEFAULT else { unreachable!("coded is the default") };
    format!(
        "How hard the stage coded seeks short repeats, 1 to 3; same as --entropy coded-N [default: {level}]"
    )
}

/// For what a tunnel sends.
fn level_of_tunnel(level: clap::Arg) -> clap::Arg {
    let help = level_help();
    let default = help.trim_end_matches(']');
    level.help(format!("{default}, and 1 while this end is slower than its link]"))
}

/// The command, except that an option takes a value such as `-5` as one: the error then says which
/// values it can have.
pub(crate) fn with_negative_values(command: clap::Command) -> clap::Command {
    command
        .mut_args(|arg| {
            let takes_value = !arg.is_positional() && arg.get_action().takes_values();
            if takes_value { arg.allow_negative_numbers(true) } else { arg }
        })
        .mut_subcommands(with_negative_values)
}

/// What is wrong with the arguments. The words for numbers are ours: those of the standard library
/// and of clap are for programmers.
pub(crate) fn wording(error: &clap::Error) -> String {
    let text = error.to_string();
    // A value that begins with a hyphen is hardly ever what was meant.
    let paragraphs: Vec<&str> =
        text.split("\n\n").filter(|part| !part.starts_with("  tip: to pass '")).collect();
    let text = paragraphs.join("\n\n");
    let Some(source) = error.source() else { return text };
    let theirs = source.to_string();
    let ours = match (source.downcast_ref::<ParseIntError>().map(ParseIntError::kind), &*theirs) {
        (Some(IntErrorKind::PosOverflow | IntErrorKind::NegOverflow), _) => {
            "out of range".to_owned()
        }
        (Some(IntErrorKind::Zero), _) => "write 1 or more".to_owned(),
        (Some(_), _) => "not a whole number".to_owned(),
        (None, _) if source.is::<ParseFloatError>() => "not a number".to_owned(),
        (None, theirs) => match theirs.split_once(" is not in ") {
            Some((_, range)) => match range.split_once("..") {
                Some((least, "")) => format!("write {least} or more"),
                Some((least, most)) => {
                    format!("write {least} to {}", most.trim_start_matches('='))
                }
                None => return text,
            },
            None => return text,
        },
    };
    text.replacen(&format!(": {theirs}"), &format!(": {ours}"), 1)
}
