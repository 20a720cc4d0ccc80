//! Maps packets of a capture to an instance's paths.

use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
};

use oncewire_kernels::random::{GOLDEN, mix, unit};
use oncewire_packet::{
    Dissected, Nanos, Transport,
    prefix::{PrefixId, Prefixes},
};

use crate::{
    Bytes, Error, Instance, NodeId, Seconds,
    emulate::{Fields, Header, Packet},
    error::EmulationError,
    network::Role,
    ra::Prefix,
};

/// Where packets of a capture enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ingresses {
    /// All at this ingress node, as if the capture had been taken there (thesis, section 3.5).
    One(NodeId),
    /// At the node that their source address is behind.
    BySource,
}

/// How addresses are mapped to nodes.
#[derive(Clone, Debug)]
pub enum Egresses {
    /// Behind the node that has the name of its prefix: as id, or else as label or city. Of several
    /// nodes with that label or city, such as a PoP's access routers, a seeded hash of the address
    /// chooses; backbone routers are left out.
    Prefixes(Box<Prefixes>),
    /// Behind nodes chosen by a seeded hash of the address, in proportion to the volume that the
    /// instance sends there: for captures with too few destinations, or none that are known. What
    /// the same address sends and receives stays at one node.
    Spread {
        /// Seed of the hash.
        seed: u64,
        /// Whether all of an IPv4 /24 or IPv6 /48 lie together.
        networks: bool,
    },
}

/// Scaling of a capture's times and of the instance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeScale {
    /// Factor on times.
    pub time: f64,
    /// Factor for [`Instance::scaled`].
    pub instance: f64,
}

impl TimeScale {
    /// No scaling.
    pub const NONE: Self = Self { time: 1.0, instance: 1.0 };

    /// So that `bytes` in `time`, all entering at `ingress`, fill that ingress's
    /// store `epochs` times, in as many epochs.
    ///
    /// # Errors
    /// Nothing to scale.
    pub fn fill(
        instance: &Instance,
        ingress: usize,
        bytes: Bytes,
        time: Seconds,
        epochs: f64,
    ) -> Result<Self, Error> {
        let scale = Self {
            time: epochs * instance.epoch.0 / time.0,
            instance: bytes.0 / epochs / instance.ingresses[ingress].memory,
        };
        scale.check()?;
        Ok(scale)
    }

    fn check(self) -> Result<(), Error> {
        for (what, factor) in [
            ("the factor of the capture's times", self.time),
            ("the factor of the instance", self.instance),
        ] {
            if !(factor > 0.0 && factor.is_finite()) {
                let range = "above 0: is the capture empty?";
                return Err(EmulationError::setting(what, factor, range).into());
            }
        }
        Ok(())
    }
}

/// How a capture's packets were mapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mapped {
    /// Packets that were placed on a path.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Packets with an address that is behind no node.
    pub nowhere: u64,
    /// Packets that would leave in the PoP where they enter.
    pub own_pop: u64,
    /// Packets between nodes without a path.
    pub no_path: u64,
    /// Packets too large for IP: captured before a network card cut them.
    pub too_large: u64,
}

/// Places a capture's packets on the paths of an instance.
pub struct FromCapture<'a> {
    instance: &'a Instance,
    ingresses: Ingresses,
    places: Places,
    /// Paths from an ingress node, of a slice, to an egress.
    paths: HashMap<(NodeId, u16, NodeId), u32>,
    /// Slices of each ingress node, with sums of volume up to each.
    slices: HashMap<NodeId, Vec<(u16, f64)>>,
    /// Slices that were given for source networks of an ingress node, and the lengths of these
    /// networks, the longest first.
    sources: HashMap<(NodeId, Prefix), u16>,
    lengths: Vec<u8>,
    scale: TimeScale,
    /// Time of the first packet in the capture.
    first: Option<Nanos>,
    /// Time of the last packet that was placed.
    last: u64,
    mapped: Mapped,
}

enum Places {
    /// Nodes of each name of the table.
    Prefixes { table: Box<Prefixes>, nodes: HashMap<PrefixId, Box<[NodeId]>> },
    /// Nodes, with sums of volume up to each.
    Spread { seed: u64, networks: bool, nodes: Vec<(NodeId, f64)> },
}

/// Largest payload in bytes: that of IP.
const MAX_PAYLOAD: usize = 65_535;
/// So that slices do not follow from egresses, which a hash of an address may choose, too.
const OF_SLICES: u64 = 0x0051_1ce5;
/// Names that an error lists.
const NAMES_SHOWN: usize = 5;

