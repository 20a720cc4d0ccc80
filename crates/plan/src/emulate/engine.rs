//! The emulated network.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    Allocation, Change, DeviceReport, EpochReport, Event, Extension, HeaderHash, Identity, IngressReport, Observed, Packet,
    Replanner, Replanning, Report, Rollout, Traffic,
    ingress::{Common, Ingress, Pairs},
    link::{Limits, Pair},
    node::{Duty, Flight, Node, Passed},
    route::{self, Route},
    shim::{Format, MAX_MATCHES, MAX_PAYLOAD, Shim},
    store::{Finding, RING, Store},
};
use crate::{Error, Instance, Match, Measured, Watch};

/// How packets are carried.
#[derive(Clone, Debug, PartialEq)]
pub enum Scheme {
    /// As these manifests say: SmartRE, and all that is a choice of ranges (edge-only, the heuristics).
    Planned(Allocation),
    /// An encoder and a decoder at the ends of each link that has a device, within the devices' limits.
    HopByHop,
    /// The same on every link, without limits but [`Settings::unlimited`].
    Ideal,
}

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Of the header hash, the losses and the times of a rollout.
    pub seed: u64,
    /// Which fields the header hash covers.
    pub extension: Extension,
    /// The shim.
    pub format: Format,
    /// How matches are found.
    pub finding: Finding,
    /// Probability that a link loses a packet.
    pub loss: f64,
    /// Whether ingresses stop loading devices that have no operations left.
    pub shed: bool,
    /// Bytes of a cache without limit.
    pub unlimited: u64,
    /// When manifests are computed anew, if there is a [`Replanner`].
    pub replanning: Replanning,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            seed: 0,
            extension: Extension::default(),
            format: Format::default(),
            finding: Finding::default(),
            loss: 0.0,
            shed: true,
            unlimited: 256 << 20,
            replanning: Replanning::default(),
        }
    }
}

impl Settings {
    /// The hash by which packets of the run are told apart.
    pub fn header_hash(&self) -> HeaderHash {
        HeaderHash { seed: self.seed, extension: self.extension }
    }
}

/// Packets between calls of the watch.
const WATCH_EVERY: u64 = 4096;

/// A network that packets go through one after the other, in order of time. A packet is through it before the next one enters.
pub struct Emulation<'a> {
    instance: &'a Instance,
    settings: Settings,
    hash: HeaderHash,
    epoch_length: u64,
    of_link: Vec<Option<u32>>,
    /// Where packets go.
    routes: Vec<Route>,
    /// What ingresses know of that.
    known: Vec<Route>,
    carrier: Carrier,
    /// Operations per epoch and bytes of cache, per device; infinite where they do not count.
    limits: Vec<(f64, f64)>,
    /// What is to happen, by time and order of coming.
    agenda: BTreeMap<(u64, u64), Step>,
    ordered: u64,
    /// When the rollout at hand ends: the next does not begin before that, as a device can honour two manifests and no more.
    settled: Option<u64>,
    versions: u32,
    replanner: Option<Box<dyn Replanner + 'a>>,
    /// Per ingress: bytes per epoch that manifests were made for, and bytes found to match in the first whole epoch with them.
    reference: Vec<(f64, Option<f64>)>,
    /// Epochs since the manifests in force were brought out.
    since: u64,
    observed: Window,
    loss: f64,
    losses: Random,
    /// Whether packets may be undecodable: some were lost, or a route changed unnoticed.
    excused: bool,
    now: u64,
    epoch: u64,
    current: EpochReport,
    operations: Vec<(u64, u64)>,
    report: Report,
}

enum Carrier {
    Planned(Planned),
    Links { pairs: Vec<Option<Box<Pair>>>, limits: Vec<Option<Limits>> },
}

struct Planned {
    ingresses: Vec<Ingress>,
    nodes: Vec<Device>,
    /// The newest allocation, and what it expects.
    expected_saved: Vec<f64>,
    expected_operations: Vec<f64>,
}

struct Device {
    node: Node,
    /// The manifest of even and of odd version, where it has one.
    allocations: [Option<Arc<Allocation>>; 2],
}

enum Step {
    Bring(Allocation, Rollout),
    Install { device: u32, version: u32, allocation: Arc<Allocation>, sizes: Vec<(u32, u64)> },
    Switch { ingress: u32, version: u32, allocation: Arc<Allocation>, limits: Vec<f64> },
    Retire { version: u32, allocation: Arc<Allocation> },
    Reroute { path: u32, links: Vec<u32>, notice: u64 },
    Notice { path: u32 },
    Loss(f64),
}

