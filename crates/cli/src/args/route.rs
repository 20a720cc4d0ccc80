//! Arguments of `route`.

use super::plan::{MapArgs, ResultArgs};
use crate::quantity::{parse_percent, parse_rate};
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire route att.json --ingress Seattle --rho 50% --inter 100%
  oncewire route geant.xml --report geant.html --csv geant
  oncewire route isp.json --eliminate links.txt --cost hops
  oncewire route sprint.json --objective load --capacity 2.5Gbit,10Gbit \\
    --slices 4 --routes routes.json
  oncewire route isp.json --objective within --max-load 60% --safety-net \\
    --volume 40Gbit
  oncewire plan sprint.json --routes routes.json
  oncewire route sprint.json --profile monday.tsv --against routes.json

Without --ingress, each node with a known population is an ingress in turn;
nodes without one only forward. Topology formats are those of `plan`.
docs/ROUTING.md defines every quantity.")]
pub(crate) struct RouteArgs {
    /// Topology file; `-` is standard input
    pub(crate) topology: PathBuf,
    /// Node where traffic enters (id or label); repeatable [default: every node with a population]
    #[arg(long, value_name = "NODE")]
    pub(crate) ingress: Vec<String>,
    /// What to minimize
    #[arg(long, value_enum, default_value = "footprint")]
    pub(crate) objective: ObjectiveName,
    /// Highest utilization of a link, for --objective within [default: that of the busiest link on
    /// shortest paths with elimination]
    #[arg(long, value_name = "SHARE", value_parser = parse_percent, conflicts_with = "stretch")]
    pub(crate) max_load: Option<f64>,
    /// Minimize the footprint instead, with links loaded up to this many times the least possible
    /// (--objective load) or what shortest paths need (within)
    #[arg(long, value_name = "TIMES")]
    pub(crate) stretch: Option<f64>,
    /// Capacity of links for which the map gives none; of several, separated by commas, each cable
    /// has one drawn at random
    #[arg(long, value_name = "RATE", value_parser = parse_rate, value_delimiter = ',')]
    pub(crate) capacity: Vec<f64>,
    /// Also let all copies, without elimination, fit the capacities
    #[arg(long)]
    pub(crate) safety_net: bool,
    /// Most trees of routes per ingress, where capacities matter
    #[arg(long, value_name = "K", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) slices: u16,
    /// Seed for capacities drawn at random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Cost of a byte on a link: its latency, or 1
    #[arg(long, value_enum, default_value = "latency")]
    pub(crate) cost: CostName,
    /// Relative gap between routes and bound that is good enough
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, default_value = "0.1%")]
    pub(crate) gap: f64,
    /// File of the links whose ends eliminate redundancy, one `from -> to` per line [default: all]
    #[arg(long, value_name = "FILE")]
    pub(crate) eliminate: Option<PathBuf>,
    /// Content that `oncewire profile --out` counted, instead of synthetic traffic; if its sources
    /// are known, they are divided among slices
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rho", "inter", "volume"], help_heading = "Traffic")]
    pub(crate) profile: Option<PathBuf>,
    /// Fraction of the traffic that is redundant, at most 50%
    #[arg(long, value_name = "SHARE", value_parser = parse_percent, default_value = "50%", help_heading = "Traffic")]
    pub(crate) rho: f64,
    /// Fraction of the redundant traffic whose duplicate goes to another egress
    #[arg(long, value_name = "SHARE", value_parser = parse_percent, default_value = "100%", help_heading = "Traffic")]
    pub(crate) inter: f64,
    /// Traffic that enters the network, divided by population; all copies count [default: 1Gbit, or
    /// what --plain-load says]
    #[arg(long, value_name = "RATE", value_parser = parse_rate, conflicts_with = "plain_load", help_heading = "Traffic")]
    pub(crate) volume: Option<f64>,
    /// Scale the traffic so that this is the least possible utilization of the busiest link without
    /// elimination [default: 80%, unless --objective is footprint]
    #[arg(long, value_name = "SHARE", value_parser = parse_percent, help_heading = "Traffic")]
    pub(crate) plain_load: Option<f64>,
    /// Companion of the topology: Rocketfuel's latencies.intra, or REPETITA's .demands
    #[arg(long, value_name = "FILE", help_heading = "Network")]
    pub(crate) latencies: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) map: MapArgs,
    /// Keep only the largest connected part of the map
    #[arg(long, help_heading = "Network")]
    pub(crate) largest_part: bool,
    /// Skip the routes for the least load without elimination, and the schemes over them
    #[arg(long)]
    pub(crate) quick: bool,
    /// Write the routes to this file, as JSON, for `plan --routes`
    #[arg(long, value_name = "FILE")]
    pub(crate) routes: Option<PathBuf>,
    /// Begin with these routes, which --routes wrote, and keep them if they are within the gap
    #[arg(long, value_name = "FILE")]
    pub(crate) against: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) result: ResultArgs,
}

impl RouteArgs {
    /// Every input file.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &Path> {
        let files =
            [&self.latencies, &self.map.cities, &self.eliminate, &self.against, &self.profile];
        std::iter::once(&*self.topology).chain(files.into_iter().filter_map(|file| file.as_deref()))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ObjectiveName {
    /// The footprint: bytes times cost, over all links
    Footprint,
    /// The footprint, with links loaded up to a limit
    Within,
    /// The highest utilization of a link
    Load,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CostName {
    /// Latency of the link
    Latency,
    /// 1 for every link
    Hops,
}
