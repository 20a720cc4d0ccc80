//! Routes as a document: JSON of one line, which `oncewire route` writes and `oncewire plan
//! --routes` reads. `docs/PROFILES.md`, "Documents of routes", defines it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    str::FromStr,
};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use super::{Cost, Objective, Outcome, Prefix, Request, Routes, Slice};
use crate::{
    BitRate, LinkId, Network, NodeId, Seconds,
    error::{RouteFileError, quote},
    network::Role,
    path::Route,
};

/// Version of the document's format.
pub const FORMAT: u32 = 1;

/// Largest document that is read, in bytes.
pub const MAX_DOCUMENT: usize = 1 << 28;

/// How far the weights of an ingress may add up to something other than 1.
const ROUNDING: f64 = 1e-6;

/// Routes, with what they are for and how good they are.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteFile {
    /// What the routes were to be good at.
    pub goal: Goal,
    /// What a byte costs on a link.
    pub cost: Cost,
    /// Time in which content counts as equal.
    pub interval: Seconds,
    /// [`Outcome::value`].
    pub value: f64,
    /// [`Outcome::bound`].
    pub bound: f64,
    /// The routes.
    pub routes: Routes,
}

/// An [`Objective`] without its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// [`Objective::Footprint`].
    Footprint,
    /// [`Objective::FootprintWithin`].
    FootprintWithin,
    /// [`Objective::Load`].
    Load,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: u32,
    network: String,
    map: String,
    objective: Goal,
    cost: CostName,
    interval: f64,
    value: f64,
    bound: f64,
    slices: Vec<SliceDocument>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum CostName {
    Latency,
    Hops,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SliceDocument {
    ingress: String,
    weight: f64,
    prefixes: Vec<String>,
    /// Ids of nodes, from the ingress to the egress.
    paths: Vec<Vec<String>>,
}

/// The start of a document; read first, so that another format is reported as such.
#[derive(Deserialize)]
struct Head {
    format: u32,
}

/// What a map's routes depend on, as 16 hexadecimal digits: ids of nodes, and which are access
/// routers; ends, latencies and capacities of links. The order in the file does not matter.
pub fn map_hash(network: &Network) -> String {
    let id = |node: NodeId| network.nodes[node].id.as_str();
    // No path passes through an access router. Which other nodes send is the traffic's business.
    let mut nodes: Vec<(&str, bool)> =
        network.nodes.iter().map(|node| (node.id.as_str(), node.role == Role::Access)).collect();
    nodes.sort_unstable();
    let bits = |capacity: Option<BitRate>| capacity.map_or(u64::MAX, |rate| rate.0.to_bits());
    let mut links: Vec<(&str, &str, u64, u64)> = network
        .links
        .iter()
        .map(|link| (id(link.from), id(link.to), link.latency.to_bits(), bits(link.capacity)))
        .collect();
    links.sort_unstable();
    let mut hash = Xxh3::new();
    let mut text = |text: &str| {
        hash.update(&(text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    };
    for (id, access) in nodes {
        text(id);
        text(&access.to_string());
    }
    text("links");
    for (from, to, latency, capacity) in links {
        text(from);
        text(to);
        text(&latency.to_string());
        text(&capacity.to_string());
    }
    format!("{:016x}", hash.digest())
}

impl RouteFile {
    /// The document of an outcome.
    pub fn new(request: &Request<'_>, outcome: &Outcome) -> Self {
        Self {
            goal: match request.objective {
                Objective::Footprint => Goal::Footprint,
                Objective::FootprintWithin(_) => Goal::FootprintWithin,
                Objective::Load => Goal::Load,
            },
            cost: request.cost,
            interval: request.interval,
            value: outcome.value,
            bound: outcome.bound,
            routes: outcome.routes.clone(),
        }
    }

    /// Relative gap between value and bound.
    pub fn gap(&self) -> f64 {
        if self.value > 0.0 { ((self.value - self.bound) / self.value).max(0.0) } else { 0.0 }
    }

    /// The document, as one line of JSON. `network` is the one that the routes are for.
    pub fn to_json(&self, network: &Network) -> String {
        let id = |node: NodeId| network.nodes[node].id.clone();
        let slice = |slice: &Slice| SliceDocument {
            ingress: id(slice.ingress),
            weight: slice.weight,
            prefixes: slice.prefixes.iter().map(Prefix::to_string).collect(),
            paths: slice
                .paths
                .iter()
                .map(|(_, links)| {
                    let heads = links.iter().map(|&link| id(network.links[link].to));
                    std::iter::once(id(slice.ingress)).chain(heads).collect()
                })
                .collect(),
        };
        let document = Document {
            format: FORMAT,
            network: network.name.clone(),
            map: map_hash(network),
            objective: self.goal,
            cost: match self.cost {
                Cost::Latency => CostName::Latency,
                Cost::Hops => CostName::Hops,
            },
            interval: self.interval.0,
            value: self.value,
            bound: self.bound,
            slices: self.routes.slices.iter().map(slice).collect(),
        };
        // Strings, finite numbers, lists and structures: JSON can represent all of it.
        serde_json::to_string(&document).unwrap_or_default()
    }

    /// Reads a document of routes for this network.
    ///
    /// # Errors
    /// A document that [`RouteFile::to_json`] would not write for this network, and one for another
    /// network, or for this one before a change.
    pub fn from_json(text: &str, network: &Network) -> Result<Self, RouteFileError> {
        if text.len() > MAX_DOCUMENT {
            return Err(RouteFileError::TooLong { bytes: text.len() });
        }
        // The parser's messages quote the document, which may contain anything.
        let line = |text: String| {
            text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect()
        };
        let bad = |error: serde_json::Error| RouteFileError::Unreadable {
            reason: line(error.to_string()),
        };
        let head: Head = serde_json::from_str(text).map_err(bad)?;
        if head.format != FORMAT {
            return Err(RouteFileError::Format { format: head.format });
        }
        let document: Document = serde_json::from_str(text).map_err(bad)?;
        let here = map_hash(network);
        if document.map != here {
            let name = |name: &str, hash: &str| format!("{} (hash {})", quote(name), quote(hash));
            return Err(RouteFileError::AnotherMap {
                file: name(&document.network, &document.map),
                here: name(&network.name, &here),
            });
        }
        let range = |what, value, range, holds: bool| {
            if holds { Ok(()) } else { Err(RouteFileError::Range { what, value, range }) }
        };
        let Document { objective, cost, interval, value, bound, slices, .. } = document;
        range("the interval", interval, "above 0 s", interval > 0.0 && interval.is_finite())?;
        range("the value", value, "0 or more", value >= 0.0 && value.is_finite())?;
        range("the bound", bound, "from 0 to the value", (0.0..=value).contains(&bound))?;
        Ok(Self {
            goal: objective,
            cost: match cost {
                CostName::Latency => Cost::Latency,
                CostName::Hops => Cost::Hops,
            },
            interval: Seconds(interval),
            value,
            bound,
            routes: Reader::new(network).routes(slices)?,
        })
    }
}

/// Resolves a document's names, and checks its paths.
struct Reader<'a> {
    network: &'a Network,
    nodes: HashMap<&'a str, NodeId>,
    /// Of parallel links the one with the lowest weight.
    links: HashMap<(NodeId, NodeId), LinkId>,
    /// Link by which the slice at hand comes to a node.
    by: Vec<Option<LinkId>>,
}

impl<'a> Reader<'a> {
    fn new(network: &'a Network) -> Self {
        let mut links: HashMap<(NodeId, NodeId), LinkId> = HashMap::new();
        for (link, number) in network.links.iter().zip(LinkId::all()) {
            let known = links.entry((link.from, link.to)).or_insert(number);
            if link.weight < network.links[*known].weight {
                *known = number;
            }
        }
        let nodes = network.nodes.iter().zip(NodeId::all());
        Self {
            network,
            nodes: nodes.map(|(node, at)| (node.id.as_str(), at)).collect(),
            links,
            by: vec![None; network.nodes.len()],
        }
    }

    fn name(&self, node: NodeId) -> String {
        quote(&self.network.nodes[node].id)
    }

    fn node(&self, id: &str) -> Result<NodeId, RouteFileError> {
        let unknown = || RouteFileError::UnknownNode { node: quote(id) };
        self.nodes.get(id).copied().ok_or_else(unknown)
    }

    fn routes(mut self, documents: Vec<SliceDocument>) -> Result<Routes, RouteFileError> {
        if documents.is_empty() {
            return Err(RouteFileError::Empty);
        }
        let slices = documents.into_iter().map(|document| self.slice(document));
        let mut slices = slices.collect::<Result<Vec<Slice>, _>>()?;
        slices.sort_by_key(|slice| slice.ingress);
        for of in slices.chunk_by(|a, b| a.ingress == b.ingress) {
            let ingress = || self.name(of[0].ingress);
            if of.len() > usize::from(u16::MAX) {
                return Err(RouteFileError::TooManySlices { ingress: ingress() });
            }
            let sum: f64 = of.iter().map(|slice| slice.weight).sum();
            if (sum - 1.0).abs() > ROUNDING {
                return Err(RouteFileError::Weights { ingress: ingress(), sum });
            }
            let egresses = |slice: &Slice| -> BTreeSet<NodeId> {
                slice.paths.iter().map(|path| path.0).collect()
            };
            let first = egresses(&of[0]);
            for slice in &of[1..] {
                if let Some(&egress) = first.symmetric_difference(&egresses(slice)).next() {
                    let egress = self.name(egress);
                    return Err(RouteFileError::Egresses { ingress: ingress(), egress });
                }
            }
            let mut seen = BTreeSet::new();
            if let Some(twice) =
                of.iter().flat_map(|slice| &slice.prefixes).find(|prefix| !seen.insert(**prefix))
            {
                let prefix = twice.to_string();
                return Err(RouteFileError::PrefixTwice { ingress: ingress(), prefix });
            }
        }
        Ok(Routes { slices })
    }

    fn slice(&mut self, document: SliceDocument) -> Result<Slice, RouteFileError> {
        let SliceDocument { ingress: name, weight, prefixes, paths: given } = document;
        let ingress = self.node(&name)?;
        if !(weight > 0.0 && weight <= 1.0 + ROUNDING) {
            let (what, range) = ("the weight of a slice", "above 0 and at most 1");
            return Err(RouteFileError::Range { what, value: weight, range });
        }
        self.by.fill(None);
        let mut paths = BTreeMap::new();
        for path in given {
            let (egress, links) = self.path(ingress, &path)?;
            if paths.insert(egress, links).is_some() {
                let (ingress, egress) = (self.name(ingress), self.name(egress));
                return Err(RouteFileError::TwoPaths { ingress, egress });
            }
        }
        let prefixes = prefixes.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
        Ok(Slice { ingress, weight, paths: paths.into_iter().collect(), prefixes })
    }

    fn path(
        &mut self,
        ingress: NodeId,
        names: &[String],
    ) -> Result<(NodeId, Vec<LinkId>), RouteFileError> {
        let nodes = names.iter().map(|name| self.node(name)).collect::<Result<Vec<_>, _>>()?;
        let (Some(&first), Some(&egress)) = (nodes.first(), nodes.last()) else {
            return Err(RouteFileError::NoPath { ingress: self.name(ingress) });
        };
        if first != ingress || nodes.len() < 2 {
            return Err(RouteFileError::NoPath { ingress: self.name(ingress) });
        }
        let mut links = Vec::with_capacity(nodes.len() - 1);
        for pair in nodes.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            let Some(&link) = self.links.get(&(from, to)) else {
                return Err(RouteFileError::NoLink { from: self.name(from), to: self.name(to) });
            };
            if from != ingress && self.network.nodes[from].role == Role::Access {
                let (ingress, node) = (self.name(ingress), self.name(from));
                return Err(RouteFileError::ThroughAccess { ingress, node });
            }
            // With one link to each node and none to the ingress, no path passes a node twice: the
            // first node that it comes to again would have a second link.
            if to == ingress || self.by[to].is_some_and(|other| other != link) {
                let (ingress, node) = (self.name(ingress), self.name(to));
                return Err(RouteFileError::NotATree { ingress, node });
            }
            self.by[to] = Some(link);
            links.push(link);
        }
        Ok((egress, links))
    }
}

impl Routes {
    /// The paths of each slice, without volumes; slices of an ingress are numbered from 0 in their
    /// order.
    pub fn paths(&self) -> Vec<Route> {
        let of_ingress = self.slices.chunk_by(|a, b| a.ingress == b.ingress);
        let numbered = of_ingress.flat_map(|slices| (0..).zip(slices));
        numbered
            .flat_map(|(number, slice)| {
                slice.paths.iter().map(move |(egress, links)| Route {
                    from: slice.ingress,
                    to: *egress,
                    slice: number,
                    links: links.clone(),
                    volume: 0.0,
                })
            })
            .collect()
    }

    /// [`Routes::paths`] with the volumes of these routes, one for each ingress and egress, divided
    /// among the slices by weight. Where no volume is given, there is no path.
    pub fn with_volumes(&self, whole: &[Route]) -> Vec<Route> {
        let volumes: HashMap<(NodeId, NodeId), f64> =
            whole.iter().map(|route| ((route.from, route.to), route.volume)).collect();
        let weights: HashMap<(NodeId, u16), f64> = self
            .slices
            .chunk_by(|a, b| a.ingress == b.ingress)
            .flat_map(|slices| (0..).zip(slices))
            .map(|(number, slice)| ((slice.ingress, number), slice.weight))
            .collect();
        let mut paths = self.paths();
        paths.retain_mut(|path| {
            let whole = volumes.get(&(path.from, path.to)).copied().unwrap_or(0.0);
            path.volume = whole * weights[&(path.from, path.slice)];
            path.volume > 0.0
        });
        paths
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl FromStr for Prefix {
    type Err = RouteFileError;

    /// `192.0.2.0/24`; an address alone is a prefix of its full length. Bits after the length are
    /// set to 0.
    fn from_str(text: &str) -> Result<Self, RouteFileError> {
        let wrong = || RouteFileError::NotAPrefix { text: quote(text) };
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: std::net::IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            None => most,
            Some(digits) if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
                digits.parse().ok().filter(|&length| length <= most).ok_or_else(wrong)?
            }
            Some(_) => return Err(wrong()),
        };
        Ok(Self::new(address, length))
    }
}

impl Prefix {
    /// The first `length` bits of an address; all of them if there are fewer.
    pub fn new(address: std::net::IpAddr, length: u8) -> Self {
        match address {
            std::net::IpAddr::V4(address) => {
                let length = length.min(32);
                let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
                Self {
                    address: std::net::Ipv4Addr::from_bits(address.to_bits() & mask).into(),
                    length,
                }
            }
            std::net::IpAddr::V6(address) => {
                let length = length.min(128);
                let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
                Self {
                    address: std::net::Ipv6Addr::from_bits(address.to_bits() & mask).into(),
                    length,
                }
            }
        }
    }

    /// Whether an address is in this range.
    pub fn contains(&self, address: std::net::IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4()
            && Self::new(address, self.length).address == self.address
    }
}

#[cfg(test)]
mod tests;
