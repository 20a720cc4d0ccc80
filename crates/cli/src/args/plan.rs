//! Arguments of `plan` and `emulate`.

use crate::quantity::{
    parse_money, parse_percent, parse_price, parse_rate, parse_size, parse_time,
};
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire plan sprint.json --access 4 --load 50% --report sprint.html
  oncewire plan sprint.json --access 4 --endpoints 20 --equal --gamma 50% \\
    --manifests plan.json
  oncewire plan 3257.weights.intra --latencies 3257.latencies.intra \\
    --cities cities.tsv --populated --pops
  oncewire plan geant.xml --traffic demands --deploy 10 --strategy greedy
  oncewire plan sprint.json --target 20% --failures
  oncewire plan sprint.json --budget 500000 --price-device 8000 \\
    --price-cache 5/GB --price-link 0.002/GB
  oncewire plan isp.graphml --traffic tm.txt --profile measured.tsv \\
    --against plan.json --manifests next.json

Topology formats: our JSON, GraphML (Topology Zoo), Rocketfuel .cch and
weights.intra, REPETITA .graph, SNDlib XML. docs/PLANNERS.md defines every
quantity.")]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) scenario: ScenarioArgs,
    /// What to minimize
    #[arg(long, value_enum, default_value = "footprint")]
    pub(crate) objective: ObjectiveName,
    /// Capacity of links for which the map gives none
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub(crate) capacity: Option<f64>,
    /// Solver for the linear program
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) solver: SolverName,
    /// Relative optimality gap at which to stop
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, default_value = "0.0001%")]
    pub(crate) gap: f64,
    /// Put decoders only on the best N links
    #[arg(long, value_name = "N", conflicts_with_all = ["links", "per_router"])]
    pub(crate) deploy: Option<usize>,
    /// How to choose the links for --deploy
    #[arg(long, value_enum, default_value = "redundancy", requires = "deploy")]
    pub(crate) strategy: StrategyName,
    /// Let each link and each node fail in turn, with this plan; `anew` also makes a new plan for each
    #[arg(long, value_enum, value_name = "PLAN", num_args = 0..=1, require_equals = true, default_missing_value = "kept")]
    pub(crate) failures: Option<FailuresName>,
    #[command(flatten)]
    pub(crate) money: MoneyArgs,
    /// Plan only for traffic that enters at this node (id or label), with its share of each device;
    /// `all` plans for each node in turn
    #[arg(long, value_name = "NODE", conflicts_with_all = ["deploy", "budget", "target", "failures"])]
    pub(crate) single: Option<String>,
    /// Schemes to compare the plan with
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) compare: CompareName,
    /// Share of every device's memory and operations to leave free, for more traffic than planned
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, default_value = "0%")]
    pub(crate) headroom: f64,
    /// Which plan to take: the program's optimum, which counts each match with the first copy of its
    /// bytes, or the plan that is expected to save most when packets refer to any copy, as nodes and
    /// `emulate` do
    #[arg(long, value_name = "PLAN", value_enum, default_value = "optimum")]
    pub(crate) choose: TakenName,
    /// Let each path cache all of its packets, not only those that the plan expects to be repeated:
    /// for traffic that changes. Shows in manifests only
    #[arg(long)]
    pub(crate) cache_all: bool,
    /// What one plan for several --traffic or --profile is to be good at
    #[arg(long, value_enum, default_value = "mean")]
    pub(crate) aim: AimName,
    /// Skip the comparison with other schemes
    #[arg(long, conflicts_with = "compare")]
    pub(crate) quick: bool,
    /// Write the plan for all devices to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) manifests: Option<PathBuf>,
    /// Write a manifest for each device and each ingress into this directory, which must be empty or
    /// new
    #[arg(long, value_name = "DIR")]
    pub(crate) manifests_dir: Option<PathBuf>,
    /// Show what changes from this plan, which --manifests wrote and which is in force
    #[arg(long, value_name = "FILE")]
    pub(crate) against: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) result: ResultArgs,
}

