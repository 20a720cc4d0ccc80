//! The command line: what was asked for, as it was written. Nothing is opened or resolved here.
// What is documentation here is help there, where [bind:]port is no link.
#![allow(rustdoc::broken_intra_doc_links)]

pub(crate) mod plan;

use crate::family::{EntropyName, SamplerName, parse_policy, parse_table_kind};
use crate::quantity::{parse_price, parse_rate, parse_share, parse_size, parse_time};
use clap::{Args, Parser, Subcommand, ValueEnum};
use oncewire_codec::adapt::CpuShare;
use std::path::PathBuf;
use std::time::Duration;

/// Every byte crosses the wire once.
///
/// Oncewire removes repeated bytes: it keeps the recent past of a link at both ends and sends a short reference wherever the
/// new bytes were there already.
#[derive(Debug, Parser)]
#[command(
    name = "oncewire",
    version,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = "\
Exit status, for every command: 0 done; 1 failed (disk full, file missing); 2 wrong options, configuration or output names; 3 corrupt input.
Sizes: 64K or 64KiB is 65,536 bytes, 64KB is 64,000; fractions (1.5G) and a space before the unit are fine."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Move versioned files between three clients and a server through a tunnel on loopback, and show what crossed the wire
    Demo(DemoArgs),
    /// Make a key pair, and print the public key for the other end's list of peers
    Keygen(KeygenArgs),
    /// The answering end of a tunnel, beside the servers
    Serve(ServeArgs),
    /// The connecting end of a tunnel, beside the clients
    Connect(ConnectArgs),
    /// What a running `serve` or `connect` is doing, as both ends see it
    Status(StatusArgs),
    /// Check a configuration file without starting anything
    CheckConfig(CheckConfigArgs),
    /// Pack a file or a stream
    Pack(PackArgs),
    /// Unpack what `pack` made
    Unpack(UnpackArgs),
    /// Measure what this would do on your data, beside lz4, zstd and gzip on the same blocks
    Bench(BenchArgs),
    /// Measure captured traffic: how redundant it is, where that comes from, what would be saved, and what to deploy
    Study(Box<StudyArgs>),
    /// Plan redundancy elimination over a whole network: what each device caches and decodes, and what that saves
    Plan(Box<plan::PlanArgs>),
    /// Carry packets through a planned network with the real codec, and compare what leaves it with what entered
    Emulate(Box<plan::EmulateArgs>),
    /// Make a table of marker bytes for your data, for --sampler samplebyte:FILE
    Train(TrainArgs),
}

