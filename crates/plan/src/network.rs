//! Routers and the links between them.

use std::{cmp::Ordering, collections::HashMap};

use crate::{
    BitRate, LinkId, NodeId,
    error::{TopologyError, quote},
};

/// A network. Links are directed: a cable is two of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    /// Name in reports.
    pub name: String,
    /// Autonomous system number.
    pub asn: Option<u32>,
    /// Where the map comes from, for reports.
    pub source: String,
    /// Steps that made this network from the given one ("4 access routers in each of 20 PoPs"), for
    /// reports; empty if there were none.
    pub derivation: Vec<String>,
    /// Routers. Others refer to them by index.
    pub nodes: Vec<Node>,
    /// Links, each in one direction. Others refer to them by index.
    pub links: Vec<Link>,
    /// Demands that came with the topology; empty if it has none.
    pub demands: Vec<Demand>,
}

/// A router, or a whole PoP if the map shows no more.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// Unique name.
    pub id: String,
    /// Name in maps and tables.
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

/// Role of a node for traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Traffic enters and leaves here, and passes through: a PoP of a PoP-level map, any router of
    /// a router-level one.
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
    pub from: NodeId,
    /// Node at the head.
    pub to: NodeId,
    /// Routing weight, above 0.
    pub weight: f64,
    /// Latency in milliseconds.
    pub latency: f64,
    /// Capacity, if known.
    pub capacity: Option<BitRate>,
}

/// Traffic from one node to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Where it enters.
    pub from: NodeId,
    /// Where it leaves.
    pub to: NodeId,
    /// Volume, in the same unit for all demands of a network.
    pub volume: f64,
}

impl Network {
    /// Index of the node with that id.
    pub fn find(&self, id: &str) -> Option<NodeId> {
        self.nodes.iter().position(|node| node.id == id).map(NodeId::new)
    }

    /// Display name of a link: `from -> to`.
    pub fn link_name(&self, link: LinkId) -> String {
        let link = &self.links[link];
        format!("{} -> {}", self.nodes[link.from].id, self.nodes[link.to].id)
    }
}

/// Order of ids for breaking ties: numeric ids come first, in numeric order; the others follow,
/// byte by byte.
pub fn compare_ids(a: &str, b: &str) -> Ordering {
    let number = |id: &str| {
        id.bytes().all(|byte| byte.is_ascii_digit()).then(|| id.trim_start_matches('0').to_owned())
    };
    let by_number = match (number(a), number(b)) {
        (Some(a), Some(b)) => a.len().cmp(&b.len()).then_with(|| a.cmp(&b)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    };
    by_number.then_with(|| a.cmp(b))
}

/// Finds nodes by the names that operators write: an id, or a unique label.
pub struct Names<'a> {
    network: &'a Network,
    ids: HashMap<&'a str, NodeId>,
    /// `None` if several nodes have the label.
    labels: HashMap<&'a str, Option<NodeId>>,
}

impl<'a> Names<'a> {
    /// Names of a network.
    pub fn new(network: &'a Network) -> Self {
        let mut labels = HashMap::new();
        for (node, number) in network.nodes.iter().zip(NodeId::all()) {
            labels
                .entry(node.label.as_str())
                .and_modify(|known| *known = None)
                .or_insert(Some(number));
        }
        let ids = network
            .nodes
            .iter()
            .zip(NodeId::all())
            .map(|(node, number)| (node.id.as_str(), number))
            .collect();
        Self { network, ids, labels }
    }

    /// The node with this id, or else this label.
    ///
    /// # Errors
    /// [`TopologyError::UnknownNode`], or [`TopologyError::AmbiguousLabel`] for a label of several
    /// nodes.
    pub fn find(&self, name: &str) -> Result<NodeId, TopologyError> {
        match (self.ids.get(name), self.labels.get(name)) {
            (Some(&node), _) | (None, Some(&Some(node))) => Ok(node),
            (None, Some(None)) => Err(TopologyError::AmbiguousLabel { label: quote(name) }),
            (None, None) => Err(TopologyError::UnknownNode {
                name: quote(name),
                network: quote(&self.network.name),
            }),
        }
    }
}
