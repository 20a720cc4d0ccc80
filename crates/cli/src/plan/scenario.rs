//! From arguments to the planner's request: reads files and describes settings.

use crate::args::plan::ScenarioArgs;
use crate::failure::{Failure, Outcome, nearest};
use crate::quantity::bytes;
use oncewire_plan::error::{DeviceError, TopologyError, TrafficError};
use oncewire_plan::scenario::{Decoders, DeviceOverride, Hour, Redundancy, Shape, TrafficSource};
use oncewire_plan::{
    BitRate, Bytes, Error, Fault, Instance, Network, PerSecond, Provision, Synthetic, Text,
};
use oncewire_plan::{NodeId, traffic::Scale};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Largest file that is read, in bytes. A router-level map of a tier-1 ISP has 300 kB, its measured
/// redundancy profile about 100 MB.
const FILE_MAX: u64 = 1 << 30;

/// Largest IP packet, in bytes.
const PACKET_MAX: f64 = 65_535.0;

/// The smaller ones of emulated packets, in bytes.
const SMALL_PACKET: f64 = 100.0;

/// IPv6 and TCP headers, in bytes.
const HEADERS: f64 = 60.0;

/// The planner's scenario, and what reports say about it.
pub(super) struct Scenario {
    /// For the planner.
    pub(super) request: oncewire_plan::Scenario,
    /// Name and value of each setting, for people.
    pub(super) settings: Vec<(String, String)>,
    /// Traffic and redundancy of further hours, where several are given.
    pub(super) hours: Vec<Hour>,
}

impl Scenario {
    /// Reads every file that the arguments name.
    pub(crate) fn read(args: &ScenarioArgs) -> Outcome<Scenario> {
        let text = |path: &Option<_>| path.as_deref().map(self::text).transpose();
        let provision = provision(args)?;
        let mut all = hours(args)?;
        let first = all.remove(0);
        let request = oncewire_plan::Scenario {
            topology: self::text(&args.topology)?,
            companion: text(&args.latencies)?,
            cities: text(&args.map.cities)?,
            shape: Shape {
                largest_component: args.largest_part,
                to_pops: args.map.pops,
                populated_only: args.populated,
                reduce: args.map.reduce,
                endpoints: args.map.endpoints,
                access_routers: args.map.access,
            },
            paths: text(&args.paths)?,
            routes: text(&args.routes)?,
            traffic: first.traffic,
            scale: match (args.volumes, args.equal) {
                (true, _) => Scale::Given,
                (false, true) => Scale::EqualIngress(args.load),
                (false, false) => Scale::LargestIngress(args.load),
            },
            provision,
            decoders: match &args.links {
                Some(path) => Decoders::OnLinks(self::text(path)?),
                None if args.per_router => Decoders::PerRouter,
                None => Decoders::PerLink,
            },
            edge_only: args.edge_only,
            overrides: args.devices.as_deref().map(overrides).transpose()?.unwrap_or_default(),
            redundancy: first.redundancy,
            prior: args.prior,
        };
        Ok(Scenario { settings: settings(args, &request.provision), request, hours: all })
    }

    /// Refuses traffic of several hours, for commands other than `plan`.
    pub(super) fn one_hour(&self) -> Outcome {
        match self.hours.is_empty() {
            true => Ok(()),
            false => Err(Failure::usage("several --traffic or --profile are for `plan`: give one")),
        }
    }

    /// Adds the settings that depend on the network.
    pub(super) fn describe(&mut self, instance: &Instance) {
        if instance.counted.contains(&false) {
            let value =
                "over links between PoPs; --count-access counts those to access routers, too";
            self.settings.push(("footprint".into(), value.into()));
        }
    }
}

/// Traffic and redundancy of each hour: where one of both is given once, it is that of all.
fn hours(args: &ScenarioArgs) -> Outcome<Vec<Hour>> {
    let (matrices, profiles) = (args.traffic.len(), args.profile.len());
    let count = matrices.max(profiles);
    if (matrices > 1 && matrices < count) || (profiles > 1 && profiles < count) {
        return Err(Failure::usage(format!(
            "--traffic is given {matrices} times, --profile {profiles} times; give as many of both, or one of them once"
        )));
    }
    let of_hour = |hour: usize| -> Outcome<Hour> {
        Ok(Hour {
            traffic: match args.traffic[hour.min(matrices - 1)].as_str() {
                "gravity" => TrafficSource::Gravity,
                "demands" => TrafficSource::Demands,
                file => TrafficSource::Matrix(text(Path::new(file))?),
            },
            redundancy: match args.profile.get(hour.min(profiles.saturating_sub(1))) {
                Some(path) => {
                    Redundancy::Measured { measurement: text(path)?, volumes: args.volumes }
                }
                None => Redundancy::Synthetic(Synthetic {
                    gamma: args.gamma,
                    intrapop: args.intrapop,
                    intrapath: args.intrapath,
                    length: match_length(args),
                    ingresses: BTreeMap::new(),
                }),
            },
        })
    };
    (0..count).map(of_hour).collect()
}

