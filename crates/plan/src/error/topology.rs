//! Errors of topologies and their transformations.

/// What is wrong with a topology.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// The text has no content.
    #[error("the text is empty; name a topology, such as a .json, .graphml or .cch file")]
    Empty,
    /// The text has no known format.
    #[error(
        "unknown format; known are our JSON, GraphML, Rocketfuel .cch and weights.intra, REPETITA .graph, SNDlib XML"
    )]
    UnknownFormat,
    /// The text is not of its format, or a value is out of range.
    #[error("{place}: {reason}")]
    Invalid {
        /// Line, element or list item.
        place: String,
        /// What is wrong there.
        reason: String,
    },
    /// The text as a whole is not of its format.
    #[error("{0}")]
    Malformed(String),
    /// A companion file was given for a format that has none.
    #[error(
        "only weights.intra and REPETITA's .graph have a companion file; {topology} is neither"
    )]
    NoCompanion {
        /// Name of the topology.
        topology: String,
    },
    /// The topology has no nodes.
    #[error("there are no nodes")]
    NoNodes,
    /// The network has several parts.
    #[error("{to} cannot be reached from {from}: the network is in {parts} parts")]
    Disconnected {
        /// A node of the first part.
        from: String,
        /// A node of another part.
        to: String,
        /// Number of parts.
        parts: usize,
    },
    /// Directed links leave a node unreachable.
    #[error("{to} cannot be reached from {from}: links lead only the other way")]
    OneWay {
        /// Start.
        from: String,
        /// The node that cannot be reached.
        to: String,
    },
    /// A city is not in the table of cities.
    #[error("the city {city} is not in the table of cities")]
    UnknownCity {
        /// The city.
        city: String,
    },
    /// The table has no city near a node.
    #[error("node {node}: no city of the table is within {kilometers} km of it")]
    NoCityNear {
        /// The node.
        node: String,
        /// The radius.
        kilometers: f64,
    },
    /// An error about a node.
    #[error("node {node}: {error}")]
    OfNode {
        /// The node.
        node: String,
        /// The error.
        error: Box<TopologyError>,
    },
    /// The part after the comma in a city's name is unknown.
    #[error("the city {city}: {region} is not a state or country")]
    UnknownRegion {
        /// The whole name.
        city: String,
        /// The part after the comma.
        region: String,
    },
    /// More or fewer PoPs were requested than the network can have.
    #[error("{asked} {what} are asked for; 2 to {possible} are possible")]
    PopCount {
        /// What was requested.
        what: &'static str,
        /// How many.
        asked: usize,
        /// The most that are possible.
        possible: usize,
    },
    /// A number of access routers is out of range.
    #[error("{asked} access routers per PoP are asked for; 1 to 10000 are possible")]
    AccessRouters {
        /// Access routers per PoP.
        asked: u32,
    },
    /// The network would have too many access routers.
    #[error("{asked} access routers in each of {pops} PoPs are too many; at most {most} in total")]
    TooManyAccessRouters {
        /// Access routers per PoP.
        asked: u32,
        /// PoPs that carry traffic.
        pops: usize,
        /// Largest total.
        most: usize,
    },
    /// A new node needs an id that another node has.
    #[error("the id {id} is taken; access routers would need it")]
    IdTaken {
        /// The id.
        id: String,
    },
    /// An access router's id would be longer than readers accept.
    #[error("the access router's id {id} is longer than {most} bytes; give the node a shorter id")]
    IdTooLong {
        /// The id, quoted.
        id: String,
        /// Longest id, in bytes.
        most: usize,
    },
    /// A PoP-level transformation of a network with access routers.
    #[error("the network has access routers already ({node})")]
    HasAccessRouters {
        /// One of them.
        node: String,
    },
    /// A PoP-level transformation of a router-level network.
    #[error("the map has several routers per PoP; reduce it to PoPs first")]
    SeveralRoutersPerPop,
    /// No PoP sends or receives.
    #[error("no PoP carries traffic")]
    NoTraffic,
    /// A label that several nodes have.
    #[error("{label} is the label of several nodes; use their ids")]
    AmbiguousLabel {
        /// The label.
        label: String,
    },
    /// A name that no node has.
    #[error("unknown node {name} in {network}")]
    UnknownNode {
        /// The name.
        name: String,
        /// The network.
        network: String,
    },
    /// A line that does not name the two ends of a link.
    #[error("write the two ends of a link, `from -> to`")]
    NotALink,
    /// Two nodes without a link.
    #[error("no link from {from:?} to {to:?}")]
    UnknownLink {
        /// Tail.
        from: String,
        /// Head.
        to: String,
    },
    /// A list of links that names none.
    #[error("the list names no link")]
    NoLinks,
    /// No link has a capacity.
    #[error("the map names no capacities")]
    NoCapacities,
    /// No link with traffic has a capacity, so link load is undefined.
    #[error(
        "no link that carries traffic has a capacity, so there is no link load to lower; give links a capacity"
    )]
    NoLoad,
    /// A link's utilization overflows an `f64`.
    #[error("the capacity of a link is too small to compute its utilization")]
    CapacityTooSmall,
    /// A capacity is not above 0.
    #[error("the link {link} has a capacity of {capacity} bit/s; for link load it must be above 0")]
    Capacity {
        /// The link.
        link: String,
        /// Its capacity in bit/s.
        capacity: f64,
    },
    /// An error on a line of a text.
    #[error("line {line}: {error}")]
    At {
        /// Line, from 1.
        line: usize,
        /// The error.
        error: Box<TopologyError>,
    },
}

impl TopologyError {
    /// Adds the line, from 1.
    pub(crate) fn at_line(self, line: usize) -> Self {
        Self::At { line, error: Box::new(self) }
    }
}
