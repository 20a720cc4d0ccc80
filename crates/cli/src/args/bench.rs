//! Arguments of `bench` and `train`.

use super::Switch;
use crate::defaults::{BENCH_CACHE, PACKET};
use crate::family::{
    EntropyName, SamplerName, TableName, parse_policy, parse_table_name, sampler_list,
};
use crate::quantity::{parse_size, size};
use clap::{Args, ValueEnum};
use oncewire_codec::{CachePolicy, DEFAULT_BLOCK, DEFAULT_PERIOD, DEFAULT_WINDOW};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire bench release-*.tar
  oncewire bench --periods 16,32,64 --windows 16,32 --cache 16M,64M dump.sql
  oncewire bench --packets --passes 2 --csv figures image.raw
  oncewire bench --optimal --entropy none --rates 20,32 \\
    --samplers samplebyte,maxp,modp,fixed dump.sql
  oncewire bench --matchers max,published,chunk,payload --packets \\
    --no-rivals image.raw

Options that take several values, separated by commas, try every combination. The files are read into memory and sent as one \
stream. If they are larger than the cache, a second pass finds only what the cache still holds.")]
pub(crate) struct BenchArgs {
    /// Files to send, in this order
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "samplehash", help = format!(
        "Samplers to try: {}. `oncewire train` makes the FILE",
        sampler_list()
    ))]
    pub(crate) samplers: Vec<SamplerName>,
    /// Matchers to try
    #[arg(long, value_enum, value_delimiter = ',', default_value = "max")]
    pub(crate) matchers: Vec<MatcherName>,
    /// Fingerprint tables of max-match to try: compact; buckets:BxKxF with B slots per bucket, K
    /// hash functions and F buckets per fingerprint; flash:MEMORY:DIR in a temporary file in DIR
    #[arg(long, value_name = "TABLE", value_delimiter = ',', default_value = "compact", value_parser = parse_table_name)]
    pub(crate) tables: Vec<TableName>,
    /// Cache policies to try: all, new-runs, new-runs-apart, new-blocks:PERCENT
    #[arg(long, value_name = "POLICY", value_delimiter = ',', default_value = "all", value_parser = parse_policy)]
    pub(crate) policies: Vec<CachePolicy>,
    /// Limits on fingerprints per block to try, with --matchers published; 0 is no limit
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "0")]
    pub(crate) max_fingerprints: Vec<usize>,
    /// Limits on matches per block to try; 0 is no limit
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "0")]
    pub(crate) max_matches: Vec<usize>,
    /// Entries of the fingerprint or chunk table [default: as many as the cache needs]
    #[arg(long, value_name = "N")]
    pub(crate) table_entries: Option<u64>,
    /// Sampling periods to try, in bytes, 4 to 1024
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_value = DEFAULT_PERIOD.to_string())]
    pub(crate) periods: Vec<usize>,
    /// Achieved bytes per fingerprint to aim for, instead of periods: each sampler gets the period
    /// that comes closest on this data
    #[arg(long, value_name = "BYTES", value_delimiter = ',', conflicts_with = "periods")]
    pub(crate) rates: Vec<f64>,
    /// Also show the upper bound, from a Bloom filter of every window, and each setting's share of
    /// it
    #[arg(long)]
    pub(crate) optimal: bool,
    /// Fingerprint windows to try, in bytes, 12 to 64
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_value = DEFAULT_WINDOW.to_string())]
    pub(crate) windows: Vec<usize>,
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = parse_size, help = format!(
        "Content cache sizes to try [default: room for all data, {} to {}]", size(BENCH_CACHE.start), size(BENCH_CACHE.end)
    ))]
    pub(crate) cache: Vec<u64>,
    /// Entropy stages to try: none, lz4, coded, coded-1, coded-2,
    /// coded-3
    #[arg(long, value_name = "STAGE", value_delimiter = ',', default_value = "none,coded")]
    pub(crate) entropy: Vec<EntropyName>,
    #[arg(long, value_name = "N", help = super::level_help())]
    pub(crate) level: Option<i32>,
    /// Whether to find repeats inside gzip, zlib, zip, PNG and zstd: on, off, or both to try each. With
    /// the entropy stage coded
    #[arg(long, value_name = "WHEN", value_delimiter = ',', default_value = "on")]
    pub(crate) inside: Vec<Switch>,
    /// Block sizes to try, up to 64K
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = parse_size, default_value = size(DEFAULT_BLOCK as u64))]
    pub(crate) block: Vec<u64>,
    #[arg(long, conflicts_with = "block", help = format!("Use blocks of {PACKET} bytes, the payload of a TCP segment"))]
    pub(crate) packets: bool,
    /// Times the data goes through one encoder, 1 to 9: 2 shows the cost of a repeat
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=9))]
    pub(crate) passes: u8,
    /// Measurements of each candidate, 1 to 99; best and median are shown
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=99))]
    pub(crate) runs: u8,
    /// Skip lz4, zstd and gzip
    #[arg(long)]
    pub(crate) no_rivals: bool,
    /// Vector kernels to use [default: the best this machine has]
    #[arg(long, value_name = "LEVEL", value_parser = ["portable", "avx2", "avx512"])]
    pub(crate) kernels: Option<String>,
    /// Also write the table as comma-separated values to figures.csv in this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) csv: Option<PathBuf>,
    /// Print one JSON document instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

/// How repeats are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MatcherName {
    /// Max-match as in the tunnel
    Max,
    /// Max-match as published: earlier blocks only, one lookup per block
    Published,
    /// Chunk-match; chunks begin at a marker (EndRE)
    Chunk,
    /// Chunk-match; chunks end with a marker's window (Martynov)
    ChunkMartynov,
    /// Chunk-match by a second rolling fingerprint (Martynov); forgeable, for measurements only
    Modified,
    /// Whole payloads, by hash (Santos and Wetherall)
    Payload,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire train monday.tar -o site.table --test tuesday.tar
  oncewire bench --samplers samplebyte,samplebyte:site.table tuesday.tar
  oncewire pack --sampler samplebyte:site.table tuesday.tar -o tuesday.ow

The method is EndRE's (NSDI 2010, section 5.1.4): MAXP finds the redundant content, and the byte values most frequent in it \
become markers, one at a time, until another gains nothing. Only the sender needs the table.")]
pub(crate) struct TrainArgs {
    /// Files that resemble the data to send, in the order of sending
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Write the table to this file
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,
    /// Other data, to show what the table gains on data it was not trained on; repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) test: Vec<PathBuf>,
    /// Fingerprint window in bytes, 12 to 64
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_WINDOW)]
    pub(crate) window: usize,
    /// Sampling period in bytes, 4 to 1024
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_PERIOD)]
    pub(crate) period: usize,
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help = format!(
        "Size of the content cache [default: room for all data, up to {}]", size(BENCH_CACHE.end)
    ))]
    pub(crate) cache: Option<u64>,
    /// Block size, up to 64K
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = size(DEFAULT_BLOCK as u64))]
    pub(crate) block: u64,
    /// Smallest gain that keeps a byte value, in percent of the bytes on the wire
    #[arg(long, value_name = "PERCENT", default_value_t = 0.1, value_parser = parse_gain)]
    pub(crate) min_gain: f64,
    /// Random tables to compare with, 0 to 99
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=99))]
    pub(crate) random: u8,
    /// Print one JSON document instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

/// A gain in percent.
fn parse_gain(text: &str) -> Result<f64, String> {
    let gain = text.parse().ok().filter(|gain| (0.0..100.0).contains(gain));
    gain.ok_or_else(|| "use a percentage from 0 up to, but not including, 100".into())
}