/// How the codec is set up.
#[derive(Clone, Debug, Args)]
pub(crate) struct CodecArgs {
    /// Bytes under one fingerprint, the shortest repeat that is looked up: 12 to 64
    #[arg(long, value_name = "BYTES", default_value_t = 32)]
    pub(crate) window: usize,
    /// Sampling period: one fingerprint is meant to be kept for every so many bytes, 4 to 1024
    #[arg(long, value_name = "BYTES", default_value_t = 32)]
    pub(crate) period: usize,
    /// How markers are chosen: samplehash, peaks, samplebyte, samplebyte:FILE (made by `oncewire train`), maxp, modp, modp-published,
    /// fixed, gear, fastcdc
    #[arg(long, value_name = "NAME", default_value = "samplehash")]
    pub(crate) sampler: SamplerName,
    /// Entropy stage, for bytes that were not repeated: none (fastest, for a link that compresses anyway), lz4 (every frame on its
    /// own), zstd (adaptive models for matches, too: fewest bytes), zstd-1, zstd-2 or zstd-3
    #[arg(long, value_name = "STAGE", default_value = "zstd")]
    pub(crate) entropy: EntropyName,
    /// zstd's level, 1 to 3: the same as --entropy zstd-N [default: 3]
    #[arg(long, value_name = "N")]
    pub(crate) level: Option<i32>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire demo
  oncewire demo image-v1.tar image-v2.tar
  oncewire demo --json | jq .transfers")]
pub(crate) struct DemoArgs {
    /// Files to send in this order, each a version of the one before; without any, three releases of the tz database
    pub(crate) files: Vec<PathBuf>,
    /// Memory of each end [default: room for twice what is fetched, at least 256M, at most 8G]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) memory: Option<u64>,
    #[command(flatten)]
    pub(crate) codec: CodecArgs,
    /// One JSON document instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire keygen a.key > a.pub
  oncewire keygen --show a.key

The secret key goes into the file, readable by its owner only; the public key, one line, is printed. Give it to the other end:
--peer KEY, or a line of its authorized peers file.")]
pub(crate) struct KeygenArgs {
    /// The file for the secret key
    pub(crate) file: PathBuf,
    /// Print the public key of an existing file instead
    #[arg(long)]
    pub(crate) show: bool,
    /// One JSON document instead of the line
    #[arg(long)]
    pub(crate) json: bool,
}

/// What `serve` and `connect` share. All of it can be in the configuration file, too, under the same names with underscores.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct EndpointArgs {
    /// A configuration file (TOML); what is given on the command line overrides it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The secret key, made by `oncewire keygen`
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// The other end's public key, and optionally a name for it; repeatable
    #[arg(long, value_name = "KEY")]
    pub(crate) peer: Vec<String>,
    /// A file of public keys, one a line with an optional name; read again on SIGHUP
    #[arg(long, value_name = "FILE")]
    pub(crate) authorized_peers: Option<PathBuf>,
    /// Memory for everything that grows: logs, tables, queues [default: 512M]
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// Transports side by side, 1 to 8 [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) lanes: Option<usize>,
    /// Connections open at once through one session; more wait for a second, then are refused [default: one for every 256 KiB of
    /// --memory, which is the most]
    #[arg(long, value_name = "N")]
    pub(crate) max_flows: Option<u64>,
    /// tcp, quic or auto [default: tcp]
    #[arg(long, value_name = "KIND")]
    pub(crate) transport: Option<String>,
    /// Silence after which the peer is asked for a sign of life [default: 10s]
    #[arg(long, value_name = "TIME")]
    pub(crate) keep_alive: Option<String>,
    /// Silence after which a transport is given up [default: 25s]
    #[arg(long, value_name = "TIME")]
    pub(crate) dead_after: Option<String>,
    /// How long flows survive a cut path [default: 60s]
    #[arg(long, value_name = "TIME")]
    pub(crate) grace: Option<String>,
    /// How long flows may take to end after SIGTERM [default: 30s]
    #[arg(long, value_name = "TIME")]
    pub(crate) drain: Option<String>,
    /// Unix socket for `oncewire status` [default: oncewire-serve.sock or oncewire-connect.sock in $XDG_RUNTIME_DIR, if that is set]
    #[arg(long, value_name = "PATH")]
    pub(crate) status: Option<PathBuf>,
    /// Bytes under one fingerprint, 12 to 64 [default: 32]
    #[arg(long, value_name = "BYTES")]
    pub(crate) window: Option<usize>,
    /// Sampling period, 4 to 1024 bytes [default: 32]
    #[arg(long, value_name = "BYTES")]
    pub(crate) period: Option<usize>,
    /// How markers are chosen, as for pack, such as samplehash or samplebyte:FILE [default: samplehash]
    #[arg(long, value_name = "NAME")]
    pub(crate) sampler: Option<String>,
    /// Entropy stage, for bytes that were not repeated: none (fastest, for a link that compresses anyway), lz4 (every frame on its
    /// own), zstd (adaptive models for matches, too: fewest bytes), zstd-1, zstd-2 or zstd-3
    /// [default: zstd]
    #[arg(long, value_name = "STAGE")]
    pub(crate) entropy: Option<String>,
    /// zstd's level, 1 to 3: the same as --entropy zstd-N [default: 3]
    #[arg(long, value_name = "N")]
    pub(crate) level: Option<i32>,
    /// Share of one core that encoding may take for each session, such as 25%: with less, it compresses less, then looks for fewer
    /// repeats, and last passes blocks as they are [default: no limit]
    #[arg(long, value_name = "SHARE")]
    pub(crate) cpu_budget: Option<String>,
    /// What to log: error, warn, info, debug or trace [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log: Option<String>,
    /// Log one JSON object a line
    #[arg(long)]
    pub(crate) log_json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire serve --key b.key --peer \"$(cat a.pub)\" --allow origin.example:80
  oncewire serve --config /etc/oncewire/serve.toml

Flows reach only what --allow admits: names or networks, a port, a range of ports or *, such as origin.example:80,
*.example.com:443, 10.0.0.0/8:8000-8100, [2001:db8::]/32:*, localhost:5432. Without any, nothing. SIGHUP reads the
configuration's rules and the authorized peers again; SIGTERM lets flows end first.")]
pub(crate) struct ServeArgs {
    /// Where peers connect, [bind:]port; repeatable [default: *:7077]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Vec<String>,
    /// A destination that flows may reach; repeatable
    #[arg(long, value_name = "RULE")]
    pub(crate) allow: Vec<String>,
    /// A place where peers may have this end listen (their -R), [bind:]port; repeatable
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) allow_listen: Vec<String>,
    /// Sessions at once [default: 1024]
    #[arg(long, value_name = "N")]
    pub(crate) max_sessions: Option<usize>,
    #[command(flatten)]
    pub(crate) endpoint: EndpointArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire connect site-b:7077 --key a.key --peer \"$(cat b.pub)\" \\
    -L 8080:origin.example:80
  oncewire connect site-b:7077 --key a.key --peer \"$(cat b.pub)\" --proxy 1080
  curl --proxy socks5h://localhost:1080 http://origin.example/

-L and -R are written as for ssh: [bind:]port:host:hostport. --proxy serves SOCKS5, HTTP CONNECT and plain HTTP on one port.
Names of targets are resolved at the other end.")]
pub(crate) struct ConnectArgs {
    /// Where the other end listens, host:port
    pub(crate) server: Option<String>,
    /// Connections here reach a target over there; repeatable
    #[arg(short = 'L', long, value_name = "FORWARD")]
    pub(crate) forward: Vec<String>,
    /// Connections over there reach a target here; repeatable. The other end must allow it
    #[arg(short = 'R', long, value_name = "FORWARD")]
    pub(crate) reverse: Vec<String>,
    /// Where a proxy listens, [bind:]port; repeatable
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) proxy: Vec<String>,
    #[command(flatten)]
    pub(crate) endpoint: EndpointArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire status
  oncewire status --json | jq '.[].sessions[].here.flows'")]
pub(crate) struct StatusArgs {
    /// The process's --status socket [default: those in $XDG_RUNTIME_DIR and of the systemd units in docs/examples]
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// The whole state as one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire check-config serve /etc/oncewire/serve.toml")]
pub(crate) struct CheckConfigArgs {
    /// Which end the file is for
    #[arg(value_enum)]
    pub(crate) role: RoleName,
    /// The configuration file
    pub(crate) file: PathBuf,
    /// One JSON document instead of the line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleName {
    /// The answering end
    Serve,
    /// The connecting end
    Connect,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire pack backup.tar -o backup.ow
  tar c . | oncewire pack | ssh host 'oncewire unpack | tar x'
  oncewire pack --base release-1.tar release-2.tar -o 1-to-2.ow
  nc -l 9000 | oncewire pack --cpu-budget 25% -o feed.ow

The receiver's memory is the cache named here, so it must be willing: unpack refuses more than 4G unless told otherwise.")]
pub(crate) struct PackArgs {
    /// What to pack; standard input without it, or for `-`
    pub(crate) input: Option<PathBuf>,
    /// Where to; standard output without it
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,
    /// Size of the content log: how far back repeats are found [default: 256M, and the base's size on top of it, up to 4G]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) cache: Option<u64>,
    /// Content that the receiver has already; repeatable, the order counts
    #[arg(long, value_name = "FILE")]
    pub(crate) base: Vec<PathBuf>,
    /// Largest block, up to 64K
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "64K")]
    pub(crate) block: u64,
    /// 1: all in one thread; 2: reading and matching beside compressing and writing; 3: reading apart, too. The result is the
    /// same, but for --cpu-budget
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=3))]
    pub(crate) threads: u8,
    /// Share of one core, such as 25%, that encoding may take, reading and writing aside: with less, it compresses less, then looks for fewer repeats, and
    /// last passes blocks as they are. For input that comes at a pace of its own; a file comes as fast as it is taken
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub(crate) cpu_budget: Option<CpuShare>,
    #[command(flatten)]
    pub(crate) codec: CodecArgs,
    /// One JSON document about the work on standard output; needs -o
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire unpack backup.ow -o backup.tar
  oncewire unpack --base release-1.tar 1-to-2.ow -o release-2.tar