/// What ingresses have counted since their last report.
#[derive(Default)]
struct Window {
    epochs: u64,
    volumes: Vec<f64>,
    pairs: Pairs,
    /// Of the epoch at hand, per ingress: bytes, and bytes matched.
    bytes: Vec<(f64, f64)>,
}

impl<'a> Emulation<'a> {
    /// An empty network.
    ///
    /// # Errors
    /// Settings out of range; an allocation of another instance; caches for which there is no memory.
    pub fn new(instance: &'a Instance, scheme: Scheme, settings: Settings) -> Result<Self, Error> {
        check(&settings)?;
        let length = instance.epoch * 1e9;
        if !(1.0..1e18).contains(&length) {
            return Err(Error::Emulation(format!("a retention epoch of {} s; it must be from 1 ns to 30 years", instance.epoch)));
        }
        let of_link = route::devices_of_links(instance);
        let routes: Vec<Route> = instance.paths.iter().map(Route::planned).collect();
        let hash = settings.header_hash();
        let devices = instance.devices.len();
        let limits = match scheme {
            Scheme::Ideal => vec![(f64::INFINITY, f64::INFINITY); devices],
            _ => instance.devices.iter().map(|device| (device.operations, device.memory)).collect(),
        };
        let carrier = match scheme {
            Scheme::Planned(allocation) => Carrier::Planned(Planned::new(instance, allocation, &settings)?),
            Scheme::HopByHop => Carrier::links(instance, limits_of_links(instance, &of_link, settings.unlimited)),
            Scheme::Ideal => {
                let limits =
                    Limits { memory: settings.unlimited, coded: 1.0, encodings: f64::INFINITY, operations: f64::INFINITY };
                Carrier::links(instance, vec![Some(limits); instance.network.links.len()])
            }
        };
        let report = Report {
            links: vec![Traffic::default(); instance.network.links.len()],
            ingresses: vec![IngressReport::default(); instance.ingresses.len()],
            devices: vec![DeviceReport::default(); devices],
            ..Report::default()
        };
        let loss = settings.loss;
        Ok(Self {
            instance,
            hash,
            epoch_length: length as u64,
            of_link,
            known: routes.clone(),
            routes,
            carrier,
            limits,
            agenda: BTreeMap::new(),
            ordered: 0,
            settled: None,
            versions: 0,
            replanner: None,
            reference: instance.ingresses.iter().map(|ingress| (ingress.volume, None)).collect(),
            since: 0,
            observed: Window {
                volumes: vec![0.0; instance.paths.len()],
                bytes: vec![(0.0, 0.0); instance.ingresses.len()],
                ..Window::default()
            },
            loss,
            losses: Random(settings.seed),
            excused: loss > 0.0,
            now: 0,
            epoch: 0,
            current: EpochReport::default(),
            operations: vec![(0, 0); devices],
            report,
            settings,
        })
    }

    /// The same with someone who computes manifests anew, as [`Settings::replanning`] says.
    pub fn with_replanner(self, replanner: impl Replanner + 'a) -> Self {
        Self { replanner: Some(Box::new(replanner)), ..self }
    }

    /// Takes note of something that is to happen.
    ///
    /// # Errors
    /// A time that has passed; a path, links or an allocation that do not fit the instance; manifests where there are none.
    pub fn schedule(&mut self, event: Event) -> Result<(), Error> {
        if event.time < self.now {
            return Err(Error::Emulation(format!("an event at {} ns, but it is {} ns", event.time, self.now)));
        }
        let step = match event.change {
            Change::Manifests { allocation, rollout } => {
                if !matches!(self.carrier, Carrier::Planned(_)) {
                    return Err(Error::Emulation("new manifests, but this run is hop by hop".into()));
                }
                fits(self.instance, &allocation)?;
                Step::Bring(allocation, rollout)
            }
            Change::Route { path, links, notice } => {
                route::check(self.instance, path, &links)?;
                Step::Reroute { path, links, notice }
            }
            Change::Loss(loss) => {
                check_loss(loss)?;
                Step::Loss(loss)
            }
        };
        self.at(event.time, step);
        Ok(())
    }

    /// Carries packets, in order of time.
    ///
    /// # Errors
    /// [`Error::Emulation`] for packets out of order or too long, of paths that are not there; for a packet that left other than it entered, or could
    /// not be decoded though none was lost; [`Error::Stopped`].
    pub fn run(&mut self, packets: impl IntoIterator<Item = Packet>, watch: &dyn Watch) -> Result<(), Error> {
        for packet in packets {
            if self.report.packets.is_multiple_of(WATCH_EVERY) {
                watch.go_on()?;
                watch.progress("packets", self.report.packets, 0);
            }
            self.push(&packet)?;
        }
        Ok(())
    }