impl<'a> FromCapture<'a> {
    /// A mapper onto `instance`. Prefixes with unknown names are behind no node.
    ///
    /// # Errors
    /// An ingress without traffic; a table of prefixes without the name of any node.
    pub fn new(
        instance: &'a Instance,
        ingresses: Ingresses,
        egresses: Egresses,
        scale: TimeScale,
    ) -> Result<Self, Error> {
        scale.check()?;
        if let Ingresses::One(node) = ingresses
            && !instance.ingresses.iter().any(|ingress| ingress.node == node)
        {
            let name =
                instance.network.nodes.get(node.index()).map_or("?", |node| node.id.as_str());
            return Err(EmulationError::NoIngress { what: "the capture", node: name.into() }.into());
        }
        let places = match egresses {
            Egresses::Prefixes(table) => by_name(instance, table)?,
            Egresses::Spread { seed, networks } => {
                let mut volumes = vec![0.0; instance.network.nodes.len()];
                for path in &instance.paths {
                    // Of one ingress the shares of its own paths count, but those to its PoP, which
                    // would be left out.
                    let from = instance.ingresses[path.ingress as usize].node;
                    let its = ingresses == Ingresses::One(from)
                        && instance.network.nodes[from].pop != path.pop;
                    if ingresses == Ingresses::BySource || its {
                        volumes[path.egress] += path.volume;
                    }
                }
                let mut sum = 0.0;
                let sums =
                    volumes.into_iter().zip(NodeId::all()).filter(|&(volume, _)| volume > 0.0).map(
                        |(volume, node)| {
                            sum += volume;
                            (node, sum)
                        },
                    );
                Places::Spread { seed, networks, nodes: sums.collect() }
            }
        };
        let paths = instance
            .paths
            .iter()
            .zip(0..)
            .map(|(path, number)| {
                let ingress = &instance.ingresses[path.ingress as usize];
                ((ingress.node, ingress.slice, path.egress), number)
            })
            .collect();
        let slices = instance.stores().map(|slices| {
            let slices = &instance.ingresses[slices];
            let sums = slices.iter().scan(0.0, |sum, slice| {
                *sum += slice.volume;
                Some((slice.slice, *sum))
            });
            (slices[0].node, sums.collect())
        });
        let slices = slices.collect();
        let mut sources = HashMap::new();
        for ingress in &instance.ingresses {
            let given = ingress.sources.iter();
            sources.extend(given.map(|&prefix| ((ingress.node, prefix), ingress.slice)));
        }
        let lengths: BTreeSet<u8> = sources.keys().map(|(_, prefix)| prefix.length).collect();
        Ok(Self {
            instance,
            ingresses,
            places,
            paths,
            slices,
            sources,
            lengths: lengths.into_iter().rev().collect(),
            scale,
            first: None,
            last: 0,
            mapped: Mapped::default(),
        })
    }

    /// The packet on its path, or none if it has none: [`FromCapture::mapped`] counts why. Packets
    /// are to come in the order of the capture; one whose time is before that of the last is moved
    /// to it.
    ///
    /// Bytes that the capture lacks, trailers and link headers count as header bytes: they cross
    /// every link and cannot be encoded.
    pub fn packet(&mut self, time: Nanos, packet: &Dissected<'_>) -> Option<Packet> {
        let first = *self.first.get_or_insert(time);
        if packet.payload.len() > MAX_PAYLOAD {
            self.mapped.too_large += 1;
            return None;
        }
        let from = match self.ingresses {
            Ingresses::One(node) => Some(node),
            Ingresses::BySource => self.places.node(packet.source),
        };
        let (Some(from), Some(to)) = (from, self.places.node(packet.destination)) else {
            self.mapped.nowhere += 1;
            return None;
        };
        let pop = |node: NodeId| self.instance.network.nodes[node].pop;
        if pop(from) == pop(to) {
            self.mapped.own_pop += 1;
            return None;
        }
        let slice = self.slice(from, packet.source);
        let Some(&path) = self.paths.get(&(from, slice, to)) else {
            self.mapped.no_path += 1;
            return None;
        };
        let since = time.saturating_sub(first).max(0) as f64 * self.scale.time;
        self.last = self.last.max(since as u64);
        let header_bytes =
            packet.headers.saturating_add(packet.missing).saturating_add(packet.trailer);
        self.mapped.packets += 1;
        self.mapped.bytes += u64::from(header_bytes) + packet.payload.len() as u64;
        Some(Packet {
            time: self.last,
            path,
            header: Header::from(packet),
            header_bytes,
            payload: packet.payload.into(),
        })
    }