Exits with 3 if the input is damaged, cut short or something else. A file given with -o appears only when it is complete and
verified; on a pipe, output stops before the first byte that is not.")]
pub(crate) struct UnpackArgs {
    /// What to unpack; standard input without it, or for `-`
    pub(crate) input: Option<PathBuf>,
    /// Where to; standard output without it
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,
    /// The same base files in the same order as for `pack`
    #[arg(long, value_name = "FILE")]
    pub(crate) base: Vec<PathBuf>,
    /// Refuse packs that need a larger content log than this
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "4G")]
    pub(crate) max_cache: u64,
    /// One JSON document about the work on standard output; needs -o
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire bench release-*.tar
  oncewire bench --periods 16,32,64 --windows 16,32 --cache 64M,1G dump.sql
  oncewire bench --packets --passes 2 --csv figures image.raw
  oncewire bench --optimal --entropy none --rates 20,32 \\
    --samplers samplebyte,maxp,modp,fixed dump.sql
  oncewire bench --matchers max,published,chunk,payload --packets \\
    --no-rivals image.raw

The files are read into memory, one after the other, and sent as one stream. A corpus larger than the cache cannot find in its
second pass what has left the log by then.")]
pub(crate) struct BenchArgs {
    /// The data, in the order in which it would be sent
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Samplers to try: samplehash, peaks, samplebyte, samplebyte:FILE (made by `oncewire train`), maxp, modp, modp-published, fixed,
    /// gear, fastcdc
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "samplehash")]
    pub(crate) samplers: Vec<SamplerName>,
    /// Matchers to try
    #[arg(long, value_enum, value_delimiter = ',', default_value = "max")]
    pub(crate) matchers: Vec<MatcherName>,
    /// Fingerprint tables of max-match to try: compact, or buckets:BxKxF with slots a bucket, hash functions, buckets a fingerprint
    #[arg(long, value_name = "TABLE", value_delimiter = ',', default_value = "compact", value_parser = parse_table_kind)]
    pub(crate) tables: Vec<oncewire_codec::TableKind>,
    /// Cache policies to try: all, new-runs, new-runs-apart, new-blocks:PERCENT
    #[arg(long, value_name = "POLICY", value_delimiter = ',', default_value = "all", value_parser = parse_policy)]
    pub(crate) policies: Vec<oncewire_codec::CachePolicy>,
    /// Most fingerprints per block to try, with --matchers published; 0: no limit
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "0")]
    pub(crate) max_fingerprints: Vec<usize>,
    /// Most matches per block to try; 0: no limit
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "0")]
    pub(crate) max_matches: Vec<usize>,
    /// Entries of the fingerprint or chunk table [default: as many as the cache will need]
    #[arg(long, value_name = "N")]
    pub(crate) table_entries: Option<u64>,
    /// Sampling periods to try, 4 to 1024 bytes
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_value = "32")]
    pub(crate) periods: Vec<usize>,
    /// Achieved bytes per fingerprint to aim at instead of periods: each sampler gets the period that comes closest on this data
    #[arg(long, value_name = "BYTES", value_delimiter = ',', conflicts_with = "periods")]
    pub(crate) rates: Vec<f64>,
    /// Show what could be saved at most, by a Bloom filter of every window, and each setting's share of it
    #[arg(long)]
    pub(crate) optimal: bool,
    /// Windows to try, 12 to 64 bytes
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_value = "32")]
    pub(crate) windows: Vec<usize>,
    /// Content log sizes to try [default: room for all data, at least 256M, at most 4G]
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = parse_size)]
    pub(crate) cache: Vec<u64>,
    /// Entropy stages to try: none, lz4, zstd, zstd-1, zstd-2, zstd-3
    #[arg(long, value_name = "STAGE", value_delimiter = ',', default_value = "none,zstd")]
    pub(crate) entropy: Vec<EntropyName>,
    /// zstd's level, 1 to 3: the same as --entropy zstd-N [default: 3]
    #[arg(long, value_name = "N")]
    pub(crate) level: Option<i32>,
    /// Block sizes to try, up to 64K
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = parse_size, default_value = "64K")]
    pub(crate) block: Vec<u64>,
    /// Blocks of 1,448 bytes, as packets carry them
    #[arg(long, conflicts_with = "block")]
    pub(crate) packets: bool,
    /// How often the data goes through one encoder: 2 shows the repeat
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=9))]
    pub(crate) passes: u8,
    /// How often each contender is measured; best and median are shown
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=99))]
    pub(crate) runs: u8,
    /// Leave out what others do
    #[arg(long)]
    pub(crate) no_rivals: bool,
    /// Use these kernels instead of the best that the machine has
    #[arg(long, value_name = "LEVEL", value_parser = ["portable", "avx2", "avx512"])]
    pub(crate) kernels: Option<String>,
    /// Write the table as comma-separated values into this directory, as figures.csv
    #[arg(long, value_name = "DIR")]
    pub(crate) csv: Option<PathBuf>,
    /// One JSON document instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

