//! Arguments of `profile`.

use super::plan::ScenarioArgs;
use crate::quantity::{parse_rate, parse_size, parse_time};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire profile sprint.json --capture monday.pcap --prefixes pops.txt \\
    --ingress Seattle --out monday.tsv
  oncewire profile sprint.json --capture monday.pcap --against routes.json

Counts, interval by interval, which bytes of a capture went to which egresses.
`oncewire route --profile` computes routes from what --out writes. With
--against, prints which intervals the routes no longer suit.")]
pub(crate) struct ProfileArgs {
    #[command(flatten)]
    pub(crate) scenario: ScenarioArgs,
    /// Capture of packets that enter; repeatable
    #[arg(long, value_name = "FILE", required = true)]
    pub(crate) capture: Vec<PathBuf>,
    /// File that maps destinations to nodes, one `PREFIX NODE` per line [default: spread addresses
    /// over nodes by volume]
    #[arg(long, value_name = "FILE")]
    pub(crate) prefixes: Option<PathBuf>,
    /// Node where the packets enter [default: the node with the most traffic]
    #[arg(long, value_name = "NODE")]
    pub(crate) ingress: Option<String>,
    /// Time in which content counts as equal
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "60s")]
    pub(crate) interval: Duration,
    /// Content in which each interval is searched for repeats
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "256MB")]
    pub(crate) store: u64,
    /// Count pairs of egresses as the thesis does, instead of sets
    #[arg(long)]
    pub(crate) pairs: bool,
    /// Tell sources apart by IPv4 /24 and IPv6 /48, so that slices can divide them
    #[arg(long, conflicts_with = "pairs")]
    pub(crate) sources: bool,
    /// Write the content of an interval to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Number of the interval that --out writes [default: the first with packets]
    #[arg(long, value_name = "N", requires = "out")]
    pub(crate) number: Option<u64>,
    /// Judge these routes, which `oncewire route --routes` has written, by each interval
    #[arg(long, value_name = "FILE")]
    pub(crate) against: Option<PathBuf>,
    /// Capacity of links for which the map gives none, as `route` had it: routes for the load are
    /// judged by it; of several, separated by commas, each cable has one drawn at random
    #[arg(long, value_name = "RATE", value_parser = parse_rate, value_delimiter = ',')]
    #[arg(requires = "against")]
    pub(crate) capacity: Vec<f64>,
    /// Print one JSON document instead of the summary
    #[arg(long)]
    pub(crate) json: bool,
}
