//! Arguments of `route`.

use crate::quantity::{parse_percent, parse_rate};
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire route att.json --ingress Seattle --rho 50% --inter 100%
  oncewire route geant.xml --report geant.html --csv geant
  oncewire route isp.json --eliminate links.txt --cost hops

Without --ingress, each node with a known population is an ingress in turn;
nodes without one only forward. Topology formats are those of `plan`.
docs/ROUTING.md defines every quantity.")]
pub(crate) struct RouteArgs {
    /// Topology file; `-` is standard input
    pub(crate) topology: PathBuf,
    /// Node where traffic enters (id or label); repeatable [default: every node with a population]
    #[arg(long, value_name = "NODE")]
    pub(crate) ingress: Vec<String>,
    /// Cost of a byte on a link: its latency, or 1
    #[arg(long, value_enum, default_value = "latency")]
    pub(crate) cost: CostName,
    /// Relative gap between routes and bound that is good enough
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, default_value = "0.1%")]
    pub(crate) gap: f64,
    /// File of the links whose ends eliminate redundancy, one `from -> to` per line [default: all]
    #[arg(long, value_name = "FILE")]
    pub(crate) eliminate: Option<PathBuf>,
    /// Fraction of the traffic that is redundant, at most 50%
    #[arg(long, value_name = "SHARE", value_parser = parse_percent, default_value = "50%", help_heading = "Traffic")]
    pub(crate) rho: f64,
    /// Fraction of the redundant traffic whose duplicate goes to another egress
    #[arg(long, value_name = "SHARE", value_parser = parse_percent, default_value = "100%", help_heading = "Traffic")]
    pub(crate) inter: f64,
    /// Traffic that enters the network, divided by population; all copies count
    #[arg(long, value_name = "RATE", value_parser = parse_rate, default_value = "1Gbit", help_heading = "Traffic")]
    pub(crate) volume: f64,
    /// Companion of the topology: Rocketfuel's latencies.intra, or REPETITA's .demands
    #[arg(long, value_name = "FILE", help_heading = "Network")]
    pub(crate) latencies: Option<PathBuf>,
    /// Table of cities, for maps that give only their names: geonameid, name, country, admin1, lat,
    /// lon, population, separated by tabs
    #[arg(long, value_name = "FILE", help_heading = "Network")]
    pub(crate) cities: Option<PathBuf>,
    /// Merge the routers of each city into one node
    #[arg(long, help_heading = "Network")]
    pub(crate) pops: bool,
    /// Keep the K PoPs of highest degree
    #[arg(long, value_name = "K", help_heading = "Network")]
    pub(crate) reduce: Option<usize>,
    /// Let only the K PoPs of highest degree send and receive; the others forward
    #[arg(long, value_name = "K", help_heading = "Network")]
    pub(crate) endpoints: Option<usize>,
    /// Add N access routers to each PoP, where traffic enters and leaves
    #[arg(long, value_name = "N", help_heading = "Network")]
    pub(crate) access: Option<u32>,
    /// Keep only the largest connected part of the map
    #[arg(long, help_heading = "Network")]
    pub(crate) largest_part: bool,
    /// Write a self-contained HTML report to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Write every table as CSV into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) csv: Option<PathBuf>,
    /// Print every section, not only the result
    #[arg(long, conflicts_with = "json")]
    pub(crate) full: bool,
    /// Print one JSON document instead of the summary
    #[arg(long)]
    pub(crate) json: bool,
}

impl RouteArgs {
    /// Every input file.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &Path> {
        let files = [&self.latencies, &self.cities, &self.eliminate];
        std::iter::once(&*self.topology).chain(files.into_iter().filter_map(|file| file.as_deref()))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CostName {
    /// Latency of the link
    Latency,
    /// 1 for every link
    Hops,
}
