//! Topologies: the formats they come in, and how one is made from another.
//!
//! `docs/PLANNERS.md`, "Topology formats", says what each reader takes from its format and what all
//! of them have in common. A reader gives the map as it is; [`read`] also looks up cities and
//! refuses what is not connected.

mod cities;
mod graphml;
mod json;
mod members;
mod repetita;
mod rocketfuel;
mod sndlib;
#[cfg(test)]
mod tests;
mod transform;
mod xml;

use std::{collections::HashMap, fmt::Display};

pub use cities::{Cities, City, Unknown};
pub use graphml::graphml;
pub use json::{json, to_json};
pub use members::{Member, members};
pub use repetita::{repetita, repetita_demands};
pub use rocketfuel::{cch, weights};
pub use sndlib::sndlib;
pub use transform::ACCESS_LATENCY;

use crate::{
    BitRate, Error, Network, NodeId,
    error::{TopologyError, invalid as bad, quote},
    network::{Demand, Link, Node},
};

/// Formats of topology files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Our own: [`json`].
    Json,
    /// The Internet Topology Zoo's: [`graphml`].
    GraphMl,
    /// Rocketfuel's router maps: [`cch`].
    Cch,
    /// Rocketfuel's inferred weights: [`weights`].
    Weights,
    /// REPETITA's: [`repetita`].
    Repetita,
    /// SNDlib's XML: [`sndlib`].
    Sndlib,
}

impl Format {
    /// The format of a file by its name, or by what is in it.
    ///
    /// # Errors
    /// It looks like none of them.
    pub fn detect(name: &str, text: &str) -> Result<Self, Error> {
        let name = name.to_ascii_lowercase();
        let endings = [
            (".json", Self::Json),
            (".graphml", Self::GraphMl),
            (".cch", Self::Cch),
            ("weights.intra", Self::Weights),
            (".graph", Self::Repetita),
        ];
        if let Some((_, format)) = endings.iter().find(|(ending, _)| name.ends_with(ending)) {
            return Ok(*format);
        }
        let start = text.trim_start_matches('\u{feff}').trim_start();
        let head: String = start.chars().take(4096).collect();
        let first = start.lines().next().unwrap_or_default();
        let words: Vec<&str> = first.split_whitespace().take(4).collect();
        if start.starts_with('{') {
            Ok(Self::Json)
        } else if start.starts_with('<') && head.contains("graphml") {
            Ok(Self::GraphMl)
        } else if start.starts_with('<') && head.contains("network") {
            Ok(Self::Sndlib)
        } else if first.starts_with("NODES") {
            Ok(Self::Repetita)
        } else if words.len() > 1
            && words[0].parse::<i64>().is_ok()
            && (words[1].starts_with('@') || words[1].starts_with('='))
        {
            Ok(Self::Cch)
        } else if words.len() == 3
            && words[2].parse::<f64>().is_ok()
            && words[0].ends_with(|c: char| c.is_ascii_digit())
        {
            Ok(Self::Weights)
        } else {
            Err(TopologyError::UnknownFormat.into())
        }
    }
}

/// What [`read`] needs beside the file itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// The text of the file that goes with it: `latencies.intra` with [`Format::Weights`],
    /// `.demands` with [`Format::Repetita`].
    pub companion: Option<&'a str>,
    /// Where to look up coordinates and populations that the file does not give.
    pub cities: Option<&'a Cities>,
    /// What to do with nodes whose city is in no table.
    pub unknown: Unknown,
    /// Keep the largest part of a network that is not connected, instead of refusing it.
    pub largest_component: bool,
}

/// A network from the text of a file, connected; weights and latencies that the format lacks come
/// from distances.
///
/// # Errors
/// Text that is not of the format (with its line or element), a network that is not connected, an
/// unknown city.
pub fn read(format: Format, text: &str, options: &Options<'_>) -> Result<Network, Error> {
    let mut network = match format {
        Format::Json => json(text)?,
        Format::GraphMl => graphml(text)?,
        Format::Cch => cch(text)?,
        Format::Weights => weights(text, options.companion)?,
        Format::Repetita => repetita(text, options.companion)?,
        Format::Sndlib => sndlib(text)?,
    };
    if options.largest_component {
        network = network.largest_component();
    } else {
        network.check_connected()?;
    }
    if let Some(cities) = options.cities {
        network = cities.place(&network, options.unknown)?;
        if format == Format::Cch {
            network = network.with_distance_weights();
        }
    }
    Ok(network)
}

