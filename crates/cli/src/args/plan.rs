//! Arguments of `plan` and `emulate`.

use crate::quantity::{parse_percent, parse_rate, parse_size, parse_time};
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
  oncewire plan isp.graphml --traffic tm.txt --profile measured.tsv \\
    --against plan.json --manifests next.json

Topologies are JSON (ours), GraphML (Topology Zoo), Rocketfuel .cch or weights.intra, REPETITA .graph, or SNDlib XML. What the numbers mean
is in docs/PLANNERS.md.")]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) scenario: ScenarioArgs,
    /// What to make the least of: the footprint (bytes times links), or the highest utilization of a link
    #[arg(long, value_enum, default_value = "footprint")]
    pub(crate) objective: ObjectiveName,
    /// Capacity of links that the map gives none
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub(crate) capacity: Option<f64>,
    /// The method that solves the program
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) solver: SolverName,
    /// Stop as soon as no plan can be better by more than this
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, default_value = "0.0001%")]
    pub(crate) gap: f64,
    /// Put decoders on the best N links only
    #[arg(long, value_name = "N", conflicts_with_all = ["links", "per_router"])]
    pub(crate) deploy: Option<usize>,
    /// How the links for --deploy are chosen: by the paths on them, by volume and distance, by expected redundancy too, one by one by what
    /// each adds, or the best of all choices (small networks)
    #[arg(long, value_enum, default_value = "redundancy", requires = "deploy")]
    pub(crate) strategy: StrategyName,
    /// Plan for what enters at this node (id or label) only, with its share of each device; or `all`: each node in turn
    #[arg(long, value_name = "NODE", conflicts_with = "deploy")]
    pub(crate) single: Option<String>,
    /// Only the plan, without the other schemes it is compared with
    #[arg(long)]
    pub(crate) quick: bool,
    /// Write what each device needs to know, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) manifests: Option<PathBuf>,
    /// A plan in force, made by --manifests: show what changes
    #[arg(long, value_name = "FILE")]
    pub(crate) against: Option<PathBuf>,
    /// Write a report for a browser: one file that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Write every table as comma-separated values into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) csv: Option<PathBuf>,
    /// One JSON document instead of the summary
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire emulate sprint.json --endpoints 5 --access 2
  oncewire emulate sprint.json --endpoints 5 --access 2 --loss 0.1% --replan 2
  oncewire emulate isp.json --capture monday.pcap --prefixes pops.txt \\
    --ingress Chicago
  oncewire emulate geant.json --traffic demands --flash-crowd 4s:volume=3

Every packet that leaves the network is compared with the one that entered: a single difference ends the run with exit code 1. Synthetic
packets carry the redundancy profile; --scale says how much of the real volumes and caches is emulated.")]
pub(crate) struct EmulateArgs {
    #[command(flatten)]
    pub(crate) scenario: ScenarioArgs,
    /// Capture with the packets to carry, instead of synthetic ones; repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) capture: Vec<PathBuf>,
    /// A file of networks and the nodes behind which they are, one PREFIX NODE a line, for captures; without it, destinations are spread over
    /// nodes by volume
    #[arg(long, value_name = "FILE", requires = "capture")]
    pub(crate) prefixes: Option<PathBuf>,
    /// Node where a capture's packets enter [default: the one with the most traffic]
    #[arg(long, value_name = "NODE", requires = "capture")]
    pub(crate) ingress: Option<String>,
    /// A plan made by `oncewire plan --manifests` for the same network and traffic [default: one is made]
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Option<PathBuf>,
    /// Retention epochs to emulate; the first fills the caches and is not counted
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub(crate) epochs: u32,
    /// Part of volumes, caches and speeds that is emulated [default: so that 64 MB enter in an epoch]
    #[arg(long, value_name = "SHARE", value_parser = parse_percent)]
    pub(crate) scale: Option<f64>,
    /// Packets lost on each link
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, default_value = "0%")]
    pub(crate) loss: f64,
    /// Make a new plan from what was measured after every N epochs
    #[arg(long, value_name = "N")]
    pub(crate) replan: Option<u32>,
    /// Make one as soon as what an ingress measures differs by this share of its bytes from what was planned with
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, requires = "replan")]
    pub(crate) trigger: Option<f64>,
    /// Time that making a new plan takes
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "1s")]
    pub(crate) delay: Duration,
    /// Time within which the devices take up a new plan, one after the other
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "50ms")]
    pub(crate) stagger: Duration,
    /// From that time on, the largest ingress sends more, or more redundantly: 4s:volume=3 or 4s:gamma=50%
    #[arg(long, value_name = "TIME:WHAT", value_parser = parse_flash)]
    pub(crate) flash_crowd: Option<FlashCrowd>,
    /// After this time, the link with the most traffic fails and routes change
    #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with = "replan")]
    pub(crate) reroute: Option<Duration>,
    /// Time until ingresses hear of changed routes
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "0s", requires = "reroute")]
    pub(crate) notice: Duration,
    /// Match specifications in a packet's shim, at most
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=15))]
    pub(crate) matches: u8,
    /// Only the plan, without hop-by-hop elimination beside it
    #[arg(long)]
    pub(crate) quick: bool,
    /// Write the redundancy profile and the volumes that the ingresses measured, for --profile and --traffic
    #[arg(long, value_name = "FILE")]
    pub(crate) measured: Option<PathBuf>,
    /// One JSON document instead of the summary
    #[arg(long)]
    pub(crate) json: bool,
}

