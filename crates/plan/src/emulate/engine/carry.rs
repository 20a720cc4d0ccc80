//! Carrying one packet through the network.

use super::{Carrier, Emulation, Pair, Scheduled};
use crate::{
    DeviceId, Error, Instance, LinkId, NodeId,
    emulate::{EpochReport, Report, link::Crossing},
    engine::{CacheTask, Common, Format, Identity, InFlight, Packet, Processed, Queues, Shim, due},
    error::EmulationError,
};

/// A packet that enters.
#[derive(Clone, Copy)]
pub(super) struct Entering<'a> {
    packet: &'a Packet,
    identity: Identity,
    /// The ingress.
    number: usize,
    /// Bytes with headers.
    whole: u64,
}

impl Emulation<'_> {
    pub(super) fn carry(&mut self, packet: &Packet) -> Result<(), Error> {
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
        let entering = Entering { packet, identity, number, whole };
        match &self.carrier {
            Carrier::Planned(_) => self.carry_planned(entering),
            Carrier::Links { .. } => self.carry_by_links(entering),
        }
    }

    pub(super) fn carry_planned(&mut self, entering: Entering<'_>) -> Result<(), Error> {
        let Entering { packet, identity, number, whole } = entering;
        let Carrier::Planned(planned) = &mut self.carrier else {
            unreachable!("it was looked at just now")
        };
        let elapsed = (packet.time % self.epoch_length) as f64 / self.epoch_length as f64;
        let common = Common {
            format: &self.settings.format,
            hash: &self.hash,
            window: self.settings.finding.window,
            known: &self.known,
            rules: self.settings.rules,
            now: packet.time,
            round_trip: self.settings.round_trip,
            due: due(elapsed),
        };
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
        let mut task = CacheTask {
            holds: [false; 2],
            name: identity.name(self.settings.format.name_bytes),
            header_bytes: packet.header_bytes,
            path: packet.path,
            queue: match self.settings.rules.queues {
                Queues::Paths => packet.path,
                Queues::Ingress | Queues::Fair => number as u32,
            },
            window: self.settings.finding.window,
        };
        for (&link, &device) in route.links.iter().zip(&route.devices) {
            let bytes = u64::from(packet.header_bytes)
                + (flight.shim.len() + flight.body.bytes().len()) as u64;
            self.report.count_bytes(&mut self.current, self.instance, link, number, whole, bytes);
            if self.loss > 0.0 && self.losses.unit() < self.loss {
                self.report.lost += 1;
                self.send_again(entering, true);
                return Ok(());
            }
            let Some(device) = device else { continue };
            let at = &mut planned.nodes[device];
            task.holds = at.holds(packet.path, identity.hash());
            let passed =
                at.receive(&self.settings.format, &self.hash, &task, &mut flight).map_err(
                    |error| self.report.fault(self.instance, packet, link, &error.to_string()),
                )?;
            self.report.count(&mut self.operations, device, &passed);
            if passed.damaged {
                self.excuse(packet, link, "decoded bytes do not have the shim's checksum")?;
                self.report.damaged += 1;
                self.send_again(entering, false);
                return Ok(());
            }
        }
        let link = route.links[route.links.len() - 1];
        self.arrive(entering, link, &flight)
    }

    /// A host sends a packet again, plain, since it was lost or could not be decoded.
    fn send_again(&mut self, entering: Entering<'_>, lost: bool) {
        let Entering { packet, number, whole, .. } = entering;
        let route = &self.routes[packet.path as usize];
        let links = route.links.iter().filter(|&&link| self.instance.counted[link]).count() as u64;
        let before = if lost { whole * links } else { 0 };
        self.report.resent.count(before, whole * links);
        self.current.resent.count(before, whole * links);
        if matches!(self.carrier, Carrier::Planned(_)) && self.settings.rules.confirm {
            let copy = self.hash.copy(&packet.header, &packet.payload);
            let time = packet.time.saturating_add(self.settings.round_trip);
            self.at(time, Scheduled::Again { ingress: number as u32, copy });
        }
    }

    pub(super) fn carry_by_links(&mut self, entering: Entering<'_>) -> Result<(), Error> {
        let Entering { packet, identity, number, whole } = entering;
        let Carrier::Links { pairs, limits } = &mut self.carrier else {
            unreachable!("it was looked at just now")
        };
        // Between two routers the packet has no path: each link's pair stands alone.
        let format = Format { path_ids: false, ..self.settings.format };
        let window = self.settings.finding.window;
        let crossing = Crossing { format: &format, hash: &self.hash, window, packet, identity };
        let route = &self.routes[packet.path as usize];
        for &link in &route.links {
            let device = self.of_link[link];
            let pair = match (&mut pairs[link], limits[link]) {
                (Some(pair), _) => Some(pair),
                (empty, Some(limits)) => Some(empty.insert(Box::new(Pair::new(
                    &self.settings.finding,
                    self.settings.seed,
                    limits,
                    self.settings.rules.copies,
                )?))),
                (None, None) => None,
            };
            let Some(pair) = pair else {
                self.report.count_bytes(
                    &mut self.current,
                    self.instance,
                    link,
                    number,
                    whole,
                    whole,
                );
                if self.loss > 0.0 && self.losses.unit() < self.loss {
                    self.report.lost += 1;
                    self.send_again(entering, true);
                    return Ok(());
                }
                continue;
            };
            let mut flight = pair.encode(crossing)?;
            let shim = flight.shim.len() as u64;
            let bytes = u64::from(packet.header_bytes) + shim + flight.body.bytes().len() as u64;
            self.report.count_bytes(&mut self.current, self.instance, link, number, whole, bytes);
            self.report.ingresses[number].shim_bytes += shim;
            if self.loss > 0.0 && self.losses.unit() < self.loss {
                self.report.lost += 1;
                self.send_again(entering, true);
                return Ok(());
            }
            let passed = pair.decode(crossing, &mut flight).map_err(|error| {
                self.report.fault(self.instance, packet, link, &error.to_string())
            })?;
            if let Some(device) = device {
                self.report.count(&mut self.operations, device, &passed);
            }
            if !flight.shim.is_empty() || passed.damaged {
                self.note_undecodable(entering, link, u64::from(!passed.damaged))?;
                self.report.damaged += u64::from(passed.damaged);
                return Ok(());
            }
            self.report.same(
                self.instance,
                packet,
                link,
                flight.body.bytes(),
                "it is not what it was",
            )?;
            self.report.ingresses[number].matches += u64::from(passed.decoded);
            self.report.ingresses[number].matched_bytes += u64::from(passed.decoded_bytes);
            self.current.matches += u64::from(passed.decoded);
        }
        self.report.delivered += 1;
        Ok(())
    }

    /// What must not happen, unless something excuses it, as lost packets do.
    fn excuse(&self, packet: &Packet, link: LinkId, what: &str) -> Result<(), Error> {
        if self.excused {
            Ok(())
        } else {
            Err(self.report.fault(self.instance, packet, link, what))
        }
    }

    /// What could be decoded, had no packet been lost.
    fn note_undecodable(
        &mut self,
        entering: Entering<'_>,
        link: LinkId,
        count: u64,
    ) -> Result<(), Error> {
        self.excuse(entering.packet, link, "it could not be decoded, though none was lost")?;
        self.report.undecodable += count;
        self.current.undecodable += count;
        self.send_again(entering, false);
        Ok(())
    }

    /// The packet leaves the network.
    fn arrive(
        &mut self,
        entering: Entering<'_>,
        link: LinkId,
        flight: &InFlight,
    ) -> Result<(), Error> {
        let packet = entering.packet;
        if !flight.shim.is_empty() {
            let shim = Shim::take_head(&self.settings.format, packet.path, &mut &flight.shim[..])
                .map_err(|error| {
                self.report.fault(self.instance, packet, link, &error.to_string())
            })?;
            if !shim.matches.is_empty() {
                return self.note_undecodable(entering, link, 1);
            }
        }
        self.report.same(
            self.instance,
            packet,
            link,
            flight.body.bytes(),
            "it left other than it entered",
        )?;
        self.report.delivered += 1;
        Ok(())
    }
}

