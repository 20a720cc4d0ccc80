//! From the arguments to an instance: the network, its paths and traffic, devices and redundancy.

use super::failure;
use super::watch::Waiting;
use crate::args::plan::ScenarioArgs;
use crate::failure::{Exit, Failure, Outcome, nearest};
use crate::quantity::bytes;
use oncewire_plan::measure::Measurement;
use oncewire_plan::network::Names;
use oncewire_plan::path::Route;
use oncewire_plan::topology::{self, Cities, Format, Unknown};
use oncewire_plan::traffic::Scale;
use oncewire_plan::{Error, Instance, Network, Placement, Profile, Provision, Synthetic, routing, traffic};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Instant;

/// Largest file that is read, in bytes. A router-level map of a tier-1 ISP has 300 kB, its measured redundancy profile some 100 MB.
const FILE_MAX: u64 = 1 << 30;

/// Largest packet of IP, in bytes.
const PACKET_MAX: f64 = 65_535.0;

/// A network with all that is to be planned for it.
pub(super) struct Scenario {
    pub(super) instance: Instance,
    pub(super) provision: Provision,
    /// Name and value of each setting, in words.
    pub(super) settings: Vec<(String, String)>,
    /// Name and seconds of each step so far.
    pub(super) seconds: Vec<(&'static str, f64)>,
    pub(super) notes: Vec<String>,
}

impl Scenario {
    pub(super) fn build(args: &ScenarioArgs, watch: &Waiting) -> Outcome<Scenario> {
        watch.say("reading the topology");
        let clock = Instant::now();
        let notes = Vec::new();
        let network = network(args)?;
        let provision = provision(args)?;
        let read = clock.elapsed().as_secs_f64();

        watch.say("finding paths");
        let clock = Instant::now();
        let routes = match &args.paths {
            Some(path) => routing::given(&network, &self::read(path)?).map_err(|error| in_file(path, error))?,
            None => routing::shortest_paths(&network, watch).map_err(|error| in_file(&args.topology, error))?,
        };
        let routes = self::volumes(args, &network, routes, &provision)?;
        let placement = match &args.links {
            Some(path) => Placement::Some(links(&network, path)?),
            None if args.per_router => Placement::Routers,
            None => Placement::Links,
        };
        let profile = Profile::Synthetic(Synthetic {
            gamma: args.gamma,
            intrapop: args.intrapop,
            intrapath: args.intrapath,
            length: args.match_length.unwrap_or(args.packet),
            ingresses: BTreeMap::new(),
        });
        let mut instance =
            Instance::new(network, routes, &provision, &placement, profile).map_err(|error| match (&args.paths, error) {
                (Some(path), error @ Error::Paths(_)) => in_file(path, error),
                (_, error @ Error::Traffic(_)) => match args.traffic.as_str() {
                    "gravity" | "demands" => in_file(&args.topology, error),
                    file => in_file(Path::new(file), error),
                },
                (_, error) => failure(error),
            })?;
        if let Some(path) = &args.profile {
            let measured = Measurement::parse(&self::read(path)?, &instance).map_err(|error| in_file(path, error))?;
            let fitted = if args.volumes {
                measured.check(&instance).and_then(|()| measured.apply(&instance))
            } else {
                measured.fit(&instance)
            };
            instance = fitted.map_err(|error| in_file(path, error))?;
        }
        if let Some(path) = &args.devices {
            devices(&mut instance, path)?;
        }
        let seconds = vec![("reading the topology", read), ("paths and traffic", clock.elapsed().as_secs_f64())];
        let mut settings = settings(args, &provision);
        if instance.counted.contains(&false) {
            settings
                .push(("footprint".into(), "over links between PoPs; --count-access counts those to access routers, too".into()));
        }
        Ok(Scenario { instance, provision, settings, seconds, notes })
    }

