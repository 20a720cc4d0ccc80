//! Arguments of `study`.

use crate::family::SamplerName;
use crate::quantity::{parse_price, parse_rate, parse_size, parse_time, size};
use clap::Args;
use oncewire_codec::{DEFAULT_PERIOD, DEFAULT_WINDOW};
use oncewire_trace::{Algorithm, FigureId, Sampling, Settings};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire study monday.pcap --inside 10.0.0.0/8 --report monday.html
  oncewire study captures/ 'more/*.pcap.gz' --price 0.09/GB --link 100Mbit
  tcpdump -i eth0 -s 0 -w - | oncewire study -
  oncewire study --interface eth0 --duration 60s
  oncewire study month.pcap --sample 60s/1h --json | jq .verdict
  oncewire study monday.pcap --all
  oncewire study --score release-1.tar release-2.tar

Captures are pcap or pcapng, plain or compressed with gzip, zstd or xz. Several are read as one trace, in the order given. A \
capture that ends in the middle of a packet is read up to there. After a corrupt one, the exit status is 3. Ctrl-C stops reading and reports on what was read; the report then says that it is partial, and the exit status is 130.")]
pub(crate) struct StudyArgs {
    /// Captures, directories to search for captures, or `-` for standard input
    pub(crate) captures: Vec<PathBuf>,
    /// Capture from this network interface instead; needs root or CAP_NET_RAW
    #[arg(long, value_name = "NAME", conflicts_with_all = ["captures", "score"])]
    pub(crate) interface: Option<String>,
    /// How long to capture from --interface [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = parse_time, requires = "interface", conflicts_with = "captures")]
    pub(crate) duration: Option<Duration>,
    /// Networks on the inside, such as 10.0.0.0/8,2001:db8::/32; each direction then gets a cache
    /// of its own
    #[arg(long, value_name = "PREFIX", value_delimiter = ',')]
    pub(crate) inside: Vec<String>,
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help = format!(
        "Figures to make and to print in full, by name or number, or `all`: {} [default: {}, with a line for each]",
        FigureId::ALL.map(FigureId::name).join(", "), FigureId::LEAN.map(FigureId::name).join(", ")
    ))]
    pub(crate) figures: Vec<String>,
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help = format!(
        "Algorithms to compare, or `all`; tunnel and packet link are always measured [default: {}]",
        Algorithm::LEAN.map(Algorithm::name).join(", ")
    ))]
    pub(crate) algorithms: Vec<String>,
    /// Every figure and algorithm, with the papers' sweeps over periods and cache sizes: takes ten
    /// times as long
    #[arg(long, conflicts_with = "score")]
    pub(crate) all: bool,
    /// Payload bytes that a cache holds, per direction
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = size(Settings::default().cache))]
    pub(crate) cache: u64,
    /// Fingerprint window in bytes, 12 to 64
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_WINDOW)]
    pub(crate) window: usize,
    /// Sampling period in bytes, 4 to 1024
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_PERIOD)]
    pub(crate) period: usize,
    /// Sampler of the reference algorithm; most figures use its matches
    #[arg(long, value_name = "NAME", default_value = "maxp")]
    pub(crate) sampler: SamplerName,
    /// Overhead in bytes of each packet with matches, in addition to 4 bytes per match
    #[arg(long, value_name = "BYTES", default_value_t = 12)]
    pub(crate) shim: u32,
    /// Use only parts of the trace: 60s/10m is the first 60 seconds of every 10 minutes
    #[arg(long, value_name = "TIME/TIME", value_parser = parse_sampling)]
    pub(crate) sample: Option<Sampling>,
    /// Destination networks for the figure `destinations`: a file with PREFIX NAME on each line
    #[arg(long, value_name = "FILE")]
    pub(crate) prefixes: Option<PathBuf>,
    /// Show the first bytes of what repeats most, in the figure `top`. They may be private
    #[arg(long, conflicts_with = "score")]
    pub(crate) show_content: bool,
    /// Price of traffic, such as 0.09/GB, to show the savings per month
    #[arg(long, value_name = "PRICE", value_parser = parse_price)]
    pub(crate) price: Option<f64>,
    /// Rate of the link, such as 100Mbit, to show the time saved
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub(crate) link: Option<f64>,
    /// Write a report for a browser to this file; the file needs nothing else
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Write every table and chart as comma-separated values to this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) csv: Option<PathBuf>,
    /// Write every match of the reference algorithm to FILE.csv, or to FILE.parquet if built with
    /// that feature
    #[arg(long, value_name = "FILE", conflicts_with = "score")]
    pub(crate) matches: Option<PathBuf>,
    /// Memory that algorithms may use at once, including caches per host pair but not the content
    /// they share. Captures are read again for the algorithms that do not fit
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "2G")]
    pub(crate) memory: u64,
    /// Memory that each figure may use for its own state
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = size(Settings::default().figure_memory))]
    pub(crate) figure_memory: u64,
    /// Memory that all caches per host pair may use together
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = size(Settings::default().pair_memory))]
    pub(crate) pair_memory: u64,
    /// Measuring threads [default: one per core]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) threads: usize,
    /// Compute Martynov's score instead: what each encoder configuration gains on links of all
    /// speeds. Each argument is a benchmark: a file, or a capture cut into TCP buffers and IP
    /// packets. Three benchmarks are weighted 2, 49 and 49
    #[arg(long, conflicts_with_all = ["report", "figures", "algorithms"])]
    pub(crate) score: bool,
    /// Distances between fingerprints to score, in bytes [default: 32 to 2048 in powers of two]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', requires = "score")]
    pub(crate) distances: Vec<u32>,
    /// Buffer sizes to score on files [default: 512 to 256K in powers of two]
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = parse_size, requires = "score")]
    pub(crate) buffers: Vec<u64>,
    /// Measurements of each --score configuration, 1 to 99; the median counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=99))]
    pub(crate) repeats: u8,
    /// Print one JSON document instead of the summary
    #[arg(long)]
    pub(crate) json: bool,
}

fn parse_sampling(text: &str) -> Result<Sampling, String> {
    let (take, every) = text.split_once('/').ok_or("write two times, such as 60s/10m")?;
    let sampling = Sampling { take: parse_time(take)?, every: parse_time(every)? };
    if sampling.take.is_zero() || sampling.take > sampling.every {
        return Err(
            "the first time must be above zero and at most the second, such as 60s/10m".into()
        );
    }
    Ok(sampling)
}
