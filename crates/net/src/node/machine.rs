//! A node without I/O: what it does with a packet from its access device, and with a record of a
//! neighbor.

use super::error::SetupError;
use super::load::Load;
use super::part::Part;
use super::place::{Entrance, NodeSettings, Place};
use super::record::{
    self, ANSWER, NOTICE, Notice, OVERLOADED, PathError, PathPacket, REJECTION, RESTARTED, Reason,
    Rejected, fields_of, invariant, read_overloaded, read_restarted, take_path, write_restarted,
};
use super::setup::{Manifests, RunningNetwork};
use super::tally::Tally;
use super::versions::Versions;
use oncewire_packet::fields::Headers;
use oncewire_plan::control::Carried;
use oncewire_plan::engine::{
    Body, CacheTask, Common, Extension, Format, HeaderHasher, InFlight, Node, Packet, SentPacket,
    Shim, due,
};
use oncewire_plan::measure::{self, Counts, Meter};
use oncewire_plan::{DeviceId, Error};
use oncewire_session::link::NodeKind;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The format of shims between nodes: the record has the path.
pub const FORMAT: Format = Format { name_bytes: 4, max_matches: 3, path_ids: false };

oncewire_session::metrics! {
    /// Counters of a node.
    pub struct NodeCounters {
        /// Packets that entered here.
        entered: Counter, Count;
        /// Bytes of packets that entered here.
        entered_bytes: Counter, Bytes;
        /// Bytes of these packets and their shims as they left for the next node.
        encoded_bytes: Counter, Bytes;
        /// Matches that were taken out of packets here.
        matches: Counter, Count;
        /// Packets that entered here and are cached by a node on their path.
        stored: Counter, Count;
        /// Packets that were passed on from one neighbor to another.
        forwarded: Counter, Count;
        /// Packets that left here.
        delivered: Counter, Count;
        /// Bytes of packets that left here.
        delivered_bytes: Counter, Bytes;
        /// Packets cached here.
        cached: Counter, Count;
        /// Matches decoded here.
        decoded: Counter, Count;
        /// Bytes of these.
        decoded_bytes: Counter, Bytes;
        /// Packets rejected since their last node could not decode them.
        undecodable: Counter, Count;
        /// Packets rejected since their bytes do not have the checksum of the shim.
        damaged: Counter, Count;
        /// Packets that entered here, were rejected, and were sent again whole.
        resent: Counter, Count;
        /// Nodes on paths from here that have restarted, and whose packets were forgotten.
        restarted: Counter, Count;
        /// New plans that the ingress here has begun to use while packets flow.
        plans: Counter, Count;
        /// Times that this node had more to cache and to decode than it can.
        overloaded: Counter, Count;
        /// Times that the ingress here was told that a node is overloaded, and spared it.
        spared: Counter, Count;
        /// Rejections of packets that this node has not sent, or too long ago.
        unanswered: Counter, Count;
        /// Packets from the access device that are not IP, or too long for a record.
        malformed: Counter, Count;
        /// Packets whose source is not behind the node where they entered.
        source_not_allowed: Counter, Count;
        /// Packets to addresses that no other node of a path from here has.
        no_path: Counter, Count;
        /// Records of paths that do not come here, or not from that neighbor.
        wrong_neighbor: Counter, Count;
        /// Records that no node sends.
        violations: Counter, Count;
    }
}

/// What is to be done with a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send a record to a neighbor.
    Send {
        /// The neighbor: its place among the nodes that share a link with this one, in the order of the
        /// topology.
        to: usize,
        /// Kind of the record.
        kind: NodeKind,
        /// Bits of its head.
        bits: u8,
        /// Its body.
        body: Vec<u8>,
    },
    /// Write a packet to the access device.
    Deliver(Vec<u8>),
}

/// A node without sockets and clock: packets and records in, packets and records out.
pub struct Machine {
    pub(super) me: usize,
    pub(super) network: Arc<RunningNetwork>,
    pub(super) settings: NodeSettings,
    hash: HeaderHasher,
    /// Bytes that it may use for packets.
    pub(super) memory: Option<u64>,
    pub(super) entrance: Option<Entrance>,
    pub(super) devices: HashMap<DeviceId, Node>,
    /// Paths of the plan, and of the next one while that is brought in.
    pub(super) places: HashMap<u32, Place>,
    pub(super) versions: Versions,
    /// Measures what enters, if a controller wants to know.
    meter: Option<Meter>,
    epoch: u64,
    pub(super) load: Load,
    pub(super) tally: Tally,
    pub(super) counters: NodeCounters,
}