    /// Gives links without a capacity this one, in bit/s.
    pub(super) fn assume_capacity(&mut self, capacity: f64) {
        let links = &mut self.instance.network.links;
        let without = links.iter().filter(|link| link.capacity.is_none()).count();
        links.iter_mut().for_each(|link| link.capacity = link.capacity.or(Some(capacity)));
        if without > 0 {
            let rate = crate::format::number(capacity, oncewire_trace::results::Unit::BitsPerSecond);
            let all = if without == links.len() { "all".to_owned() } else { without.to_string() };
            self.settings.push(("capacity".into(), format!("{rate} assumed for {all} links, whose own is not known")));
        }
    }
}

/// Number of the ingress at a node, told by id or label.
pub(super) fn ingress(instance: &Instance, name: &str) -> Outcome<usize> {
    let Instance { network, ingresses, .. } = instance;
    let node = Names::new(network).find(name);
    let found = node.as_ref().ok().and_then(|node| ingresses.iter().position(|ingress| ingress.node == *node));
    found.ok_or_else(|| match node {
        Err(why) if why.contains("several") => Failure::usage(why),
        _ => {
            let nodes = ingresses.iter().map(|ingress| &network.nodes[ingress.node as usize]);
            let names = nodes.flat_map(|node| [node.id.as_str(), node.label.as_str()]);
            Failure::usage(format!("nothing enters at {name:?}{}", did_you_mean(name, names)))
        }
    })
}

/// What people call a node.
pub(super) fn label(network: &Network, node: u32) -> String {
    let node = &network.nodes[node as usize];
    if node.label.is_empty() { node.id.clone() } else { node.label.clone() }
}

/// What people call a device.
pub(super) fn device_label(instance: &Instance, device: usize) -> String {
    let device = &instance.devices[device];
    match device.link.map(|link| instance.network.links[link as usize]) {
        Some(link) => format!("{} -> {}", label(&instance.network, link.from), label(&instance.network, link.to)),
        None => label(&instance.network, device.node),
    }
}

/// The question after a name that is not known.
fn did_you_mean<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> String {
    nearest(name, names).map_or_else(String::new, |near| format!("; did you mean {near:?}?"))
}

/// A file of text, not endless.
pub(super) fn read(path: &Path) -> Outcome<String> {
    let failed = |error| Failure::io("read", path.display(), &error);
    let mut text = Vec::new();
    File::open(path).map_err(failed)?.take(FILE_MAX + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > FILE_MAX {
        return Err(Failure::damaged(format!("{} is larger than {}", path.display(), bytes(FILE_MAX))));
    }
    if text.contains(&0) {
        return Err(Failure::damaged(format!("{} is not text; check the name", path.display())));
    }
    // Rocketfuel's maps are older than UTF-8 was everywhere.
    Ok(String::from_utf8(text).unwrap_or_else(|error| error.into_bytes().into_iter().map(char::from).collect()))
}

/// What is wrong with a file.
fn in_file(path: &Path, error: Error) -> Failure {
    let told = about_file(path, error);
    // Not if the computation was interrupted, or failed.
    if told.exit == Exit::Usage { Failure::damaged(told.message) } else { told }
}

/// What was asked for and cannot be had of a file.
fn about_file(path: &Path, error: Error) -> Failure {
    if matches!(error, Error::Stopped) {
        return failure(error);
    }
    let told = failure(error);
    Failure { message: format!("{}: {}", path.display(), told.message), ..told }
}

fn network(args: &ScenarioArgs) -> Outcome<Network> {
    let path = &args.topology;
    let text = read(path)?;
    if text.trim().is_empty() {
        return Err(Failure::damaged(format!(
            "{} is empty; name a topology, such as a .json, .graphml or .cch file",
            path.display()
        )));
    }
    let format = Format::detect(&path.to_string_lossy(), &text).map_err(|error| in_file(path, error))?;
    if let Some(companion) = &args.latencies
        && !matches!(format, Format::Weights | Format::Repetita)
    {
        return Err(Failure::usage(format!(
            "{}: only weights.intra and REPETITA's .graph have a second file; {} is neither",
            companion.display(),
            path.display()
        )));
    }
    let latencies = args.latencies.as_deref().map(read).transpose()?;
    let cities = match args.cities.as_deref() {
        Some(path) => Some(Cities::read(&read(path)?).map_err(|error| in_file(path, error))?),
        None => None,
    };
    let options = topology::Options {
        companion: latencies.as_deref(),
        cities: cities.as_ref(),
        unknown: if args.populated { Unknown::LeaveOut } else { Unknown::Refuse },
        largest_component: args.largest_part,
    };
    let mut network = topology::read(format, &text, &options).map_err(|error| {
        let hint = match &error {
            Error::Topology(why) if why.ends_with(" parts") => "; --largest-part plans for the largest",
            Error::Topology(why) if why.contains("table of cities") || why.contains("city of the table") => {
                "; with --populated such nodes only forward"
            }
            _ => "",
        };
        let told = in_file(path, error);
        Failure { message: format!("{}{hint}", told.message), ..told }
    })?;
    if args.pops {
        network = network.to_pops();
    }
    if args.populated {
        network = network.without_unpopulated();
    }
    if let Some(pops) = args.reduce {
        network = network.reduce(pops).map_err(|error| about_file(path, error))?;
    }
    if let Some(pops) = args.endpoints {
        network = network.with_endpoints(pops).map_err(|error| about_file(path, error))?;
    }
    if let Some(routers) = args.access {
        network = network.with_access_routers(routers).map_err(failure)?;
    }
    Ok(network)
}

/// The paths with their volumes.
fn volumes(args: &ScenarioArgs, network: &Network, routes: Vec<Route>, provision: &Provision) -> Outcome<Vec<Route>> {
    let matrix = match args.traffic.as_str() {
        "gravity" => traffic::gravity(network).map_err(|error| {
            let hint = match &error {
                Error::Traffic(why) if why.contains("unknown") && !network.demands.is_empty() => {
                    "; the map has demands: --traffic demands takes them"
                }
                Error::Traffic(why) if why.contains("unknown") => "; give --cities, or leave such nodes out with --populated",
                _ => "",
            };
            let told = in_file(&args.topology, error);
            Failure { message: format!("{}{hint}", told.message), ..told }
        })?,
        "demands" => traffic::demands(network).map_err(|error| in_file(&args.topology, error))?,
        file => traffic::matrix(network, &read(Path::new(file))?).map_err(|error| in_file(Path::new(file), error))?,
    };
    let scale = match (args.volumes, args.equal) {
        (true, _) => Scale::Given,
        (false, true) => Scale::EqualIngress(args.load),
        (false, false) => Scale::LargestIngress(args.load),
    };
    traffic::assign(network, routes, &matrix, scale, provision).map_err(|error| match (&args.paths, args.traffic.as_str()) {
        (Some(path), _) => in_file(path, error),
        (None, "gravity" | "demands") => in_file(&args.topology, error),
        (None, file) => in_file(Path::new(file), error),
    })
}

fn provision(args: &ScenarioArgs) -> Outcome<Provision> {
    let usual = Provision::default();
    let size = |given: Option<u64>, usual: f64| given.map_or(usual, |given| given as f64);
    let provision = Provision {
        ingress_memory: size(args.ingress_memory, usual.ingress_memory),
        ingress_rate: args.ingress_rate.unwrap_or(usual.ingress_rate),
        edge_memory: size(args.edge_memory, usual.edge_memory),
        interior_memory: size(args.interior_memory, usual.interior_memory),
        encodings: args.encodings,
        operations: args.operations,
        packet: args.packet,
        mss: usual.mss.max(args.packet),
        access_links: args.count_access,
    };
    provision.check().map_err(failure)?;
    if args.packet > PACKET_MAX {
        return Err(Failure::usage(format!("--packet {}: IP carries no packet above {PACKET_MAX} bytes", args.packet)));
    }
    if args.load == 0.0 && !args.volumes {
        return Err(Failure::usage("--load 0%: there would be no traffic; give a share above 0%"));
    }
    Ok(provision)
}

/// Devices that differ from the others.
fn devices(instance: &mut Instance, path: &Path) -> Outcome {
    let text = read(path)?;
    let names: BTreeMap<String, usize> =
        (0..instance.devices.len()).map(|device| (instance.device_name(device), device)).collect();
    let network = &instance.network;
    let labels = Names::new(network);
    let of_place: BTreeMap<(Option<u32>, u32), usize> = (0..)
        .zip(&instance.devices)
        .map(|(number, device)| ((device.link.map(|link| network.links[link as usize].from), device.node), number))
        .collect();
    let by_labels = |name: &str| {
        let (from, to) = name.split_once(" -> ").map_or((None, name), |(from, to)| (Some(from), to));
        let from = from.map(|from| labels.find(from.trim())).transpose().ok()?;
        of_place.get(&(from, labels.find(to.trim()).ok()?)).copied()
    };
    let mut changed = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let place = format!("{}, line {number}", path.display());
        let fields: Vec<&str> = line.split('\t').map(str::trim).collect();
        let [name, memory, operations] = fields[..] else {
            return Err(Failure::damaged(format!(
                "{place}: write the device, its memory and its operations per second, separated by tabs"
            )));
        };
        let Some(device) = names.get(name).copied().or_else(|| by_labels(name)) else {
            return Err(Failure::damaged(format!(
                "{place}: no device {name:?}{}",
                did_you_mean(name, names.keys().map(String::as_str))
            )));
        };
        let memory =
            crate::quantity::parse_size(memory).map_err(|why| Failure::damaged(format!("{place}: {memory:?} is {why}")))?;
        let operations: f64 = operations
            .parse()
            .ok()
            .filter(|operations: &f64| *operations >= 0.0 && operations.is_finite())
            .ok_or_else(|| Failure::damaged(format!("{place}: {operations:?} is no number of operations per second")))?;
        changed.push((device, memory as f64, operations));
    }
    for (device, memory, operations) in changed {
        instance.devices[device].memory = memory;
        instance.devices[device].operations = operations * instance.epoch;
    }
    Ok(())
}

/// Links that are named one a line.
fn links(network: &Network, path: &Path) -> Outcome<BTreeSet<u32>> {
    let text = read(path)?;
    let names = Names::new(network);
    let numbers: BTreeMap<(u32, u32), u32> =
        (0..).zip(&network.links).map(|(number, link)| ((link.from, link.to), number)).collect();
    let mut chosen = BTreeSet::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let place = format!("{}, line {number}", path.display());
        // As names of links are shown, with a tab as in other files, or with the first space.
        let ends = line.split_once(" -> ").or_else(|| line.split_once('\t')).or_else(|| line.trim().split_once(' '));
        let (from, to) = ends.ok_or_else(|| Failure::damaged(format!("{place}: write the two ends of a link, `from -> to`")))?;
        let (from, to) = (from.trim(), to.trim());
        let node = |name| names.find(name).map_err(|why| Failure::damaged(format!("{place}: {why}")));
        let link = numbers.get(&(node(from)?, node(to)?));
        chosen.insert(*link.ok_or_else(|| Failure::damaged(format!("{place}: no link from {from:?} to {to:?}")))?);
    }
    if chosen.is_empty() {
        return Err(Failure::damaged(format!("{} names no link", path.display())));
    }
    Ok(chosen)
}