/// What people call a node.
pub(crate) fn label(network: &Network, node: NodeId) -> String {
    let node = &network.nodes[node];
    if node.label.is_empty() { node.id.clone() } else { node.label.clone() }
}

/// A name with the number of its slice, unless that is 0.
pub(super) fn of_slice(name: String, slice: u16) -> String {
    if slice == 0 { name } else { format!("{name} (slice {slice})") }
}

/// What people call a device.
pub(super) fn device_label(instance: &Instance, device: usize) -> String {
    let device = &instance.devices[device];
    match device.link.map(|link| instance.network.links[link]) {
        Some(link) => format!(
            "{} -> {}",
            label(&instance.network, link.from),
            label(&instance.network, link.to)
        ),
        None => label(&instance.network, device.node),
    }
}

/// A question after an unknown name.
fn did_you_mean<'a>(name: &str, names: impl Iterator<Item = &'a String>) -> String {
    nearest(name, names.map(String::as_str))
        .map_or_else(String::new, |near| format!("; did you mean {near:?}?"))
}

/// The name of a file in messages.
fn name(path: &Path) -> String {
    if path == Path::new("-") { "standard input".into() } else { path.display().to_string() }
}

/// Reads a text file of at most [`FILE_MAX`] bytes; `-` is standard input.
pub(crate) fn read(path: &Path) -> Outcome<String> {
    let name = name(path);
    let failed = |error| Failure::io("read", &name, &error);
    let mut text = Vec::new();
    let input: io::Result<Box<dyn Read>> = if path == Path::new("-") {
        Ok(Box::new(io::stdin().lock()))
    } else {
        File::open(path).map(|file| Box::new(file) as _)
    };
    input.and_then(|input| input.take(FILE_MAX + 1).read_to_end(&mut text)).map_err(failed)?;
    if text.len() as u64 > FILE_MAX {
        return Err(Failure::damaged(format!("{name} is larger than {}", bytes(FILE_MAX))));
    }
    if text.contains(&0) {
        return Err(Failure::damaged(format!("{name} is not text; check the name")));
    }
    // Rocketfuel's maps predate the general use of UTF-8.
    Ok(String::from_utf8(text)
        .unwrap_or_else(|error| error.into_bytes().into_iter().map(char::from).collect()))
}

/// The same with its name.
pub(crate) fn text(path: &Path) -> Outcome<Text> {
    Ok(Text::new(name(path), read(path)?))
}

impl From<Error> for Failure {
    /// The exit code says who can fix the error; where an option helps, the message names it.
    fn from(error: Error) -> Failure {
        let hint = match error.root() {
            Error::Topology(TopologyError::Disconnected { .. }) => {
                "; --largest-part plans for the largest".into()
            }
            Error::Topology(TopologyError::NoCapacities) => "; give --capacity".into(),
            Error::Topology(
                TopologyError::UnknownCity { .. }
                | TopologyError::NoCityNear { .. }
                | TopologyError::OfNode { .. },
            ) => "; with --populated such nodes only forward".into(),
            Error::Traffic(TrafficError::UnknownPopulation { has_demands: true, .. }) => {
                "; the map has demands: use them with --traffic demands".into()
            }
            Error::Traffic(TrafficError::UnknownPopulation { .. }) => {
                "; give --cities, or let such nodes only forward with --populated".into()
            }
            Error::Traffic(TrafficError::UnknownIngress { name, known }) => {
                did_you_mean(name, known.iter())
            }
            Error::Devices(DeviceError::Unknown { name, known }) => {
                did_you_mean(name, known.iter())
            }
            _ => String::new(),
        };
        let message = match error.root() {
            Error::Devices(error @ DeviceError::Target { .. }) => format!("--target: {error}"),
            Error::Devices(error @ DeviceError::Budget { .. }) => format!("--budget: {error}"),
            Error::Devices(DeviceError::Deployment { asked, available }) => {
                format!("--deploy {asked}: there are {available} links to choose from")
            }
            // The names speak for themselves.
            Error::Traffic(
                error @ (TrafficError::UnknownIngress { .. } | TrafficError::AmbiguousIngress(_)),
            ) => error.to_string(),
            _ => error.to_string(),
        };
        match error.fault() {
            Fault::Interrupted => Failure::failed("interrupted: there is no result"),
            Fault::Computation => Failure::failed(message),
            Fault::Input => Failure::damaged(message + &hint),
            Fault::Request => Failure::usage(message + &hint),
        }
    }
}

/// Most payload of packets of this mean size, which are of the largest size or small, or all of the
/// mean size: as the emulator makes them.
fn payload(packet: f64) -> f64 {
    let usual = Provision::default().mss.0;
    let largest = if packet > SMALL_PACKET && packet < usual { usual } else { packet };
    (largest.floor() - HEADERS).max(1.0)
}

/// Mean length of a match: as given, or a packet's.
fn match_length(args: &ScenarioArgs) -> f64 {
    args.match_length.unwrap_or(args.packet.min(payload(args.packet)))
}

