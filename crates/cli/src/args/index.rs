//! Arguments of `index`.

use crate::quantity::{parse_percent, parse_rate, parse_size, parse_time};
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
Examples:
  oncewire index tune --flash 32G --memory 4G .
  oncewire index tune --flash 32G --memory 4G --like intel-ssd
  oncewire index bench --flash 64M --memory 12M .
  oncewire index bench --flash 64M --memory 12M --like flash-chip
  oncewire index bench --layout sorted --flash 64M --memory 12M .
  oncewire index re --like transcend-ssd --flash 64M --memory 12M --size 4M

The index is BufferHash (Anand and others, NSDI 2010): keys are collected in
buffers, full buffers are written whole, and Bloom filters in memory say which
of them may have a key. docs/FLASH.md describes it. Every command prints one
JSON document with --json."
)]
pub(crate) struct IndexArgs {
    #[command(subcommand)]
    pub(crate) command: IndexCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum IndexCommand {
    /// Recommend sizes of buffers and filters, for a disk that is measured
    Tune(TuneArgs),
    /// Fill an index, and measure look-ups and inserts
    Bench(IndexBenchArgs),
    /// Eliminate redundancy with the index, on links of many speeds
    Re(ReArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire index tune --flash 32G --memory 4G .
  oncewire index tune --flash 32G --memory 4G --like flash-chip --json

The recommendation follows the cost model of Anand's thesis (2012, section 5.3).
All results are costs of input and output; the processor's time is not counted.")]
pub(crate) struct TuneArgs {
    /// Directory to measure the disk in, with a temporary file; or a file or block device that
    /// --overwrite allows to overwrite
    #[arg(value_name = "PLACE")]
    pub(crate) place: Option<PathBuf>,
    /// Take the costs of this published device instead of measuring
    #[arg(long, value_enum, value_name = "DEVICE", conflicts_with = "place")]
    pub(crate) like: Option<DeviceName>,
    /// Size of the index on the device
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "32G")]
    pub(crate) flash: u64,
    /// Memory for buffers and filters
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "4G")]
    pub(crate) memory: u64,
    /// Bytes of a key, 1 to 255
    #[arg(long, value_name = "BYTES", default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) key: u8,
    /// Bytes of a value, 0 to 255
    #[arg(long, value_name = "BYTES", default_value_t = 8)]
    pub(crate) value: u8,
    /// Longest time that an insert may take: limits the size of a buffer
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "10ms")]
    pub(crate) slowest: Duration,
    /// Time to measure for
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "4s")]
    pub(crate) time: Duration,
    /// Size of the temporary file
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "256M")]
    pub(crate) test_size: u64,
    /// Overwrite PLACE, a file or block device, to measure it
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Print one JSON document instead of the tables
    #[arg(long)]
    pub(crate) json: bool,
}

/// A device that is not there.
#[derive(Debug, Args)]
pub(crate) struct SimulatedArgs {
    /// Simulate this published device, with its content in memory
    #[arg(long, value_enum, value_name = "DEVICE", conflicts_with = "place")]
    pub(crate) like: Option<DeviceName>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire index bench --flash 64M --memory 12M .
  oncewire index bench --flash 64M --memory 12M --like transcend-ssd \\
    --look-ups 70%

First random keys are inserted until the oldest are evicted; that is not
measured. With --like, times are those of the device's reads and writes alone,
whatever this machine does; otherwise they are measured here.")]
pub(crate) struct IndexBenchArgs {
    /// Directory for the index, a temporary file
    #[arg(value_name = "DIR")]
    pub(crate) place: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) simulated: SimulatedArgs,
    /// Size of the index on the device
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "256M")]
    pub(crate) flash: u64,
    /// Memory for buffers and filters
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "32M")]
    pub(crate) memory: u64,
    /// What buffers on the device look like: half full with bit-sliced Bloom filters, as in the
    /// paper, or sorted and full with one cuckoo filter for all, as other programs get them
    #[arg(long, value_enum, default_value = "published")]
    pub(crate) layout: LayoutName,
    /// Memory for buffers alone [default: half of it, as in the paper; a 62nd of --flash if sorted]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) buffers: Option<u64>,
    /// Size of a buffer, 4K to 256K
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "128K")]
    pub(crate) buffer: u64,
    /// How incarnations follow each other on the device
    #[arg(long, value_enum, default_value = "shared")]
    pub(crate) list: ListName,
    /// Bits by which slices of filters are longer than necessary, 0 to 32: old filters are removed
    /// that many at a time
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=32))]
    pub(crate) window: u8,
    /// Share of look-ups among the operations; the others are inserts
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, default_value = "50%")]
    pub(crate) look_ups: f64,
    /// Share of look-ups that find their key
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, default_value = "40%")]
    pub(crate) found: f64,
    /// Operations to measure [default: until every buffer was written once more, and 20,000 look-ups]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(crate) operations: Option<u64>,
    /// Print one JSON document instead of the tables
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire index re --like transcend-ssd
  oncewire index re --like intel-ssd --chunker maxp --redundancy 50%
  oncewire index re --dir . capture.pcap --report re.html
  oncewire index re --dir /var/cache *.tar --json