    /// The slice that traffic of an address takes: of several, the one that was given for the
    /// longest network of the address, or else one that a hash of its IPv4 /24 or IPv6 /48 chooses
    /// in proportion to their volumes, so that a network's traffic stays together.
    fn slice(&self, ingress: NodeId, source: IpAddr) -> u16 {
        let slices = match self.slices.get(&ingress).map(Vec::as_slice) {
            Some([only]) => return only.0,
            Some(slices) => slices,
            None => return 0,
        };
        let given = self
            .lengths
            .iter()
            .find_map(|&length| self.sources.get(&(ingress, Prefix::new(source, length))));
        if let Some(&slice) = given {
            return slice;
        }
        let chosen = unit(mix(hash(network(source)) ^ OF_SLICES)) * slices[slices.len() - 1].1;
        let at = slices.partition_point(|&(_, sum)| sum <= chosen);
        slices[at.min(slices.len() - 1)].0
    }

    /// How packets were mapped so far.
    pub fn mapped(&self) -> Mapped {
        self.mapped
    }
}

impl From<&Dissected<'_>> for Header {
    fn from(packet: &Dissected<'_>) -> Self {
        let (source_port, destination_port) = packet.transport.ports();
        Self {
            source: packet.source,
            destination: packet.destination,
            source_port,
            destination_port,
            protocol: packet.protocol,
            identification: packet.identification,
            transport: match packet.transport {
                Transport::Tcp { seq, ack, checksum, .. } => {
                    Fields::Tcp { sequence: seq, acknowledgment: ack, checksum }
                }
                Transport::Udp { length, checksum, .. } => Fields::Udp { length, checksum },
            },
        }
    }
}

impl Places {
    fn node(&self, address: IpAddr) -> Option<NodeId> {
        match self {
            Self::Prefixes { table, nodes } => {
                let nodes = nodes.get(&table.lookup(address)?)?;
                Some(nodes[((u128::from(hash(address)) * nodes.len() as u128) >> 64) as usize])
            }
            Self::Spread { seed, networks, nodes } => {
                let address = if *networks { network(address) } else { address };
                let value = unit(mix(hash(address) ^ mix(*seed))) * nodes.last()?.1;
                let at = nodes.partition_point(|&(_, sum)| sum <= value);
                Some(nodes[at.min(nodes.len() - 1)].0)
            }
        }
    }
}

fn by_name(instance: &Instance, table: Box<Prefixes>) -> Result<Places, Error> {
    let mut ids: HashMap<&str, Vec<NodeId>> = HashMap::new();
    let mut cities: HashMap<String, Vec<NodeId>> = HashMap::new();
    for (node, number) in instance.network.nodes.iter().zip(NodeId::all()) {
        ids.entry(&node.id).or_default().push(number);
        if node.role == Role::Backbone {
            continue;
        }
        let label = node.label.to_lowercase();
        let city = node.city.as_ref().map(|city| city.to_lowercase()).filter(|city| *city != label);
        for name in [Some(label), city].into_iter().flatten() {
            cities.entry(name).or_default().push(number);
        }
    }
    let mut nodes = HashMap::new();
    let mut unknown = Vec::new();
    for (id, name) in table.names() {
        match ids.get(name).or_else(|| cities.get(&name.to_lowercase())) {
            Some(found) => {
                nodes.insert(id, found.as_slice().into());
            }
            None => unknown.push(name),
        }
    }
    if nodes.is_empty() {
        unknown.truncate(NAMES_SHOWN);
        return Err(EmulationError::UnknownPrefixes { names: unknown.join(", ") }.into());
    }
    Ok(Places::Prefixes { table, nodes })
}

/// The address's IPv4 /24 or IPv6 /48.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4((address.to_bits() & !0xff).into()),
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 80 << 80).into()),
    }
}

fn hash(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(address) => mix(u64::from(address.to_bits()).wrapping_add(GOLDEN)),
        IpAddr::V6(address) => {
            mix(mix((address.to_bits() >> 64) as u64).wrapping_add(address.to_bits() as u64))
        }
    }
}