fn provision(args: &ScenarioArgs) -> Outcome<Provision> {
    let usual = Provision::default();
    let size = |given: Option<u64>, usual| given.map_or(usual, |given| Bytes(given as f64));
    let provision = Provision {
        ingress_memory: size(args.ingress_memory, usual.ingress_memory),
        ingress_rate: args.ingress_rate.map_or(usual.ingress_rate, BitRate),
        edge_memory: size(args.edge_memory, usual.edge_memory),
        interior_memory: size(args.interior_memory, usual.interior_memory),
        encodings: PerSecond(args.encodings),
        operations: PerSecond(args.operations),
        packet: Bytes(args.packet),
        mss: Bytes(usual.mss.0.max(args.packet)),
        access_links: args.count_access,
    };
    provision.check()?;
    if args.packet > PACKET_MAX {
        return Err(Failure::usage(format!(
            "--packet {}: an IP packet has at most {PACKET_MAX} bytes",
            args.packet
        )));
    }
    let payload = payload(args.packet);
    if let Some(length) = args.match_length.filter(|length| *length > payload) {
        return Err(Failure::usage(format!(
            "--match-length {length}: packets of {} bytes on average carry at most {payload} bytes of payload",
            args.packet
        )));
    }
    if args.load == 0.0 && !args.volumes {
        return Err(Failure::usage("--load 0%: there would be no traffic; give a share above 0%"));
    }
    Ok(provision)
}

/// Devices that differ from the others: device, memory and operations per second, separated by
/// tabs.
fn overrides(path: &Path) -> Outcome<Vec<DeviceOverride>> {
    let mut overrides = Vec::new();
    for (number, line) in (1..).zip(read(path)?.lines()) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let place = format!("{}, line {number}", path.display());
        let invalid = |what: String| Failure::damaged(format!("{place}: {what}"));
        let fields: Vec<&str> = line.split('\t').map(str::trim).collect();
        let [device, memory, operations] = fields[..] else {
            return Err(invalid(
                "write the device, its memory and its operations per second, separated by tabs"
                    .into(),
            ));
        };
        let size = crate::quantity::parse_size(memory)
            .map_err(|why| invalid(format!("{memory:?} is {why}")))?;
        let speed =
            operations.parse().ok().filter(|speed: &f64| *speed >= 0.0 && speed.is_finite());
        let operations = speed.ok_or_else(|| {
            invalid(format!("{operations:?} is not a number of operations per second"))
        })?;
        overrides.push(DeviceOverride {
            place,
            device: device.into(),
            memory: Bytes(size as f64),
            operations: PerSecond(operations),
        });
    }
    Ok(overrides)
}

fn settings(args: &ScenarioArgs, provision: &Provision) -> Vec<(String, String)> {
    let percent = |share: f64| format!("{} %", (share * 1e4).round() / 100.0);
    let mut settings = vec![("traffic", args.traffic.join(", "))];
    if args.volumes {
        settings.push(("volumes", "as given, in bytes per epoch".into()));
    } else {
        let whom = if args.equal { "each ingress" } else { "the largest ingress" };
        settings.push(("load", format!("{} of the ingress rate at {whom}", percent(args.load))));
    }
    if let Some(path) = &args.routes {
        settings.push(("routes", format!("of {}", path.display())));
    }
    let profiles: Vec<String> =
        args.profile.iter().map(|path| path.display().to_string()).collect();
    match &profiles[..] {
        [_, ..] => {
            let mixed = match args.prior > 0.0 {
                true => format!(", with {} of the traffic matrix", percent(args.prior)),
                false => String::new(),
            };
            let measured = format!("as measured in {}{mixed}", profiles.join(", "));
            settings.push(("redundancy", measured));
        }
        [] => {
            let [gamma, intrapop, intrapath] =
                [args.gamma, args.intrapop, args.intrapath].map(percent);
            settings.push((
                "redundancy",
                format!("gamma {gamma}, intrapop {intrapop}, intrapath {intrapath}"),
            ));
            settings.push(("match length", format!("{} bytes", match_length(args))));
        }
    }
    let size = |size: Bytes| bytes(size.0 as u64);
    settings.extend([
        ("mean packet", format!("{} bytes", args.packet)),
        (
            "ingress store",
            format!(
                "{}, filled at {} Gbit/s",
                size(provision.ingress_memory),
                provision.ingress_rate.0 / 1e9
            ),
        ),
        (
            "caches",
            format!(
                "{} at edges, {} inside",
                size(provision.edge_memory),
                size(provision.interior_memory)
            ),
        ),
        (
            "speeds",
            format!(
                "{} encodings, {} operations per second",
                provision.encodings, provision.operations
            ),
        ),
        (
            "devices",
            if args.per_router { "one per router" } else { "one per link and direction" }.into(),
        ),
    ]);
    if args.edge_only {
        settings.push(("decoding", "only at the last device of each path".into()));
    }
    settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