/// How repeats are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MatcherName {
    /// Max-match, ours
    Max,
    /// Max-match as in the papers: earlier blocks only, one look-up a block, nothing added
    Published,
    /// Chunk-match of chunks that begin at a marker (EndRE)
    Chunk,
    /// Chunk-match of chunks that end with a marker's window (Martynov)
    ChunkMartynov,
    /// Chunk-match by a second rolling fingerprint (Martynov's modified algorithm): forgeable, so for measuring only
    Modified,
    /// Whole payloads by name (Santos and Wetherall)
    Payload,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire train monday.tar -o site.table --test tuesday.tar
  oncewire bench --samplers samplebyte,samplebyte:site.table tuesday.tar
  oncewire pack --sampler samplebyte:site.table tuesday.tar -o tuesday.ow

EndRE's way (NSDI 2010, section 5.1.4): MAXP finds what is redundant, and the byte values most present in it become markers, one
after the other, until another one gains nothing. Only the sending end needs the table.")]
pub(crate) struct TrainArgs {
    /// Data like that which will be sent, in its order
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Where to write the table
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,
    /// Other data, to show what the table gains where it was not trained; repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) test: Vec<PathBuf>,
    /// Bytes under one fingerprint, 12 to 64
    #[arg(long, value_name = "BYTES", default_value_t = 32)]
    pub(crate) window: usize,
    /// Sampling period, 4 to 1024 bytes
    #[arg(long, value_name = "BYTES", default_value_t = 32)]
    pub(crate) period: usize,
    /// Size of the content log [default: room for all data, at most 4G]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) cache: Option<u64>,
    /// Block size, up to 64K
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "64K")]
    pub(crate) block: u64,
    /// A byte stays only if it cuts the wire bytes by this much, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.1, value_parser = parse_gain)]
    pub(crate) min_gain: f64,
    /// Random tables to compare with
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=99))]
    pub(crate) random: u8,
    /// One JSON document instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire study monday.pcap --inside 10.0.0.0/8 --report monday.html
  oncewire study captures/ 'more/*.pcap.gz' --price 0.09/GB --link 100Mbit
  tcpdump -i eth0 -s 0 -w - | oncewire study -
  oncewire study --interface eth0 --duration 60s
  oncewire study month.pcap --sample 60s/1h --json \\
    --figures algorithms,temporal,protocols | jq .verdict
  oncewire study --score release-1.tar release-2.tar