    /// Carries one packet.
    ///
    /// # Errors
    /// As [`Emulation::run`].
    pub fn push(&mut self, packet: &Packet) -> Result<(), Error> {
        if packet.time < self.now {
            return Err(Error::Emulation(format!("a packet at {} ns comes after one at {} ns", packet.time, self.now)));
        }
        if packet.path as usize >= self.instance.paths.len() {
            return Err(Error::Emulation(format!(
                "a packet of path {}, but there are {}",
                packet.path,
                self.instance.paths.len()
            )));
        }
        if packet.payload.len() > MAX_PAYLOAD {
            return Err(Error::Emulation(format!(
                "a payload of {} bytes; a packet has at most {MAX_PAYLOAD}",
                packet.payload.len()
            )));
        }
        self.advance(packet.time)?;
        self.carry(packet)
    }

    /// Lets time pass, without packets.
    ///
    /// # Errors
    /// What a [`Replanner`] says.
    pub fn advance(&mut self, time: u64) -> Result<(), Error> {
        let epoch = time / self.epoch_length;
        if epoch > self.epoch {
            self.end_epoch()?;
            self.epoch = epoch;
        }
        while let Some(entry) = self.agenda.first_entry()
            && entry.key().0 <= time
        {
            let ((at, _), step) = entry.remove_entry();
            self.perform(at, step);
        }
        self.now = self.now.max(time);
        Ok(())
    }

    /// What has happened so far.
    pub fn report(&self) -> Report {
        let mut report = self.report.clone();
        let mut current = self.current;
        self.account_epoch(&mut report, &mut current);
        let epochs = (self.epoch + 1) as f64;
        for (number, (device, &limits)) in report.devices.iter_mut().zip(&self.limits).enumerate() {
            device.mean_operations = (device.cached + device.decoded) as f64 / epochs;
            (device.limit, device.memory) = limits;
            match &self.carrier {
                Carrier::Planned(planned) => {
                    let node = &planned.nodes[number].node;
                    (device.used, device.most_used) = node.used();
                    device.packets = node.packets() as u64;
                    device.expected = Some(planned.expected_operations[number]);
                }
                Carrier::Links { pairs, .. } => {
                    for (pair, _) in pairs.iter().zip(&self.of_link).filter(|(_, of)| **of == Some(number as u32)) {
                        let Some(pair) = pair else { continue };
                        let (used, most) = pair.node().used();
                        device.used += used;
                        device.most_used += most;
                        device.packets += pair.node().packets() as u64;
                    }
                }
            }
        }
        match &self.carrier {
            Carrier::Planned(planned) => {
                let mut whole = 0.0;
                for (number, (ingress, of)) in report.ingresses.iter_mut().zip(&planned.ingresses).enumerate() {
                    ingress.refusals = of.refusals;
                    ingress.refusals.gap = of.store.counts.gaps;
                    ingress.collisions = of.store.counts.collisions;
                    let paths = &self.instance.paths[self.instance.paths_of(number)];
                    let footprint: f64 = paths.iter().map(|path| path.volume * f64::from(path.length)).sum();
                    // None of its links may count.
                    ingress.expected = (footprint > 0.0).then(|| planned.expected_saved[number] / footprint);
                    whole += planned.expected_saved[number];
                    report.refusals.add(&ingress.refusals);
                    report.collisions += ingress.collisions;
                }
                let footprint = self.instance.footprint();
                report.expected = (footprint > 0.0).then(|| whole / footprint);
            }
            Carrier::Links { pairs, .. } => {
                report.collisions = pairs.iter().flatten().map(|pair| pair.collisions()).sum();
            }
        }
        report.profile = self.profile();
        report
    }

    fn at(&mut self, time: u64, step: Step) {
        self.ordered += 1;
        self.agenda.insert((time, self.ordered), step);
    }