/// The network, its traffic and its devices.
#[derive(Clone, Debug, Args)]
pub(crate) struct ScenarioArgs {
    /// The topology
    pub(crate) topology: PathBuf,
    /// Rocketfuel's latencies.intra beside weights.intra, or REPETITA's .demands beside .graph
    #[arg(long, visible_alias = "demands", value_name = "FILE", help_heading = "Network")]
    pub(crate) latencies: Option<PathBuf>,
    /// A table of cities (geonameid, name, country, admin1, lat, lon, population; tab-separated) for maps that have only their names
    #[arg(long, value_name = "FILE", help_heading = "Network")]
    pub(crate) cities: Option<PathBuf>,
    /// Make one node of each city
    #[arg(long, help_heading = "Network")]
    pub(crate) pops: bool,
    /// Keep the K PoPs of highest degree, ties by name
    #[arg(long, value_name = "K", help_heading = "Network")]
    pub(crate) reduce: Option<usize>,
    /// Only the K PoPs of highest degree send and receive; the others forward
    #[arg(long, value_name = "K", help_heading = "Network")]
    pub(crate) endpoints: Option<usize>,
    /// Add N access routers to each PoP, where traffic enters and leaves
    #[arg(long, value_name = "N", help_heading = "Network")]
    pub(crate) access: Option<u32>,
    /// Count links to and from access routers in the footprint, too; they lie within a PoP
    #[arg(long, help_heading = "Network")]
    pub(crate) count_access: bool,
    /// Leave unconnected parts of the map out, all but the largest
    #[arg(long, help_heading = "Network")]
    pub(crate) largest_part: bool,
    /// Nodes of unknown population only forward
    #[arg(long, help_heading = "Network")]
    pub(crate) populated: bool,
    /// Paths to take instead of the shortest: a file of `from node ... node to`, one a line
    #[arg(long, value_name = "FILE", help_heading = "Network")]
    pub(crate) paths: Option<PathBuf>,
    /// Where traffic goes: gravity (by the cities' populations), demands (the topology's own), or a file of `from to volume`
    #[arg(long, value_name = "WHAT", default_value = "gravity", help_heading = "Traffic")]
    pub(crate) traffic: String,
    /// The same volume enters everywhere
    #[arg(long, help_heading = "Traffic")]
    pub(crate) equal: bool,
    /// Load: what enters at the largest ingress, as a share of the ingress rate
    #[arg(long, value_name = "SHARE", value_parser = parse_percent, default_value = "50%", help_heading = "Traffic")]
    pub(crate) load: f64,
    /// Take the volumes of --traffic as bytes per epoch, instead of scaling them to --load
    #[arg(long, conflicts_with_all = ["equal"], help_heading = "Traffic")]
    pub(crate) volumes: bool,
    /// Share of the traffic that repeats
    #[arg(long, value_name = "SHARE", value_parser = parse_percent, default_value = "50%", help_heading = "Traffic")]
    pub(crate) gamma: f64,
    /// Share of it that repeats traffic to the same PoP
    #[arg(long, value_name = "SHARE", value_parser = parse_percent, default_value = "50%", help_heading = "Traffic")]
    pub(crate) intrapop: f64,
    /// Share of that which repeats traffic of the same path
    #[arg(long, value_name = "SHARE", value_parser = parse_percent, default_value = "50%", help_heading = "Traffic")]
    pub(crate) intrapath: f64,
    /// Mean length of a match in bytes [default: the mean packet size]
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true, help_heading = "Traffic")]
    pub(crate) match_length: Option<f64>,
    /// A measured redundancy profile, instead of the synthetic one; with --volumes its volumes count too, else its matches per byte
    #[arg(long, value_name = "FILE", conflicts_with_all = ["gamma", "intrapop", "intrapath", "match_length"], help_heading = "Traffic")]
    pub(crate) profile: Option<PathBuf>,
    /// Mean size of a packet in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1000.0, allow_negative_numbers = true, help_heading = "Traffic")]
    pub(crate) packet: f64,
    /// Packet store of an ingress; with the rate it gives the retention epoch [default: 3 GB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Devices")]
    pub(crate) ingress_memory: Option<u64>,
    /// Rate at which an ingress's store fills [default: 2.4Gbit]
    #[arg(long, value_name = "RATE", value_parser = parse_rate, help_heading = "Devices")]
    pub(crate) ingress_rate: Option<f64>,
    /// Cache of a device on a link to an access router [default: 3 GB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Devices")]
    pub(crate) edge_memory: Option<u64>,
    /// Cache of any other device [default: 6 GB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Devices")]
    pub(crate) interior_memory: Option<u64>,
    /// Packets per second that an encoder can fingerprint
    #[arg(long, value_name = "N", default_value_t = 0.5e6, allow_negative_numbers = true, help_heading = "Devices")]
    pub(crate) encodings: f64,
    /// Operations per second of a decoder: packets cached and matches decoded
    #[arg(long, value_name = "N", default_value_t = 2.5e6, allow_negative_numbers = true, help_heading = "Devices")]
    pub(crate) operations: f64,
    /// One device per router instead of one per link
    #[arg(long, help_heading = "Devices")]
    pub(crate) per_router: bool,
    /// Devices that differ: a file of `link-or-router memory operations`, tab-separated, links as `from -> to`, nodes by id or label
    #[arg(long, value_name = "FILE", help_heading = "Devices")]
    pub(crate) devices: Option<PathBuf>,
    /// Put decoders on these links only: a file of `from -> to`, one a line, nodes by id or label
    #[arg(long, value_name = "FILE", conflicts_with = "per_router", help_heading = "Devices")]
    pub(crate) links: Option<PathBuf>,
    /// Seed of everything that is random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