/// Great-circle distance in kilometers between two positions in degrees, on a sphere of radius
/// 6,371 km.
fn kilometers(a: [f64; 2], b: [f64; 2]) -> f64 {
    let [lat_a, lon_a, lat_b, lon_b] = [a[0], a[1], b[0], b[1]].map(f64::to_radians);
    let half = |x: f64| (x / 2.0).sin().powi(2);
    let h = half(lat_b - lat_a) + lat_a.cos() * lat_b.cos() * half(lon_b - lon_a);
    2.0 * 6371.0 * h.sqrt().min(1.0).asin()
}

/// Weight and latency (ms) where none were measured: one unit of weight per 50 km, at least 1; 200
/// km per millisecond, at least 0.1 ms.
fn by_distance(a: &Node, b: &Node) -> (f64, f64) {
    match (a.position, b.position) {
        (Some(a), Some(b)) => {
            let distance = kilometers(a, b);
            ((distance / 50.0).round().max(1.0), (distance / 200.0).max(0.1))
        }
        _ => (1.0, 0.1),
    }
}

/// Longest id, label or city of a node, in bytes. What transformations make up stays within it too,
/// so that what [`to_json`] writes can be read.
const MAX_TEXT: usize = 256;

/// Whether a text can be a node's id, label or city.
fn is_plain(text: &str) -> bool {
    text.len() <= MAX_TEXT && !text.contains(char::is_control)
}

/// What a text is for which [`is_plain`] does not hold.
const UNSUITABLE: &str = "too long or has control characters";

/// The longest start of a text of at most `most` bytes.
fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

/// Values of one direction of a link, as far as the file has them.
#[derive(Clone, Copy, Default)]
struct Measures {
    weight: Option<f64>,
    latency: Option<f64>,
    capacity: Option<BitRate>,
}

/// Builds a network and checks each part as it is added.
#[derive(Default)]
struct Builder {
    network: Network,
    nodes: HashMap<String, NodeId>,
    pops: HashMap<String, u32>,
    next_pop: u32,
    links: HashMap<(NodeId, NodeId), usize>,
    loops: usize,
    merged: usize,
}

impl Builder {
    /// Adds a node. Nodes with the same `pop` are of one PoP; one without is a PoP of its own.
    fn node(
        &mut self,
        place: impl Display,
        mut node: Node,
        pop: Option<String>,
    ) -> Result<NodeId, Error> {
        for (what, text) in [
            ("id", &node.id),
            ("label", &node.label),
            ("city", node.city.as_ref().unwrap_or(&node.label)),
        ] {
            if !is_plain(text) {
                return Err(bad(place, format_args!("the {what} {} is {UNSUITABLE}", quote(text))));
            }
        }
        if node.id.is_empty() {
            return Err(bad(place, "a node with an empty id"));
        }
        if let Some([lat, lon]) = node.position
            && !((-90.0..=90.0).contains(&lat) && (-180.0..=180.0).contains(&lon))
        {
            return Err(bad(
                place,
                format_args!("node {} is at latitude {lat}, longitude {lon}", node.id),
            ));
        }
        if let Some(population) = node.population
            && !(population >= 0.0 && population.is_finite())
        {
            return Err(bad(
                place,
                format_args!("node {} has a population of {population}", node.id),
            ));
        }
        node.population = node.population.filter(|&population| population > 0.0);
        let number = NodeId::new(self.network.nodes.len());
        if self.nodes.insert(node.id.clone(), number).is_some() {
            return Err(bad(place, format_args!("a second node {}", node.id)));
        }
        let next = self.next_pop;
        node.pop = pop.map_or(next, |pop| *self.pops.entry(pop).or_insert(next));
        self.next_pop += u32::from(node.pop == next);
        self.network.nodes.push(node);
        Ok(number)
    }

    /// The number of a node that a link or demand names.
    fn find(&self, place: impl Display, id: &str) -> Result<NodeId, Error> {
        self.nodes
            .get(id)
            .copied()
            .ok_or_else(|| bad(place, format_args!("unknown node {}", quote(id))))
    }