    fn perform(&mut self, time: u64, step: Step) {
        match step {
            Step::Bring(allocation, rollout) => match self.settled {
                Some(settled) => self.at(settled.max(time), Step::Bring(allocation, rollout)),
                None => self.bring(time, allocation, rollout),
            },
            Step::Install { device, version, allocation, sizes } => {
                if let Carrier::Planned(planned) = &mut self.carrier {
                    planned.nodes[device as usize].install(version, allocation, sizes);
                }
            }
            Step::Switch { ingress, version, allocation, limits } => {
                if let Carrier::Planned(planned) = &mut self.carrier {
                    let paths = self.instance.ingresses[ingress as usize].paths.clone();
                    planned.ingresses[ingress as usize].switch(allocation, version, paths, limits);
                }
            }
            Step::Retire { version, allocation } => {
                self.settled = None;
                if let Carrier::Planned(planned) = &mut self.carrier {
                    for (number, node) in planned.nodes.iter_mut().enumerate() {
                        node.retire(number as u32, version, &allocation);
                    }
                }
            }
            Step::Reroute { path, links, notice } => {
                self.routes[path as usize] = Route::new(&links, &self.of_link);
                self.excused |= notice > 0;
                self.at(time.saturating_add(notice), Step::Notice { path });
            }
            // As it is by now: a change that is heard of early may overtake one before it.
            Step::Notice { path } => self.known[path as usize] = self.routes[path as usize].clone(),
            Step::Loss(loss) => {
                self.loss = loss;
                self.excused |= loss > 0.0;
            }
        }
    }

    /// Brings out new manifests: first devices get them, then ingresses use them, then devices forget the old ones. Whatever the delays, a device
    /// has a manifest before an ingress goes by it.
    fn bring(&mut self, time: u64, allocation: Allocation, rollout: Rollout) {
        let Carrier::Planned(planned) = &mut self.carrier else { return };
        self.versions += 1;
        self.report.updates += 1;
        let version = self.versions;
        let expected = allocation.expect(self.instance);
        let limits = budgets(self.instance, &expected.operations, self.settings.shed);
        planned.expect(expected);
        let allocation = Arc::new(allocation);
        let mut delays = Random(self.settings.seed ^ u64::from(version) << 32);
        let installed = time.saturating_add(rollout.stagger);
        let sizes = sizes_of_devices(self.instance, &allocation);
        for (device, sizes) in (0..).zip(sizes) {
            let at = time.saturating_add(delays.below(rollout.stagger.saturating_add(1)));
            self.at(at, Step::Install { device, version, allocation: allocation.clone(), sizes });
        }
        for (ingress, limits) in limits.into_iter().enumerate() {
            let at = installed.saturating_add(delays.below(rollout.transition.max(1)));
            self.at(at, Step::Switch { ingress: ingress as u32, version, allocation: allocation.clone(), limits });
        }
        let settled = installed.saturating_add(rollout.transition);
        self.settled = Some(settled);
        self.at(settled, Step::Retire { version, allocation });
    }

    fn carry(&mut self, packet: &Packet) -> Result<(), Error> {
        let path = packet.path as usize;
        let number = self.instance.paths[path].ingress as usize;
        let identity = self.hash.identity(&packet.header);
        let whole = u64::from(packet.header_bytes) + packet.payload.len() as u64;
        self.report.packets += 1;
        self.report.bytes += whole;
        self.report.ingresses[number].packets += 1;
        self.current.packets += 1;
        self.observed.volumes[path] += whole as f64;
        self.observed.bytes[number].0 += whole as f64;
        match &self.carrier {
            Carrier::Planned(_) => self.carry_planned(packet, identity, number, whole),
            Carrier::Links { .. } => self.carry_by_links(packet, identity, number, whole),
        }
    }

    fn carry_planned(&mut self, packet: &Packet, identity: Identity, number: usize, whole: u64) -> Result<(), Error> {
        let Carrier::Planned(planned) = &mut self.carrier else { unreachable!("it was looked at just now") };
        let common =
            Common { format: &self.settings.format, hash: &self.hash, window: self.settings.finding.window, known: &self.known };
        let ingress = &mut planned.ingresses[number];
        let refused = ingress.refusals.overloaded;
        let (mut flight, sent) = ingress.encode(&common, packet, identity)?;
        self.current.overloaded += ingress.refusals.overloaded - refused;
        let of = &mut self.report.ingresses[number];
        of.matches += u64::from(sent.matches);
        of.matched_bytes += sent.matched_bytes;
        of.shim_bytes += u64::from(sent.shim);
        of.stored += u64::from(sent.stored);
        self.current.matches += u64::from(sent.matches);

        let route = &self.routes[packet.path as usize];
        let mut duty = Duty {
            holds: [false; 2],
            name: identity.name(self.settings.format.name_bytes),
            header_bytes: packet.header_bytes,
            path: packet.path,
            window: self.settings.finding.window,
        };
        for (&link, &device) in route.links.iter().zip(&route.devices) {
            let bytes = u64::from(packet.header_bytes) + (flight.shim.len() + flight.body.bytes().len()) as u64;
            self.report.count_bytes(&mut self.current, self.instance, link, number, whole, bytes);
            if self.loss > 0.0 && self.losses.unit() < self.loss {
                self.report.lost += 1;
                return Ok(());
            }
            let Some(device) = device else { continue };
            let at = &mut planned.nodes[device as usize];
            duty.holds = at.holds(packet.path, identity.hash(), device);
            let passed = at
                .node
                .receive(&self.settings.format, &self.hash, &duty, &mut flight)
                .map_err(|error| self.report.fault(self.instance, packet, link, &error.to_string()))?;
            self.report.count(&mut self.operations, device, &passed);
            if passed.damaged {
                if !self.excused {
                    return Err(self.report.fault(self.instance, packet, link, "decoded bytes do not have the shim's checksum"));
                }
                self.report.damaged += 1;
                return Ok(());
            }
        }
        let link = route.links[route.links.len() - 1];
        self.arrive(packet, link, &flight)
    }

