//! Routers and the links between them.

use std::{cmp::Ordering, collections::HashMap};

use crate::topology::quote;

/// A network. Links are directed: a cable is two of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    /// What reports call it.
    pub name: String,
    /// Autonomous system number.
    pub asn: Option<u32>,
    /// Where the map comes from, for reports.
    pub source: String,
    /// How this network was made from the given one ("the 20 PoPs of highest degree", "4 access routers per PoP"), for reports; empty if it is as given.
    pub derivation: Vec<String>,
    /// Routers. Others refer to them by index.
    pub nodes: Vec<Node>,
    /// Links, each in one direction. Others refer to them by index.
    pub links: Vec<Link>,
    /// Demands that came with the topology; empty where there were none.
    pub demands: Vec<Demand>,
}

/// A router, or a whole PoP where the map shows no more.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// Unique name.
    pub id: String,
    /// What maps and tables show.
    pub label: String,
    /// City, if known.
    pub city: Option<String>,
    /// Latitude and longitude in degrees.
    pub position: Option<[f64; 2]>,
    /// Inhabitants of the city.
    pub population: Option<f64>,
    /// PoP: nodes of one PoP have the same number.
    pub pop: u32,
    /// Whether traffic enters and leaves here.
    pub role: Role,
}

/// What a node is to traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Traffic enters and leaves here, and passes through: a PoP of a PoP-level map, any router of a router-level one.
    #[default]
    Any,
    /// Traffic enters and leaves here; nothing passes through.
    Access,
    /// Traffic only passes through: the backbone router of a PoP that has access routers.
    Backbone,
}

/// One direction of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Node at the tail.
    pub from: u32,
    /// Node at the head.
    pub to: u32,
    /// Routing weight, above 0.
    pub weight: f64,
    /// Latency in milliseconds.
    pub latency: f64,
    /// Capacity in bit/s, if known.
    pub capacity: Option<f64>,
}

/// Traffic from one node to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Where it enters.
    pub from: u32,
    /// Where it leaves.
    pub to: u32,
    /// How much, in a unit that is the same for all demands of a network.
    pub volume: f64,
}

impl Network {
    /// Index of the node with that id.
    pub fn find(&self, id: &str) -> Option<u32> {
        self.nodes.iter().position(|node| node.id == id).map(|at| at as u32)
    }

    /// Name of a link for people: `from -> to`.
    pub fn link_name(&self, link: u32) -> String {
        let link = &self.links[link as usize];
        format!("{} -> {}", self.nodes[link.from as usize].id, self.nodes[link.to as usize].id)
    }
}

/// The order of ids wherever ties are broken: ids of digits alone come first, by their numbers; the others byte by byte.
pub fn compare_ids(a: &str, b: &str) -> Ordering {
    let number = |id: &str| id.bytes().all(|byte| byte.is_ascii_digit()).then(|| id.trim_start_matches('0').to_owned());
    let by_number = match (number(a), number(b)) {
        (Some(a), Some(b)) => a.len().cmp(&b.len()).then_with(|| a.cmp(&b)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    };
    by_number.then_with(|| a.cmp(b))
}

/// Finds nodes by the names that operators write: an id, or a label that only one node has.
pub struct Names<'a> {
    network: &'a Network,
    ids: HashMap<&'a str, u32>,
    /// None where several nodes have the label.
    labels: HashMap<&'a str, Option<u32>>,
}

impl<'a> Names<'a> {
    /// Those of a network.
    pub fn new(network: &'a Network) -> Self {
        let mut labels = HashMap::new();
        for (node, number) in network.nodes.iter().zip(0..) {
            labels.entry(node.label.as_str()).and_modify(|known| *known = None).or_insert(Some(number));
        }
        let ids = network.nodes.iter().zip(0..).map(|(node, number)| (node.id.as_str(), number)).collect();
        Self { network, ids, labels }
    }

    /// The node with this id, or else this label.
    ///
    /// # Errors
    /// In words, what is wrong with the name: nobody has it, or several have the label.
    pub fn find(&self, name: &str) -> Result<u32, String> {
        match (self.ids.get(name), self.labels.get(name)) {
            (Some(&node), _) | (None, Some(&Some(node))) => Ok(node),
            (None, Some(None)) => Err(format!("{} is the label of several nodes; use their ids", quote(name))),
            (None, None) => Err(format!("unknown node {} in {}", quote(name), quote(&self.network.name))),
        }
    }
}
