//! From the texts and settings of a request to an [`Instance`]: the network, its paths and traffic,
//! devices and redundancy.
//!
//! A front end reads files and arguments and fills in a [`Scenario`]. Nothing here opens a file.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Bytes, Error, Instance, LinkId, Network, NodeId, PerSecond, Placement, Profile, Provision,
    Stage, Synthetic, Watch, baseline,
    error::{DeviceError, RouteFileError, TopologyError, TrafficError},
    measure::Measurement,
    network::Names,
    path::Route,
    ra::{Routes, file::RouteFile},
    routing,
    topology::{self, Cities, Format, Unknown},
    traffic::{self, Scale},
};

/// A text and the name that errors use for it, such as a file name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// Name for errors.
    pub name: String,
    /// Content.
    pub text: String,
}

impl Text {
    /// A named text.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into() }
    }

    /// Attributes an error to this text.
    fn invalid(&self, error: Error) -> Error {
        error.in_input(&self.name)
    }
}

/// A network with its traffic, devices and redundancy: everything an [`Instance`] is built from, as
/// plain data.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The topology. Its format follows from its name or its content ([`Format::detect`]).
    pub topology: Text,
    /// The file that accompanies some formats: Rocketfuel's `latencies.intra`, REPETITA's
    /// `.demands`.
    pub companion: Option<Text>,
    /// Table of cities ([`Cities::read`]), for maps that name cities but lack coordinates or
    /// populations.
    pub cities: Option<Text>,
    /// How the network is transformed before planning.
    pub shape: Shape,
    /// Explicit paths ([`routing::given`]) instead of shortest paths.
    pub paths: Option<Text>,
    /// Redundancy-aware routes ([`RouteFile::to_json`]) instead of shortest paths; the traffic of an
    /// ingress is divided among its slices by weight. They take precedence over `paths`.
    pub routes: Option<Text>,
    /// Where traffic goes.
    pub traffic: TrafficSource,
    /// How much traffic there is.
    pub scale: Scale,
    /// Sizes and speeds of devices.
    pub provision: Provision,
    /// Where decoders are.
    pub decoders: Decoders,
    /// Whether only the last device of each path decodes: edge-only redundancy elimination
    /// ([`baseline::edge_only`]).
    pub edge_only: bool,
    /// Devices whose sizes or speeds differ from `provision`.
    pub overrides: Vec<DeviceOverride>,
    /// How much of the traffic repeats.
    pub redundancy: Redundancy,
    /// Share of the traffic matrix that is mixed into measured profiles, 0 to 1
    /// ([`Measurement::mixed`]): for plans for later hours.
    pub prior: f64,
}

impl Scenario {
    /// A scenario with gravity traffic, half the ingress rate at the largest ingress, one decoder
    /// per link, and the redundancy profile and the devices of the thesis.
    pub fn new(topology: Text) -> Self {
        let provision = Provision::default();
        Self {
            topology,
            companion: None,
            cities: None,
            shape: Shape::default(),
            paths: None,
            routes: None,
            traffic: TrafficSource::Gravity,
            scale: Scale::LargestIngress(0.5),
            prior: 0.0,
            redundancy: Redundancy::Synthetic(Synthetic {
                gamma: 0.5,
                intrapop: 0.5,
                intrapath: 0.5,
                length: provision.packet.0,
                ingresses: BTreeMap::new(),
            }),
            provision,
            decoders: Decoders::PerLink,
            edge_only: false,
            overrides: Vec::new(),
        }
    }

    /// Reads the texts and builds the instance.
    ///
    /// # Errors
    /// [`Error::Input`] for a text that is invalid, [`Error::Unsuitable`] for a request that the
    /// network cannot meet, and every error of [`Instance::new`] and [`Instance::check_trees`];
    /// [`Error::Stopped`].
    pub fn build(&self, watch: &dyn Watch) -> Result<Instance, Error> {
        let Ways { network, routed, routes } = self.ways(watch)?;
        let routes = self.volumes(&network, routes)?;
        self.with_routes(network, routed.as_ref(), routes)
    }