Captures are pcap or pcapng, also in gzip, zstd or xz; directories are searched for them; they are one trace, in the order given. A
capture that ends in the middle is read to there. Ctrl-C ends the reading, and what was read is reported.")]
pub(crate) struct StudyArgs {
    /// Captures, directories of them, or `-` for standard input
    pub(crate) captures: Vec<PathBuf>,
    /// Capture from this interface instead; needs the right to (root, or CAP_NET_RAW)
    #[arg(long, value_name = "NAME", conflicts_with_all = ["captures", "score"])]
    pub(crate) interface: Option<String>,
    /// How long to capture from the interface [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = parse_time, requires = "interface", conflicts_with = "captures")]
    pub(crate) duration: Option<Duration>,
    /// Networks that are inside, such as 10.0.0.0/8,2001:db8::/32: each direction gets a cache of its own
    #[arg(long, value_name = "PREFIX", value_delimiter = ',', num_args = 1..)]
    pub(crate) inside: Vec<String>,
    /// Figures to make, by name or number, or `all`: algorithms, periods, caches, temporal, protocols, http, origins, lengths,
    /// locality, hits, replicated, hosts, destinations, irreducible [default: all up to 1 GB of captures; without periods, caches and
    /// hosts beyond]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) figures: Vec<String>,
    /// Algorithms to compare, or `all` [default: all up to 1 GB of captures, the fastest beyond]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) algorithms: Vec<String>,
    /// Payload that a cache holds, in each direction [default: 250 MB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) cache: Option<u64>,
    /// Bytes under one fingerprint, 12 to 64
    #[arg(long, value_name = "BYTES", default_value_t = 32)]
    pub(crate) window: usize,
    /// Sampling period, 4 to 1024 bytes
    #[arg(long, value_name = "BYTES", default_value_t = 32)]
    pub(crate) period: usize,
    /// The sampler of the reference algorithm, from whose matches most figures are made
    #[arg(long, value_name = "NAME", default_value = "maxp")]
    pub(crate) sampler: SamplerName,
    /// Bytes charged for each packet that carries matches, besides 4 for each match
    #[arg(long, value_name = "BYTES", default_value_t = 12)]
    pub(crate) shim: u32,
    /// Look at parts of the trace only, such as 60s/10m: the first 60 seconds of every 10 minutes
    #[arg(long, value_name = "TIME/TIME", value_parser = parse_sampling)]
    pub(crate) sample: Option<Sampling>,
    /// A file of destination networks, one PREFIX NAME a line, for the figure `destinations`
    #[arg(long, value_name = "FILE")]
    pub(crate) prefixes: Option<PathBuf>,
    /// What a gigabyte costs, such as 0.09/GB: how much would be saved in a month
    #[arg(long, value_name = "PRICE", value_parser = parse_price)]
    pub(crate) price: Option<f64>,
    /// The link's rate, such as 100Mbit: how much time would be saved
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub(crate) link: Option<f64>,
    /// Write a report for a browser: one file that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Write every table and chart as comma-separated values into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) csv: Option<PathBuf>,
    /// Write every match of the reference algorithm: FILE.parquet (if built with that feature) or FILE.csv
    #[arg(long, value_name = "FILE", conflicts_with = "score")]
    pub(crate) matches: Option<PathBuf>,
    /// Memory that algorithms may take at once, caches per host pair among them, the content they share aside; captures are read again for
    /// those that do not fit, if they can be
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "2G")]
    pub(crate) memory: u64,
    /// Memory that each figure may take for its own state
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "64M")]
    pub(crate) figure_memory: u64,
    /// Memory that caches per host pair may take together
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "1G")]
    pub(crate) pair_memory: u64,
    /// Threads that measure [default: one for each core]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) threads: usize,
    /// Martynov's score instead: how much each configuration of encoder would give links of all speeds. Each argument is a benchmark:
    /// files as they are, or captures as TCP buffers and IP packets; three of them are weighted 2, 49 and 49
    #[arg(long, conflicts_with_all = ["report", "figures", "algorithms"])]
    pub(crate) score: bool,
    /// Distances between fingerprints to score, in bytes [default: 32 to 2048 in powers of two]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', requires = "score")]
    pub(crate) distances: Vec<u32>,
    /// Buffer sizes of files to score [default: 512 to 256K in powers of two]
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = parse_size, requires = "score")]
    pub(crate) buffers: Vec<u64>,
    /// How often each configuration is measured; medians count
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=99))]
    pub(crate) repeats: u8,
    /// One JSON document instead of the summary
    #[arg(long)]
    pub(crate) json: bool,
}