/// What devices cost, and what they are bought for.
#[derive(Clone, Debug, Args)]
pub(crate) struct MoneyArgs {
    /// Build the encoders and decoders that save most for this money at most; without prices, at most
    /// this many
    #[arg(long, value_name = "MONEY", value_parser = parse_money, conflicts_with_all = ["target", "deploy"], help_heading = "Money")]
    pub(crate) budget: Option<f64>,
    /// Build the cheapest encoders and decoders that save this share of the footprint; without
    /// prices, the fewest
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, conflicts_with = "deploy", help_heading = "Money")]
    pub(crate) target: Option<f64>,
    /// Price of an encoder or a decoder
    #[arg(long, value_name = "MONEY", value_parser = parse_money, help_heading = "Money")]
    pub(crate) price_device: Option<f64>,
    /// Price of a GB of memory in encoders and decoders, filled or not
    #[arg(long, value_name = "MONEY/GB", value_parser = parse_price, help_heading = "Money")]
    pub(crate) price_cache: Option<f64>,
    /// Price of carrying a GB over one link, for the payback time
    #[arg(long, value_name = "MONEY/GB", value_parser = parse_price, help_heading = "Money")]
    pub(crate) price_link: Option<f64>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire emulate sprint.json --endpoints 5 --access 2
  oncewire emulate sprint.json --endpoints 5 --access 2 --loss 0.1% --replan 2
  oncewire emulate isp.json --capture monday.pcap --prefixes pops.txt \\
    --ingress Chicago --manifests plan.json
  oncewire emulate geant.json --traffic demands --flash-crowd 4s:volume=3

Every packet that leaves the network is compared with the one that entered; the
first difference ends the run with exit status 1. Synthetic packets carry the
redundancy profile. --scale sets the fraction of the real volumes and caches
that is emulated.")]
pub(crate) struct EmulateArgs {
    #[command(flatten)]
    pub(crate) scenario: ScenarioArgs,
    /// Carry the packets of this capture instead of synthetic ones; repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) capture: Vec<PathBuf>,
    /// File that maps captured addresses to nodes, one `PREFIX NODE` per line [default: spread
    /// addresses over nodes by volume]
    #[arg(long, value_name = "FILE", requires = "capture")]
    pub(crate) prefixes: Option<PathBuf>,
    /// Node where captured packets enter [default: the node with the most traffic]
    #[arg(long, value_name = "NODE", requires = "capture")]
    pub(crate) ingress: Option<String>,
    /// Plan from `oncewire plan --manifests` for the same network and traffic [default: make one]
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Option<PathBuf>,
    /// Retention epochs to emulate; the first fills the caches and does not count
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub(crate) epochs: u32,
    /// Fraction of volumes, caches and speeds to emulate [default: so that 64 MB enter per epoch]
    #[arg(long, value_name = "SHARE", value_parser = parse_percent)]
    pub(crate) scale: Option<f64>,
    /// Packet loss on each link
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, default_value = "0%")]
    pub(crate) loss: f64,
    /// Make a new plan every N epochs, from what ingresses measured
    #[arg(long, value_name = "N")]
    pub(crate) replan: Option<u32>,
    /// Also make a new plan when an ingress measures bytes that differ by this share from the plan
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, requires = "replan")]
    pub(crate) trigger: Option<f64>,
    /// Time it takes to make a new plan
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "1s")]
    pub(crate) delay: Duration,
    /// Time within which devices switch to a new plan, one after the other
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "50ms")]
    pub(crate) stagger: Duration,
    /// Let the largest ingress send more, or more redundant traffic, from a time on: 4s:volume=3 or
    /// 4s:gamma=50%
    #[arg(long, value_name = "TIME:WHAT", value_parser = parse_flash)]
    pub(crate) flash_crowd: Option<FlashCrowd>,
    /// Let each path's volume and redundancy change slowly and at random: decorrelated within this
    /// time, by factors e^(s z) with this s, such as 60s:0.5
    #[arg(long, value_name = "TIME:S", value_parser = parse_drift, conflicts_with = "capture")]
    pub(crate) drift: Option<DriftArg>,
    /// Let the link with the most traffic fail after this time; with --replan, manifests follow the
    /// new routes
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) reroute: Option<Duration>,
    /// Time until ingresses learn of changed routes
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "0s", requires = "reroute")]
    pub(crate) notice: Duration,
    /// Most matches encoded in a packet
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=15))]
    pub(crate) matches: u8,
    /// What may be referred to, and how caches are divided
    #[arg(long, value_name = "RULES", value_enum, default_value = "precise")]
    pub(crate) rules: RulesName,
    /// Share of every device's memory and operations that plans leave free, for more traffic than
    /// planned
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, default_value = "0%", conflicts_with = "plan")]
    pub(crate) headroom: f64,
    /// Let each path cache all of its packets, not only those that the plan expects to be repeated:
    /// for traffic that changes
    #[arg(long, conflicts_with = "plan")]
    pub(crate) cache_all: bool,
    /// What decides between plans: what is expected of them, or the packets, which are carried once
    /// with each [default: packets for captures, else expected]
    #[arg(long, value_name = "BY", value_enum, conflicts_with = "plan")]
    pub(crate) choose: Option<ChooseName>,
    /// Write the plan that was carried to this file, for --plan and for `plan --against`
    #[arg(long, value_name = "FILE", conflicts_with = "plan")]
    pub(crate) manifests: Option<PathBuf>,
    /// Skip the comparison with hop-by-hop elimination and Ideal
    #[arg(long)]
    pub(crate) quick: bool,
    /// Write the volumes and the redundancy profile that ingresses measured to this file, for
    /// --profile
    #[arg(long, value_name = "FILE")]
    pub(crate) measured: Option<PathBuf>,
    /// Print every section, not only the result
    #[arg(long, conflicts_with = "json")]
    pub(crate) full: bool,
    /// Print one JSON document instead of the summary
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is made of a map.
#[derive(Clone, Debug, Args)]
pub(crate) struct MapArgs {
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
}