impl ScenarioArgs {
    /// Every file that is read.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &Path> {
        let ScenarioArgs { topology, latencies, cities, paths, profile, devices, links, traffic, .. } = self;
        let traffic = Some(Path::new(traffic)).filter(|traffic| !["gravity", "demands"].map(Path::new).contains(traffic));
        let files = [latencies, cities, paths, profile, devices, links].into_iter().filter_map(|file| file.as_deref());
        std::iter::once(&**topology).chain(files).chain(traffic)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ObjectiveName {
    /// Bytes times links
    Footprint,
    /// The highest utilization of a link
    LinkLoad,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SolverName {
    /// The interior point method, and the simplex where that fails
    Auto,
    /// Our interior point method on the prices of devices
    Interior,
    /// Simplex in Rust: for small models
    Simplex,
    /// HiGHS
    #[cfg(feature = "highs")]
    Highs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StrategyName {
    /// Links on the most paths
    Paths,
    /// Paths weighted by volume and distance
    Volume,
    /// Paths weighted by expected redundancy, too
    Redundancy,
    /// One by one, by what each adds
    Greedy,
    /// The best choice of all: small networks only
    Optimal,
}

/// A sudden change at the largest ingress.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FlashCrowd {
    /// When.
    pub(crate) from: Duration,
    /// Times the volume.
    pub(crate) volume: f64,
    /// Another gamma.
    pub(crate) gamma: Option<f64>,
}

fn parse_flash(text: &str) -> Result<FlashCrowd, String> {
    let wrong = || "write a time and what changes, such as 4s:volume=3 or 4s:gamma=50%".to_string();
    let (time, what) = text.split_once(':').ok_or_else(wrong)?;
    let mut flash = FlashCrowd { from: parse_time(time)?, volume: 1.0, gamma: None };
    for part in what.split(',') {
        match part.split_once('=') {
            Some(("volume", times)) => {
                flash.volume = times.parse().ok().filter(|times| *times > 0.0 && *times <= 1000.0).ok_or_else(wrong)?;
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
    fn flash_crowds_as_people_write_them() {
        let flash = |from, volume, gamma| Ok(FlashCrowd { from: Duration::from_secs(from), volume, gamma });
        assert_eq!(parse_flash("4s:volume=3"), flash(4, 3.0, None));
        assert_eq!(parse_flash("10s:gamma=50%"), flash(10, 1.0, Some(0.5)));
        assert_eq!(parse_flash("10s:gamma=50%,volume=2"), flash(10, 2.0, Some(0.5)));
        for bad in ["", "4s", "4s:", "volume=3", "4s:volume=0", "4s:volume=nan", "4s:gamma=101%", "4s:colour=3"] {
            assert!(parse_flash(bad).is_err(), "{bad}");
        }
    }
}