    /// The instance, and one for each of these hours: the same paths and devices with other traffic.
    /// A path that has traffic in some hour has a byte in the others.
    ///
    /// # Errors
    /// As [`Scenario::build`], for each hour.
    pub fn build_hours(&self, hours: &[Hour], watch: &dyn Watch) -> Result<Vec<Instance>, Error> {
        let Ways { network, routed, routes } = self.ways(watch)?;
        let other = |hour: &Hour| Self {
            traffic: hour.traffic.clone(),
            redundancy: hour.redundancy.clone(),
            ..self.clone()
        };
        let all: Vec<Self> = std::iter::once(self.clone()).chain(hours.iter().map(other)).collect();
        let ends = |route: &Route| (route.from, route.to);
        let mut volumes = Vec::with_capacity(all.len());
        let mut used = BTreeSet::new();
        for scenario in &all {
            let routes = scenario.volumes(&network, routes.clone())?;
            used.extend(routes.iter().filter(|route| route.volume > 0.0).map(ends));
            volumes.push(routes);
        }
        let mut instances = Vec::with_capacity(all.len());
        for (scenario, of_hour) in all.iter().zip(volumes) {
            let of_hour: BTreeMap<_, f64> =
                of_hour.iter().map(|route| (ends(route), route.volume)).collect();
            let routes = routes.iter().filter(|route| used.contains(&ends(route))).map(|route| {
                let volume = of_hour.get(&ends(route)).copied().unwrap_or(0.0).max(1.0);
                Route { volume, ..route.clone() }
            });
            let routes = routes.collect();
            instances.push(scenario.with_routes(network.clone(), routed.as_ref(), routes)?);
        }
        Ok(instances)
    }

    /// The network and its paths, before any traffic.
    fn ways(&self, watch: &dyn Watch) -> Result<Ways, Error> {
        watch.stage(Stage::Topology);
        let network = self.network()?;
        self.provision.check()?;
        watch.stage(Stage::Paths);
        let routed = self.routes.as_ref().map(|text| {
            RouteFile::from_json(&text.text, &network).map_err(|error| match error {
                RouteFileError::AnotherMap { .. } => Error::from(error).about_input(&text.name),
                error => text.invalid(error.into()),
            })
        });
        let routed = routed.transpose()?.map(|file| file.routes);
        let routes = match (&routed, &self.paths) {
            // One of each ingress's slices for now: volumes are those of the node.
            (Some(routed), _) => {
                routed.paths().into_iter().filter(|route| route.slice == 0).collect()
            }
            (None, Some(paths)) => {
                routing::given(&network, &paths.text).map_err(|error| paths.invalid(error))?
            }
            (None, None) => routing::shortest_paths(&network, watch)
                .map_err(|error| self.topology.invalid(error))?,
        };
        Ok(Ways { network, routed, routes })
    }

    /// The instance of routes with their volumes.
    fn with_routes(
        &self,
        network: Network,
        routed: Option<&Routes>,
        mut routes: Vec<Route>,
    ) -> Result<Instance, Error> {
        if let Some(routed) = routed {
            routes = routed.with_volumes(&routes);
        }
        let placement = match &self.decoders {
            Decoders::PerLink => Placement::Links,
            Decoders::PerRouter => Placement::Routers,
            Decoders::OnLinks(list) => {
                Placement::Some(links(&network, &list.text).map_err(|error| list.invalid(error))?)
            }
        };
        let profile = match &self.redundancy {
            Redundancy::Synthetic(profile) => Profile::Synthetic(profile.clone()),
            Redundancy::Measured { .. } => Profile::Measured(Default::default()),
        };
        let mut instance = Instance::new(network, routes, &self.provision, &placement, profile)
            .and_then(|instance| instance.check_trees().map(|()| instance).map_err(Error::from))
            .map_err(|error| match (self.path_text(), error) {
                (Some(paths), error @ Error::Paths(_)) => paths.invalid(error),
                (_, error @ Error::Traffic(_)) => self.traffic_text().invalid(error),
                (_, error) => error,
            })?;
        for ingress in &mut instance.ingresses {
            let mut slices = routed.into_iter().flat_map(|routed| routed.of(ingress.node));
            if let Some(slice) = slices.nth(usize::from(ingress.slice)) {
                ingress.sources.clone_from(&slice.prefixes);
            }
        }
        if let Redundancy::Measured { measurement, volumes } = &self.redundancy {
            let invalid = |error| measurement.invalid(error);
            let measured = Measurement::parse(&measurement.text, &instance).map_err(invalid)?;
            let measured = match self.prior > 0.0 {
                true => measured.mixed(&instance, self.prior),
                false => measured,
            };
            instance = if *volumes {
                measured.check(&instance).and_then(|()| measured.apply(&instance))
            } else {
                measured.fit(&instance)
            }
            .map_err(invalid)?;
        }
        apply_overrides(&mut instance, &self.overrides)?;
        if self.edge_only { baseline::edge_only(&instance) } else { Ok(instance) }
    }