Content is cut into chunks of 1 to 2 KiB with SHA-1 names. Each is looked up in
a full index and inserted; a name is sent for what was found, and the chunk for
what was not. The same is done with a hash table on the device that has no
buffers. Reported is how much faster content crosses a link than
without an index (Anand's thesis, section 5.5): all objects at once, and object
by object. A link sends while the index works on later objects; chunks and names
are computed before. With --like, the index takes the time of the device's reads
and writes alone.")]
pub(crate) struct ReArgs {
    /// Captures, whose flows are objects, and other files, each of which is one [default:
    /// generated content]
    #[arg(value_name = "FILE")]
    pub(crate) inputs: Vec<PathBuf>,
    /// Directory for the index, a temporary file
    #[arg(long = "dir", value_name = "DIR")]
    pub(crate) place: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) simulated: SimulatedArgs,
    /// Size of each index on the device
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "256M")]
    pub(crate) flash: u64,
    /// Memory for buffers and filters
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "32M")]
    pub(crate) memory: u64,
    /// Size of a buffer, 4K to 256K
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "128K")]
    pub(crate) buffer: u64,
    /// How chunks are cut
    #[arg(long, value_enum, default_value = "modp")]
    pub(crate) chunker: ChunkerName,
    /// Content to generate, or most to read
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "64M")]
    pub(crate) size: u64,
    /// Shares of generated content that repeat earlier content [default: 50%,15%]
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, value_delimiter = ',')]
    pub(crate) redundancy: Option<Vec<f64>>,
    /// Share of these repeats that are of recent content, not of long ago
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, default_value = "50%")]
    pub(crate) recent: f64,
    /// Speeds of links
    #[arg(long, value_name = "RATE", value_parser = parse_rate, value_delimiter = ',',
        default_value = "10Mbit,20Mbit,100Mbit,200Mbit,300Mbit,400Mbit,1Gbit,10Gbit")]
    pub(crate) links: Vec<f64>,
    /// Speed of the link for results by object
    #[arg(long, value_name = "RATE", value_parser = parse_rate, default_value = "10Mbit")]
    pub(crate) object_link: f64,
    /// Seed of generated content
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Print one JSON document instead of the tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Also write tables and charts as CSV files into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) csv: Option<PathBuf>,
    /// Also write an HTML report with charts
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

/// How content is cut into chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ChunkerName {
    /// Where a Rabin fingerprint is 0 mod p
    Modp,
    /// Where eight bytes are a local maximum
    Maxp,
}

/// What incarnations look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutName {
    /// As in the paper
    Published,
    /// Full pages, in order of hashes
    Sorted,
}

/// Order of incarnations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListName {
    /// One circular list: all writes are sequential
    Shared,
    /// A circular list for each partition
    PerPartition,
}

/// A device whose costs were published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DeviceName {
    /// A flash chip, which erases blocks of 128 KiB
    FlashChip,
    /// Intel X18-M
    IntelSsd,
    /// Transcend TS32GSSD25
    TranscendSsd,
}