    fn carry_by_links(&mut self, packet: &Packet, identity: Identity, number: usize, whole: u64) -> Result<(), Error> {
        let Carrier::Links { pairs, limits } = &mut self.carrier else { unreachable!("it was looked at just now") };
        // Between two routers the packet has no path: each link's pair stands alone.
        let format = Format { path_ids: false, ..self.settings.format };
        let window = self.settings.finding.window;
        let route = &self.routes[packet.path as usize];
        for &link in &route.links {
            let device = self.of_link[link as usize];
            let pair = match (&mut pairs[link as usize], limits[link as usize]) {
                (Some(pair), _) => Some(pair),
                (empty, Some(limits)) => {
                    Some(empty.insert(Box::new(Pair::new(&self.settings.finding, self.settings.seed, limits)?)))
                }
                (None, None) => None,
            };
            let Some(pair) = pair else {
                self.report.count_bytes(&mut self.current, self.instance, link, number, whole, whole);
                if self.loss > 0.0 && self.losses.unit() < self.loss {
                    self.report.lost += 1;
                    return Ok(());
                }
                continue;
            };
            let mut flight = pair.encode(&format, &self.hash, window, packet, identity)?;
            let shim = flight.shim.len() as u64;
            let bytes = u64::from(packet.header_bytes) + shim + flight.body.bytes().len() as u64;
            self.report.count_bytes(&mut self.current, self.instance, link, number, whole, bytes);
            self.report.ingresses[number].shim_bytes += shim;
            if self.loss > 0.0 && self.losses.unit() < self.loss {
                self.report.lost += 1;
                return Ok(());
            }
            let passed = pair
                .decode(&format, &self.hash, window, packet, identity, &mut flight)
                .map_err(|error| self.report.fault(self.instance, packet, link, &error.to_string()))?;
            if let Some(device) = device {
                self.report.count(&mut self.operations, device, &passed);
            }
            if !flight.shim.is_empty() || passed.damaged {
                if !self.excused {
                    return Err(self.report.fault(self.instance, packet, link, "it could not be decoded, though none was lost"));
                }
                self.report.damaged += u64::from(passed.damaged);
                self.report.undecodable += u64::from(!passed.damaged);
                self.current.undecodable += u64::from(!passed.damaged);
                return Ok(());
            }
            if flight.body.bytes() != &packet.payload[..] {
                return Err(self.report.fault(self.instance, packet, link, "it is not what it was"));
            }
            self.report.ingresses[number].matches += u64::from(passed.decoded);
            self.report.ingresses[number].matched_bytes += u64::from(passed.decoded_bytes);
            self.current.matches += u64::from(passed.decoded);
        }
        self.report.delivered += 1;
        Ok(())
    }

    /// The packet leaves the network.
    fn arrive(&mut self, packet: &Packet, link: u32, flight: &Flight) -> Result<(), Error> {
        if !flight.shim.is_empty() {
            let shim = Shim::take_head(&self.settings.format, packet.path, &mut &flight.shim[..])
                .map_err(|error| self.report.fault(self.instance, packet, link, &error.to_string()))?;
            if !shim.matches.is_empty() {
                if !self.excused {
                    return Err(self.report.fault(self.instance, packet, link, "it could not be decoded, though none was lost"));
                }
                self.report.undecodable += 1;
                self.current.undecodable += 1;
                return Ok(());
            }
        }
        if flight.body.bytes() != &packet.payload[..] {
            return Err(self.report.fault(self.instance, packet, link, "it left other than it entered"));
        }
        self.report.delivered += 1;
        Ok(())
    }

