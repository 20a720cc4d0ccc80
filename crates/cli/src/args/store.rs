//! Options of `serve` and `connect` about caches on disk, and arguments of `store`.

use super::values::{choice, groups, parsed};
use crate::quantity::{parse_day, parse_size, size};
use clap::{Args, Subcommand, ValueEnum};
use oncewire_session::StoreFor;
use serde::Deserialize;
use std::path::PathBuf;

/// Default of [`StoreArgs::store_size`].
const STORE_SIZE: u64 = 20 << 30;

/// Options of both ends of a tunnel about caches on disk.
#[derive(Clone, Debug, Args, Deserialize)]
#[serde(default)]
pub(crate) struct StoreArgs {
    /// Keep content caches in this directory, too, so that they survive a restart. Nobody else may
    /// use it; made if missing
    #[arg(long, value_name = "DIR", help_heading = "Caches on disk")]
    pub(crate) store: Option<PathBuf>,
    /// Space that all caches on disk may take
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = size(STORE_SIZE), help_heading = "Caches on disk")]
    #[serde(deserialize_with = "some_size")]
    pub(crate) store_size: u64,
    /// Content of each peer to keep on disk, half for each direction, if that is more than memory
    /// holds. Both ends need it [default: what memory holds]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Caches on disk")]
    #[serde(deserialize_with = "maybe_size")]
    pub(crate) store_per_peer: Option<u64>,
    /// Most that is written to the disk of caches in 24 hours, such as 300G/day; content beyond is
    /// not kept on disk [default: no limit]
    #[arg(long, value_name = "SIZE/day", value_parser = parse_day, help_heading = "Caches on disk")]
    #[serde(deserialize_with = "maybe_day")]
    pub(crate) store_writes: Option<u64>,
    /// What caches on disk that hold more than memory are for. Each end decides for what it sends
    #[arg(long, value_enum, value_name = "GOAL", default_value_t = StoreGoal::Time, help_heading = "Caches on disk")]
    #[serde(deserialize_with = "choice")]
    pub(crate) store_for: StoreGoal,
    /// Encrypt caches on disk with the secret in this file, 32 bytes or more [default: the key of
    /// this end]
    #[arg(long, value_name = "FILE", help_heading = "Caches on disk")]
    pub(crate) store_key: Option<PathBuf>,
    /// Do not encrypt caches on disk
    #[arg(long, help_heading = "Caches on disk")]
    pub(crate) store_plain: bool,
}

groups!(StoreArgs);

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreGoal {
    /// Save bytes where reading them from disk is not slower than sending them
    Time,
    /// Save bytes, however slow the disk is
    Bytes,
}

impl From<StoreGoal> for StoreFor {
    fn from(goal: StoreGoal) -> StoreFor {
        match goal {
            StoreGoal::Time => StoreFor::Time,
            StoreGoal::Bytes => StoreFor::Bytes,
        }
    }
}

fn maybe_size<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    parsed(from, parse_size).map(Some)
}

fn maybe_day<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    parsed(from, parse_day).map(Some)
}

fn some_size<'de, D: serde::Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    parsed(from, parse_size)
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire store show /var/lib/oncewire/cache
  oncewire store check /var/lib/oncewire/cache --key a.key
  oncewire store forget /var/lib/oncewire/cache 3f9a

The directory is that of --store of `serve`, `connect`, `pack` or `unpack`. With --json, each prints one JSON document. How much a cache holds is encrypted, too: name the end's key with --key, or the \
file of --store-key.")]
pub(crate) struct StoreCommandArgs {
    #[command(subcommand)]
    pub(crate) command: StoreCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// List the caches in a directory: whose, how large, how old
    Show(ShowArgs),
    /// Read everything in a directory and report what is damaged
    Check(ShowArgs),
    /// Delete a cache, beginning with its key
    Forget(ForgetArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Directory of the caches
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) secret: SecretArgs,
    /// Print one JSON document instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

/// What caches are encrypted with.
#[derive(Debug, Args)]
pub(crate) struct SecretArgs {
    /// Secret key of the end that wrote them
    #[arg(long, value_name = "FILE", conflicts_with = "store_key")]
    pub(crate) key: Option<PathBuf>,
    /// The file of its --store-key
    #[arg(long, value_name = "FILE")]
    pub(crate) store_key: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ForgetArgs {
    /// Directory of the caches
    pub(crate) dir: PathBuf,
    /// Id of the cache, as `show` prints it, or its first digits
    pub(crate) id: String,
    /// Print one JSON document instead of the line
    #[arg(long)]
    pub(crate) json: bool,
}