fn settings(args: &ScenarioArgs, provision: &Provision) -> Vec<(String, String)> {
    let percent = |share: f64| format!("{} %", (share * 1e4).round() / 100.0);
    let mut settings = vec![("traffic", args.traffic.clone())];
    if args.volumes {
        settings.push(("volumes", "as given, in bytes per epoch".into()));
    } else {
        let whom = if args.equal { "each ingress" } else { "the largest ingress" };
        settings.push(("load", format!("{} of the ingress rate at {whom}", percent(args.load))));
    }
    match &args.profile {
        Some(path) => settings.push(("redundancy", format!("as measured in {}", path.display()))),
        None => {
            let [gamma, intrapop, intrapath] = [args.gamma, args.intrapop, args.intrapath].map(percent);
            settings.push(("redundancy", format!("gamma {gamma}, intrapop {intrapop}, intrapath {intrapath}")));
            settings.push(("match length", format!("{} bytes", args.match_length.unwrap_or(args.packet))));
        }
    }
    let size = |size: f64| bytes(size as u64);
    settings.extend([
        ("mean packet", format!("{} bytes", args.packet)),
        ("ingress store", format!("{}, filled at {} Gbit/s", size(provision.ingress_memory), provision.ingress_rate / 1e9)),
        ("caches", format!("{} at edges, {} inside", size(provision.edge_memory), size(provision.interior_memory))),
        ("speeds", format!("{} encodings, {} operations per second", provision.encodings, provision.operations)),
        ("devices", if args.per_router { "one per router" } else { "one per link and direction" }.into()),
    ]);
    settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