    /// Reads the topology and transforms it as [`Scenario::shape`] says.
    ///
    /// # Errors
    /// As [`Scenario::build`] for these.
    pub fn network(&self) -> Result<Network, Error> {
        let topology = &self.topology;
        if topology.text.trim().is_empty() {
            return Err(topology.invalid(TopologyError::Empty.into()));
        }
        let format = Format::detect(&topology.name, &topology.text)
            .map_err(|error| topology.invalid(error))?;
        if let Some(companion) = &self.companion
            && !matches!(format, Format::Weights | Format::Repetita)
        {
            let error = TopologyError::NoCompanion { topology: topology.name.clone() };
            return Err(Error::from(error).about_input(&companion.name));
        }
        let cities = match &self.cities {
            Some(cities) => {
                Some(Cities::read(&cities.text).map_err(|error| cities.invalid(error))?)
            }
            None => None,
        };
        let options = topology::Options {
            companion: self.companion.as_ref().map(|companion| companion.text.as_str()),
            cities: cities.as_ref(),
            unknown: if self.shape.populated_only { Unknown::LeaveOut } else { Unknown::Refuse },
            largest_component: self.shape.largest_component,
        };
        let mut network = topology::read(format, &topology.text, &options)
            .map_err(|error| topology.invalid(error))?;
        if self.shape.to_pops {
            network = network.to_pops();
        }
        if self.shape.populated_only {
            network = network.without_unpopulated();
        }
        if let Some(pops) = self.shape.reduce {
            network = network.reduce(pops).map_err(|error| error.about_input(&topology.name))?;
        }
        if let Some(pops) = self.shape.endpoints {
            network =
                network.with_endpoints(pops).map_err(|error| error.about_input(&topology.name))?;
        }
        if let Some(routers) = self.shape.access_routers {
            network = network.with_access_routers(routers)?;
        }
        Ok(network)
    }

    /// The paths that carry traffic, with their volumes.
    fn volumes(&self, network: &Network, routes: Vec<Route>) -> Result<Vec<Route>, Error> {
        let matrix = match &self.traffic {
            TrafficSource::Gravity => traffic::gravity(network),
            TrafficSource::Demands => traffic::demands(network),
            TrafficSource::Matrix(matrix) => traffic::matrix(network, &matrix.text),
        }
        .map_err(|error| self.traffic_text().invalid(error))?;
        traffic::assign(network, routes, &matrix, self.scale, &self.provision)
            .map_err(|error| self.path_text().unwrap_or(self.traffic_text()).invalid(error))
    }

    /// The text that has the paths; none if they are the shortest.
    fn path_text(&self) -> Option<&Text> {
        self.routes.as_ref().or(self.paths.as_ref())
    }

    /// The text that says where traffic goes.
    fn traffic_text(&self) -> &Text {
        match &self.traffic {
            TrafficSource::Gravity | TrafficSource::Demands => &self.topology,
            TrafficSource::Matrix(matrix) => matrix,
        }
    }
}

/// A network and its paths.
struct Ways {
    network: Network,
    /// Redundancy-aware routes, if they are given.
    routed: Option<Routes>,
    routes: Vec<Route>,
}

/// The traffic of another hour.
#[derive(Clone, Debug, PartialEq)]
pub struct Hour {
    /// Where it goes.
    pub traffic: TrafficSource,
    /// How much of it repeats.
    pub redundancy: Redundancy,
}

/// Transformations of a network, applied in the order of the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Keep the largest connected part instead of refusing a network that is not connected.
    pub largest_component: bool,
    /// Merge the routers of each PoP into one node ([`Network::to_pops`]).
    pub to_pops: bool,
    /// Nodes without a known population only forward ([`Network::without_unpopulated`]).
    pub populated_only: bool,
    /// Keep this many PoPs ([`Network::reduce`]).
    pub reduce: Option<usize>,
    /// Only this many PoPs send and receive ([`Network::with_endpoints`]).
    pub endpoints: Option<usize>,
    /// Access routers per PoP ([`Network::with_access_routers`]).
    pub access_routers: Option<u32>,
}

/// Where traffic goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TrafficSource {
    /// Gravity by population ([`traffic::gravity`]).
    #[default]
    Gravity,
    /// The demands in the topology ([`traffic::demands`]).
    Demands,
    /// A traffic matrix ([`traffic::matrix`]).
    Matrix(Text),
}

/// Where decoders are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Decoders {
    /// One per link and direction.
    #[default]
    PerLink,
    /// One per router.
    PerRouter,
    /// Only on the listed links: one `from -> to` per line, separated by an arrow, a tab or a
    /// space; nodes by id or unique label. Lines that start with `#` are comments.
    OnLinks(Text),
}

/// How much of the traffic repeats.
#[derive(Clone, Debug, PartialEq)]
pub enum Redundancy {
    /// Three parameters (thesis, section 3.5).
    Synthetic(Synthetic),
    /// A measured profile ([`Measurement::parse`]).
    Measured {
        /// The measurement.
        measurement: Text,
        /// Whether the instance takes the measured volumes too, or only the matches per byte.
        volumes: bool,
    },
}