/// Parts of a trace: the first of every so many seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sampling {
    pub(crate) take: Duration,
    pub(crate) every: Duration,
}

fn parse_sampling(text: &str) -> Result<Sampling, String> {
    let (take, every) = text.split_once('/').ok_or("write two times, such as 60s/10m")?;
    let sampling = Sampling { take: parse_time(take)?, every: parse_time(every)? };
    if sampling.take.is_zero() || sampling.take > sampling.every {
        return Err("the first time must be more than nothing and at most the second, such as 60s/10m".into());
    }
    Ok(sampling)
}

/// A gain in percent.
fn parse_gain(text: &str) -> Result<f64, String> {
    let gain = text.parse().ok().filter(|gain| (0.0..100.0).contains(gain));
    gain.ok_or_else(|| "use a number of percent from 0 to less than 100".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::parse_size;
    use clap::CommandFactory;

    /// What stands between `Examples:` and the next empty line of a help text as a terminal of 80 columns shows it: whole commands.
    fn examples(command: &clap::Command) -> Vec<String> {
        let help = command.clone().term_width(80).render_long_help().to_string();
        let lines = help.lines().skip_while(|line| *line != "Examples:").skip(1).take_while(|line| !line.is_empty());
        let mut commands = Vec::new();
        let mut goes_on = false;
        for line in lines {
            let text = line.strip_prefix(if goes_on { "    " } else { "  " });
            let text = text.unwrap_or_else(|| panic!("{line:?} was wrapped, or is not indented"));
            assert!(goes_on || !text.starts_with(' '), "{line:?} goes on with a line that does not say so");
            let (text, more) = text.strip_suffix('\\').map_or((text, false), |text| (text, true));
            if goes_on {
                let last: &mut String = commands.last_mut().expect("a command that goes on");
                last.push_str(text);
            } else {
                commands.push(text.to_owned());
            }
            goes_on = more;
        }
        assert!(!goes_on);
        commands
    }

    /// Words as a shell takes them, as far as these examples go; an operator is a word of its own.
    fn words(command: &str) -> Vec<String> {
        let (mut words, mut quote, mut open) = (vec![], None, false);
        for c in command.chars() {
            match c {
                '\'' | '"' if quote == Some(c) => quote = None,
                '\'' | '"' if quote.is_none() => {
                    (quote, open) = (
                        Some(c),
                        open || {
                            words.push(String::new());
                            true
                        },
                    )
                }
                ' ' if quote.is_none() => open = false,
                c => {
                    if !open {
                        words.push(String::new());
                        open = true;
                    }
                    words.last_mut().expect("it is open").push(c);
                }
            }
        }
        assert!(quote.is_none(), "an open quote: {command}");
        words
    }

    #[test]
    fn examples_can_be_pasted() {
        let cli = Cli::command();
        for verb in cli.get_subcommands() {
            let commands = examples(verb);
            assert!(
                commands.iter().any(|command| command.starts_with(&format!("oncewire {}", verb.get_name()))),
                "{}",
                verb.get_name()
            );
            for command in commands {
                assert!(!command.contains("..."), "{command}");
                let shell = std::process::Command::new("sh").args(["-n", "-c", &command]).status().expect("a shell");
                assert!(shell.success(), "{command}");
                let words = words(&command);
                let mut found = 0;
                for part in words.split(|word| matches!(&word[..], "|" | ">")) {
                    if part.first().is_some_and(|program| program == "oncewire") {
                        found += 1;
                        if let Err(error) = Cli::try_parse_from(part) {
                            panic!("{command}: {error}");
                        }
                    }
                }
                assert!(found > 0 || command.starts_with("curl "), "{command}");
            }
        }
    }

    /// Every size in a help text can be given as one.
    #[test]
    fn sizes_are_read_as_help_prints_them() {
        let cli = Cli::command();
        let mut seen = 0;
        for argument in cli.get_subcommands().flat_map(clap::Command::get_arguments) {
            let sizes = argument.get_value_names().is_some_and(|names| names == ["SIZE"]);
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            let defaults = argument.get_default_values().iter().map(|value| value.to_str().unwrap_or_default().to_owned());
            let shown =
                help.split_once("[default: ").and_then(|(_, default)| default.split([']', ',']).next()).map(str::to_owned);
            for size in defaults.chain(shown.filter(|shown| shown.starts_with(|c: char| c.is_ascii_digit()))).filter(|_| sizes) {
                let size = size.split(" to ").next().unwrap_or_default();
                parse_size(size).unwrap_or_else(|error| panic!("{}: {size}: {error}", argument.get_id()));
                seen += 1;
            }
        }
        assert!(seen >= 12, "{seen}");
    }

    /// An option of one name is one thing in all verbs.
    #[test]
    fn options_are_called_the_same_everywhere() {
        let cli = Cli::command();
        for (option, value) in
            [("csv", "DIR"), ("entropy", "STAGE"), ("level", "N"), ("report", "FILE"), ("memory", "SIZE"), ("cache", "SIZE")]
        {
            let mut verbs = 0;
            for argument in
                cli.get_subcommands().flat_map(clap::Command::get_arguments).filter(|found| found.get_long() == Some(option))
            {
                let names = argument.get_value_names().unwrap_or_default();
                assert_eq!(names, [value], "--{option}");
                verbs += 1;
            }
            assert!(verbs >= 2, "--{option}");
        }
        for verb in cli.get_subcommands() {
            let has = |option| verb.get_arguments().any(|argument| argument.get_long() == Some(option));
            assert_eq!(has("entropy"), has("level"), "{}", verb.get_name());
        }
    }
}