    fn end_epoch(&mut self) -> Result<(), Error> {
        let mut current = self.current;
        let mut report = std::mem::take(&mut self.report);
        self.account_epoch(&mut report, &mut current);
        self.report = report;
        self.current = EpochReport::default();
        self.operations.fill((0, 0));
        self.observed.epochs += 1;
        match &mut self.carrier {
            Carrier::Planned(planned) => {
                planned.ingresses.iter_mut().for_each(Ingress::new_epoch);
                for (ingress, seen) in planned.ingresses.iter_mut().zip(&mut self.observed.bytes) {
                    for (pair, found) in std::mem::take(&mut ingress.pairs) {
                        seen.1 += found.1 as f64;
                        let sum = self.observed.pairs.entry(pair).or_default();
                        sum.0 += found.0;
                        sum.1 += found.1;
                    }
                }
            }
            Carrier::Links { pairs, .. } => pairs.iter_mut().flatten().for_each(|pair| pair.new_epoch()),
        }
        self.reconsider()?;
        self.observed.bytes.fill((0.0, 0.0));
        Ok(())
    }

    fn account_epoch(&self, report: &mut Report, current: &mut EpochReport) {
        current.epoch = self.epoch;
        for ((device, &(limit, _)), &(cached, decoded)) in report.devices.iter_mut().zip(&self.limits).zip(&self.operations) {
            let operations = cached + decoded;
            device.most_operations = device.most_operations.max(operations);
            device.overloaded += u64::from(operations as f64 > limit);
            current.cached += cached;
            current.decoded += decoded;
            if operations > 0 {
                current.busiest = current.busiest.max(operations as f64 / limit);
            }
        }
        if current.packets > 0 {
            report.epochs.push(*current);
        }
    }

    /// Whether manifests are to be computed anew, and if so, has it done.
    fn reconsider(&mut self) -> Result<(), Error> {
        let settings = self.settings.replanning;
        let due = settings.every > 0 && self.observed.epochs >= settings.every;
        // In the first epoch caches are filled with what they are to hold.
        self.since += 1;
        if self.since == 2 {
            for (seen, planned) in self.observed.bytes.iter().zip(&mut self.reference) {
                planned.1 = Some(seen.1);
            }
        }
        let far = |(seen, planned): (&(f64, f64), &(f64, Option<f64>))| {
            let by = (seen.0 - planned.0).abs().max(planned.1.map_or(0.0, |matched| (seen.1 - matched).abs()));
            settings.change.is_some_and(|change| by > change * planned.0)
        };
        let changed = self.observed.bytes.iter().zip(&self.reference).position(far).map(|ingress| ingress as u32);
        if self.replanner.is_none() || !(due || changed.is_some()) {
            return Ok(());
        }
        let epochs = self.observed.epochs as f64;
        let observed = Observed {
            epoch: self.epoch,
            volumes: self.observed.volumes.iter().map(|bytes| bytes / epochs).collect(),
            profile: self.profile(),
            changed,
        };
        self.reference = self.observed.bytes.iter().map(|seen| (seen.0, None)).collect();
        self.since = 0;
        self.observed.epochs = 0;
        self.observed.volumes.fill(0.0);
        self.observed.pairs.clear();
        let Some(replanner) = &mut self.replanner else { return Ok(()) };
        if let Some(allocation) = replanner.replan(&observed)? {
            fits(self.instance, &allocation)?;
            let end = (self.epoch + 1).saturating_mul(self.epoch_length);
            self.at(end.saturating_add(settings.delay), Step::Bring(allocation, settings.rollout));
        }
        Ok(())
    }

    /// What ingresses have found since their last report, per epoch.
    fn profile(&self) -> Measured {
        let Carrier::Planned(planned) = &self.carrier else { return Measured::default() };
        let mut sums = self.observed.pairs.clone();
        let current = planned.ingresses.iter().flat_map(|ingress| &ingress.pairs);
        let mut epochs = self.observed.epochs;
        for (&pair, found) in current {
            let sum = sums.entry(pair).or_default();
            sum.0 += found.0;
            sum.1 += found.1;
        }
        // The epoch at hand counts as a whole one, unless it has only begun.
        epochs += u64::from(self.current.packets > 0);
        let pairs = sums.into_iter().filter_map(|((p, q), (count, bytes))| {
            let ingress = &planned.ingresses[self.instance.paths[p as usize].ingress as usize];
            let covered = ingress.allocation.shares(q).last().map_or(0.0, |last| last.to as f64 / 4_294_967_296.0);
            let length = (bytes as f64 / count as f64).min(self.instance.mss);
            (covered > 0.0).then(|| (p, q, Match { count: count as f64 / epochs.max(1) as f64 / covered, length }))
        });
        Measured { pairs: pairs.collect() }
    }
}