/// Where a result goes beside or instead of the summary.
#[derive(Clone, Debug, Args)]
pub(crate) struct ResultArgs {
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

/// Network, traffic and devices.
#[derive(Clone, Debug, Args)]
pub(crate) struct ScenarioArgs {
    /// Topology file; `-` is standard input
    pub(crate) topology: PathBuf,
    /// Companion of the topology: Rocketfuel's latencies.intra, or REPETITA's .demands
    #[arg(long, visible_alias = "demands", value_name = "FILE", help_heading = "Network")]
    pub(crate) latencies: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) map: MapArgs,
    /// Count links to and from access routers in the footprint, although they lie within a PoP
    #[arg(long, help_heading = "Network")]
    pub(crate) count_access: bool,
    /// Keep only the largest connected part of the map
    #[arg(long, help_heading = "Network")]
    pub(crate) largest_part: bool,
    /// Let nodes of unknown population only forward
    #[arg(long, help_heading = "Network")]
    pub(crate) populated: bool,
    /// File of paths to use instead of the shortest, one `from node ... to` per line
    #[arg(long, value_name = "FILE", help_heading = "Network")]
    pub(crate) paths: Option<PathBuf>,
    /// Routes to use instead of the shortest, from `oncewire route --routes`; an ingress's traffic is
    /// divided among its slices by weight
    #[arg(long, value_name = "FILE", conflicts_with = "paths", help_heading = "Network")]
    pub(crate) routes: Option<PathBuf>,
    /// Traffic matrix: gravity (by population), demands (from the topology), or a file with `from
    /// to volume` lines; `plan` makes one plan for all that are given
    #[arg(long, value_name = "WHAT", default_value = "gravity", help_heading = "Traffic")]
    pub(crate) traffic: Vec<String>,
    /// Let the same volume enter at every ingress
    #[arg(long, help_heading = "Traffic")]
    pub(crate) equal: bool,
    /// Traffic that enters at the largest ingress, as a share of the ingress rate
    #[arg(long, value_name = "SHARE", value_parser = parse_percent, default_value = "50%", help_heading = "Traffic")]
    pub(crate) load: f64,
    /// Read the volumes of --traffic as bytes per epoch instead of scaling them to --load
    #[arg(long, conflicts_with_all = ["equal"], help_heading = "Traffic")]
    pub(crate) volumes: bool,
    /// Fraction of the traffic that is redundant
    #[arg(long, value_name = "SHARE", value_parser = parse_percent, default_value = "50%", help_heading = "Traffic")]
    pub(crate) gamma: f64,
    /// Fraction of the redundancy that lies within traffic to one PoP
    #[arg(long, value_name = "SHARE", value_parser = parse_percent, default_value = "50%", help_heading = "Traffic")]
    pub(crate) intrapop: f64,
    /// Fraction of that redundancy that lies within one path
    #[arg(long, value_name = "SHARE", value_parser = parse_percent, default_value = "50%", help_heading = "Traffic")]
    pub(crate) intrapath: f64,
    /// Mean length of a match in bytes [default: the mean packet size, or what such packets carry if
    /// that is less]
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true, help_heading = "Traffic")]
    pub(crate) match_length: Option<f64>,
    /// Measured redundancy profile, instead of the synthetic one; with --volumes, use its volumes
    /// too; `plan` makes one plan for all that are given
    #[arg(long, value_name = "FILE", conflicts_with_all = ["gamma", "intrapop", "intrapath", "match_length"], help_heading = "Traffic")]
    pub(crate) profile: Vec<PathBuf>,
    /// Share of the traffic matrix to mix into measured profiles, for a plan that is to last: paths
    /// that were quiet get some volume and some matches
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, default_value = "0%", requires = "profile", help_heading = "Traffic")]
    pub(crate) prior: f64,
    /// Mean packet size in bytes
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 1000.0,
        allow_negative_numbers = true,
        help_heading = "Traffic"
    )]
    pub(crate) packet: f64,
    /// Packet store of an ingress; divided by the rate, it is the retention epoch [default: 3 GB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Devices")]
    pub(crate) ingress_memory: Option<u64>,
    /// Rate at which the packet store fills [default: 2.4Gbit]
    #[arg(long, value_name = "RATE", value_parser = parse_rate, help_heading = "Devices")]
    pub(crate) ingress_rate: Option<f64>,
    /// Cache of a device on a link to an access router [default: 3 GB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Devices")]
    pub(crate) edge_memory: Option<u64>,
    /// Cache of any other device [default: 6 GB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Devices")]
    pub(crate) interior_memory: Option<u64>,
    /// Packets per second that an encoder can process
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0.5e6,
        allow_negative_numbers = true,
        help_heading = "Devices"
    )]
    pub(crate) encodings: f64,
    /// Operations per second of a decoder; caching a packet or decoding a match is one
    #[arg(
        long,
        value_name = "N",
        default_value_t = 2.5e6,
        allow_negative_numbers = true,
        help_heading = "Devices"
    )]
    pub(crate) operations: f64,
    /// Use one device per router instead of one per link
    #[arg(long, help_heading = "Devices")]
    pub(crate) per_router: bool,
    /// Let only the last device of each path cache and decode its packets: edge-only redundancy
    /// elimination
    #[arg(long, conflicts_with = "links", help_heading = "Devices")]
    pub(crate) edge_only: bool,
    /// File of devices that differ: `device memory operations`, separated by tabs; a device is a
    /// router, or a link as `from -> to`
    #[arg(long, value_name = "FILE", help_heading = "Devices")]
    pub(crate) devices: Option<PathBuf>,
    /// Put decoders only on the links in this file, one `from -> to` per line
    #[arg(long, value_name = "FILE", conflicts_with = "per_router", help_heading = "Devices")]
    pub(crate) links: Option<PathBuf>,
    /// Seed for everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