/// Size and speed of one device.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceOverride {
    /// Where the override was written, such as `devices.tsv, line 3`, for errors.
    pub place: String,
    /// Device: a router, or a link as `from -> to`; nodes by id or unique label.
    pub device: String,
    /// Cache.
    pub memory: Bytes,
    /// Operations.
    pub operations: PerSecond,
}

/// Index of the ingress at a node, given by id or unique label; the first of its slices.
///
/// # Errors
/// [`TrafficError::AmbiguousIngress`] for a label of several nodes,
/// [`TrafficError::UnknownIngress`] for a name where no traffic enters.
pub fn find_ingress(instance: &Instance, name: &str) -> Result<usize, Error> {
    let Instance { network, ingresses, .. } = instance;
    let node = Names::new(network).find(name);
    if let Err(error @ TopologyError::AmbiguousLabel { .. }) = node {
        return Err(TrafficError::AmbiguousIngress(error).into());
    }
    let found =
        node.ok().and_then(|node| ingresses.iter().position(|ingress| ingress.node == node));
    found.ok_or_else(|| {
        let nodes = ingresses.iter().map(|ingress| &network.nodes[ingress.node]);
        let known = nodes.flat_map(|node| [node.id.clone(), node.label.clone()]).collect();
        TrafficError::UnknownIngress { name: name.to_owned(), known }.into()
    })
}

/// Index of the first ingress of the node with the most traffic; of equal ones the first.
pub fn largest_ingress(instance: &Instance) -> usize {
    let volumes = instance.stores().map(|slices| {
        let first = slices.start;
        (first, instance.ingresses[slices].iter().map(|slice| slice.volume).sum::<f64>())
    });
    volumes.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0))).map_or(0, |(at, _)| at)
}

/// Sets the sizes and speeds of some devices.
fn apply_overrides(instance: &mut Instance, overrides: &[DeviceOverride]) -> Result<(), Error> {
    if overrides.is_empty() {
        return Ok(());
    }
    let names: BTreeMap<String, usize> =
        (0..instance.devices.len()).map(|device| (instance.device_name(device), device)).collect();
    let network = &instance.network;
    let labels = Names::new(network);
    let by_ends: BTreeMap<(Option<NodeId>, NodeId), usize> = (0..)
        .zip(&instance.devices)
        .map(|(number, device)| {
            ((device.link.map(|link| network.links[link].from), device.node), number)
        })
        .collect();
    let by_labels = |name: &str| {
        let (from, to) =
            name.split_once(" -> ").map_or((None, name), |(from, to)| (Some(from), to));
        let from = from.map(|from| labels.find(from.trim())).transpose().ok()?;
        by_ends.get(&(from, labels.find(to.trim()).ok()?)).copied()
    };
    let mut changes = Vec::with_capacity(overrides.len());
    for given in overrides {
        let found = names.get(&given.device).copied().or_else(|| by_labels(&given.device));
        let device = found.ok_or_else(|| {
            let known = names.keys().cloned().collect();
            Error::from(DeviceError::Unknown { name: given.device.clone(), known })
                .in_input(&given.place)
        })?;
        changes.push((device, given));
    }
    for (device, given) in changes {
        instance.devices[device].memory = given.memory.0;
        instance.devices[device].operations = given.operations.during(instance.epoch);
    }
    Ok(())
}

/// Links from a list with one `from -> to` per line.
///
/// # Errors
/// A line that is none, an unknown name, or two nodes without a link.
pub fn links(network: &Network, text: &str) -> Result<BTreeSet<LinkId>, Error> {
    let names = Names::new(network);
    let numbers: BTreeMap<(NodeId, NodeId), LinkId> = LinkId::all()
        .zip(&network.links)
        .map(|(number, link)| ((link.from, link.to), number))
        .collect();
    let mut chosen = BTreeSet::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let at_line = |error: TopologyError| Error::from(error.at_line(number));
        // As link names are shown, with a tab as in other files, or with the first space.
        let ends = line
            .split_once(" -> ")
            .or_else(|| line.split_once('\t'))
            .or_else(|| line.trim().split_once(' '));
        let (from, to) = ends.ok_or_else(|| at_line(TopologyError::NotALink))?;
        let (from, to) = (from.trim(), to.trim());
        let ends = (names.find(from).map_err(at_line)?, names.find(to).map_err(at_line)?);
        let link = numbers.get(&ends);
        chosen.insert(*link.ok_or_else(|| {
            at_line(TopologyError::UnknownLink { from: from.into(), to: to.into() })
        })?);
    }
    if chosen.is_empty() {
        return Err(TopologyError::NoLinks.into());
    }
    Ok(chosen)
}