impl Report {
    fn count(&mut self, operations: &mut [(u64, u64)], device: u32, passed: &Passed) {
        let of = &mut self.devices[device as usize];
        of.cached += u64::from(passed.cached);
        of.decoded += u64::from(passed.decoded);
        of.decoded_bytes += u64::from(passed.decoded_bytes);
        let epoch = &mut operations[device as usize];
        epoch.0 += u64::from(passed.cached);
        epoch.1 += u64::from(passed.decoded);
    }

    fn count_bytes(
        &mut self,
        current: &mut EpochReport,
        instance: &Instance,
        link: u32,
        ingress: usize,
        before: u64,
        after: u64,
    ) {
        self.links[link as usize].count(before, after);
        if !instance.counted[link as usize] {
            return;
        }
        self.ingresses[ingress].footprint.count(before, after);
        self.footprint.count(before, after);
        current.footprint.count(before, after);
    }

    fn fault(&self, instance: &Instance, packet: &Packet, link: u32, what: &str) -> Error {
        let path = &instance.paths[packet.path as usize];
        let name = |node: u32| &instance.network.nodes[node as usize].id;
        Error::Emulation(format!(
            "packet {} (at {} ns, from {} to {}), on link {}: {what}",
            self.packets,
            packet.time,
            name(instance.ingresses[path.ingress as usize].node),
            name(path.egress),
            instance.network.link_name(link)
        ))
    }
}

impl Planned {
    fn new(instance: &Instance, allocation: Allocation, settings: &Settings) -> Result<Self, Error> {
        fits(instance, &allocation)?;
        let expected = allocation.expect(instance);
        let limits = budgets(instance, &expected.operations, settings.shed);
        let allocation = Arc::new(allocation);
        let mut ingresses = Vec::new();
        for (number, (ingress, limits)) in instance.ingresses.iter().zip(limits).enumerate() {
            let buckets: u64 = ingress.paths.clone().flat_map(|path| allocation.shares(path)).map(|share| share.bytes).sum();
            // A later plan may cover more: as much as the ingress's memory and traffic allow.
            let most = ingress.volume.min(ingress.memory).min(settings.unlimited as f64) as u64;
            let store = Store::new(&settings.finding, settings.seed, buckets.max(most), RING)?;
            let paths = ingress.paths.clone();
            let mut ingress = Ingress::new(store, allocation.clone(), instance.coded(number), limits);
            ingress.switch(allocation.clone(), 0, paths, ingress.limits.clone());
            ingresses.push(ingress);
        }
        let mut nodes = Vec::with_capacity(instance.devices.len());
        for sizes in sizes_of_devices(instance, &allocation) {
            let mut device = Device { node: Node::default(), allocations: [None, None] };
            device.install(0, allocation.clone(), sizes);
            nodes.push(device);
        }
        let mut planned = Self { ingresses, nodes, expected_saved: Vec::new(), expected_operations: Vec::new() };
        planned.expect(expected);
        Ok(planned)
    }

    fn expect(&mut self, expected: super::allocation::Expectation) {
        self.expected_saved = expected.saved;
        let devices = self.nodes.len();
        self.expected_operations =
            (0..devices).map(|device| expected.operations.iter().map(|ingress| ingress[device]).sum()).collect();
    }
}

impl Device {
    /// Whether its manifest of even and of odd version holds this packet.
    fn holds(&self, path: u32, hash: u32, device: u32) -> [bool; 2] {
        let holds = |allocation: &Option<Arc<Allocation>>| {
            let holder = allocation.as_ref().and_then(|allocation| allocation.holder(path, hash));
            holder.is_some_and(|share| share.device == device)
        };
        [holds(&self.allocations[0]), holds(&self.allocations[1])]
    }

    /// Takes a manifest in addition to the one it has. Until that is retired, buckets have the larger size of both, so that nothing goes before it
    /// goes at the ingress.
    fn install(&mut self, version: u32, allocation: Arc<Allocation>, sizes: Vec<(u32, u64)>) {
        let before: BTreeMap<u32, u64> = self.node.buckets().collect();
        for (path, bytes) in sizes {
            if before.get(&path).is_none_or(|&size| size < bytes) {
                self.node.resize(path, bytes);
            }
        }
        self.allocations[(version & 1) as usize] = Some(allocation);
    }

    /// Forgets the manifest before `version`.
    fn retire(&mut self, device: u32, version: u32, allocation: &Allocation) {
        self.allocations[(version & 1 ^ 1) as usize] = None;
        let paths: Vec<u32> = self.node.buckets().map(|(path, _)| path).collect();
        for path in paths {
            let share = allocation.shares(path).iter().find(|share| share.device == device);
            self.node.resize(path, share.map_or(0, |share| share.bytes));
        }
    }
}