impl ScenarioArgs {
    /// Every input file.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &Path> {
        let ScenarioArgs {
            topology,
            latencies,
            map: MapArgs { cities, .. },
            paths,
            routes,
            profile,
            devices,
            links,
            traffic,
            ..
        } = self;
        let traffic = traffic
            .iter()
            .map(Path::new)
            .filter(|traffic| !["gravity", "demands"].map(Path::new).contains(traffic));
        let files = [latencies, cities, paths, routes, devices, links]
            .into_iter()
            .filter_map(|file| file.as_deref())
            .chain(profile.iter().map(|file| &**file));
        std::iter::once(&**topology).chain(files).chain(traffic)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RulesName {
    /// All bytes that the device decodes before it caches; the best of up to 16 copies; a queue for
    /// each ingress and device
    Precise,
    /// As in the paper: only bytes that did not match; the last copy; a queue for each path and
    /// device
    Published,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ChooseName {
    /// The plan that is expected to save most, by references to all copies
    Expected,
    /// The plan with which these packets save most
    Packets,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TakenName {
    /// The program's optimum
    Optimum,
    /// The plan that is expected to save most, by references to all copies
    Expected,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ObjectiveName {
    /// The footprint: bytes times links
    Footprint,
    /// The highest utilization of a link
    LinkLoad,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailuresName {
    /// This plan, as far as it suits the new routes
    Kept,
    /// Also a new plan for each failure
    Anew,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompareName {
    /// All but the fewest devices for programs of up to 20,000 variables, else few
    Auto,
    /// Hop-by-hop and Ideal, which take no further plans
    Few,
    /// Also edge-only, the heuristics and SmartRE without limits, the load at which the winner changes, what upgrades
    /// gain, and the fewest devices for 95 % of the savings: some hundred more plans
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AimName {
    /// Most bytes times links saved in all
    Mean,
    /// The largest share saved where it is smallest
    Worst,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SolverName {
    /// Interior point; simplex if that fails
    Auto,
    /// Our interior point method
    Interior,
    /// Simplex, for small networks
    Simplex,
    /// HiGHS
    #[cfg(feature = "highs")]
    Highs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StrategyName {
    /// Most paths
    Paths,
    /// Most volume times distance
    Volume,
    /// Most redundancy times distance
    Redundancy,
    /// One at a time, the link that saves most
    Greedy,
    /// The best combination, for small networks
    Optimal,
}

/// A sudden change at the largest ingress.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FlashCrowd {
    /// Start.
    pub(crate) from: Duration,
    /// Factor on the volume.
    pub(crate) volume: f64,
    /// New gamma, if it changes.
    pub(crate) gamma: Option<f64>,
}

/// What `--drift` says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct DriftArg {
    pub(crate) time: Duration,
    pub(crate) spread: f64,
}

fn parse_drift(text: &str) -> Result<DriftArg, String> {
    let wrong = || "write a time and s, such as 60s:0.5".to_string();
    let (time, spread) = text.split_once(':').ok_or_else(wrong)?;
    let spread: f64 = spread.parse().map_err(|_| wrong())?;
    if !(0.0..=3.0).contains(&spread) {
        return Err(format!("s is {spread}; it must be from 0 to 3"));
    }
    Ok(DriftArg { time: parse_time(time)?, spread })
}

fn parse_flash(text: &str) -> Result<FlashCrowd, String> {
    let wrong = || "write a time and what changes, such as 4s:volume=3 or 4s:gamma=50%".to_string();
    let (time, what) = text.split_once(':').ok_or_else(wrong)?;
    let mut flash = FlashCrowd { from: parse_time(time)?, volume: 1.0, gamma: None };
    for part in what.split(',') {
        match part.split_once('=') {
            Some(("volume", times)) => {
                flash.volume = times
                    .parse()
                    .ok()
                    .filter(|times| *times > 0.0 && *times <= 1000.0)
                    .ok_or_else(wrong)?;
            }
            Some(("gamma", share)) => flash.gamma = Some(parse_percent(share)?),
            _ => return Err(wrong()),
        }
    }
    Ok(flash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_drifts() {
        let drift = |seconds, spread| Ok(DriftArg { time: Duration::from_secs(seconds), spread });
        assert_eq!(parse_drift("60s:0.5"), drift(60, 0.5));
        assert_eq!(parse_drift("1h:0"), drift(3600, 0.0));
        for bad in ["", "60s", "60s:", ":1", "60s:x", "60s:-1", "60s:4", "60s:nan", "60:0.5:1"] {
            assert!(parse_drift(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn parses_flash_crowds() {
        let flash =
            |from, volume, gamma| Ok(FlashCrowd { from: Duration::from_secs(from), volume, gamma });
        assert_eq!(parse_flash("4s:volume=3"), flash(4, 3.0, None));
        assert_eq!(parse_flash("10s:gamma=50%"), flash(10, 1.0, Some(0.5)));
        assert_eq!(parse_flash("10s:gamma=50%,volume=2"), flash(10, 2.0, Some(0.5)));
        for bad in [
            "",
            "4s",
            "4s:",
            "volume=3",
            "4s:volume=0",
            "4s:volume=nan",
            "4s:gamma=101%",
            "4s:colour=3",
        ] {
            assert!(parse_flash(bad).is_err(), "{bad}");
        }
    }
}