impl Report {
    fn count(&mut self, operations: &mut [(u64, u64)], device: DeviceId, passed: &Processed) {
        let of = &mut self.devices[device];
        of.cached += u64::from(passed.cached);
        of.decoded += u64::from(passed.decoded);
        of.decoded_bytes += u64::from(passed.decoded_bytes);
        let epoch = &mut operations[device];
        epoch.0 += u64::from(passed.cached);
        epoch.1 += u64::from(passed.decoded);
    }

    fn count_bytes(
        &mut self,
        current: &mut EpochReport,
        instance: &Instance,
        link: LinkId,
        ingress: usize,
        before: u64,
        after: u64,
    ) {
        self.links[link].count(before, after);
        if !instance.counted[link] {
            return;
        }
        self.ingresses[ingress].footprint.count(before, after);
        self.footprint.count(before, after);
        current.footprint.count(before, after);
    }

    /// An error unless these bytes are those of the packet's payload.
    fn same(
        &self,
        instance: &Instance,
        packet: &Packet,
        link: LinkId,
        bytes: &[u8],
        what: &str,
    ) -> Result<(), Error> {
        if bytes == &packet.payload[..] {
            Ok(())
        } else {
            Err(self.fault(instance, packet, link, what))
        }
    }

    fn fault(&self, instance: &Instance, packet: &Packet, link: LinkId, what: &str) -> Error {
        let path = &instance.paths[packet.path as usize];
        let name = |node: NodeId| instance.network.nodes[node].id.clone();
        EmulationError::Packet {
            number: self.packets,
            time: packet.time,
            from: name(instance.ingresses[path.ingress as usize].node),
            to: name(path.egress),
            link: instance.network.link_name(link),
            what: what.to_owned(),
        }
        .into()
    }
}