    /// Adds one direction of a link and returns whether it is new: loops are dropped, parallel
    /// links merged.
    fn link(
        &mut self,
        place: impl Display,
        from: NodeId,
        to: NodeId,
        measures: Measures,
    ) -> Result<bool, Error> {
        let nodes = &self.network.nodes;
        let derived = by_distance(&nodes[from], &nodes[to]);
        let link = Link {
            from,
            to,
            weight: measures.weight.unwrap_or(derived.0),
            latency: measures.latency.unwrap_or(derived.1),
            capacity: measures.capacity,
        };
        let name = format_args!("the link {} -> {}", nodes[from].id, nodes[to].id);
        if !(link.weight > 0.0 && link.weight.is_finite()) {
            return Err(bad(
                place,
                format_args!("{name} has weight {}; it must be above 0", link.weight),
            ));
        }
        if !(link.latency >= 0.0 && link.latency.is_finite()) {
            return Err(bad(
                place,
                format_args!("{name} has a latency of {} ms; it must be 0 or more", link.latency),
            ));
        }
        if let Some(capacity) = link.capacity
            && !(capacity.0 > 0.0 && capacity.0.is_finite())
        {
            return Err(bad(
                place,
                format_args!("{name} has a capacity of {capacity} bit/s; it must be above 0"),
            ));
        }
        if from == to {
            self.loops += 1;
            return Ok(false);
        }
        let links = &mut self.network.links;
        let next = links.len();
        let at = *self.links.entry((from, to)).or_insert(next);
        if at == next {
            links.push(link);
            return Ok(true);
        }
        merge(&mut links[at], &link);
        self.merged += 1;
        Ok(false)
    }

    /// Adds a link in both directions.
    fn cable(
        &mut self,
        place: impl Display,
        a: NodeId,
        b: NodeId,
        forth: Measures,
        back: Measures,
    ) -> Result<(), Error> {
        let (loops, merged) = (self.loops, self.merged);
        self.link(&place, a, b, forth)?;
        self.link(&place, b, a, back)?;
        // A cable counts once.
        self.loops = self.loops.min(loops + 1);
        self.merged = self.merged.min(merged + 1);
        Ok(())
    }

    /// Adds a demand; one from a node to itself is dropped.
    fn demand(
        &mut self,
        place: impl Display,
        from: NodeId,
        to: NodeId,
        volume: f64,
    ) -> Result<(), Error> {
        if !(volume >= 0.0 && volume.is_finite()) {
            return Err(bad(place, format_args!("a demand of {volume}; it must be 0 or more")));
        }
        if from != to {
            self.network.demands.push(Demand { from, to, volume });
        }
        Ok(())
    }

    /// The network, the two directions of each link one after the other.
    fn finish(self) -> Result<Network, Error> {
        let mut network = self.network;
        if network.nodes.is_empty() {
            return Err(TopologyError::NoNodes.into());
        }
        let links = std::mem::take(&mut network.links);
        for (number, link) in links.iter().enumerate() {
            let back = self.links.get(&(link.to, link.from)).copied();
            if back.is_none_or(|back| back > number) {
                network.links.push(*link);
                network.links.extend(back.map(|back| links[back]));
            }
        }
        let lines = |n: usize, what: &str| (n > 0).then(|| format!("{what}: {n}"));
        network.derivation.extend(lines(self.loops, "links from a node to itself left out"));
        network.derivation.extend(lines(self.merged, "parallel links merged"));
        Ok(network)
    }
}

/// One link for two of the same ends and direction: weight and latency of the one with the lower
/// weight (then latency), capacities added; a sum with an unknown part is unknown.
fn merge(link: &mut Link, other: &Link) {
    if (other.weight, other.latency) < (link.weight, link.latency) {
        (link.weight, link.latency) = (other.weight, other.latency);
    }
    link.capacity = link
        .capacity
        .zip(other.capacity)
        .map(|(a, b)| BitRate(a.0 + b.0))
        .filter(|sum| sum.0.is_finite());
}

/// Text for a name or source in reports: one line, at most as long as a manifest's names may be.
fn one_line(text: &str) -> String {
    cut(text, crate::manifest::MAX_NAME)
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