impl Machine {
    /// The node `me`, which may use `memory` bytes for packets, if that is limited.
    ///
    /// # Errors
    /// [`SetupError`] if the manifests do not fit the network or the memory.
    pub fn new(
        network: Arc<RunningNetwork>,
        me: usize,
        manifests: &Manifests,
        settings: NodeSettings,
        memory: Option<u64>,
    ) -> Result<Machine, SetupError> {
        let part = Part::new(&network, me, manifests, settings.rules)?;
        let hash = HeaderHasher { seed: settings.seed, extension: Extension::Always };
        let needed = part.memory(None);
        let mut machine = Machine {
            me,
            network,
            settings,
            hash,
            memory,
            entrance: None,
            devices: HashMap::new(),
            places: HashMap::new(),
            versions: Versions::new(Part::default()),
            meter: None,
            epoch: 0,
            load: Load::default(),
            tally: Tally::default(),
            counters: NodeCounters::default(),
        };
        machine.fits(needed)?;
        machine.replace(part)?;
        Ok(machine)
    }

    /// Counters so far.
    pub fn counters(&self) -> NodeCounters {
        self.counters
    }

    /// Bytes and packets cached for paths of other nodes.
    pub fn cached(&self) -> (u64, u64) {
        let each = self.devices.values().map(|node| (node.used().0, node.packets() as u64));
        each.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Measures from now on what enters here, with a store of `memory` bytes beside the engine's.
    ///
    /// # Errors
    /// [`Meter::new`]'s.
    pub fn measure(&mut self, memory: u64) -> Result<(), Error> {
        self.meter = Some(Meter::new(memory, measure::Settings::default())?);
        Ok(())
    }

    /// What was measured since the last time, with the `most` largest pairs of egresses, which are told
    /// by their numbers; `now` is in nanoseconds since the start.
    pub fn measured(&mut self, now: u64, most: usize) -> Option<Counts> {
        self.meter.as_mut().map(|meter| meter.take(now, most))
    }

    /// A packet from the access device, `now` nanoseconds since the start.
    pub fn enter(&mut self, packet: &[u8], now: u64, out: &mut Vec<Step>) {
        let Machine { network, counters, .. } = self;
        let Ok(headers) = Headers::parse(packet) else {
            counters.malformed += 1;
            return;
        };
        if network.owner(headers.source) != Some(self.me) {
            counters.source_not_allowed += 1;
            return;
        }
        let to = network.owner(headers.destination);
        let (header, payload) = packet.split_at(headers.total());
        let fields = invariant(packet, &headers);
        let mut entering = Packet {
            time: now,
            path: to.map_or(u32::MAX, |to| to as u32),
            header: fields,
            header_bytes: header.len() as u32,
            payload: payload.into(),
        };
        if let Some(meter) = &mut self.meter
            && to.is_some_and(|to| to != self.me)
            && meter.push(&entering).is_err()
        {
            counters.malformed += 1;
            return;
        }
        let Some(entrance) = &mut self.entrance else {
            counters.no_path += 1;
            return;
        };
        let path = to.and_then(|to| entrance.paths.get(&to)).copied();
        let Some((path, next)) = path.and_then(|path| Some((path, self.places.get(&path)?.after?)))
        else {
            counters.no_path += 1;
            return;
        };
        entering.path = path;
        if self.versions.outdated.is_some() {
            // Others have another plan: what is encoded by this one might not be decoded.
            counters.entered += 1;
            counters.entered_bytes += packet.len() as u64;
            counters.encoded_bytes += packet.len() as u64;
            let whole = PathPacket { shim: &[], header, literals: payload, encoded: 0 };
            out.push(on_path(next, self.tally.record(next, path, &whole)));
            return;
        }
        let length = self.settings.epoch.as_nanos().max(1) as u64;
        let epoch = now / length;
        if epoch > self.epoch {
            entrance.ingress.new_epoch();
            self.epoch = epoch;
        }
        let common = Common {
            format: &FORMAT,
            hash: &self.hash,
            window: self.settings.finding.window,
            known: &entrance.routes,
            rules: self.settings.rules,
            now,
            round_trip: self.settings.round_trip.as_nanos() as u64,
            due: due((now % length) as f64 / length as f64),
        };
        let identity = self.hash.identity(&entering.header);
        let Ok((flight, sent)) = entrance.ingress.encode(&common, &entering, identity) else {
            counters.malformed += 1;
            return;
        };
        counters.entered += 1;
        counters.entered_bytes += packet.len() as u64;
        counters.matches += u64::from(sent.matches);
        counters.stored += u64::from(sent.stored);
        let literals = flight.body.bytes();
        counters.encoded_bytes += (header.len() + flight.shim.len() + literals.len()) as u64;
        let encoded = (payload.len() - literals.len()) as u32;
        let packet = PathPacket { shim: &flight.shim, header, literals, encoded };
        out.push(on_path(next, self.tally.record(next, path, &packet)));
        if sent.matches > 0
            && let Ok(shim) = Shim::take_head(&FORMAT, path, &mut &flight.shim[..])
        {
            let own = (path, identity.name(FORMAT.name_bytes));
            let own = sent.stored.then_some(own);
            let names = shim.matches.iter().map(|spec| (spec.path, spec.name)).chain(own).collect();
            let (header, payload) = (header.into(), entering.payload);
            entrance.sent.push(SentPacket { path, identity, header, payload, names });
        }
    }

    /// A record from a neighbor.
    pub fn arrive(
        &mut self,
        from: usize,
        (kind, bits, body): (NodeKind, u8, &[u8]),
        out: &mut Vec<Step>,
    ) {
        let taken = match kind {
            NodeKind::Path => self.pass(from, bits, body, out),
            NodeKind::Back => self.back(from, bits, body, out),
        };
        if taken.is_err() {
            self.counters.violations += 1;
        }
    }

    /// A packet on its path.
    fn pass(
        &mut self,
        from: usize,
        bits: u8,
        body: &[u8],
        out: &mut Vec<Step>,
    ) -> Result<(), PathError> {
        let mut rest = body;
        let path = take_path(&mut rest)?;
        if bits == NOTICE {
            self.noticed(from, path, Notice::read(rest)?, out);
            return Ok(());
        }
        if bits & !record::HAS_SHIM != 0 {
            return Err(PathError::Number);
        }
        let Some(&place) = self.places.get(&path).filter(|place| place.before == Some(from)) else {
            self.counters.wrong_neighbor += 1;
            return Ok(());
        };
        let packet = PathPacket::read(&FORMAT, path, bits, rest)?;
        let has_device = place.device.is_some_and(|device| self.devices.contains_key(&device));
        let mut flight = None;
        if has_device && !packet.shim.is_empty() {
            match self.process(path, &place, &packet, out)? {
                Some(processed) => flight = Some(processed),
                None => return Ok(()),
            }
        }
        let packet = match &flight {
            Some(flight) => {
                let literals = flight.body.bytes();
                let decoded = literals.len().saturating_sub(packet.literals.len()) as u32;
                let encoded = packet.encoded.saturating_sub(decoded);
                PathPacket { shim: &flight.shim, literals, encoded, ..packet }
            }
            None => packet,
        };
        match place.after {
            Some(next) => {
                self.counters.forwarded += 1;
                out.push(on_path(next, self.tally.record(next, path, &packet)));
            }
            None => self.leave(path, &place, &packet, out)?,
        }
        Ok(())
    }

    /// A neighbor has restarted, and has none of the packets that it had cached: the ingresses whose
    /// paths go there are told.
    pub fn restarted(&mut self, neighbor: usize, out: &mut Vec<Step>) {
        let Some(&node) = self.network.neighbors(self.me).get(neighbor) else { return };
        // One path of each ingress.
        let mut paths: BTreeMap<usize, (u32, Option<usize>)> = BTreeMap::new();
        for (&path, place) in &self.places {
            if place.after == Some(neighbor) {
                let known = paths.entry(place.from).or_insert((path, place.before));
                *known = (*known).min((path, place.before));
            }
        }
        for (path, before) in paths.into_values() {
            match before {
                Some(to) => {
                    let (kind, bits) = (NodeKind::Back, RESTARTED);
                    out.push(Step::Send { to, kind, bits, body: write_restarted(path, node) });
                }
                None => self.forget(node),
            }
        }
    }

    /// Refers no more to what a node has cached.
    fn forget(&mut self, node: usize) {
        let Some(entrance) = &mut self.entrance else { return };
        if let Some(devices) = entrance.devices.get(&node) {
            devices.iter().for_each(|&device| entrance.ingress.forget(device));
            self.counters.restarted += 1;
        }
    }

    /// An answer on its way to the ingress: to a rejection, it sends the packet again.
    fn back(
        &mut self,
        from: usize,
        bits: u8,
        body: &[u8],
        out: &mut Vec<Step>,
    ) -> Result<(), PathError> {
        let mut rest = body;
        let path = take_path(&mut rest)?;
        if bits == RESTARTED {
            let node = read_restarted(rest)?;
            let Some(place) = self.places.get(&path).filter(|place| place.after == Some(from))
            else {
                self.counters.wrong_neighbor += 1;
                return Ok(());
            };
            match place.before {
                Some(to) => {
                    let kind = NodeKind::Back;
                    out.push(Step::Send { to, kind, bits, body: write_restarted(path, node) });
                }
                None => self.forget(node),
            }
            return Ok(());
        }
        if bits == ANSWER {
            self.answered(from, path, Notice::read(rest)?, out);
            return Ok(());
        }
        if bits == OVERLOADED {
            self.overloaded(from, path, read_overloaded(rest)?, out);
            return Ok(());
        }
        if bits != REJECTION {
            return Err(PathError::Number);
        }
        let rejected = Rejected::read(rest)?;
        let Some(&place) = self.places.get(&path).filter(|place| place.after == Some(from)) else {
            self.counters.wrong_neighbor += 1;
            return Ok(());
        };
        if let Some(before) = place.before {
            out.push(back(before, rejected.write(path)));
            return Ok(());
        }
        let entrance = self.entrance.as_mut();
        let Some((entrance, packet)) = entrance.and_then(|entrance| {
            let packet = entrance.sent.take(path, rejected.identity)?;
            Some((entrance, packet))
        }) else {
            self.counters.unanswered += 1;
            return Ok(());
        };
        entrance.ingress.lost(&packet.names);
        self.counters.resent += 1;
        let (header, literals) = (&packet.header[..], &packet.payload[..]);
        let whole = PathPacket { shim: &[], header, literals, encoded: 0 };
        out.push(on_path(from, self.tally.record(from, path, &whole)));
        Ok(())
    }

    /// What it has carried since the last time; `now` is in nanoseconds since the start.
    pub fn carried(&mut self, now: u64) -> Carried {
        let (mut cached, mut cache) = (0, 0);
        for device in self.devices.values() {
            cached += device.used().0;
            cache += device.size();
        }
        let NodeCounters { cached: stored, decoded, overloaded, .. } = self.counters;
        let neighbors: Vec<usize> = self.network.neighbors(self.me).into_iter().collect();
        let carried = self.tally.take(now, &neighbors, (stored + decoded, overloaded));
        Carried { cached, cache, ..carried }
    }

    /// Decodes and caches; `None` if the packet is rejected.
    fn process(
        &mut self,
        path: u32,
        place: &Place,
        packet: &PathPacket<'_>,
        out: &mut Vec<Step>,
    ) -> Result<Option<InFlight>, PathError> {
        let identity = self.hash.identity(&fields_of(packet.header)?);
        let Some(node) = place.device.and_then(|device| self.devices.get_mut(&device)) else {
            return Ok(None);
        };
        let task = CacheTask {
            holds: node.holds(path, identity.hash()),
            name: identity.name(FORMAT.name_bytes),
            header_bytes: packet.header.len() as u32,
            path,
            queue: place.queue,
            window: self.settings.finding.window,
        };
        let mut flight =
            InFlight { shim: packet.shim.to_vec(), body: Body::Literals(packet.literals.to_vec()) };
        let processed = node.receive(&FORMAT, &self.hash, &task, &mut flight)?;
        let counters = &mut self.counters;
        counters.cached += u64::from(processed.cached);
        counters.decoded += u64::from(processed.decoded);
        counters.decoded_bytes += u64::from(processed.decoded_bytes);
        counters.damaged += u64::from(processed.damaged);
        if processed.damaged {
            let rejected = Rejected { identity, reason: Reason::Damaged };
            out.extend(place.before.map(|before| back(before, rejected.write(path))));
            return Ok(None);
        }
        Ok(Some(flight))
    }

    /// A packet at the end of its path.
    fn leave(
        &mut self,
        path: u32,
        place: &Place,
        packet: &PathPacket<'_>,
        out: &mut Vec<Step>,
    ) -> Result<(), PathError> {
        let fields = fields_of(packet.header)?;
        if !packet.shim.is_empty() {
            let shim = Shim::take_head(&FORMAT, path, &mut &packet.shim[..])?;
            if !shim.matches.is_empty() {
                self.counters.undecodable += 1;
                let identity = self.hash.identity(&fields);
                let rejected = Rejected { identity, reason: Reason::Undecodable };
                out.extend(place.before.map(|before| back(before, rejected.write(path))));
                return Ok(());
            }
        }
        // Neighbors are believed that a packet entered where its path begins, and no more.
        if self.network.owner(fields.source) != Some(place.from)
            || self.network.owner(fields.destination) != Some(self.me)
        {
            self.counters.source_not_allowed += 1;
            return Ok(());
        }
        let packet = [packet.header, packet.literals].concat();
        self.counters.delivered += 1;
        self.counters.delivered_bytes += packet.len() as u64;
        out.push(Step::Deliver(packet));
        Ok(())
    }
}

/// A packet on a path.
fn on_path(to: usize, (bits, body): (u8, Vec<u8>)) -> Step {
    Step::Send { to, kind: NodeKind::Path, bits, body }
}

fn back(to: usize, body: Vec<u8>) -> Step {
    Step::Send { to, kind: NodeKind::Back, bits: REJECTION, body }
}
