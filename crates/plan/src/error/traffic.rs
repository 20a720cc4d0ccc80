//! Errors of traffic matrices, volumes and ingresses.

use super::TopologyError;

/// What is wrong with traffic.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TrafficError {
    /// A node's population is unknown, and gravity needs it.
    #[error("the population of {node} is unknown; gravity needs it")]
    UnknownPopulation {
        /// The node, with its city if known.
        node: String,
        /// Whether the topology has demands, which would do without populations.
        has_demands: bool,
    },
    /// A population is not a positive number.
    #[error("the population of {node} is {population}")]
    Population {
        /// The node.
        node: String,
        /// Its population.
        population: f64,
    },
    /// The topology has no demands.
    #[error("{network} came without demands")]
    NoDemands {
        /// Name of the network.
        network: String,
    },
    /// A traffic matrix without entries.
    #[error("the matrix is empty")]
    EmptyMatrix,
    /// Nothing sends anything.
    #[error("all volumes are 0")]
    NoVolume,
    /// No path carries traffic.
    #[error("no path has any traffic")]
    NoPath,
    /// A line that is not `from to volume`.
    #[error("{line} where 'from to volume' should be")]
    NotAnEntry {
        /// The line.
        line: String,
    },
    /// A demand from a node to itself.
    #[error("traffic from {node} to itself does not enter the network")]
    ToItself {
        /// The node.
        node: String,
    },
    /// A second volume for the same two nodes.
    #[error("a second volume from {from} to {to}; the first is on line {first}")]
    Duplicate {
        /// Source.
        from: String,
        /// Destination.
        to: String,
        /// Line of the first, from 1.
        first: usize,
    },
    /// Text that is not a number.
    #[error("{text} is not a volume")]
    NotAVolume {
        /// The text.
        text: String,
    },
    /// A volume that is negative, infinite or not a number.
    #[error("a volume of {volume} from {from} to {to}")]
    Volume {
        /// Source.
        from: String,
        /// Destination.
        to: String,
        /// The volume.
        volume: f64,
    },
    /// A demand of a node that neither sends nor receives.
    #[error("{node} forwards traffic only")]
    ForwardsOnly {
        /// The node.
        node: String,
    },
    /// An index out of range.
    #[error("there is no {what} {index}: there are {count}")]
    Index {
        /// What the index counts.
        what: &'static str,
        /// The index.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// More demands than paths are possible.
    #[error("the demands spread over more than {most} paths")]
    TooManyDemands {
        /// The largest number of paths.
        most: usize,
    },
    /// Traffic between nodes without a path.
    #[error("there is traffic from {from} to {to}, but no path")]
    Unrouted {
        /// Source.
        from: String,
        /// Destination.
        to: String,
    },
    /// A sum or product is too large for an `f64`.
    #[error("{what} overflows; give volumes in a larger unit")]
    Overflow {
        /// Which quantity.
        what: String,
    },
    /// Volumes cannot be scaled to a target.
    #[error("the volumes cannot be scaled to {target} bytes per epoch; it must be above 0")]
    Scale {
        /// The target in bytes per epoch.
        target: f64,
    },
    /// A list has the wrong length.
    #[error("{volumes} volumes for {paths} paths")]
    Count {
        /// Volumes given.
        volumes: usize,
        /// Paths.
        paths: usize,
    },
    /// A value of the instance is out of range.
    #[error("{what} is {value}; it must be {range}")]
    Range {
        /// Which value.
        what: String,
        /// The value.
        value: f64,
        /// The values that are allowed, in words.
        range: &'static str,
    },
    /// No ingress was selected.
    #[error("no ingress is selected")]
    NoIngress,
    /// No traffic enters at a node of this name.
    #[error("no traffic enters at {name:?}")]
    UnknownIngress {
        /// The name.
        name: String,
        /// Ids and labels of the ingresses, for suggestions.
        known: Vec<String>,
    },
    /// The name of an ingress is ambiguous.
    #[error("{0}")]
    AmbiguousIngress(TopologyError),
    /// A name in a traffic matrix is unknown or ambiguous.
    #[error("{0}")]
    Name(#[from] TopologyError),
    /// An error on a line of a text.
    #[error("line {line}: {error}")]
    At {
        /// Line, from 1.
        line: usize,
        /// The error.
        error: Box<TrafficError>,
    },
}

impl TrafficError {
    /// Adds the line, from 1.
    pub(crate) fn at_line(self, line: usize) -> Self {
        Self::At { line, error: Box::new(self) }
    }
}