impl Carrier {
    fn links(instance: &Instance, limits: Vec<Option<Limits>>) -> Self {
        Carrier::Links { pairs: instance.network.links.iter().map(|_| None).collect(), limits }
    }
}

/// What each link's pair may use: its device's, or of a router's device the share of the link's volume.
fn limits_of_links(instance: &Instance, of_link: &[Option<u32>], unlimited: u64) -> Vec<Option<Limits>> {
    let volumes = instance.link_volumes();
    let mut of_device = vec![0.0; instance.devices.len()];
    for (volume, device) in volumes.iter().zip(of_link) {
        if let Some(device) = device {
            of_device[*device as usize] += volume;
        }
    }
    let limits = |(link, device): (usize, &Option<u32>)| {
        let number = (*device)? as usize;
        let device = &instance.devices[number];
        let part = if of_device[number] > 0.0 { volumes[link] / of_device[number] } else { 0.0 };
        let share = |of: f64| if of.is_infinite() { of } else { of * part };
        let packets = volumes[link] / instance.packet;
        let encodings = share(device.encodings);
        Some(Limits {
            memory: share(device.memory).min(unlimited as f64) as u64,
            coded: if packets > encodings { encodings / packets } else { 1.0 },
            encodings,
            operations: share(device.operations),
        })
    };
    of_link.iter().enumerate().map(limits).collect()
}

/// Per device: the paths that it caches packets of, and the sizes of their buckets.
fn sizes_of_devices(instance: &Instance, allocation: &Allocation) -> Vec<Vec<(u32, u64)>> {
    let mut sizes = vec![Vec::new(); instance.devices.len()];
    for path in 0..allocation.paths() as u32 {
        for share in allocation.shares(path) {
            sizes[share.device as usize].push((path, share.bytes));
        }
    }
    sizes
}

/// Operations per epoch that each ingress may cause at each device: the device's, divided as the plan expects to use them, so that what the plan
/// leaves over is divided alike.
fn budgets(instance: &Instance, expected: &[Vec<f64>], shed: bool) -> Vec<Vec<f64>> {
    let sums: Vec<f64> = (0..instance.devices.len()).map(|device| expected.iter().map(|ingress| ingress[device]).sum()).collect();
    let part = |device: usize, of: f64| match instance.devices[device].operations {
        _ if !shed => f64::INFINITY,
        _ if of == 0.0 => 0.0,
        all if all.is_infinite() => all,
        all => all * of / sums[device],
    };
    expected.iter().map(|ingress| ingress.iter().enumerate().map(|(device, &of)| part(device, of)).collect()).collect()
}

fn fits(instance: &Instance, allocation: &Allocation) -> Result<(), Error> {
    let devices = instance.devices.len() as u32;
    if allocation.paths() != instance.paths.len() {
        let paths = instance.paths.len();
        return Err(Error::Emulation(format!("manifests for {} paths, but there are {paths}", allocation.paths())));
    }
    let stranger = (0..allocation.paths() as u32).flat_map(|path| allocation.shares(path)).find(|share| share.device >= devices);
    match stranger {
        Some(share) => Err(Error::Emulation(format!("a manifest for device {}, but there are {devices}", share.device))),
        None => Ok(()),
    }
}

fn check_loss(loss: f64) -> Result<(), Error> {
    if (0.0..=1.0).contains(&loss) {
        Ok(())
    } else {
        Err(Error::Emulation(format!("a loss of {loss}; it is a probability, from 0 to 1")))
    }
}

fn check(settings: &Settings) -> Result<(), Error> {
    check_loss(settings.loss)?;
    let Format { name_bytes, max_matches, .. } = settings.format;
    let Finding { window, period, .. } = settings.finding;
    let wrong = |what: String| Err(Error::Emulation(what));
    if !(1..=8).contains(&name_bytes) {
        return wrong(format!("names of {name_bytes} bytes; they have 1 to 8"));
    }
    if usize::from(max_matches) > MAX_MATCHES {
        return wrong(format!("{max_matches} matches in a packet; a shim carries at most {MAX_MATCHES}"));
    }
    if !(12..=64).contains(&window) {
        return wrong(format!("a window of {window} bytes; it has 12 to 64"));
    }
    if !(4..=1024).contains(&period) {
        return wrong(format!("a sampling period of {period} bytes; it is 4 to 1024"));
    }
    if settings.replanning.change.is_some_and(|change| change.is_nan() || change < 0.0) {
        return wrong("a change that is no share".into());
    }
    Ok(())
}

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Below `bound`, which is above 0.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}
