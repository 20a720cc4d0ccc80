//! Arguments of `pack`, `unpack` and `demo`.

use super::{CodecArgs, InsideArgs};
use crate::defaults::DEMO_MEMORY;
use crate::pack::{FormatName, MAX_DEFAULT_CACHE, MOST_THREADS};
use crate::pack_store::{DEFAULT_SIZE, PointName};
use crate::quantity::{parse_share, parse_size, size};
use clap::Args;
use oncewire_codec::adapt::CpuShare;
use oncewire_codec::{DEFAULT_BLOCK, DEFAULT_CACHE, MAX_BLOCK};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire demo
  oncewire demo image-v1.tar image-v2.tar
  oncewire demo --json | jq .transfers")]
pub(crate) struct DemoArgs {
    /// Files to send, each a version of the one before [default: three releases of the time-zone
    /// database]
    pub(crate) files: Vec<PathBuf>,
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help = format!(
        "Memory of each end of the tunnel [default: room for twice the data, {} to {}]", size(DEMO_MEMORY.start), size(DEMO_MEMORY.end)
    ))]
    pub(crate) memory: Option<u64>,
    #[command(flatten)]
    pub(crate) codec: CodecArgs,
    #[command(flatten)]
    pub(crate) inside: InsideArgs,
    /// Print one JSON document instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire pack backup.tar -o backup.ow
  tar c . | oncewire pack | ssh host 'oncewire unpack | tar x'
  oncewire pack --base release-1.tar release-2.tar -o 1-to-2.ow
  oncewire pack --store sent --store-size 100M --store-plain \\
    monday.sql -o monday.ow
  nc -l 9000 | oncewire pack --cpu-budget 25% -o feed.ow
  oncewire pack --format zstd backup.tar -o backup.tar.zst

`unpack` needs as much memory as --cache, and refuses more than it allows (--max-cache).")]
pub(crate) struct PackArgs {
    /// File to pack [default: standard input; also `-`]
    pub(crate) input: Option<PathBuf>,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,
    /// Format to write: oncewire, or zstd, which `unpack` and every zstd decode. zstd has no --base,
    /// --inside or --cpu-budget, and finds repeats up to 128M back; with a larger --cache, up to 2G,
    /// it takes `zstd -d --long=31` to decode
    #[arg(long, value_name = "FORMAT", default_value = "oncewire", hide_possible_values = true)]
    pub(crate) format: FormatName,
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help = format!(
        "Size of the content cache, which is how far back repeats are found [default: {}, plus the size of the --base \
         files, up to {}]", size(DEFAULT_CACHE), size(MAX_DEFAULT_CACHE)
    ))]
    pub(crate) cache: Option<u64>,
    /// File that the receiver already has; repeatable. `unpack` needs the same files in the same
    /// order
    #[arg(long, value_name = "FILE")]
    pub(crate) base: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) store: PackStoreArgs,
    /// Go on from this point, which the receiver's `unpack` named, and forget what was packed since;
    /// `start` sends everything anew [default: where the last pack ended]
    #[arg(long, value_name = "POINT", requires = "store")]
    pub(crate) from: Option<PointName>,
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help = format!(
        "Largest block, up to {}. A pipe is packed block by block as it comes [default: {0}, or {} with --cpu-budget or \
         --format zstd]", size(MAX_BLOCK as u64), size(DEFAULT_BLOCK as u64)
    ))]
    pub(crate) block: Option<u64>,
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=MOST_THREADS as i64), help = format!(
        "Threads, 1 to {MOST_THREADS}: one finds repeats, the others compress. The output is the same, except with \
         --cpu-budget [default: one per core]"
    ))]
    pub(crate) threads: Option<u8>,
    /// Share of one core that encoding may use, such as 25%, not counting reading and writing. When
    /// over budget it first compresses less, then searches less, and finally passes data through
    /// unchanged. Meant for live input; a file is simply read more slowly [default: no limit]
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub(crate) cpu_budget: Option<CpuShare>,
    #[command(flatten)]
    pub(crate) codec: CodecArgs,
    #[command(flatten)]
    pub(crate) inside: InsideArgs,
    /// Print a JSON document about the run on standard output; needs -o
    #[arg(long)]
    pub(crate) json: bool,
}

/// Content of earlier packs, as a base that grows.
#[derive(Debug, Args)]
pub(crate) struct PackStoreArgs {
    /// Keep the content in this directory, and begin with that of the packs before: a base that
    /// grows. The other end has a directory of its own, and gets each pack in order
    #[arg(long, value_name = "DIR", conflicts_with = "base")]
    pub(crate) store: Option<PathBuf>,
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "store", help = format!(
        "Content that a new --store keeps, the newest [default: {}]", size(DEFAULT_SIZE)
    ))]
    pub(crate) store_size: Option<u64>,
    /// Encrypt the store with the secret in this file, 32 bytes or more
    #[arg(long, value_name = "FILE", requires = "store", conflicts_with = "store_plain")]
    pub(crate) store_key: Option<PathBuf>,
    /// Do not encrypt the store
    #[arg(long, requires = "store")]
    pub(crate) store_plain: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire unpack backup.ow -o backup.tar
  oncewire unpack --base release-1.tar 1-to-2.ow -o release-2.tar
  oncewire unpack --store received --store-size 100M --store-plain \\
    monday.ow -o monday.sql

Exits with status 3 if the input is corrupt, truncated or not an Oncewire pack. A file given with -o appears only once it is \
complete and verified. On a pipe, output stops before the first bad byte.")]
pub(crate) struct UnpackArgs {
    /// File to unpack [default: standard input; also `-`]
    pub(crate) input: Option<PathBuf>,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,
    /// Base file, as given to `pack`; repeatable, in the same order
    #[arg(long, value_name = "FILE")]
    pub(crate) base: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) store: PackStoreArgs,
    /// Refuse packs that need a larger content cache than this
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = size(MAX_DEFAULT_CACHE))]
    pub(crate) max_cache: u64,
    /// Print a JSON document about the run on standard output; needs -o
    #[arg(long)]
    pub(crate) json: bool,
}
